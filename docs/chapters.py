"""The pages of chapters and lessons: what people write of them, and what their code and their expectations files say.

A page of `docs/` with the mark `<!-- generated: chapter NAME -->` has its introduction before the mark. After it stand
notes on targets, each under a heading with the target's name, and other sections in any order. The site lists the
targets with their pictures, and puts the other sections behind them. A page of each target, with its notes, is written
to the folder `lessons`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import load_plugins
from aiperf_core.report import layout, svg
from aiperf_core.report.picture import picture
from aiperf_core.report.result import Drawing
from aiperf_core.stats import expectations
from aiperf_core.targets import InstalledTarget
from aiperf_learn.pages import html, stored
from aiperf_learn.pages.markdown import contents, plain
from aiperf_learn.pages.model import lesson_page

HERE = Path(__file__).parent
LESSONS = HERE / "lessons"
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
    targets = targets_of(mark["name"])
    _, others = sections(source[mark.end() :], targets)
    entries = "\n".join(f"lessons/{target.name}" for target in targets)
    tree = f"```{{toctree}}\n:hidden:\n\n{entries}\n```"
    parts = [source[: mark.start()].rstrip(), style(svg.style_sheet(within="figure.ladder")), contents(targets, link)]
    return "\n\n".join([*parts, *(entry for target in targets for entry in listed(target)), *others, tree]) + "\n"


def targets_of(group: str) -> list[InstalledTarget]:
    """The targets of a group, in their order."""
    return [target for target in load_plugins().targets if target.group == group]


def link(target: InstalledTarget) -> str:
    """The address of the page of a target, from the pages of chapters."""
    return f"lessons/{target.name}.md"


def listed(target: InstalledTarget) -> Iterator[str]:
    """A target on the page of its chapter: its summary, the picture of its newest figures, and where its page is."""
    yield f"## `{target.name}`"
    yield plain(target.summary)
    for kind in stored.stored(target, expectations.source_of(target))[:1]:
        yield figure(target.name, stored.picture(target, load_benchmark(target), kind))
    yield f"[Question, code and exercise]({link(target)})"


def write_lessons() -> None:
    """Write the page of each target of a chapter, where it differs, and remove others. Raises ValueError as `page`."""
    pages = {}
    for file in sorted(HERE.glob("*.md")):
        source = file.read_text()
        if mark := MARK.search(source):
            targets = targets_of(mark["name"])
            notes, _ = sections(source[mark.end() :], targets)
            pages |= {f"{target.name}.md": lesson(target, notes.get(target.name, "")) for target in targets}
    LESSONS.mkdir(exist_ok=True)
    for old in {path.name for path in LESSONS.glob("*.md")} - {*pages}:
        (LESSONS / old).unlink()
    for name, text in pages.items():
        path = LESSONS / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def lesson(target: InstalledTarget, notes: str) -> str:
    """The page of a target. Its notes stand before the last part, the exercise."""
    parts = [f"# {target.name}", _raw(style(html.style_sheet()))]
    for title, content in html.sections(lesson_page(target, load_benchmark(target))):
        if title == "Exercise" and notes:
            parts += ["## Notes", notes]
        parts += [f"## {title}"] if title else []
        parts.append(_raw(f'<div class="lesson">\n{content}\n</div>'))
    return "\n\n".join(parts) + "\n"


def _raw(content: str) -> str:
    """HTML within Markdown."""
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", content)), 3)
    return f"{fence}{{raw}} html\n{content}\n{fence}"


def overview() -> str:
    """A table of the chapters: the number of their targets, and how many have measured figures on which machine."""
    rows = ["| chapter | targets | measured |", "| --- | --- | --- |"]
    targets = load_plugins().targets
    for file in sorted(HERE.glob("*.md")):
        source = file.read_text()
        mark = MARK.search(source)
        if mark:
            ours = [one for one in targets if one.group == mark["name"]]
            kinds = (kind for one in ours for kind in stored.stored(one, expectations.source_of(one)))
            machines = Counter(kind.hardware for kind in kinds)
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


def style(rules: str) -> str:
    """A style sheet with the colours of pictures, in the light and in the dark scheme of the site."""
    colours = "".join(f"{rule}\n" for rule in _rules())
    return f"<style>\n{colours}{rules}</style>"


def _rules() -> Iterator[str]:
    dark = svg.declared(svg.DARK)
    yield f"body {{ {svg.declared(svg.PALETTE)} }}"
    yield f'body[data-theme="dark"] {{ {dark} }}'
    yield f'@media (prefers-color-scheme: dark) {{ body:not([data-theme="light"]) {{ {dark} }} }}'
