"""A target as a part of a page in Markdown: what it teaches, its implementations, its goals, and its ladder.

The figures of a ladder are those of an expectations file of the target's package. Nothing else of a page is measured.
"""

import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import frozen

from aiperf_core import units
from aiperf_core.benchmark import Benchmark, Implementation
from aiperf_core.goal import Goal
from aiperf_core.measurements import Estimate
from aiperf_core.render.docstring import parts
from aiperf_core.report.drawings import Rung, ladder
from aiperf_core.report.result import Drawing
from aiperf_core.results.hardware import is_gpu
from aiperf_core.stats import expectations
from aiperf_core.stats.expectations import Expectation, MeasuredRun, Page, Source
from aiperf_core.targets import InstalledTarget

# Characters that Markdown or HTML would read. An underscore within a word is not one of them.
_SPECIAL = re.compile(r"(?<!\w)_|_(?!\w)|[\\*\[\]<>$]")
NOT_ON_A_GPU = "Not measured on a GPU yet."
NOT_MEASURED = "No stored measurement."

Figure = Callable[[str, Drawing], str]


@frozen(kw_only=True)
class Stored:
    """The stored figures of a target on a kind of machine.

    hardware: the key of the kind of machine.
    figures: the expectations by the names of the implementations.
    runs: the runs that they were measured in, by the names of the implementations.
    """

    hardware: str
    figures: Mapping[str, Expectation]
    runs: Mapping[str, MeasuredRun]

    @property
    def device(self) -> str:
        """The kind of device that was measured."""
        return "cuda" if is_gpu(self.hardware) else "cpu"

    @property
    def date(self) -> str:
        """The date of the newest figure."""
        return max(one.date for one in self.runs.values())


def stored(target: InstalledTarget, source: Source | None) -> list[Stored]:
    """The stored figures of a target: those of GPUs first, then the newest. Raises BundleError for a bad file."""
    found = []
    for file in sorted((source.folder / expectations.FOLDER).glob("*.json")) if source else ():
        page = expectations.read(file) or Page("")
        names = {name.partition(":")[2]: name for name in page.expected if name.startswith(f"{target.name}:")}
        if names:
            figures = {own: page.expected[name] for own, name in names.items()}
            runs = {own: page.run_of(name) for own, name in names.items()}
            found.append(Stored(hardware=page.hardware, figures=figures, runs=runs))
    return sorted(sorted(found, key=lambda one: one.date, reverse=True), key=lambda one: one.device != "cuda")


def lesson(target: InstalledTarget, benchmark: Benchmark, figure: Figure, heading: str = "##") -> Iterator[str]:
    """The paragraphs of a target's part of the page. `figure` takes a name and a drawing, and returns Markdown."""
    source = expectations.source_of(target)
    measured = stored(target, source)
    yield f"{heading} `{target.name}`"
    yield _plain(target.summary)
    yield from _docstring(inspect.cleandoc(sys.modules[target.module].__doc__ or ""))
    yield "\n".join(_implementations(benchmark))
    if benchmark.goals:
        yield "\n".join(_goals(benchmark.goals, measured))
    if measured:
        yield from _measured(target, benchmark, measured[0], source, figure)
    if "cuda" in benchmark.devices and all(one.device != "cuda" for one in measured):
        yield f"*{NOT_ON_A_GPU}*"
    elif not measured:
        yield f"*{NOT_MEASURED}*"


def _docstring(docstring: str) -> Iterator[str]:
    """The docstring as Markdown: a section becomes an item of a list."""
    for block in parts(docstring):
        lines = [f"- **{label}.** {_plain(text)}" for label, text in block if label]
        texts = [_plain(text) for label, text in block if not label]
        yield from (text for text in texts if text)
        if lines:
            yield "\n".join(lines)


def _implementations(benchmark: Benchmark) -> Iterator[str]:
    yield "| device | implementation | what it is | needs |"
    yield "| --- | --- | --- | --- |"
    for device in benchmark.devices:
        for one in benchmark.implementations_on(device):
            needs = ", ".join(f"`{need}`" for need in one.requires)
            yield f"| {device} | `{one.name}` | {_cell(_what(one))} | {needs} |"


