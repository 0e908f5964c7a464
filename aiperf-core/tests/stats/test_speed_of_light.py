from typing import Any

import pytest
from attrs import asdict, evolve
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core import Cost
from aiperf_core.cost import FURTHER
from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Observations, SpeedOfLight
from aiperf_core.stats.speed_of_light import bound_times, compute_roof, groups_used, own_cost, speed_of_light, wire_roof

CEILINGS = Ceilings("made up", "today", 100.0, 80.0, 50.0, {"fp32": 1000.0, "bf16": 8000.0})


def cost(world_size: int = 1, nodes: int = 1, **amounts: Any) -> dict[str, Any]:
    return {**asdict(Cost(**amounts)), "world_size": world_size, "nodes": nodes}


def least_time(work: dict[str, Any], ceilings: Ceilings, cache: str, **how: bool) -> tuple[str, float] | None:
    """The resource that takes longest, and its time."""
    times = bound_times(work, ceilings, cache, **how)
    return max(times.items(), key=lambda pair: pair[1], default=None)


@pytest.mark.parametrize(
    ("work", "cache", "expected"),
    [
        # A balanced stream moves as a copy does.
        (cost(bytes_read=100, bytes_written=100), "cold", ("memory", 2.0)),
        (cost(bytes_read=80), "cold", ("memory", 1.0)),
        (cost(bytes_written=50), "cold", ("memory", 1.0)),
        (cost(bytes_read=100 + 80, bytes_written=100), "cold", ("memory", 3.0)),
        (cost(bytes_read=100, bytes_written=100 + 50), "cold", ("memory", 3.0)),
        (cost(flops=1000), "cold", ("compute", 1.0)),
        (cost(flops=8000, precision="bf16"), "cold", ("compute", 1.0)),
        (cost(flops=1000, bytes_read=160), "cold", ("memory", 2.0)),
        (cost(flops=3000, bytes_read=160), "cold", ("compute", 3.0)),
        # What lives in a cache of unknown size is bounded by arithmetic alone.
        (cost(flops=1000, bytes_read=160), "warm", ("compute", 1.0)),
        (cost(bytes_read=160), "warm", None),
        # No ceiling was measured for this precision.
        (cost(flops=1000, precision="fp8"), "cold", None),
        (cost(flops=1000, precision="fp8", bytes_read=80), "cold", ("memory", 1.0)),
        # No ceiling was measured for links and disks.
        (cost(2, wire_bytes=5), "cold", None),
        (cost(disk_read_bytes=5, disk_written_bytes=5), "cold", None),
    ],
)
def test_what_bounds_the_work(work: dict[str, Any], cache: str, expected: tuple[str, float] | None) -> None:
    assert least_time(work, CEILINGS, cache) == expected


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (cost(bytes_read=160), ("memory", 1.0)),  # 80 of them at 80 a second
        (cost(bytes_read=80, bytes_written=80), None),
        (cost(bytes_read=80, bytes_written=130), ("memory", 1.0)),  # 50 at 50 a second
        (cost(bytes_read=180, bytes_written=180), ("memory", 2.0)),
        (cost(flops=3000, bytes_read=160), ("compute", 3.0)),
        (cost(flops=500, bytes_read=160), ("memory", 1.0)),
    ],
)
def test_what_a_warm_cache_cannot_hold_moves(work: dict[str, Any], expected: tuple[str, float] | None) -> None:
    ceilings = evolve(CEILINGS, cache_bytes=80.0)
    assert least_time(work, ceilings, "warm") == expected
    cold, warm = (least_time(work, one, "cold") for one in (CEILINGS, ceilings))
    assert cold == warm


