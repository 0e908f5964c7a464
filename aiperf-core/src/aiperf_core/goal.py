"""Goal: a figure that a target is to reach, declared with `bench.reach`.

A goal holds a figure of one implementation against a ceiling of the machine or against another implementation:

| `of` | the figure |
| --- | --- |
| `SOL` | the speed of light of the whole cost divided by the time |
| `BW` | declared bytes read and written per second, as a share of the rate of a copy |
| `RBW`, `WBW` | declared bytes read, or written, per second, as a share of the rate of a read, or a fill |
| `MM:bf16` | declared operations per second, as a share of matrix products of that precision |
| `FMA:fp32` | declared operations per second, as a share of fused multiply-adds of that precision |
| `FMA3:fp32` | the same of multiply-adds with three registers as operands, which code that computes executes |
| `CACHE` | declared bytes per second, as a share of reads from the last-level cache |
| `SMBW` | declared `shared_bytes` per second, as a share of reads from shared memory |
| `LAT`, `GRAPH` | the time, as a multiple of an empty kernel that the host waits for, of one within a graph |
| `P2P` | declared `wire_bytes` per second, as a share of the slowest copy between two GPUs |
| `ALLREDUCE` | declared `wire_bytes` per second, as a share of the bus bandwidth of a large all-reduce |
| `PCI` | declared `to_device_bytes` per second, as a share of pinned copies to the device |
| `DISK` | declared `disk_read_bytes` or `disk_written_bytes` per second, as a share of the disk's rate |
| `time:NAME` | the time, as a multiple of that of NAME; of `time:A,B` of the longer of both |
| `speedup` | the baseline's time divided by the time |
| `memory:NAME` | the peak memory, as a multiple of that of NAME |
"""

import math
import re
from collections.abc import Iterable

from attrs import field, frozen

from aiperf_core import units
from aiperf_core.ceiling_groups import GROUPS
from aiperf_core.cost import PRECISIONS
from aiperf_core.errors import BenchmarkError
from aiperf_core.targets import is_name

# The ceilings that a figure is a share of, and those that it is a multiple of, in the words of a report.
SHARES = {
    "SOL": "the speed of light",
    "BW": "the rate of a copy",
    "RBW": "the rate of a read",
    "WBW": "the rate of a fill",
    "SMBW": "the rate of shared memory",
    "CACHE": "the rate of the last-level cache",
    "P2P": "the rate of a copy between GPUs",
    "ALLREDUCE": "the bus bandwidth of a large all-reduce",
    "PCI": "the rate of pinned copies to the device",
    "DISK": "the rate of the disk",
}
MULTIPLES = {
    "LAT": "the time of an empty kernel that the host waits for",
    "GRAPH": "the time of an empty kernel within a graph",
}
CEILINGS = (*SHARES, *MULTIPLES)
RATES_OF = {
    "MM": "the rate of {} matrix products",
    "FMA": "the rate of {} multiply-adds",
    "FMA3": "the rate of {} multiply-adds of three registers",
}
RELATIVES = ("time", "memory")
ACCEPTED = (
    f"{', '.join(CEILINGS)}, speedup, {' or '.join(f'{one}:PRECISION' for one in RATES_OF)} with "
    f"{', '.join(PRECISIONS)}, and {' or '.join(f'{one}:IMPLEMENTATION' for one in RELATIVES)}"
)
# What may show the cause of a missed goal.
SHOWN_BY = ("counter", "sass", "trace", "variant", "size")

_NAMES = re.compile(r"[A-Za-z_]\w*(,[A-Za-z_]\w*)*")


