"""A report as GitHub-flavoured Markdown without HTML, for an issue, a commit or a wiki."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from aiperf_core.names import words
from aiperf_core.render.report.content import Figure, Line, Report, Section, Seen, Trouble

# Everything that GitHub's Markdown interprets: markup, mathematics, mentions, emoji, links, lists, rules.
_MARKUP = re.compile(
    r"([\\`*_\[\]<>#|~&@$]|:(?=//|\w+:)|(?<=www)\.|^[-+=]|(?<=^\d)[.)](?=\s)|(?<=^\d\d)[.)](?=\s))", re.IGNORECASE
)


def render(report: Report) -> str:
    """The page."""
    blocks = [*_top(report)]
    for section in report.sections:
        blocks += _section(section)
    blocks += _end(report)
    return "\n\n".join(blocks) + "\n"


def plain(text: str) -> str:
    """A foreign text that Markdown shows as it is: on one line, without markup, links or the end of a cell."""
    return _MARKUP.sub(r"\\\1", words(text))


def code(text: str) -> str:
    """A foreign text as code, with a fence longer than any in it. In a table GitHub reads a pipe even within code."""
    shown = words(text)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown or ' '}{pad}{fence}".replace("|", "\\|")


def _top(report: Report) -> Iterator[str]:
    yield f"# {plain(report.title)}"
    yield _list(
        [
            ("command", code(" ".join(report.manifest.command))),
            *((label, plain(value)) for label, value in report.facts),
        ]
    )
    if report.counts:
        yield ", ".join(f"**{count} {word}**" for word, count in report.counts)
    if not report.manifest.complete:
        yield "This run was interrupted or is still going on: the page shows what it measured so far."
    if report.unread:
        yield "## Could not be read"
        yield _list((code(name), plain(why)) for name, why in report.unread)
    if report.troubles:
        yield "## Problems"
        yield "\n".join(map(_reason, report.troubles))
    if len(report.sections) > 1:
        yield "## At a glance"
        yield _table(
            ("target", "variant", "speedup", "verdict"),
            (
                (
                    code(one.result.target),
                    code(one.headline.name) if one.headline else "no variant ran",
                    _figure(one.headline.speedup) if one.headline else "",
                    ", also ".join(filter(None, (_verdict(one.headline) if one.headline else "", one.troubled))),
                )
                for one in report.sections
            ),
            right={2},
        )


def _section(section: Section) -> Iterator[str]:
    yield f"## {plain(section.result.target)}"
    yield plain(section.result.summary)
    yield f"{plain(section.sizes)}  \n{plain(section.how)}"
    yield f"**{plain(section.outcome)}**"
    heads = ("implementation", "", "median", "speedup", "verdict", "rate", "SOL", "peak memory", "energy per call")
    rows = [_cells(line) for line in (*section.lines, *section.apart)]
    kept = [index for index in range(len(heads)) if index < 5 or any(row[index] for row in rows)]
    numbers = {place for place, index in enumerate(kept) if index not in (0, 1, 4)}
    yield _table([heads[index] for index in kept], ([row[index] for index in kept] for row in rows), right=numbers)
    if section.whys:
        yield "### Why"
        yield _list((code(name), plain(why)) for name, why in section.whys)
    if section.steps:
        yield "### Incremental speedups"
        yield _list((f"{code(name)} over {code(before)}", _figure(step)) for name, before, step in section.steps)
    for title, troubles in (("Not trusted", section.troubles), ("Did not run", section.skipped)):
        if troubles:
            yield f"### {title}"
            yield from map(_trouble, troubles)
    if section.warnings:
        yield "### Warnings"
        yield "\n".join(_seen(one) for one in section.warnings)
    if section.conditions:
        yield "### Machine conditions"
        labels, *lines = section.conditions
        yield _table(labels, ([code(one[0]), *map(plain, one[1:])] for one in lines))
    if section.notes:
        yield "### How it was measured"
        yield _list((label, plain(value)) for label, value in section.notes)


def _verdict(line: Line) -> str:
    return ", ".join(filter(None, (line.verdict, line.price)))


def _cells(line: Line) -> list[str]:
    return [
        f"**{code(line.name)}**" if line.best else code(line.name),
        plain(line.role),
        _figure(line.median),
        _figure(line.speedup),
        _verdict(line),
        plain(line.rate),
        _figure(line.speed_of_light),
        plain(line.memory),
        plain(line.energy),
    ]


def _figure(figure: Figure) -> str:
    return " ".join(filter(None, map(plain, (figure.value, figure.below))))


def _reason(one: Trouble) -> str:
    where = f"{one.target}:{one.row}" if one.row else one.target
    return f"- **{one.verdict}** {code(where)}: {plain(one.reason)}"


def _trouble(one: Trouble) -> str:
    lines = [_reason(one)]
    lines += [_seen(seen, "  ", one) for seen in one.seen]
    lines += [f"  - printed: {code(text)}" for text in one.log]
    return "\n".join(lines)


def _seen(one: Seen, indent: str = "", of: Trouble | None = None) -> str:
    """An issue with its messages. Below a trouble, its row and its reason are not repeated."""
    parts = [plain(one.known.title)] if one.known else []
    for message, rows in one.messages:
        if not of or message != words(of.reason):
            parts.append(plain(message) + ("" if of else f" ({', '.join(map(code, rows))})"))
    parts += [plain(one.known.happens)] if one.known else []
    return f"{indent}- {code(one.issue)}: {' – '.join(parts)}"


def _end(report: Report) -> Iterator[str]:
    if report.skipped:
        yield "## Skipped"
        yield "\n".join(map(_reason, report.skipped))
    yield "## Environment"
    yield _list((plain(label), plain(value)) for label, value in (*report.environment, *report.ceilings))
    if report.manifest.packages:
        yield "### Packages"
        yield ", ".join(plain(f"{name} {version}") for name, version in report.manifest.packages.items())
    if report.files:
        yield "### SHA-256 of sources and results"
        yield _list((code(name), code(digest)) for name, digest in report.files)
    if report.other_files:
        more = f"{report.other_files} more, of other targets,"
        yield f"{more} are in the manifest of the bundle, and the seal covers them."
    yield "### Seal"
    yield code(report.seal) if report.seal else "None: the run has not ended."


def _list(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- {label}: {value}" for label, value in pairs)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> str:
    rules = ["---:" if index in right else "---" for index in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows))