LINKED = evolve(CEILINGS, loopback_bytes_per_s=20.0, disk_read_bytes_per_s=10.0, disk_write_bytes_per_s=5.0)
PEERS = {"0-1": 40.0, "1-0": 30.0, "0-2": 10.0, "2-0": 10.0, "1-2": 10.0, "2-1": 10.0}


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (cost(2, wire_bytes=40), ("wire", 2.0)),
        (cost(2, wire_bytes=40, flops=3000), ("compute", 3.0)),
        # A rank that is alone sends nothing; no link between machines is measured.
        (cost(1, wire_bytes=40, flops=1000), ("compute", 1.0)),
        (cost(2, 2, wire_bytes=40, flops=1000), ("compute", 1.0)),
        (cost(disk_read_bytes=40), ("disk", 4.0)),
        (cost(disk_written_bytes=40), ("disk", 8.0)),
        # A disk may read and write at once.
        (cost(disk_read_bytes=40, disk_written_bytes=10), ("disk", 4.0)),
    ],
)
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_links_and_disks_bound_the_work(work: dict[str, Any], expected: tuple[str, float], cache: str) -> None:
    assert least_time(work, LINKED, cache) == expected


@pytest.mark.parametrize("work", [cost(2, wire_bytes=40, bytes_read=240), cost(disk_read_bytes=20, bytes_read=240)])
def test_the_longest_of_all_times_counts(work: dict[str, Any]) -> None:
    assert least_time(work, LINKED, "cold") == ("memory", 3.0)


@pytest.mark.parametrize("work", [cost(2, wire_bytes=40, flops=1000), cost(disk_read_bytes=40, flops=1000)])
def test_a_lossy_implementation_may_send_and_store_fewer_bits(work: dict[str, Any]) -> None:
    assert least_time(work, LINKED, "cold", lossy=True) == ("compute", 1.0)


@pytest.mark.parametrize(
    ("peers", "reduced", "ranks", "expected"),
    [
        (PEERS, {}, 2, 30.0),  # the slower of both directions
        (PEERS, {}, 3, 10.0),  # what the third GPU sends
        ({**PEERS, "2-all": 18.0}, {}, 3, 18.0),  # to both others at once
        ({**PEERS, "0-all": 70.0, "1-all": 60.0}, {}, 2, 30.0),  # of two ranks, each has a single peer
        (PEERS, {"2": 35.0, "3": 90.0}, 2, 35.0),
        (PEERS, {"2": 20.0}, 2, 30.0),
        ({}, {}, 2, None),
    ],
)
def test_what_a_rank_on_a_gpu_can_send(
    peers: dict[str, float], reduced: dict[str, float], ranks: int, expected: float | None
) -> None:
    ceilings = evolve(CEILINGS, peer_bytes_per_s=peers, all_reduce_bytes_per_s=reduced)
    assert wire_roof(ceilings, ranks) == expected


@pytest.mark.parametrize(
    ("work", "groups"),
    [
        (cost(flops=1), []),
        (cost(2, wire_bytes=1), ["wire"]),
        (cost(1, wire_bytes=1), []),
        (cost(2, 2, wire_bytes=1), []),
        (cost(2, wire_bytes=1, disk_written_bytes=1), ["wire", "disk"]),
        (cost(disk_read_bytes=1), ["disk"]),
        (cost(to_device_bytes=1, flops=1), ["transfers"]),
        (cost(from_device_bytes=1, shared_bytes=1), ["transfers", "on_chip"]),
        (cost(launches=1, sectors=1, special_functions=1, serial_steps=1), ["launches", "sectors", "special", "steps"]),
    ],
)
def test_a_cost_needs_the_ceilings_of_its_amounts(work: dict[str, Any], groups: list[str]) -> None:
    assert groups_used([work]) == groups
    assert groups_used([cost(flops=1), work, work]) == groups


ON_CHIP = evolve(
    CEILINGS,
    transfer_bytes_per_s={"pinned_to_device": 4.0, "pinned_from_device": 2.0, "pageable_to_device": 1.0},
    shared_bytes_per_s=500.0,
    graph_launch_s=0.25,
    launch_s=2.0,
    sectors_per_s=20.0,
    special_functions_per_s=50.0,
    serial_step_s=0.125,
)


