"""What helped in a use case, with the evidence: the figure, and the target that teaches it."""

from collections.abc import Callable

from attrs import asdict, frozen

from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.report import cell_text
from aiperf_core.report.metrics import METRICS
from aiperf_core.report.result import (
    Axis,
    Column,
    Drawing,
    Figure,
    Point,
    Record,
    Result,
    Series,
    Table,
    counted,
    figure,
)
from aiperf_core.results.models import Row

TRAINING = "training"  # the tag of targets of a training step


@frozen
class Case:
    """A use case.

    asks: what is looked for.
    gain: the figure of a row over another row of its target, above 1 for better; the low end of its interval decides.
    fits: whether a row is of this use case.
    """

    asks: str
    gain: Callable[[Entry, Row], Figure]
    fits: Callable[[Entry, frozenset[str]], bool]


def _memory(entry: Entry, before: Row) -> Figure:
    mine, theirs = (METRICS["peak_bytes"].of(entry.result, row).value for row in (entry.row, before))
    return counted(theirs / mine if mine and theirs else None, reason="no peak of memory was measured")


def _speed(entry: Entry, before: Row) -> Figure:
    return entry.figure("speedup" if before.role == "baseline" else "step_speedup")


def _energy(entry: Entry, before: Row) -> Figure:
    """The energy of a call of the row before divided by the row's; their errors are independent."""
    joules = METRICS["joules_per_call"]
    mine, theirs = (joules.estimate(entry.result, row) for row in (entry.row, before))
    if mine is None or theirs is None:
        return Figure(value=None, certainty="derived", reason=entry.row.no_energy or "no energy was measured")
    low, high = theirs.low / mine.high, theirs.high / mine.low
    return figure(Estimate(theirs.value / mine.value, low, high), "1", "derived")


CASES = {
    "low-vram": Case("less peak memory of the GPU", _memory, lambda entry, training: _on_gpu(entry)),
    "low-latency": Case(
        "a shorter time of one call", _speed, lambda entry, training: entry.result.goal in ("latency", "speed")
    ),
    "throughput": Case(
        "more work in the same time", _speed, lambda entry, training: entry.result.goal in ("throughput", "speed")
    ),
    "training": Case("a shorter training step", _speed, lambda entry, training: entry.base_target in training),
    "cost": Case("less machine time for the same work", _speed, lambda entry, training: True),
    "energy": Case("less energy of a call", _energy, lambda entry, training: True),
}


@frozen
class _Step:
    """A variant beside the row before it, with the gain of the use case."""

    entry: Entry
    before: Row
    gain: Figure

    @property
    def least(self) -> float:
        """The low end of the gain."""
        return (self.gain.value or 0.0) if self.gain.low is None else self.gain.low

    @property
    def is_sure(self) -> bool:
        """Whether the gain lies beyond the floor of the target."""
        return self.least > 1 + self.entry.result.floor


@frozen
class Options:
    """Options of this analysis."""

    use: str = option("low-latency", "The use case.", metavar="CASE", choices=tuple(CASES))
    top: int = option(10, "How many recommendations to show.")


