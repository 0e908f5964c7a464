"""Ladders: variants of which each adds a mechanism to the one before."""

from collections.abc import Sequence

from attrs import evolve, frozen

from aiperf_analysis.selection import Entry
from aiperf_core.measurements import Estimate
from aiperf_core.report.result import Axis, Column, Drawing, Figure, Point, Record, Series, Table, figure
from aiperf_core.units import plural

# Of a ladder: the largest relative difference between the product of its steps and its total.
ROUNDING = 1e-3
MOST_LADDERS = 12  # that are drawn


@frozen(eq=False)
class Ladder:
    """A variant and those that it builds on.

    rows: from the baseline to the last variant.
    steps: the gain of each variant over the row before it; None where it was not measured.
    mismatch: why the product of the steps is not the total; empty where it is.
    """

    entries: list[Entry]
    steps: list[Estimate | None]
    total: Estimate | None
    mismatch: str = ""

    @property
    def name(self) -> str:
        """The target and the last variant."""
        return self.entries[-1].name

    @property
    def product(self) -> float | None:
        """The product of the steps."""
        product = 1.0
        for step in self.steps:
            if step is None:
                return None
            product *= step.value
        return product


def ladders_of(entries: Sequence[Entry]) -> list[Ladder]:
    """The ladders of a target with at least two steps, each up to a variant on which none builds."""
    by_name = {one.row.name: one for one in entries}
    bases = {one.row.builds_on for one in entries}
    baseline = next((one for one in entries if one.row.role == "baseline"), None)
    found = []
    for one in entries:
        if one.row.role != "variant" or one.row.name in bases or not one.row.builds_on or baseline is None:
            continue
        path, gap = [one], ""
        while (below := path[0].row.builds_on) is not None:
            if below not in by_name or by_name[below] in path:
                gap = f"'{below}', on which '{path[0].row.name}' builds, is not believed or not selected"
                break
            path.insert(0, by_name[below])
        steps = [step.row.speedup if step.row.builds_on is None else step.row.step_speedup for step in path]
        found.append(_checked(Ladder([baseline, *path], steps, one.row.speedup, gap)))
    return found


def _checked(ladder: Ladder) -> Ladder:
    """The ladder with the reason why its steps do not multiply to the total."""
    product, total = ladder.product, ladder.total
    if ladder.mismatch:
        return ladder
    if product is None or total is None:
        lacking = next((one.row.name for one, step in zip(ladder.entries[1:], ladder.steps, strict=True)
                        if step is None), ladder.entries[-1].row.name)  # fmt: skip
        return evolve(ladder, mismatch=f"'{lacking}' has no measured step")
    if abs(product / total.value - 1) <= ROUNDING:
        return ladder
    reason = (
        f"the product of the steps is {product:.4g} and the total {total.value:.4g}: the rows have not all passes in "
        "common, as where one ended early, so that each ratio covers other passes"
    )
    return evolve(ladder, mismatch=reason)


def ladder_table(ladders: Sequence[Ladder]) -> Table:
    """The steps of the ladders; the last step of each says whether they multiply to the total."""
    columns = [
        Column("ladder", "ladder"),
        Column("step", "step"),
        Column("adds", "adds"),
        Column("gain", "gain of the step", "figure"),
        Column("so_far", "gain so far", "figure"),
        Column("note", "steps and total"),
    ]
    records = []
    for ladder in ladders:
        count = len(ladder.steps)
        for index, (entry, step) in enumerate(zip(ladder.entries[1:], ladder.steps, strict=True)):
            note = None
            if index == count - 1:
                note = ladder.mismatch or "the product equals the total"
            records.append(
                Record(
                    {
                        "ladder": ladder.name,
                        "step": entry.row.name,
                        "adds": entry.row.mechanisms[-1] if entry.row.mechanisms else None,
                        "gain": figure(step, reason=ladder.mismatch or "the step was not measured"),
                        "so_far": figure(entry.row.speedup, reason="no speedup was measured"),
                        "note": note,
                    },
                    [entry.origin],
                )
            )
    return Table("ladders", "ladders: each variant adds a mechanism to the one before", columns, records)


def waterfalls(ladders: Sequence[Ladder]) -> list[Drawing]:
    """A picture for each ladder, those with the largest gains first."""
    whole = [one for one in ladders if one.total is not None and one.product is not None]
    whole.sort(key=lambda one: -(one.total.value if one.total else 0.0))
    return [_waterfall(one) for one in whole[:MOST_LADDERS]]


def _waterfall(ladder: Ladder) -> Drawing:
    points, before = [], 1.0
    for entry, step in zip(ladder.entries[1:], ladder.steps, strict=True):
        if step is None:
            continue
        after = before * step.value
        # The whiskers are those of the step, from where it begins.
        x = Figure(value=after, low=before * step.low, high=before * step.high)
        begin = Figure(value=before, certainty="derived")
        points.append(
            Point(
                label=entry.row.name,
                x=x,
                y=begin,
                mark=f"({step.value:.3g}x)",
                origin=entry.origin,
                colour=entry.colour,
            )
        )
        before = after
    total = figure(ladder.total)
    points.append(Point(label="total", x=total, y=Figure(value=1.0, certainty="counted")))
    message = f"{ladder.name}: {plural('step', len(ladder.steps))}, together {before:.3g}x"
    return Drawing(
        name=f"ladder-{ladder.name}",
        title=f"Ladder of {ladder.name}",
        kind="waterfall",
        message=message,
        x=Axis(title="gain over the baseline", log=True),
        y=Axis(title="gain before the step", log=True),
        series=[Series(name="steps", points=points)],
    )