@frozen(kw_only=True)
class Goal:
    """A figure that a target is to reach on one kind of device.

    of: the figure, see the table above.
    bar: the figure's least value, or with `at_most` its largest.
    device: the kind of device.
    implementation: the implementation that must reach it; None for the fastest believed variant, of `memory:NAME` for
        the one with the least peak memory.
    size: the preset of sizes; the device's own by default.
    params: sizes that replace those of the preset, such as `{"world_size": 2}`.
    launches: of `LAT` and `GRAPH`, the number of kernels among which the time is divided.
    cause: why the goal is missed, as a measurement shows.
    shown_by: the measurement, as `counter:NAME`, `sass:WHAT`, `trace:WHAT`, `variant:NAME` or `size:NAME=NUMBER`.
    """

    of: str
    bar: float
    at_most: bool
    device: str = "cuda"
    implementation: str | None = None
    size: str | None = None
    params: dict[str, float] = field(factory=dict)
    launches: int = 1
    cause: str = ""
    shown_by: str = ""

    @property
    def kind(self) -> str:
        """`time` of `time:NAME`, `MM` of `MM:bf16`; else `of` itself."""
        return self.of.partition(":")[0]

    @property
    def others(self) -> tuple[str, ...]:
        """The implementations that the figure is relative to."""
        kind, _, names = self.of.partition(":")
        return tuple(names.split(",")) if kind in RELATIVES else ()

    @property
    def precision(self) -> str:
        """The precision of a goal on arithmetic, else empty."""
        kind, _, precision = self.of.partition(":")
        return precision if kind in RATES_OF else ""

    @property
    def preset(self) -> str:
        """The preset of sizes that the goal is about."""
        return self.size or self.device

    @property
    def is_share(self) -> bool:
        """Whether the figure is a share of a rate, shown in per cent; else it is a multiple."""
        return self.of in SHARES or self.kind in RATES_OF

    def __str__(self) -> str:
        bar = f"{100 * self.bar:.6g} % of" if self.is_share else f"{self.bar:.6g}x"
        sizes = [f"size {self.size}"] if self.size else []
        sizes += [f"{name}={units.parameter(value)}" for name, value in self.params.items()]
        where = f" at {', '.join(sizes)}" if sizes else ""
        where += f", for each of {self.launches:,} launches" if self.launches > 1 else ""
        return f"at {'most' if self.at_most else 'least'} {bar} {self._reference()}{where}"

    def _reference(self) -> str:
        """The object of the comparison, in words."""
        if self.of == "speedup":
            return "the speed of the baseline"
        if self.kind in RATES_OF:
            return RATES_OF[self.kind].format(self.precision)
        if self.kind == "memory":
            return f"the peak memory of {self.others[0]}"
        if self.kind == "time":
            names = " and ".join(self.others)
            return f"the time of {names}" if len(self.others) == 1 else f"the longest time of {names}"
        return {**SHARES, **MULTIPLES}[self.of]


def groups_of(goals: Iterable[Goal], device: str) -> set[str]:
    """The groups of ceilings that goals on a device need."""
    kinds = {goal.kind for goal in goals if goal.device == device}
    return {name for name, group in GROUPS.items() if kinds & {*group.goals}}


def make_goal(
    *,
    of: str,
    at_least: float | None,
    at_most: float | None,
    cause: str = "",
    shown_by: str = "",
    **where: object,
) -> Goal:
    """Make a `Goal`. Raises `BenchmarkError` for a figure, a bar or a cause that is none."""
    kind, _, rest = of.partition(":")
    known = (
        of in (*CEILINGS, "speedup")
        or (kind in RATES_OF and rest in PRECISIONS)
        or (kind == "time" and _NAMES.fullmatch(rest))
        or (kind == "memory" and is_name(rest))
    )
    if not known:
        raise BenchmarkError(f"has a goal of {of!r}; accepted are {ACCEPTED}")
    bars = [bar for bar in (at_least, at_most) if bar is not None]
    if len(bars) != 1 or isinstance(bars[0], bool) or not 0 < bars[0] < math.inf:
        raise BenchmarkError(
            f"has a goal with at_least={at_least!r} and at_most={at_most!r}; give one of them, a number above 0"
        )
    if bool(cause) != bool(shown_by) or (shown_by and shown_by.partition(":")[0] not in SHOWN_BY):
        accepted = ", ".join(f"{one}:..." for one in SHOWN_BY)
        raise BenchmarkError(
            f"has a goal with cause={cause!r} and shown_by={shown_by!r}; a cause needs the measurement that shows it: "
            f"{accepted}"
        )
    launches = where.get("launches", 1)
    if type(launches) is not int or launches < 1 or (launches > 1 and of not in MULTIPLES):
        accepted = f"a whole number from 1, of {', '.join(MULTIPLES)}"
        raise BenchmarkError(f"has a goal of {of!r} with launches={launches!r}; accepted is {accepted}")
    return Goal(
        of=of,
        bar=bars[0],
        at_most=at_most is not None,
        cause=cause,
        shown_by=shown_by,
        **where,  # type: ignore[arg-type]
    )
