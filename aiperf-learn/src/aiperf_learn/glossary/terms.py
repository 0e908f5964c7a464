"""Terms of the glossary: their look-up, and their forms as results and as Markdown."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

from attrs import field, frozen

from aiperf_core import units
from aiperf_core.report.result import Column, Record, Result, Table
from aiperf_core.targets import nearest


@frozen(kw_only=True)
class Term:
    """A term.

    section: the heading that it stands under.
    text: its definition, two sentences.
    formula, unit: empty where it has none.
    commands, columns, lessons: the places where a user meets it: names of commands, of `--columns`, of targets.
    also: the names of related terms.
    """

    section: str
    name: str
    text: str
    aliases: list[str] = field(factory=list)
    formula: str = ""
    unit: str = ""
    commands: list[str] = field(factory=list)
    columns: list[str] = field(factory=list)
    lessons: list[str] = field(factory=list)
    also: list[str] = field(factory=list)

    @property
    def slug(self) -> str:
        """Its anchor on a page, as GitHub and Sphinx make it of a heading."""
        return re.sub(r"[^\w-]", "", self.name.lower().replace(" ", "-"))

    def facts(self) -> Iterator[tuple[str, list[str]]]:
        """Labels with texts, beyond the definition and the related terms; commands as they are typed."""
        yield "also called", self.aliases
        yield "formula", [self.formula] if self.formula else []
        yield "unit", [self.unit] if self.unit else []
        yield "commands", [f"aiperf {name}" for name in self.commands]
        yield "columns", [f"--columns {name}" for name in self.columns]
        yield "lessons", [f"aiperf learn {name}" for name in self.lessons]


@cache
def terms() -> tuple[Term, ...]:
    """All terms, in the order of the file."""
    sections = tomllib.loads(Path(__file__).with_name("glossary.toml").read_text("utf-8"))
    return tuple(Term(section=section, **fields) for section, entries in sections.items() for fields in entries)


def by_section() -> list[tuple[str, list[Term]]]:
    """The terms under their headings."""
    return [(section, [*some]) for section, some in groupby(terms(), key=lambda term: term.section)]


@cache
def _by_name() -> dict[str, Term]:
    return {name.casefold(): term for term in terms() for name in (term.name, *term.aliases)}


def find(text: str) -> Term | None:
    """The term of a name or an alias, in any case; None for another text."""
    return _by_name().get(" ".join(text.split()).casefold())


def suggestion(text: str) -> str:
    """` Did you mean '...'?` with the name nearest to a misspelt one; empty where none is near."""
    return nearest(text.casefold(), _by_name())


def entry(term: Term) -> Result:
    """A term as a result."""
    facts = [f"{label}: {', '.join(texts)}" for label, texts in (*term.facts(), ("see", term.also)) if texts]
    return Result(analysis="glossary", title=term.name, summary=[term.text, *facts])


def listing() -> Result:
    """All terms as a result, a table for each section."""
    columns = [Column("term", "term"), Column("aliases", "also called"), Column("text", "definition")]
    tables = []
    for section, some in by_section():
        records = [
            Record({"term": term.name, "aliases": ", ".join(term.aliases) or None, "text": term.text}) for term in some
        ]
        tables.append(Table(section.lower(), section, columns, records))
    return Result(
        analysis="glossary", title="Glossary", summary=[f"{units.plural('term', len(terms()))}."], tables=tables
    )


def markdown() -> Iterator[str]:
    """The paragraphs of a page with all terms, each with a heading for its anchor."""
    for section, some in by_section():
        yield f"## {section}"
        for term in some:
            yield f"### {term.name}"
            yield term.text
            facts = [f"{label}: {', '.join(f'`{text}`' for text in texts)}" for label, texts in term.facts() if texts]
            links = ", ".join(f"[{name}](#{other.slug})" for name in term.also if (other := find(name)))
            yield "\n".join(f"- {fact}" for fact in [*facts, f"see {links}"])
