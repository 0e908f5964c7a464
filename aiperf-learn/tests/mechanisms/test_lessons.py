"""Pictures of the lessons: what they count is what the lessons claim, and every lesson has one."""

import re

import pytest

from aiperf_ch07 import access_patterns
from aiperf_core.kernels.resources import Resources
from aiperf_core.loading import load_benchmark
from aiperf_core.plugins import load_plugins
from aiperf_core.report.picture import picture
from aiperf_learn import mechanisms
from aiperf_learn.mechanisms import addresses, occupancy, traffic
from aiperf_learn.mechanisms.rehearsal import launches, reader_of, sources_of, traced
from aiperf_learn.mechanisms.warp import Access

TARGETS = {target.name: target for target in load_plugins().targets}
LESSONS = [name for name in TARGETS if re.match(r"ch(0[6-9]|1[0-2])\.", name)]
CLAIMED = ("memory_access", "vectorized_copy", "aos_soa", "transpose", "gather")


def launched(name):
    """The launches of a target's implementations at the sizes for GPUs."""
    target = TARGETS[name]
    benchmark = load_benchmark(target)
    sizes = benchmark.task.presets["cuda"]
    made = {}
    for implementation in benchmark.implementations_on("cuda"):
        found, _ = launches(benchmark, implementation, sources_of(target.module), sizes)
        made |= {launch.recorded.kernel: (benchmark, sizes, launch) for launch in found}
    return made


def mean_sectors(trace, kind):
    found = [access for access in trace.accesses if access.space == "global" and access.kind == kind]
    return sum(addresses.footprint(access).sectors for access in found) / len(found) if found else None


@pytest.mark.parametrize("name", CLAIMED)
def test_sectors_of_a_request_are_those_that_the_chapter_predicts(name):
    compared = 0
    for kernel, (benchmark, sizes, launch) in launched(f"ch07.{name}").items():
        pattern = access_patterns.predicted(f"ch07.{name}", kernel)
        trace = traced(launch)
        if trace.needs_values and launch.is_ready:
            trace = traced(launch, reader_of(benchmark, sizes))
        if not trace.is_whole or not (pattern.loads or pattern.stores):
            continue
        assert mean_sectors(trace, "load") == pattern.sectors_per_load, kernel
        assert mean_sectors(trace, "store") == pattern.sectors_per_store, kernel
        compared += 1
    assert compared >= 3


def test_passes_of_shared_memory_are_those_of_the_lesson_of_bank_conflicts():
    passes = {}
    for kernel, (_, _, launch) in launched("ch06.bank_conflicts").items():
        shared = [access for access in traced(launch).accesses if access.space == "shared"]
        # The first 32 stores fill the tile; then a pass loads a row a lane, and stores a column.
        loads = [access for access in shared[32:] if access.kind == "load"]
        first = loads[: 128 // loads[0].width]
        passes[kernel] = sum(addresses.footprint(access).passes for access in first)
        assert {addresses.footprint(access).passes for access in shared if access.kind == "store"} == {1}
    assert passes == {"one_bank32": 32 * 32, "merged32": 8 * 32, "padded32": 32, "swizzled32": 32}


@pytest.mark.parametrize(("width", "offset", "passes"), [
    (4, lambda lane: 4 * lane, 1),
    (4, lambda lane: 0, 1),
    (4, lambda lane: 8 * lane, 2),
    (2, lambda lane: 2 * lane, 1),
    (8, lambda lane: 8 * lane, 2),
    (16, lambda lane: 16 * lane, 4),
    # Quarter warps are served one after the other, though the four together would meet other banks.
    (16, lambda lane: lane % 8 * 128 + lane // 8 * 16, 32),
])  # fmt: skip
def test_passes_are_counted_by_banks_and_by_the_width_of_an_access(width, offset, passes):
    offsets = tuple(map(offset, range(32)))
    access = Access(site=(), kind="load", memory="tile", space="shared", width=width, offsets=offsets)
    assert addresses.footprint(access).passes == passes


def test_bytes_of_a_softmax_are_its_units_of_traffic():
    amounts = {}
    for _, _, launch in launched("ch09.softmax_online").values():
        amounts[launch.implementation] = traffic.bytes_of(launch)
    unit = 2 * 8192 * 32768
    assert {name: amount / unit for name, amount in amounts.items()} == {
        "three_passes": 4, "online": 3, "resident": 2,
    }  # fmt: skip


@pytest.mark.parametrize(("registers", "shared", "threads", "blocks"), [
    (32, 0, 256, 8), (33, 0, 256, 6), (128, 0, 256, 2), (255, 0, 256, 1), (16, 0, 1024, 2), (40, 0, 32, 32),
    (32, 65536, 512, 3), (32, 32768, 512, 4), (32, 131072, 512, 1), (32, 233472, 512, 0), (168, 0, 384, 1),
])  # fmt: skip
def test_blocks_of_a_multiprocessor_are_limited_by_registers_shared_memory_warps_and_places(
    registers, shared, threads, blocks
):
    assert occupancy.blocks_of(Resources(registers, 0, 0), threads, shared) == blocks


@pytest.mark.parametrize("name", LESSONS)
def test_every_lesson_has_a_picture_that_can_be_drawn(name):
    drawings = mechanisms.drawings(TARGETS[name], load_benchmark(TARGETS[name]))
    assert drawings
    assert len({drawing.name for drawing in drawings}) == len(drawings)
    for drawing in drawings:
        assert drawing.message
        assert picture(drawing).shapes