@pytest.mark.parametrize("cache", ["cold", "warm"])
@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (cost(to_device_bytes=40, bytes_read=160), ("pcie", 10.0)),
        (cost(from_device_bytes=40), ("pcie", 20.0)),
        (cost(to_device_bytes=40, from_device_bytes=10), ("pcie", 10.0)),  # both directions at once
        (cost(shared_bytes=1000), ("shared", 2.0)),
        (cost(launches=12, flops=1000), ("launches", 3.0)),
        (cost(sectors=60), ("sectors", 3.0)),
        (cost(special_functions=200), ("special", 4.0)),
        (cost(serial_steps=16), ("steps", 2.0)),
        (cost(serial_steps=16, flops=3000), ("compute", 3.0)),
    ],
)
def test_the_other_limits_of_a_device_bound_the_work(
    work: dict[str, Any], expected: tuple[str, float], cache: str
) -> None:
    assert least_time(work, ON_CHIP, cache) == expected


@pytest.mark.parametrize("name", FURTHER)
def test_what_has_no_ceiling_bounds_nothing(name: str) -> None:
    assert bound_times(cost(2, flops=1000, **{name: 1e9}), CEILINGS, "cold") == {"compute": 1.0}


@pytest.mark.parametrize("name", ["to_device_bytes", "from_device_bytes", "shared_bytes"])
def test_a_lossy_implementation_may_move_fewer_bits(name: str) -> None:
    assert bound_times(cost(flops=1000, **{name: 9000}), ON_CHIP, "cold", lossy=True) == {"compute": 1.0}


def test_an_implementation_has_the_amounts_that_it_declares() -> None:
    work = cost(flops=8000, bytes_read=80, launches=2)
    lossy = Observations("half", "variant", "cuda", precision="bf16", least_work={"bytes_read": 40.0})
    assert own_cost(work, lossy) == {**work, "precision": "bf16", "bytes_read": 40.0}
    assert own_cost(work, Observations("plain", "variant", "cuda")) == work


def test_the_fraction_of_light() -> None:
    assert speed_of_light(cost(bytes_read=80), CEILINGS, "cold", 4.0) == SpeedOfLight("memory", 1.0, 0.25)
    assert speed_of_light(cost(bytes_read=80), CEILINGS, "cold", 0.5) == SpeedOfLight("memory", 1.0, 2.0)


def test_without_ceilings_or_a_bound_there_is_no_fraction() -> None:
    assert speed_of_light(cost(bytes_read=80), None, "cold", 4.0) is None
    assert speed_of_light(cost(bytes_read=80), CEILINGS, "warm", 4.0) is None


def test_the_roof_of_a_precision_is_the_better_of_products_and_multiply_adds() -> None:
    ceilings = evolve(CEILINGS, vector_flop_per_s={"fp32": 1200.0, "fp64": 300.0})
    assert compute_roof(ceilings, "fp32") == 1200.0
    assert compute_roof(ceilings, "bf16") == 8000.0
    assert compute_roof(ceilings, "fp64") == 300.0
    assert compute_roof(ceilings, "fp8") is None
    assert least_time(cost(flops=1200), ceilings, "cold") == ("compute", 1.0)


AMOUNTS = st.integers(0, 10**15)


@given(AMOUNTS, AMOUNTS, AMOUNTS, st.integers(1, 10**6))
def test_more_work_never_takes_less_time(read: int, written: int, flops: int, more: int) -> None:
    nothing = cost(flops=1)
    work = {**nothing, "bytes_read": read, "bytes_written": written, "flops": flops}
    bound = least_time(work, CEILINGS, "cold")
    for name in ("flops", "bytes_read", "bytes_written"):
        longer = least_time({**work, name: work[name] + more}, CEILINGS, "cold")  # type: ignore[operator]
        assert longer is not None
        # Exact but for rounding: these ceilings make a byte of a copy cost no less than one that is only written.
        assert bound is None or longer[1] >= bound[1] * (1 - 1e-12)
