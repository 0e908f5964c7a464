"""Write the page that holds results against the goals of the lessons.

    python benchmarks/goals.py BUNDLE... > docs/goals.md

Every figure is read from a result, and the ceilings are those of its run; of several bundles with one target the last counts. What
holds a goal back that is not reached stands here, and whether it is reached does not. Ends with 1 where no result has a goal's
target.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from attrs import frozen

from aiperf_core.results import units
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Ceilings, Row, TargetResult
from aiperf_core.results.notes import DISBELIEVED


@frozen
class Measured:
    """A result, with the ceilings of its run."""

    result: TargetResult
    ceilings: Ceilings

    def row(self, name: str) -> Row:
        """The row of that name. Raises `NoFigureError` where it is not there or not believed."""
        return first(one for one in self.believed if one.name == name)

    def best(self) -> Row:
        """The variant with the shortest time. Raises `NoFigureError` where none is believed."""
        return first(sorted((one for one in self.believed if one.role == "variant"), key=seconds))

    @property
    def believed(self) -> list[Row]:
        """The rows that have a time which is believed."""
        return [one for one in self.result.rows if one.time_s and one.verdict not in DISBELIEVED]


class NoFigureError(Exception):
    """A result does not have what a goal is about."""


def first(rows: Iterable[Row]) -> Row:
    """The first of some rows. Raises `NoFigureError` where there is none."""
    for row in rows:
        return row
    raise NoFigureError


# Which row is held against the goal, and the figure.
Figure = Callable[[Measured], tuple[Row, float]]


@frozen(kw_only=True)
class Goal:
    """A target's goal: `figure` is to be at least, or with `at_most` at most, `bar`; both are shares of `of`."""

    target: str
    of: str
    figure: Figure
    bar: float
    at_most: bool = False
    otherwise: str = ""


def seconds(row: Row) -> float:
    """The median of a row that has one."""
    assert row.time_s is not None
    return row.time_s.value


def of_light(name: str | None = None) -> Figure:
    """The fraction of light of a row, or of the best variant."""

    def figure(measured: Measured) -> tuple[Row, float]:
        row = measured.row(name) if name else measured.best()
        if row.light is None:
            raise NoFigureError
        return row, row.light.fraction

    return figure


def of_row(other: str, *, rate: bool = False) -> Figure:
    """The best variant's time as a share of another row's; with `rate` the other way round."""

    def figure(measured: Measured) -> tuple[Row, float]:
        row = measured.best()
        share = seconds(row) / seconds(measured.row(other))
        return row, 1 / share if rate else share

    return figure


def of_products(name: str, precision: str) -> Figure:
    """The rate of a row as a share of what matrix products of a precision reach."""

    def figure(measured: Measured) -> tuple[Row, float]:
        row = measured.row(name)
        return row, measured.result.problem.flops / seconds(row) / measured.ceilings.flop_per_s[precision]

    return figure


