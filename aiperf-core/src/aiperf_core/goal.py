"""Goal: a figure that a target is to reach, declared with `bench.reach`.

A goal holds a figure of one implementation against a ceiling of the machine or against another implementation:

| `of` | the figure |
| --- | --- |
| `SOL` | the speed of light of the whole cost divided by the time |
| `BW` | declared bytes read and written per second, as a share of the rate of a copy |
| `RBW`, `WBW` | declared bytes read, or written, per second, as a share of the rate of a read, or a fill |
| `MM:bf16` | declared operations per second, as a share of matrix products of that precision |
| `FMA:fp32` | declared operations per second, as a share of fused multiply-adds of that precision |
| `SMBW`, `CACHE` | declared bytes per second, as a share of reads from shared memory, from the last-level cache |
| `LAT`, `GRAPH` | the time, as a multiple of an empty kernel that the host waits for, of one within a graph |
| `P2P` | declared `wire_bytes` per second, as a share of the slowest copy between two GPUs |
| `ALLREDUCE` | declared `wire_bytes` per second, as a share of the bus bandwidth of a large all-reduce |
| `PCI` | declared bytes read per second, as a share of pinned copies to the device |
| `DISK` | declared `disk_bytes` per second, as a share of the disk's rate |
| `time:NAME` | the time, as a multiple of that of NAME; of `time:A,B` of the longer of both |
| `speedup` | the baseline's time divided by the time |
| `memory:NAME` | the peak memory, as a multiple of that of NAME |
"""

import math
import re

from attrs import frozen

from aiperf_core.cost import PRECISIONS
from aiperf_core.errors import BenchmarkError

CEILINGS = (
    "SOL",
    "BW",
    "RBW",
    "WBW",
    "SMBW",
    "CACHE",
    "LAT",
    "GRAPH",
    "P2P",
    "ALLREDUCE",
    "PCI",
    "DISK",
)
RATES_OF = ("MM", "FMA")
RELATIVES = ("time", "memory")
ACCEPTED = (
    f"{', '.join(CEILINGS)}, speedup, {' or '.join(f'{one}:PRECISION' for one in RATES_OF)} with "
    f"{', '.join(PRECISIONS)}, and {' or '.join(f'{one}:IMPLEMENTATION' for one in RELATIVES)}"
)
# What may show the cause of a missed goal.
SHOWN_BY = ("counter", "sass", "trace", "variant")

_NAMES = re.compile(r"[A-Za-z_]\w*(,[A-Za-z_]\w*)*")


@frozen(kw_only=True)
class Goal:
    """A figure that a target is to reach on one kind of device.

    of: the figure, see the table above.
    bar: the figure's least value, or with `at_most` its largest.
    device: the kind of device.
    implementation: the implementation that must reach it; None for the fastest believed variant.
    size: the preset of sizes; the device's own by default.
    params: sizes that replace those of the preset, such as `{"world_size": 2}`.
    cause: why the goal is missed, as a measurement shows.
    shown_by: the measurement, as `counter:NAME`, `sass:WHAT`, `trace:WHAT` or `variant:NAME`.
    """

    of: str
    bar: float
    at_most: bool
    device: str = "cuda"
    implementation: str | None = None
    size: str | None = None
    params: tuple[tuple[str, float], ...] = ()
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


def goal(
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
        or (kind in RELATIVES and _NAMES.fullmatch(rest))
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
    return Goal(
        of=of,
        bar=bars[0],
        at_most=at_most is not None,
        cause=cause,
        shown_by=shown_by,
        **where,  # type: ignore[arg-type]
    )
