"""Bytes that the warps of each implementation ask memory for, and the gain that follows from them."""

from collections.abc import Iterator, Mapping, Sequence

from aiperf_core import units
from aiperf_core.benchmark import Benchmark, Params
from aiperf_core.measurements import Estimate
from aiperf_core.report import cell_text
from aiperf_core.report.marks import colours
from aiperf_core.report.result import Axis, Drawing, Figure, Point, Series, counted, figure
from aiperf_core.stats.expectations import Expectation
from aiperf_learn.mechanisms.addresses import SECTOR, footprint
from aiperf_learn.mechanisms.rehearsal import Launch, traced
from aiperf_learn.mechanisms.values import LANES

# Of a warp; a kernel with more has no picture of its bytes.
MOST_STEPS = 30_000
# Amounts that differ by less are one: blocks of a grid may have a round of a loop more or less.
ALIKE = 1.02


def bytes_of(launch: Launch) -> int | None:
    """Bytes of the sectors that all warps of a launch ask global memory for, before any cache; None if not known.

    All blocks are taken to do as the middle one, and its warps from the second on to do alike, which the last shows.
    """
    warps = -(-launch.threads // LANES)
    known: list[int] = []
    for warp in sorted({0, min(1, warps - 1), warps - 1}):
        each = _warp_bytes(launch, warp)
        if each is None:
            return None
        known.append(each)
    if known[-1] != known[min(1, len(known) - 1)]:
        return None
    return launch.blocks * (known[0] + (warps - 1) * known[-1])


def _warp_bytes(launch: Launch, warp: int) -> int | None:
    trace = traced(launch, warp=warp, most_steps=MOST_STEPS, is_cut=False)
    if not trace.is_whole:
        return None
    return SECTOR * sum(footprint(access).sectors for access in trace.accesses if access.space == "global")


def of_implementations(launches: Sequence[Launch]) -> dict[str, int]:
    """The bytes of each implementation of which all are known."""
    by_name: dict[str, list[int | None]] = {}
    for launch in launches:
        by_name.setdefault(launch.implementation, []).append(bytes_of(launch) if launch.is_all else None)
    return {name: sum(filter(None, each)) for name, each in by_name.items() if None not in each}


def drawings(
    target: str, benchmark: Benchmark, launches: Sequence[Launch], sizes: Params, stored: Mapping[str, Expectation]
) -> Iterator[Drawing]:
    """The bytes as bars, and their ratios beside the measured gains; nothing where all implementations move alike."""
    amounts = of_implementations(launches)
    if not amounts or max(amounts.values()) < ALIKE * min(amounts.values()):
        return
    least = benchmark.work(sizes)
    needed = least.bytes_read + least.bytes_written
    roles = [(each.name, each.role) for each in benchmark.implementations_on("cuda")]
    shared = colours(roles)
    shown = ", ".join(f"{name} {units.size(amount)}" for name, amount in amounts.items())
    yield Drawing(
        name=f"bytes-{target}",
        title="Bytes that warps ask memory for, before any cache",
        kind="bars",
        message=f"Sectors of 32 bytes that all loads and stores touch, if all blocks do as the middle one: {shown}.",
        x=Axis(title="bytes of a call", unit="B"),
        y=Axis(title="implementation", unit="count"),
        series=[
            Series(
                name="bytes",
                points=[
                    Point(label=name, x=counted(float(amount), "B"), y=counted(float(at), "count"), colour=shared[name])
                    for at, (name, amount) in enumerate(amounts.items())
                ],
            )
        ],
        borders={"least that the work needs": needed},
    )
    base = next((name for name, role in roles if role == "baseline"), "")
    gains = {name: amounts[base] / amount for name, amount in amounts.items() if name != base and base in amounts}
    measured = {name: stored[name] for name in gains if name in stored and stored[name].metric == "speedup"}
    if not measured:
        return
    yield Drawing(
        name=f"gains-{target}",
        title=f"Gain over {base} by bytes before the caches, and as measured",
        kind="intervals",
        message="; ".join(
            f"{name}: {cell_text.text(counted(gains[name]))} by bytes, {cell_text.text(counted(row.measured))} measured"
            for name, row in measured.items()
        ),
        x=Axis(title="gain, logarithmic", log=True),
        y=Axis(title="implementation", unit="count"),
        series=[
            Series(
                name="by bytes before the caches",
                points=[_point(name, counted(gains[name]), shared) for name in measured],
            ),
            Series(
                name="measured",
                points=[
                    _point(name, figure(Estimate(row.measured, row.low, row.high)), shared)
                    for name, row in measured.items()
                ],
            ),
        ],
    )


def _point(name: str, gain: Figure, shared: Mapping[str, str]) -> Point:
    return Point(label=name, x=gain, y=counted(None, "count"), colour=shared[name])