GOALS = (
    Goal(target="ch01.batched_gemm", of="the time of `bmm`", figure=of_row("bmm"), bar=1.1, at_most=True),
    Goal(
        target="ch01.precision_ladder",
        of="the rate of bf16 matrix products",
        figure=of_products("bf16", "bf16"),
        bar=0.9,
    ),
    Goal(target="ch07.memory_access", of="the rate of a copy", figure=of_light("coalesced"), bar=0.92),
    Goal(
        target="ch07.vectorized_copy",
        of="the rate of the driver's copy",
        figure=of_row("driver", rate=True),
        bar=0.98,
    ),
    Goal(target="ch07.aos_soa", of="the rate of its reads and writes", figure=of_light(), bar=0.9),
    Goal(
        target="ch07.transpose",
        of="the rate of a copy",
        figure=of_light(),
        bar=0.92,
        otherwise="The two best forms turn the tile in different ways (exchanged 16-byte pieces, the copy engine) and end close to each "
        "other, so that what is missing is probably not lost in shared memory, but in the short runs in which DRAM gets what a "
        "transposition writes. Not proven.",
    ),
    Goal(target="ch07.gather", of="the rate of its reads and writes", figure=of_light(), bar=0.85),
    Goal(
        target="ch07.histogram",
        of="the rate of a read",
        figure=of_light(),
        bar=0.8,
        otherwise="Atomics in shared memory bind, not memory: more than ten keys a clock and multiprocessor would be needed, and random keys "
        "meet in banks.",
    ),
    Goal(
        target="ch07.warp_reduce",
        of="the rate of a read",
        figure=of_light(),
        bar=0.93,
        otherwise="torch's own sum, the yardstick, reaches less. The ceiling is of larger reads, and filling and draining the chip is a part of "
        "a read as short as this one. That this is all of it is not proven.",
    ),
    Goal(
        target="ch07.async_prefetch",
        of="light",
        figure=of_light(),
        bar=0.88,
        otherwise="The light is that of multiply-adds without anything else. Here each waits for the one before it in its chain, and the same pipes "
        "issue the loads, the exchange in shared memory and the barriers. What share each of these has was not measured.",
    ),
    Goal(target="ch07.tma_tile_copy", of="the rate of a copy", figure=of_light(), bar=0.92),
    Goal(
        target="ch04.allreduce_small",
        of="the time of the library's",
        figure=of_row("library"),
        bar=0.6,
        at_most=True,
    ),
)


def main() -> int:
    """Print the page; 1 where a target is missing."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE")
    measured = {name: one for path in parser.parse_args().bundles for name, one in read(path).items()}
    reached = {goal.target: figure for goal in GOALS if (figure := figure_of(goal, measured)) is not None}
    print("# Goals\n")
    print(
        "What lessons are to reach on a GPU, and what they were measured to reach; ceilings are those of the same run."
    )
    print("Made by `benchmarks/goals.py` from results; no figure is typed.\n")
    print("| target | goal | reached | |\n| --- | --- | --- | --- |")
    for goal in GOALS:
        print(line_of(goal, measured.get(goal.target), reached.get(goal.target)))
    short = [one for one in GOALS if one.target in reached and not is_met(one, reached[one.target][1])]
    if short:
        print("\n## What holds the others back")
    for goal in short:
        print(f"\n`{goal.target}`: {goal.otherwise or 'not known.'}")
    missing = [one.target for one in GOALS if one.target not in reached]
    for target in missing:
        print(f"no result has: {target}", file=sys.stderr)
    return int(bool(missing))


def read(path: Path) -> dict[str, Measured]:
    """The complete results of a bundle on GPUs."""
    bundle = Bundle.open(path)
    ceilings = bundle.manifest.ceilings
    results = [one for one in bundle.targets.values() if one.complete and one.device == "cuda"]
    return {one.target: Measured(one, ceilings["cuda"]) for one in results}


def figure_of(goal: Goal, measured: dict[str, Measured]) -> tuple[Row, float] | None:
    """What was reached of a goal, and by which row; None where no result says."""
    try:
        return goal.figure(measured[goal.target])
    except (KeyError, NoFigureError):
        return None


def is_met(goal: Goal, figure: float) -> bool:
    """Whether a figure reaches a goal."""
    return figure <= goal.bar if goal.at_most else figure >= goal.bar


def line_of(goal: Goal, measured: Measured | None, reached: tuple[Row, float] | None) -> str:
    """A row of the table."""
    wanted = f"at {'most' if goal.at_most else 'least'} {units.percent(goal.bar)} of {goal.of}"
    if measured is None or reached is None:
        return f"| `{goal.target}` | {wanted} | not measured | |"
    row, figure = reached
    where = f"{measured.ceilings.device}, tier {measured.result.tier}, {measured.result.started[:10]}"
    met = "met" if is_met(goal, figure) else "**not met**"
    return f"| `{goal.target}` | {wanted} | `{row.name}` {units.percent(figure)} ({where}) | {met} |"


if __name__ == "__main__":
    sys.exit(main())
