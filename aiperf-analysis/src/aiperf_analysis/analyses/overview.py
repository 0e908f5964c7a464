"""What the results say altogether, on one page: verdicts, gains, and what was not believed."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from attrs import asdict

from aiperf_analysis.selection import Entry, Selection, required
from aiperf_core import units
from aiperf_core.analysis_options import NoOptions
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
)
from aiperf_core.results.models import Verdict
from aiperf_core.stats.best import best_of, is_proven_gain
from aiperf_core.stats.draws import ends, resamples

# The kinds of baseline over which gains are averaged. A gain over an antipattern says how bad that is.
AVERAGED = ("reasonable", "naive")
FEWEST = 3  # targets of a mean
DRAWS = 4000
_NO_VARIANT = Figure(value=None, reason="no variant is believed")
_NO_GAIN = Figure(value=None, reason="no variant is proven to gain")


def analyze(selection: Selection, options: NoOptions) -> Result:
    """Count the verdicts of the newest results of each target, and list the best variant of each.

    The gain of a target is the figure of its best variant: the speedup, or the memory gain where memory is the goal. A
    target without a proven gain has no best variant. Geometric means are over targets with a reasonable or a naive
    baseline; their intervals are by bootstrap over targets. A target of several sizes counts once, by the geometric
    mean of its gains. Targets that expect no gain, lossy variants, and targets whose best variant is INCONCLUSIVE are
    in no mean, and there is no mean without a proven gain.
    """
    newest = selection.latest()
    required(newest.entries, newest)
    groups = newest.targets()
    records: list[Record] = []
    ranked: list[tuple[float, str, Figure, Entry]] = []
    gains: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    proven: set[tuple[str, str, str]] = set()
    for (_, name), entries in sorted(groups.items(), key=lambda pair: (pair[0][1], pair[1][0].hardware)):
        first, result = _best(entries), entries[0].result
        best = first if first and is_proven_gain(first.row, result.goal) else None
        missing = _NO_GAIN if first else _NO_VARIANT
        gain = best.gain if best else missing
        kind = _kind(entries)
        records.append(
            Record(
                {
                    "target": name,
                    "class": entries[0].hardware,
                    "goal": result.goal,
                    "best": best.row.name if best else None,
                    "verdict": first.row.verdict.value if first else None,
                    "gain": gain,
                    "memory": best.figure("memory_gain") if best else missing,
                    "baseline": kind,
                    "note": f"no gain is expected: {result.no_gain}" if result.no_gain else None,
                },
                [best.origin] if best else [],
            )
        )
        exact = _best([one for one in entries if one.row.quality is None])
        averaged = exact.gain if exact and exact.row.verdict is not Verdict.INCONCLUSIVE else _NO_VARIANT
        if averaged.value is not None and not result.no_gain and kind in AVERAGED:
            of_targets = gains.setdefault((result.goal, entries[0].hardware, kind), {})
            if best:
                proven.add((result.goal, entries[0].hardware, kind))
            of_targets.setdefault(entries[0].base_target, []).append(averaged.value)
        if best is None or gain.value is None:
            continue
        ranked.append((gain.value, f"{name}:{best.row.name}", gain, best))
    points = [
        Point(label=label, x=gain, y=counted(float(place), "count"), mark=best.row.verdict.value, origin=best.origin)
        for place, (_, label, gain, best) in enumerate(sorted(ranked, key=lambda gained: -gained[0]))
    ]
    variants = [one for one in newest.every if one.row.role == "variant"]
    verdicts = Counter(one.row.verdict.value for one in variants)
    told = ", ".join(f"{count} {name}" for name, count in verdicts.most_common())
    count = len({one.base_target for one in newest.entries})
    head = f"{units.plural('target', count)} in {units.plural('bundle', len(newest.runs))}"
    message = f"{head}: {told or 'no variants'}"
    means = [_mean(key, each) for key, each in sorted(gains.items()) if key in proven]
    told_means = _told(means)
    return Result(
        analysis="overview",
        title="Overview",
        summary=[f"{message}.", *told_means],
        tables=[
            Table("targets", "newest result of each target", _columns(), records),
            _counts(variants),
            *([_means(means)] if means else []),
        ],
        drawings=[
            Drawing(
                name="gains",
                title="Gain of the best variant of each target",
                kind="intervals",
                message=message,
                x=Axis(title="gain over the baseline (more is better)", log=True),
                y=Axis(title="target", unit="count"),
                series=[Series(name="best variant", points=points)],
            )
        ],
        options=asdict(options),
        assumptions=[
            "a mean over targets describes these targets, not others: its interval shows what other draws of the same "
            "kind of target would give.",
            "a target that was measured at several sizes counts once, by the geometric mean of its gains.",
        ]
        if told_means
        else [],
        left_out=newest.left_out,
        sources=newest.sources,
    )


def geometric_mean(gains: Sequence[float], seed: int = 0) -> Figure:
    """The geometric mean with its interval by bootstrap over targets; of fewer than three, a reason."""
    if len(gains) < FEWEST:
        return Figure(value=None, reason=f"a mean takes at least {FEWEST} targets; found {len(gains)}")
    logs = np.log(gains)
    drawn = resamples(logs, DRAWS, seed).mean(axis=1)
    # As for a mean of n values: resampling n of them shows (n - 1) / n of the variance.
    wide = (drawn - logs.mean()) * math.sqrt(len(logs) / (len(logs) - 1))
    low, high = ends(wide)
    mean = float(logs.mean())
    return Figure(value=math.exp(mean), low=math.exp(mean + float(low)), high=math.exp(mean + float(high)))


def _best(entries: list[Entry]) -> Entry | None:
    row = best_of([one.row for one in entries], entries[0].result.goal) if entries else None
    return next((one for one in entries if one.row is row), None)


def _kind(entries: Sequence[Entry]) -> str | None:
    base = entries[0].baseline
    return base.kind if base else None


def _mean(key: tuple[str, str, str], gains: Mapping[str, Sequence[float]]) -> Record:
    """The mean over targets, each with its gains at all its sizes."""
    goal, hardware, kind = key
    return Record(
        {
            "goal": goal,
            "class": hardware,
            "baseline": kind,
            "targets": counted(len(gains), "count"),
            "mean": geometric_mean([float(np.exp(np.log(of_sizes).mean())) for of_sizes in gains.values()]),
        }
    )


def _told(means: Sequence[Record]) -> list[str]:
    """A sentence for each mean that could be computed."""
    from aiperf_core.report import cell_text

    found = []
    for one in means:
        cells, mean = one.cells, one.cells["mean"]
        if isinstance(mean, Figure) and mean.value is not None:
            what = "memory gain" if cells["goal"] == "memory" else "speedup"
            found.append(
                f"Mean {what} over {cells['baseline']} baselines on {cells['class']} (goal {cells['goal']}): "
                f"{cell_text.whole(mean)}."
            )
    return found


def _columns() -> list[Column]:
    return [
        Column("target", "target"),
        Column("class", "kind of machine"),
        Column("goal", "goal"),
        Column("best", "best variant"),
        Column("verdict", "verdict", "verdict"),
        Column("gain", "gain", "figure"),
        Column("memory", "memory gain", "figure"),
        Column("baseline", "baseline"),
        Column("note", "note"),
    ]


def _counts(variants: Sequence[Entry]) -> Table:
    """The verdicts of variants by goal and kind of machine."""
    counts = Counter((one.row.verdict.value, one.result.goal, one.hardware) for one in variants)
    records = [
        Record({"verdict": verdict, "goal": goal, "class": hardware, "rows": counted(count, "count")})
        for (verdict, goal, hardware), count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    columns = [
        Column("verdict", "verdict", "verdict"),
        Column("goal", "goal"),
        Column("class", "kind of machine"),
        Column("rows", "rows", "figure"),
    ]
    return Table("verdicts", "verdicts of variants", columns, records)


def _means(means: list[Record]) -> Table:
    columns = [
        Column("goal", "goal"),
        Column("class", "kind of machine"),
        Column("baseline", "baseline"),
        Column("targets", "targets", "figure"),
        Column("mean", "geometric mean of the gains", "figure"),
    ]
    return Table("means", "mean gains of the best exact variants", columns, means)