def _what(one: Implementation) -> str:
    if one.role == "baseline":
        return f"*{one.kind} baseline*"
    builds = f" (builds on `{one.builds_on}`)" if one.builds_on else ""
    lossy = f"; lossy: {one.lossy.metric} at most {one.lossy.budget:g}" if one.lossy else ""
    role = "*yardstick*: " if one.role == "yardstick" else ""
    return f"{role}{_plain(one.why)}{builds}{lossy}"


def _goals(goals: Iterable[Goal], measured: Iterable[Stored]) -> Iterator[str]:
    for goal in goals:
        reached = _reached(goal, next((one for one in measured if one.device == goal.device), None))
        who = f"`{goal.implementation}`" if goal.implementation else "the fastest variant"
        cause = f" Missed because {_plain(goal.cause)} (shown by `{goal.shown_by}`)." if goal.cause else ""
        yield f"- **Goal** on {goal.device}: {_plain(str(goal))}, by {who}.{reached}{cause}"


def _reached(goal: Goal, found: Stored | None) -> str:
    """The stored figure of a goal, the best where several implementations have it."""
    named = [(one, name) for name, row in (found.figures if found else {}).items() for one in row.goals]
    fits = [(one, name) for one, name in named if one.of == goal.of and goal.implementation in (None, name)]
    if not fits or not found:
        return " Not measured."
    best, name = (min if goal.at_most else max)(fits, key=lambda pair: pair[0].value)
    estimate = Estimate(best.value, best.low, best.high)
    shown = (units.percent_estimate if goal.is_share else units.ratio_estimate)(estimate)
    return f" Reached: {shown.value} {shown.interval} by `{name}` on `{found.hardware}`."


def _measured(
    target: InstalledTarget, benchmark: Benchmark, found: Stored, source: Source | None, figure: Figure
) -> Iterator[str]:
    metric = expectations.metric_of(target.goal)
    rungs = [_rung(one, found.figures.get(one.name)) for one in benchmark.implementations_on(found.device)]
    yield figure(target.name, ladder(rungs, metric, f"{target.name} on {found.hardware}"))
    yield "\n\n".join(
        dict.fromkeys(_provenance(found.hardware, found.runs[name], one) for name, one in found.figures.items())
    )
    digest = hashlib.sha256(source.file.read_bytes()).hexdigest() if source else None
    if any(one.sources.get(target.name) != digest for one in found.runs.values()):
        yield "*The source has changed since this measurement.*"


def _rung(one: Implementation, found: Expectation | None) -> Rung:
    if one.role == "baseline":
        return Rung(name=one.name, role=one.role, ratio=Estimate(1.0, 1.0, 1.0))
    if found is None:
        return Rung(name=one.name, role=one.role)
    sol = found.sol.fraction if found.sol else None
    return Rung(name=one.name, role=one.role, ratio=Estimate(found.measured, found.low, found.high), sol=sol)


def _provenance(hardware: str, run: MeasuredRun, one: Expectation) -> str:
    sizes = units.parameters(one.sizes)
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    tier = f", tier {run.tier}" if run.tier else ""
    git = f"; git {run.git[:12]}" if run.git else ""
    return f"Measured on `{hardware}`, {units.moment(run.date)}{tier}: {sizes}; {versions}{git}; run `{run.bundle}`."


def _plain(text: str) -> str:
    """Text on one line, with the characters that Markdown and HTML would read escaped outside of code spans."""
    text = " ".join(text.split())
    spans = re.split(r"(`[^`]*`)", text)
    return "".join(one if one.startswith("`") else _SPECIAL.sub(r"\\\g<0>", one) for one in spans)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def contents(targets: Iterable[InstalledTarget]) -> str:
    """A table of targets: name, devices, aim and summary."""
    rows = ["| target | devices | goal | lesson |", "| --- | --- | --- | --- |"]
    for one in targets:
        link = f"[`{one.name}`](#{_anchor(one.name)})"
        rows.append(f"| {link} | {', '.join(one.devices)} | {one.goal} | {_cell(_plain(one.summary))} |")
    return "\n".join(rows)


def _anchor(name: str) -> str:
    """The anchor of a heading with a target's name, as GitHub makes it."""
    return re.sub(r"[^\w-]", "", name.lower())
