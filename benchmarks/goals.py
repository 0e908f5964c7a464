"""Write the page that holds results against the goals of the lessons.

    python benchmarks/goals.py [--page docs/goals.md] BUNDLE...

Every figure is read from a result, and the ceilings are those of its run; of several results that a goal is about the
last counts. With `--page` that page is renewed: where no result has a goal's figure, what stands there stays. What
holds a goal back that is not reached stands here, and whether it is reached does not. Goals on launches and on links
need the whole page of ceilings: run `aiperf ceilings` before the target. Ends with 1 where no result has a goal's
figure.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import evolve, field, frozen

from aiperf_core import units
from aiperf_core.measurements import Ceilings
from aiperf_core.results import atomic
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import DISBELIEVED, Row, TargetResult
from aiperf_core.targets import WORLD_SIZE


@frozen
class Measured:
    """A result, with the ceilings of its run and all results of the same target."""

    result: TargetResult
    ceilings: Ceilings
    others: Sequence["Measured"] = ()

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

    @property
    def ranks(self) -> int:
        """How many ranks there were."""
        return int(self.result.problem.params.get(WORLD_SIZE, 1))

    def at(self, sizes: Mapping[str, float]) -> bool:
        """Whether these were the sizes."""
        return all(self.result.problem.params.get(name) == value for name, value in sizes.items())

    def sent(self, message: float) -> float:
        """The bytes that each rank must send for an all-reduce of a message of so many bytes."""
        return 2 * (self.ranks - 1) / self.ranks * message


class NoFigureError(Exception):
    """A result does not have what a goal is about."""


def first(rows: Iterable[Row]) -> Row:
    """The first of some rows. Raises `NoFigureError` where there is none."""
    for row in rows:
        return row
    raise NoFigureError


# How the line of a goal ends.
MET, NOT_MET = "| met |", "| **not met** |"

# Which row is held against the goal, and the figure.
Figure = Callable[[Measured], tuple[Row, float]]


@frozen(kw_only=True)
class Goal:
    """A target's goal: `figure` is to be at least, or with `at_most` at most, `bar`; both are shares of `of`.

    `sizes` are those that the goal is about, where a target is measured at several.
    """

    target: str
    of: str
    figure: Figure
    bar: float
    at_most: bool = False
    otherwise: str = ""
    sizes: Mapping[str, float] = field(factory=dict, eq=False)

    @property
    def head(self) -> str:
        """The beginning of its line in the table."""
        return f"| `{self.target}` | at {'most' if self.at_most else 'least'} {units.percent(self.bar)} of {self.of} |"

    def of_results(self, found: Sequence[Measured]) -> Measured | None:
        """The last of some results that the goal is about."""
        mine = [one for one in found if one.result.target == self.target]
        fitting = [one for one in mine if one.at(self.sizes)]
        return evolve(fitting[-1], others=mine) if fitting else None


def seconds(row: Row) -> float:
    """The median of a row that has one."""
    assert row.time_s is not None
    return row.time_s.value


def of_light(name: str | None = None) -> Figure:
    """The fraction of light of a row, or of the best variant."""

    def figure(measured: Measured) -> tuple[Row, float]:
        row = measured.row(name) if name else measured.best()
        if row.speed_of_light is None:
            raise NoFigureError
        return row, row.speed_of_light.fraction

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


def of_launches(measured: Measured) -> tuple[Row, float]:
    """The best variant's time as a share of what launching a kernel and waiting for it takes."""
    row, launch_s = measured.best(), measured.ceilings.launch_wait_s
    if launch_s is None:
        raise NoFigureError
    return row, seconds(row) / launch_s


def of_peers(measured: Measured) -> tuple[Row, float]:
    """What a rank sends of an all-reduce in a second, as a share of the slowest copy between two GPUs."""
    row, peers = measured.row("auto"), measured.ceilings.peer_bytes_per_s.values()
    if not peers:
        raise NoFigureError
    return row, measured.sent(measured.result.problem.bytes_read) / seconds(row) / min(peers)


OVERLAPPED = ("overlapped", "copy_engines")


