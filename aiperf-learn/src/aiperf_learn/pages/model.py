"""The page of a lesson as data, which Markdown and HTML render: what a target asks, measured, and how it is made."""

import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import field, frozen

from aiperf_core import units
from aiperf_core.benchmark import Benchmark, Lossy
from aiperf_core.claims import SassClaim
from aiperf_core.docstring import parts
from aiperf_core.goal import Goal
from aiperf_core.measurements import Estimate
from aiperf_core.report.drawings import of_sweep
from aiperf_core.report.result import Column, Drawing, Record, Table
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import TargetResult
from aiperf_core.results.sweeps import sweeps
from aiperf_core.stats import expectations
from aiperf_core.stats.threshold import MET, MISSED, Threshold
from aiperf_core.sweep import base_name
from aiperf_core.targets import InstalledTarget
from aiperf_learn import mechanisms
from aiperf_learn.pages import stored as figures
from aiperf_learn.pages.code import StepCode, devices_of, steps
from aiperf_learn.pages.exercises import Exercise, exercise_of
from aiperf_learn.pages.stored import Provenance, Stored

NOT_ON_A_GPU = "Not measured on a GPU yet."
NOT_MEASURED = "No stored measurement."
NOT_IN_BUNDLE = "Not in the bundle."
CHANGED = "The source has changed since this measurement."
# Sections of a docstring with a place of their own.
PREDICTION, LIMITS = "Prediction", "Limits"


@frozen(kw_only=True)
class Ladder:
    """The steps on a kind of machine.

    drawing, table: their speedups.
    provenance: where the figures come from.
    distrusted: rows of the reader's own run without a figure that is believed: name, verdict and reason.
    """

    drawing: Drawing
    table: Table
    provenance: Sequence[Provenance]
    distrusted: Sequence[tuple[str, str, str]] = ()


@frozen(kw_only=True)
class GoalLine:
    """A goal, and the figure that it has reached.

    reached, by, hardware: the figure with its interval, its implementation and kind of machine; empty for none.
    outcome: of the figure.
    """

    goal: Goal
    reached: str = ""
    by: str = ""
    hardware: str = ""
    outcome: str = ""


@frozen(kw_only=True)
class LessonPage:
    """A lesson.

    Texts are in the Markdown of docstrings, where only code spans are markup.

    paragraphs, sections: of the docstring, the sections by their labels; prediction and limits apart.
    implementations: a table of what they are.
    ladders: the reader's own runs first, then GPUs, then the newest.
    missing: what was not measured; empty for nothing.
    mechanisms: drawings of what the hardware does.
    sweeps: the reader's own sweeps over sizes.
    steps: the code of the implementations by device, from the baseline on.
    files: the whole files that the code is of.
    claims: what the machine code of kernels is.
    """

    target: InstalledTarget
    paragraphs: Sequence[str]
    sections: Mapping[str, str]
    prediction: str
    limits: str
    implementations: Table
    ladders: Sequence[Ladder]
    missing: str
    steps: Sequence[StepCode]
    files: Mapping[str, str]
    claims: Sequence[SassClaim]
    goals: Sequence[GoalLine]
    exercise: Exercise
    sweeps: Sequence[Drawing]
    mechanisms: Sequence[Drawing] = field(factory=tuple)

    @property
    def predictions(self) -> list[StepCode]:
        """The steps whose gain the author predicts."""
        return [step for step in self.steps if step.predict]


def lesson_page(
    target: InstalledTarget,
    benchmark: Benchmark,
    runs: Iterable[tuple[Bundle, TargetResult | None]] = (),
) -> LessonPage:
    """The page of a target.

    runs: bundles of the reader, with the target's result in each; None for a bundle without one.

    Raises BundleError for a bad expectations file, and AiperfError for a bad file of exercises.
    """
    source, runs = expectations.source_of(target), [*runs]
    kept = figures.stored(target, source)
    own = [(figures.of_result(bundle, result), bundle, result) for bundle, result in runs if result is not None]
    paragraphs, sections = _docstring(inspect.cleandoc(sys.modules[target.module].__doc__ or ""))
    code, files = steps(benchmark, source)

    def ladder(kind: Stored, bundle: Bundle | None = None, result: TargetResult | None = None) -> Ladder:
        rows, run = result.rows if result else (), bundle.path.resolve().name if bundle else ""
        return Ladder(
            drawing=figures.picture(target, benchmark, kind, run),
            table=figures.table(target, benchmark, kind),
            provenance=[*figures.provenance(target, kind, source)],
            distrusted=[(row.name, row.verdict.value, row.reason or "") for row in rows if not row.is_believed],
        )

    return LessonPage(
        target=target,
        paragraphs=paragraphs,
        prediction=sections.pop(PREDICTION, ""),
        limits=sections.pop(LIMITS, ""),
        sections=sections,
        implementations=_implementations(benchmark),
        ladders=[*(ladder(*part) for part in own), *map(ladder, kept)],
        missing=_missing(benchmark, kept, has_runs=bool(runs), has_own=bool(own)),
        steps=code,
        files=files,
        claims=benchmark.claims,
        goals=[*_goals(benchmark, [*(kind for kind, _, _ in own), *kept])],
        exercise=exercise_of(target, benchmark, source),
        sweeps=[drawing for bundle, _ in runs for drawing in _sweeps(target.name, bundle)],
        mechanisms=mechanisms.drawings(target, benchmark),
    )