def analyze(selection: Selection, options: Options) -> Result:
    """Name the steps that were proven to help in a use case, each with its figure and the target that teaches it.

    The gain of a step is that over the variant on which it builds, or over a reasonable baseline: a gain over a naive
    one says how bad that is. A step is named where the low end of its gain lies beyond the floor of its target; what
    the variant costs in time, memory or quality stands beside it. Each target is named once, by its largest step, in
    the order of the low ends. Targets that expect no gain do not count.
    """
    if options.top < 1:
        raise UsageError(f"--top got {options.top}; it takes a count of at least 1.")
    newest = selection.latest()
    required(newest.entries, newest)
    case = CASES[options.use]
    training = _training() if options.use == "training" else frozenset()
    rows = [
        one
        for one in newest.entries
        if one.row.role == "variant" and not one.result.no_gain and case.fits(one, training)
    ]
    steps = [_Step(one, before, case.gain(one, before)) for one in rows if (before := _before(one)) is not None]
    proven = sorted((step for step in steps if step.is_sure), key=lambda step: -step.least)
    best: dict[tuple[str, str], _Step] = {}
    for step in proven:
        best.setdefault((step.entry.base_target, step.entry.hardware), step)
    shown = list(best.values())[: options.top]
    head = f"For {options.use} ({case.asks}): "
    if not proven:
        told = f"no step of {units.plural('variant', len(rows))} is proven to help; nothing is recommended."
    else:
        told = f"a step of {units.plural('target', len(best))} is proven to help."
    points = [
        Point(
            label=step.entry.name,
            x=step.gain,
            y=Figure(value=float(place), unit="count", certainty="counted"),
            mark=step.entry.row.verdict.value,
            origin=step.entry.origin,
        )
        for place, step in enumerate(shown)
    ]
    return Result(
        analysis="recommend",
        title=f"Recommendations for {options.use}",
        summary=[head + told, *_first(shown)],
        tables=[Table("recommendations", f"what gave {case.asks}", _columns(), list(map(_record, shown)))],
        drawings=[
            Drawing(
                name="recommendations",
                title=f"What gave {case.asks}",
                kind="intervals",
                message=head + told,
                x=Axis(title="gain of the step (more is better)", log=True),
                y=Axis(title="step", unit="count"),
                series=[Series(name="steps", points=points)],
            )
        ]
        if points
        else [],
        options=asdict(options),
        assumptions=[
            "a gain was measured on its own target; on other work it is a hint of what to try, not a promise.",
            "the reason is what the author of the variant declared.",
            *(["the errors of the two energies are independent."] if options.use == "energy" else []),
        ],
        left_out=newest.left_out,
        sources=newest.sources,
    )


def _on_gpu(entry: Entry) -> bool:
    """Whether the peak is of the device's memory; a processor's rows have that of the host."""
    return entry.row.memory is not None and entry.row.memory.peak_bytes is not None


def _training() -> frozenset[str]:
    """The targets that are tagged as training."""
    from aiperf_core.plugins import load_plugins

    return frozenset(one.name for one in load_plugins().targets if TRAINING in one.tags)


def _before(entry: Entry) -> Row | None:
    """The row that a step is held against: the variant on which it builds, or a reasonable baseline."""
    believed = [row for row in entry.result.rows if row.is_believed]
    built_on = next((row for row in believed if row.name == entry.row.builds_on and row.role != "baseline"), None)
    return built_on or next((row for row in believed if row.role == "baseline" and row.kind == "reasonable"), None)


def _first(shown: list[_Step]) -> list[str]:
    if not shown:
        return []
    step, entry = shown[0], shown[0].entry
    why = f": {entry.row.why}" if entry.row.why else ""
    gain = cell_text.whole(step.gain)
    return [
        f"First to try, if your work is like {entry.base_target} ({entry.result.summary}): {entry.row.name}, {gain} "
        f"over {step.before.name}{why}. To see it: aiperf run {entry.base_target}"
    ]


def _record(step: _Step) -> Record:
    entry, quality = step.entry, step.entry.row.quality
    return Record(
        {
            "row": entry.name,
            "class": entry.hardware,
            "gain": step.gain,
            "over": step.before.name,
            "speedup": entry.figure("speedup"),
            "memory": entry.figure("memory_gain"),
            "quality": f"{quality.metric} {quality.value}" if quality else None,
            "mechanisms": ", ".join(entry.row.mechanisms) or None,
            "why": entry.row.why,
        },
        [entry.origin],
    )


def _columns() -> list[Column]:
    return [
        Column("row", "row"),
        Column("class", "kind of machine"),
        Column("gain", "gain of the step", "figure"),
        Column("over", "over"),
        Column("speedup", "speedup", "figure"),
        Column("memory", "memory gain", "figure"),
        Column("quality", "loss of quality"),
        Column("mechanisms", "mechanisms"),
        Column("why", "why"),
    ]
