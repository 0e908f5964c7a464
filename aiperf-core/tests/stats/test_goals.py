"""The figures of goals, from results whose times are known."""

from typing import Any

import attrs
import measured
import pytest

from aiperf_core.goal import make_goal
from aiperf_core.measurements import Ceilings, Estimate, Memory
from aiperf_core.results.models import Problem, TargetResult, Verdict
from aiperf_core.stats.goals import NoFigureError, Reached, figure_of

SIZES = {"n": 1024, "world_size": 2}
# Each figure is about 1 at a time of 1 ms for the amounts of `PROBLEM`.
CEILINGS = Ceilings(
    "made-up GPU",
    "2026-01-01T00:00:00+00:00",
    copy_bytes_per_s=5e9,
    read_bytes_per_s=2e9,
    write_bytes_per_s=3e9,
    flop_per_s={"bf16": 7e9},
    vector_flop_per_s={"fp32": 7e9},
    multiply_add_flop_per_s={"fp32": 7e9},
    shared_bytes_per_s=5e9,
    cache_bytes_per_s=5e9,
    launch_wait_s=1e-3,
    graph_launch_s=1e-3,
    transfer_bytes_per_s={"pinned_to_device": 2e9, "pageable_to_device": 1e9},
    peer_bytes_per_s={"0-1": 11e9, "1-0": 12e9, "0-all": 1e9},
    all_reduce_bytes_per_s={"2": 11e9, "4": 1.0},
)
PROBLEM = Problem(
    "cuda",
    {**SIZES},
    2e6,
    3e6,
    7e6,
    "bf16",
    "exact",
    1,
    1,
    wire_bytes=11e6,
    world_size=2,
    shared_bytes=5e6,
    to_device_bytes=2e6,
)
NO_DISK = "its run has no ceiling DISK; on that machine run aiperf ceilings first, then run the target again"


def result(changes: Any = None, **factors: float) -> TargetResult:
    """A result in which each row takes `factor` times 1 ms; the baseline takes 2 ms."""
    times = {"strided": 2.0, "coalesced": 1.0, "memcpy": 1.25, **factors}
    found: TargetResult = measured.result(1, {name: factor / 4 for name, factor in times.items()})
    return attrs.evolve(found, **{"problem": PROBLEM, **(changes or {})})


def figure(of: str, found: TargetResult | None = None, ceilings: Ceilings | None = CEILINGS, **given: Any) -> Reached:
    goal = make_goal(of=of, at_least=1, at_most=None, **given)
    return figure_of(goal, SIZES, found or result(), ceilings)


def refusal(of: str, found: TargetResult | None = None, ceilings: Ceilings | None = CEILINGS, **given: Any) -> str:
    with pytest.raises(NoFigureError) as caught:
        figure(of, found, ceilings, **given)
    return str(caught.value)


CEILED = [
    "BW",
    "RBW",
    "WBW",
    "MM:bf16",
    "FMA:fp32",
    "FMA3:fp32",
    "SMBW",
    "CACHE",
    "LAT",
    "GRAPH",
    "P2P",
    "ALLREDUCE",
    "PCI",
]


@pytest.mark.parametrize("of", CEILED)
def test_a_figure_against_a_ceiling(of: str) -> None:
    reached = figure(of)
    assert reached.implementation == "coalesced"
    assert reached.figure.value == pytest.approx(1, rel=0.002)
    assert reached.figure.low < reached.figure.value < reached.figure.high
    # A share falls with the time, a multiple rises with it.
    slower = figure(of, implementation="strided").figure.value
    assert slower == pytest.approx(2 if of in ("LAT", "GRAPH") else 0.5, rel=0.002)


@pytest.mark.parametrize("of", CEILED)
def test_the_interval_is_that_of_the_time(of: str) -> None:
    time = next(row.time_s for row in result().rows if row.name == "coalesced")
    assert time is not None
    low, high = (time.low, time.high) if of in ("LAT", "GRAPH") else (1e-6 / time.high, 1e-6 / time.low)
    found = figure(of).figure
    assert found.low == pytest.approx(low * 1e3)
    assert found.high == pytest.approx(high * 1e3)


@pytest.mark.parametrize("of", CEILED)
def test_without_its_ceiling_there_is_no_figure(of: str) -> None:
    none = {"shared_bytes_per_s": None, "cache_bytes_per_s": None, "launch_wait_s": None, "graph_launch_s": None}
    empty = {name: {} for name in ("flop_per_s", "vector_flop_per_s", "multiply_add_flop_per_s")} | {
        name: {} for name in ("peer_bytes_per_s", "all_reduce_bytes_per_s")
    }
    zero = {f"{name}_bytes_per_s": 0.0 for name in ("copy", "read", "write")}
    ceilings = attrs.evolve(CEILINGS, **none, **empty, **zero, transfer_bytes_per_s={"pageable_to_device": 1.0})
    expected = f"its run has no ceiling {of}; on that machine run aiperf ceilings first, then run the target again"
    assert refusal(of, ceilings=ceilings) == refusal(of, ceilings=None) == expected


