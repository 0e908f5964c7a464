"""The kernels that divide squares, on the host: all of them give the integral, and all look at the same squares."""

from typing import Any

import torch

from aiperf_ch12.dynamic_parallelism import bench, reference
from aiperf_core.benchmark import call_with

SIZES: dict[str, Any] = dict(bench.task.presets["smoke"])


def test_flat_levels_and_queue_give_the_integral(emulated: Any) -> None:
    code, sizes = emulated("dynamic_parallelism.cu"), SIZES
    given = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(3)}
    assert bench.task.static is not None
    heights = call_with(bench.task.inputs, given)["heights"]
    centres = call_with(bench.task.static, given)["centres"]
    regions, deepest, room = sizes["regions"], sizes["deepest"], sizes["room"]
    expected = reference(heights.double(), centres.double(), regions, sizes["log2_narrow"])
    peaks = (centres, heights, len(heights), sizes["log2_narrow"], regions, deepest)
    near = {"rtol": 1e-3, "atol": 1e-3 * float(expected.square().mean().sqrt())}

    out = torch.zeros(regions, regions)
    code.launch("flat", out, *peaks, grid=(regions**2, 1), threads=256)
    torch.testing.assert_close(out.double(), expected, **near)

    number = torch.arange(regions**2)
    families = torch.zeros(room, dtype=torch.int64)
    families[: regions**2] = (number // regions * (1 << 28) | number % regions) + 1
    counts, listed = torch.tensor([regions**2, *[0] * deepest], dtype=torch.int32), families.clone()
    by_level = torch.zeros(regions, regions)
    for level in range(deepest):
        given_level = by_level, listed, counts, *peaks, sizes["digits"], level, room
        code.launch("level", *given_level, grid=(3, 1), threads=64)
    torch.testing.assert_close(by_level.double(), expected, **near)
    assert counts[1] > 0
    assert counts[-1] == 0

    for seed in range(2):
        taken, queued = families.clone(), torch.zeros(regions, regions)
        state = torch.tensor([0, regions**2, regions**2], dtype=torch.int32)
        given_queue = queued, taken, state, *peaks, sizes["digits"], room
        code.launch("queue", *given_queue, grid=(3, 1), threads=32, at_once=1, seed=seed)
        torch.testing.assert_close(queued.double(), expected, **near)
        assert state.tolist()[1:] == [int(counts.sum()), 0]
        assert sorted(taken.tolist()) == sorted(listed.tolist())
