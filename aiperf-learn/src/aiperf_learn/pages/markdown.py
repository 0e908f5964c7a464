"""Lessons as Markdown, as GitHub shows it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from aiperf_core import units
from aiperf_core.report import cell_text
from aiperf_core.report.result import Drawing, Table
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import TargetResult
from aiperf_core.targets import InstalledTarget
from aiperf_learn.pages.code import Line, StepCode
from aiperf_learn.pages.model import CHANGED, GoalLine, Ladder, LessonPage, anchor, claim_text

# Characters that Markdown or HTML would read. An underscore within a word is not one of them.
_SPECIAL = re.compile(r"(?<!\w)_|_(?!\w)|[\\*\[\]<>$]")

# Takes a name and a drawing, and returns Markdown.
Figure = Callable[[str, Drawing], str]


def lesson(page: LessonPage, figure: Figure, heading: str = "##") -> Iterator[str]:
    """The paragraphs of a lesson."""
    name, deeper = page.target.name, f"{heading}#"
    yield f"{heading} `{name}`"
    yield from map(plain, (page.target.summary, *page.paragraphs))
    if page.sections:
        yield "\n".join(f"- **{label}.** {plain(text)}" for label, text in page.sections.items())
    if page.prediction or page.predictions:
        lines = [plain(page.prediction)] if page.prediction else []
        told = [f"- `{step.name}` over `{step.parent}`: {plain(step.predict)}" for step in page.predictions]
        yield from _folded("What do you expect of each step? Decide before you open this.", [*lines, "\n".join(told)])
    if page.limits:
        yield f"- **Limits.** {plain(page.limits)}"
    yield table(page.implementations, code=("implementation", "needs"))
    if page.goals:
        yield "\n".join(map(_goal, page.goals))
    for number, ladder in enumerate(page.ladders):
        yield from _ladder(ladder, figure, f"{name}-{number}" if number else name)
    for drawing in page.mechanisms:
        yield figure(f"{name}-{drawing.name}", drawing)
    for number, drawing in enumerate(page.sweeps):
        yield figure(f"{name}-sweep-{number}", drawing)
    if page.missing:
        yield f"*{page.missing}*"
    if page.steps and page.files:
        yield f"{deeper} Code of `{name}`"
        for step in page.steps:
            yield from _step(step)
        for file, text in page.files.items():
            yield from _folded(f"The whole file <code>{file}</code>", [_fenced(text, _language(file))])
    if page.claims:
        yield "\n".join(f"- {claim_text(claim)}" for claim in page.claims)
        yield f"To check the machine code without a GPU: `aiperf kernels {name}`."
    yield f"- **Exercise.** {plain(page.exercise.text)} To check it: `{page.exercise.check}`"


def _ladder(ladder: Ladder, figure: Figure, name: str) -> Iterator[str]:
    yield figure(name, ladder.drawing)
    yield table(ladder.table, code=("implementation", "over"))
    for origin in ladder.provenance:
        yield origin.text
        if origin.has_changed:
            yield f"*{CHANGED}*"
    if ladder.distrusted:
        yield "\n".join(
            f"- `{name}`: **{verdict}**{f', {plain(reason)}' if reason else ''}"
            for name, verdict, reason in ladder.distrusted
        )


def _goal(line: GoalLine) -> str:
    goal = line.goal
    who = f"`{goal.implementation}`" if goal.implementation else "the fastest variant"
    outcome = f"**{line.outcome}**" if line.outcome in ("met", "missed") else line.outcome
    reached = f"Reached: {line.reached} by `{line.by}` on `{line.hardware}`, {outcome}." if line.by else "Not measured."
    cause = f" Missed because {plain(goal.cause)} (shown by `{goal.shown_by}`)." if goal.cause else ""
    return f"- **Goal** on {goal.device}: {plain(str(goal))}, by {who}. {reached}{cause}"


def _step(step: StepCode) -> Iterator[str]:
    """The code of a step: its differences from the step before, or all of it."""
    instance = f"Kernel: `{step.instance}`."
    parts = [instance] if step.instance else []
    if step.parent:
        parts += [f"`{file}`:\n{_fenced(_patch(lines), 'diff')}" for file, lines in step.changes.items()]
        parts += [f"Unchanged: {', '.join(f'`{file}`' for file in step.same)}."] if step.same else []
        title = f"<code>{step.name}</code> on {step.device}, over <code>{step.parent}</code>"
    else:
        parts += [f"`{file}`:\n{_fenced(text, _language(file))}" for file, text in step.files.items()]
        title = f"<code>{step.name}</code> on {step.device}, {step.role}"
    yield from _folded(title, parts)


def _patch(lines: Sequence[Line]) -> str:
    """Lines of a difference as of a patch."""
    return "\n".join("@@" if line.sign == "@" else f"{line.sign.replace('=', ' ')}{line.text}" for line in lines)


def _folded(title: str, paragraphs: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield from filter(None, paragraphs)
    yield "</details>"


def _fenced(text: str, language: str) -> str:
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", text)), 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _language(file: str) -> str:
    return {".py": "python", ".cu": "cpp", ".cuh": "cpp"}.get(Path(file).suffix, "c")


def table(content: Table, code: Iterable[str] = ()) -> str:
    """A table. Cells of the columns in `code` are code; an absent figure has its reason."""
    lines = [f"| {' | '.join(column.title for column in content.columns)} |", "| --- " * len(content.columns) + "|"]
    for record in content.records:
        cells = []
        for column in content.columns:
            cell = record.cells.get(column.key)
            text = f"`{cell}`" if cell and column.key in code else plain(cell_text.whole(cell)) if cell else ""
            reason = cell_text.reason(cell)
            cells.append(_cell(f"{text} ({plain(reason)})" if reason else text))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def stamp(bundle: Bundle, results: Iterable[TargetResult], warnings: Iterable[str]) -> str:
    """The origin of a page of a bundle: its tiers, which say whether it may be cited, and doubts about the bundle."""
    lines = [f"**{citation(results)}**: `{bundle.path.resolve().name}`, {units.moment(bundle.manifest.created)}"]
    return "\n>\n".join(f"> {line}" for line in [*lines, *map(plain, warnings)])


def citation(results: Iterable[TargetResult]) -> str:
    """Tell whether results may be cited, by their tiers."""
    tiers = {result.tier for result in results}
    return "quick run, not for citation" if "quick" in tiers else f"tier {', '.join(sorted(tiers))}"


def contents(targets: Iterable[InstalledTarget], link: Callable[[InstalledTarget], str] | None = None) -> str:
    """A table of targets: name, devices, aim and summary.

    link: the address of a target; that of its heading by default.
    """
    rows = ["| target | devices | goal | lesson |", "| --- | --- | --- | --- |"]
    for target in targets:
        name = f"[`{target.name}`]({link(target) if link else f'#{anchor(target.name)}'})"
        rows.append(f"| {name} | {', '.join(target.devices)} | {target.goal} | {_cell(plain(target.summary))} |")
    return "\n".join(rows)


def plain(text: str) -> str:
    """Text on one line, with the characters that Markdown and HTML would read escaped outside of code spans."""
    text = " ".join(text.split())
    spans = re.split(r"(`[^`]*`)", text)
    return "".join(span if span.startswith("`") else _SPECIAL.sub(r"\\\g<0>", span) for span in spans)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