def of_longer(measured: Measured) -> tuple[Row, float]:
    """The time of the faster overlapped step as a share of the longer of its two parts.

    Computing is the fastest step of one rank, which has nobody to talk to. Talking is all gradients at the rate of a
    large all-reduce.
    """
    row = first(sorted((one for one in measured.believed if one.name in OVERLAPPED), key=seconds))
    alone = [one for one in measured.others if one.ranks == 1]
    rate = measured.ceilings.all_reduce_bytes_per_s.get(str(measured.ranks))
    if not alone or rate is None:
        raise NoFigureError
    computing = min(seconds(one) for one in alone[-1].believed)
    return row, seconds(row) / max(computing, measured.sent(measured.result.problem.bytes_written) / rate)


GOALS = (
    Goal(target="ch01.batched_gemm", of="the time of `bmm`", figure=of_row("bmm"), bar=1.1, at_most=True),
    Goal(
        target="ch01.launch_overhead",
        of="the time of a launch that is waited for",
        figure=of_launches,
        bar=2.0,
        at_most=True,
    ),
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
        sizes={"n": 1 << 15},
    ),
    Goal(
        target="ch04.allreduce_small",
        of="the rate of a copy between GPUs, at 64 MiB",
        figure=of_peers,
        bar=0.8,
        sizes={"n": 1 << 25},
    ),
    Goal(
        target="ch04.ddp_overlap",
        of="the longer of computing and talking",
        figure=of_longer,
        bar=1.1,
        at_most=True,
        sizes={WORLD_SIZE: 2},
        otherwise="Gradients that travel beside products take something from them: multiprocessors, which copy engines leave alone; memory's "
        "bandwidth; and power, whose limit holds the clocks down already where one rank computes alone. The last gradient hides "
        "behind nothing. What share each of these has was not measured.",
    ),
)


def main() -> int:
    """Print the page, or renew it; 1 where a target is missing."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE")
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page to renew")
    asked = parser.parse_args()
    found = [one for path in asked.bundles for one in read(path)]
    before = asked.page.read_text().splitlines() if asked.page else []
    lines = {goal: line_of(goal, found) or standing(goal, before) for goal in GOALS}
    page = "".join(f"{line}\n" for line in page_of(lines))
    if asked.page:
        atomic.write(asked.page, page.encode())
    else:
        print(page, end="")
    missing = [goal for goal, line in lines.items() if line is None]
    for goal in missing:
        print(f"no result has: {goal.target}, {goal.of}", file=sys.stderr)
    return int(bool(missing))


def page_of(lines: Mapping[Goal, str | None]) -> Iterator[str]:
    """The page, by the lines of its table; None is a goal that nothing was measured of."""
    yield "# Goals"
    yield ""
    yield "What lessons are to reach on a GPU, and what they were measured to reach; ceilings are those of the same run."
    yield "Made by `benchmarks/goals.py` from results; no figure is typed."
    yield ""
    yield "| target | goal | reached | |"
    yield "| --- | --- | --- | --- |"
    for goal, line in lines.items():
        yield line or f"{goal.head} not measured | |"
    short = [goal for goal, line in lines.items() if line and line.endswith(NOT_MET)]
    if short:
        yield ""
        yield "## What holds the others back"
    for goal in short:
        yield ""
        yield f"`{goal.target}`: {goal.otherwise or 'not known.'}"


def read(path: Path) -> list[Measured]:
    """The complete results of a bundle on GPUs."""
    bundle = Bundle.open(path)
    results = [one for one in bundle.targets.values() if one.complete and one.device == "cuda"]
    return [Measured(one, bundle.manifest.ceilings["cuda"]) for one in results]


def standing(goal: Goal, page: Sequence[str]) -> str | None:
    """The line of a goal on a page that has a figure for it."""
    return next((line for line in page if line.startswith(goal.head) and line.endswith((MET, NOT_MET))), None)


def line_of(goal: Goal, found: Sequence[Measured]) -> str | None:
    """The line of a goal in the table; None where no result has its figure."""
    measured = goal.of_results(found)
    if measured is None:
        return None
    try:
        row, figure = goal.figure(measured)
    except (KeyError, NoFigureError):
        return None
    where = f"{measured.ceilings.device}, tier {measured.result.tier}, {measured.result.started[:10]}"
    met = figure <= goal.bar if goal.at_most else figure >= goal.bar
    return f"{goal.head} `{row.name}` {units.percent(figure)} ({where}) {MET if met else NOT_MET}"


if __name__ == "__main__":
    sys.exit(main())