def _sweeps(target: str, bundle: Bundle) -> Iterator[Drawing]:
    """The drawings of a target's sweeps over several sizes in a bundle, as far as rows are believed."""
    for sweep in sweeps(bundle.outline(name) for name in bundle.targets if base_name(name) == target):
        if len(sweep.points) > 1 and any(row.time_s for row in sweep.rows):
            yield from of_sweep(sweep, f"run {bundle.path.resolve().name}")


def _missing(benchmark: Benchmark, kept: Sequence[Stored], *, has_runs: bool, has_own: bool) -> str:
    if has_runs:
        return "" if has_own else NOT_IN_BUNDLE
    if "cuda" in benchmark.devices and all(kind.device != "cuda" for kind in kept):
        return NOT_ON_A_GPU
    return "" if kept else NOT_MEASURED


def _docstring(docstring: str) -> tuple[list[str], dict[str, str]]:
    """The paragraphs without a label, and the sections, each on a line."""
    paragraphs, sections = list[str](), dict[str, str]()
    for block in parts(docstring):
        for label, text in block:
            line = " ".join(text.split())
            if label:
                sections[label] = line
            elif line:
                paragraphs.append(line)
    return paragraphs, sections


def _implementations(benchmark: Benchmark) -> Table:
    columns = [Column("implementation", "implementation"), Column("about", "what it is"), Column("needs", "needs")]
    records = [
        Record({"device": device, "implementation": row.name, "about": about, "needs": ", ".join(row.requires)})
        for device in devices_of(benchmark)
        for row in benchmark.implementations_on(device)
        for about in [_about(row.role, row.kind, row.why, row.builds_on, row.lossy)]
    ]
    return Table("implementations", "Implementations", [Column("device", "device"), *columns], records)


def _about(role: str, kind: str | None, why: str, builds_on: str | None, lossy: Lossy | None) -> str:
    if role == "baseline":
        return f"{kind} baseline"
    builds = f" (builds on `{builds_on}`)" if builds_on else ""
    limit = f"; lossy: {lossy.metric} at most {lossy.budget:g}" if lossy else ""
    return f"{'yardstick: ' if role == 'yardstick' else ''}{why}{builds}{limit}"


def _goals(benchmark: Benchmark, measured: Sequence[Stored]) -> Iterator[GoalLine]:
    """Each goal with its figure, the best where several implementations of the first machine with figures have it."""
    presets = benchmark.task.presets
    for goal in benchmark.goals:
        sizes = {**presets.get(goal.preset, {}), **goal.params}
        for kind in measured:
            fits = [
                (reached, name)
                for name, row in kind.figures.items()
                for reached in row.goals
                if reached.of == goal.of and row.sizes == sizes and goal.implementation in (None, name)
            ]
            if kind.device == goal.device and fits:
                best, name = (min if goal.at_most else max)(fits, key=lambda pair: pair[0].value)
                estimate = Estimate(best.value, best.low, best.high)
                shown = (units.percent_estimate if goal.is_share else units.ratio_estimate)(estimate)
                said = Threshold("", name, goal.of, goal.bar, goal.at_most).judge(best)
                outcome = {MET: "met", MISSED: "missed"}.get(said, "not decided: the interval has the bar")
                reached = f"{shown.value} {shown.interval}".strip()
                yield GoalLine(goal=goal, reached=reached, by=name, hardware=kind.hardware, outcome=outcome)
                break
        else:
            yield GoalLine(goal=goal)


def claim_text(claim: SassClaim) -> str:
    """A claim about machine code as a sentence in Markdown."""
    pieces = [
        f"has {_codes(claim.has)}" if claim.has else "",
        f"lacks {_codes(claim.lacks)}" if claim.lacks else "",
        f"has at least {claim.loads_before_first_store} loads before its first store"
        if claim.loads_before_first_store
        else "",
    ]
    where = f" on {', '.join(claim.archs)}" if claim.archs else ""
    return f"`{claim.kernel}` {', '.join(filter(None, pieces))}{where}"


def _codes(codes: Iterable[str]) -> str:
    return ", ".join(f"`{code}`" for code in codes)


def anchor(name: str) -> str:
    """The anchor of a heading with a target's name, as GitHub makes it."""
    return re.sub(r"[^\w-]", "", name.lower())
