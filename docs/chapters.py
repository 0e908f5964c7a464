"""The pages of chapters: what people write of them, and what their code and their expectations files say.

A page of `docs/` with the mark `<!-- generated: chapter NAME -->` has its introduction before the mark. After it stand
notes on targets, each under a heading with the target's name, and other sections in any order. The site puts the notes
behind what is generated of their targets, and the other sections at the end.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import load_plugins
from aiperf_core.render.lesson import contents, lesson, stored
from aiperf_core.report import layout, svg
from aiperf_core.report.picture import picture
from aiperf_core.report.result import Drawing
from aiperf_core.stats import expectations
from aiperf_core.targets import InstalledTarget

HERE = Path(__file__).parent
OVERVIEW = "<!-- generated: lessons -->\n"
MARK = re.compile(r"<!-- generated: chapter (?P<name>\w+) -->\n*")
SECTION = re.compile(r"^## (?=\S)", re.MULTILINE)
NOTES = re.compile(r"`(?P<name>\w+)`\n")


def page(source: str) -> str:
    """A page with its generated parts; a page without any as it is. Raises ValueError for lost notes."""
    if OVERVIEW in source:
        return source.replace(OVERVIEW, overview())
    mark = MARK.search(source)
    if not mark:
        return source
    targets = [one for one in load_plugins().targets if one.group == mark["name"]]
    notes, others = sections(source[mark.end() :], targets)
    generated = [part for one in targets for part in [*lesson(one, load_benchmark(one), figure), notes.get(one.name)]]
    parts = [source[: mark.start()].rstrip(), style(), contents(targets), *generated, *others]
    return "\n\n".join(part for part in parts if part) + "\n"


def overview() -> str:
    """A table of the chapters: the number of their targets, and how many have measured figures on which machine."""
    rows = ["| chapter | targets | measured |", "| --- | --- | --- |"]
    targets = load_plugins().targets
    for file in sorted(HERE.glob("*.md")):
        source = file.read_text()
        mark = MARK.search(source)
        if mark:
            ours = [one for one in targets if one.group == mark["name"]]
            machines = Counter(found.hardware for one in ours for found in stored(one, expectations.source_of(one)))
            measured = ", ".join(f"{count} on `{machine}`" for machine, count in sorted(machines.items()))
            title = source.partition("\n")[0].removeprefix("# ")
            rows.append(f"| [{title}]({file.name}) | {len(ours)} | {measured} |")
    return "\n".join(rows) + "\n"


def sections(text: str, targets: list[InstalledTarget]) -> tuple[dict[str, str], list[str]]:
    """The notes by the names of their targets, and the other sections. Raises ValueError for notes on no target."""
    known = {one.name.rpartition(".")[2]: one.name for one in targets}
    notes, others = dict[str, str](), list[str]()
    for section in SECTION.split(text)[1:]:
        heading = NOTES.match(section)
        if not heading:
            others.append(f"## {section.strip()}")
        elif heading["name"] in known:
            notes[known[heading["name"]]] = section[heading.end() :].strip()
        else:
            raise ValueError(f"the page has notes on '{heading['name']}', which is no target of the chapter")
    return notes, others


def figure(name: str, drawing: Drawing) -> str:
    """A picture within the page, in the colours of the page."""
    return f'<figure class="ladder" id="figure-{name}">{svg.markup(picture(drawing, wide=layout.NARROW))}</figure>'


def style() -> str:
    """The style sheet of the pictures, in the light and in the dark scheme of the site."""
    rules = "".join(f"{rule}\n" for rule in _rules())
    return f"<style>\n{rules}{svg.style_sheet(within='figure.ladder')}</style>"


def _rules() -> Iterator[str]:
    dark = svg.declared(svg.DARK)
    yield f"body {{ {svg.declared(svg.PALETTE)} }}"
    yield f'body[data-theme="dark"] {{ {dark} }}'
    yield f'@media (prefers-color-scheme: dark) {{ body:not([data-theme="light"]) {{ {dark} }} }}'
