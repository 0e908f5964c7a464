"""What helped in a use case, with the evidence: the figure, and the target that teaches it."""

from collections.abc import Callable

from attrs import asdict, frozen

from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Estimate
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
    figure,
)

TRAINING = "training"  # the tag of targets of a training step


@frozen
class Case:
    """A use case.

    asks: what is looked for.
    gain: the figure of a row that shows it, above 1 for better; the low end of its interval decides.
    fits: whether a row is of this use case.
    """

    asks: str
    gain: Callable[[Entry], Figure]
    fits: Callable[[Entry, frozenset[str]], bool]


def _memory(entry: Entry) -> Figure:
    return entry.figure("memory_gain")


def _speed(entry: Entry) -> Figure:
    return entry.figure("speedup")


def _energy(entry: Entry) -> Figure:
    """The baseline's energy of a call divided by the row's; their errors are independent."""
    base, joules = entry.baseline, METRICS["joules_per_call"]
    mine, theirs = (joules.estimate(entry.result, row) if row else None for row in (entry.row, base))
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
class Options:
    """Options of this analysis."""

    use: str = option("low-latency", "The use case.", metavar="CASE", choices=tuple(CASES))
    top: int = option(10, "How many recommendations to show.")


def analyze(selection: Selection, options: Options) -> Result:
    """Name the variants that were proven to help in a use case, each with its figure and the target that teaches it.

    A variant is named where the low end of its gain lies beyond the floor of its target; what it costs in time, memory
    or quality stands beside it. The order is that of the low end. Targets that expect no gain do not count.
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
    proven = [(one, gain) for one in rows if (gain := case.gain(one)).value is not None and _sure(one, gain)]
    proven.sort(key=lambda pair: -_least(pair[1]))
    shown = proven[: options.top]
    head = f"For {options.use} ({case.asks}): "
    if not proven:
        told = f"no variant of {units.plural('row', len(rows))} is proven to help; nothing is recommended."
    else:
        told = f"{units.plural('variant', len(proven))} of {units.plural('row', len(rows))} proven to help."
    points = [
        Point(
            label=one.name,
            x=gain,
            y=Figure(value=float(place), unit="count", certainty="counted"),
            mark=one.row.verdict.value,
            origin=one.origin,
        )
        for place, (one, gain) in enumerate(shown)
    ]
    return Result(
        analysis="recommend",
        title=f"Recommendations for {options.use}",
        summary=[head + told, *_first(shown)],
        tables=[Table("recommendations", f"what gave {case.asks}", _columns(), [_record(*pair) for pair in shown])],
        drawings=[
            Drawing(
                name="recommendations",
                title=f"What gave {case.asks}",
                kind="intervals",
                message=head + told,
                x=Axis(title="gain over the baseline (more is better)", log=True),
                y=Axis(title="variant", unit="count"),
                series=[Series(name="variants", points=points)],
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


def _least(gain: Figure) -> float:
    return (gain.value or 0.0) if gain.low is None else gain.low


def _sure(entry: Entry, gain: Figure) -> bool:
    return _least(gain) > 1 + entry.result.floor


def _first(shown: list[tuple[Entry, Figure]]) -> list[str]:
    if not shown:
        return []
    entry, _ = shown[0]
    why = f": {entry.row.why}" if entry.row.why else ""
    return [f"First to try: {entry.name}{why}. To see it: aiperf run {entry.base_target}"]


def _record(entry: Entry, gain: Figure) -> Record:
    quality = entry.row.quality
    return Record(
        {
            "row": entry.name,
            "class": entry.hardware,
            "gain": gain,
            "speedup": _speed(entry),
            "memory": _memory(entry),
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
        Column("gain", "gain", "figure"),
        Column("speedup", "speedup", "figure"),
        Column("memory", "memory gain", "figure"),
        Column("quality", "loss of quality"),
        Column("mechanisms", "mechanisms"),
        Column("why", "why"),
    ]