def test_a_fraction_of_the_speed_of_light() -> None:
    found = result()
    row = next(row for row in found.rows if row.name == "coalesced")
    assert row.speed_of_light is not None
    assert figure("SOL", found).figure.value == pytest.approx(row.speed_of_light.fraction)
    dark = [attrs.evolve(row, speed_of_light=None) for row in found.rows]
    expected = "coalesced has no speed of light; its run lacks the ceilings: aiperf ceilings"
    assert refusal("SOL", attrs.evolve(found, rows=dark)) == expected


def test_the_longer_of_disk_reads_and_writes_counts() -> None:
    disk = attrs.evolve(CEILINGS, disk_read_bytes_per_s=1e9, disk_write_bytes_per_s=2e9)
    read = result({"problem": attrs.evolve(PROBLEM, disk_read_bytes=5e5)})
    both = result({"problem": attrs.evolve(PROBLEM, disk_read_bytes=5e5, disk_written_bytes=2e6)})
    assert figure("DISK", read, disk).figure.value == pytest.approx(0.5, rel=0.002)
    assert figure("DISK", both, disk).figure.value == pytest.approx(1, rel=0.002)
    assert refusal("DISK", both) == NO_DISK
    half = attrs.evolve(CEILINGS, disk_read_bytes_per_s=1e9)
    assert refusal("DISK", both, half) == NO_DISK
    assert refusal("DISK", result(), disk) == "its cost declares no disk_read_bytes and no disk_written_bytes"


def test_a_cost_that_declares_none_of_it() -> None:
    silent = attrs.evolve(PROBLEM, wire_bytes=0.0, flops=0.0)
    assert refusal("P2P", result({"problem": silent})) == "its cost declares no wire_bytes"
    assert refusal("MM:bf16", result({"problem": silent})) == "its cost declares no flops"


def test_a_time_relative_to_others() -> None:
    assert figure("time:memcpy").figure.value == pytest.approx(0.8, rel=0.002)
    # The longest of both counts.
    for of in ("time:memcpy,strided", "time:strided,memcpy"):
        assert figure(of).figure.value == pytest.approx(0.5, rel=0.002)
    assert figure("speedup").figure.value == pytest.approx(2, rel=0.002)


def test_a_ratio_without_samples_has_the_widest_interval() -> None:
    found = result()
    bare = [attrs.evolve(row, samples=type(row.samples)()) for row in found.rows]
    paired, wide = figure("time:memcpy", found).figure, figure("time:memcpy", attrs.evolve(found, rows=bare)).figure
    one, other = (next(row.time_s for row in found.rows if row.name == name) for name in ("coalesced", "memcpy"))
    assert one is not None
    assert other is not None
    assert wide == Estimate(one.value / other.value, one.low / other.high, one.high / other.low)
    assert wide.low < paired.low < paired.high < wide.high


def test_peak_memory_relative_to_another_row() -> None:
    found = result(wide=3.0)
    peaks = {"strided": 100, "coalesced": 60, "wide": 50}
    rows = [attrs.evolve(row, memory=Memory(peak_bytes=peaks.get(row.name))) for row in found.rows]
    found = attrs.evolve(found, rows=rows)
    assert figure("memory:strided", found) == Reached("wide", Estimate(0.5, 0.5, 0.5))
    assert figure("memory:strided", found, implementation="coalesced").figure.value == 0.6
    assert refusal("memory:memcpy", found) == "the peak memory of memcpy was not measured"


def test_the_best_variant_is_the_fastest_that_is_believed() -> None:
    found = result(quick=0.5)
    assert figure("BW", found).implementation == "quick"
    rows = [
        attrs.evolve(row, verdict=Verdict.UNTRUSTED, reason="clocks") if row.name == "quick" else row
        for row in found.rows
    ]
    found = attrs.evolve(found, rows=rows)
    assert figure("BW", found).implementation == "coalesced"
    assert refusal("BW", found, implementation="quick") == "quick is UNTRUSTED, which is not believed"
    skipped = [
        attrs.evolve(row, verdict=Verdict.SKIPPED, reason="needs sm_100") if row.name == "quick" else row
        for row in found.rows
    ]
    why = refusal("BW", attrs.evolve(found, rows=skipped), implementation="quick")
    assert why == "quick did not run: needs sm_100"
    none = [row for row in found.rows if row.name not in ("coalesced", "strided", "memcpy")]
    expected = "no variant is believed (quick UNTRUSTED, remembered INVALID)"
    assert refusal("BW", attrs.evolve(found, rows=none)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"device": "cpu"}, "the run was on cpu; this goal is for cuda"),
        ({"complete": False}, "the run was interrupted"),
        (
            {"problem": attrs.evolve(PROBLEM, params={"n": 2048, "world_size": 2})},
            "measured at other sizes (n=2,048, world_size=2)",
        ),
    ],
)
def test_a_result_that_the_goal_is_not_about(changes: dict[str, Any], expected: str) -> None:
    assert refusal("BW", result(changes)) == expected


def test_rows_that_are_not_there() -> None:
    assert refusal("BW", implementation="fused") == "fused was not measured"
    assert refusal("time:fused") == "fused was not measured"
    assert refusal("speedup", implementation="strided") == "strided is the baseline, which has no speedup"
    timeless = [attrs.evolve(row, time_s=None) for row in result().rows]
    expected = "coalesced has too few samples for an interval"
    assert refusal("BW", attrs.evolve(result(), rows=timeless), implementation="coalesced") == expected
