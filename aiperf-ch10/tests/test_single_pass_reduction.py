"""The kernels of the reduction, on the host."""

from typing import Any

import pytest
import torch


def test_every_way_to_meet_gives_the_sums_again_and_again(emulated: Any) -> None:
    code, rows = emulated("single_pass_reduction.cu"), 3
    for columns in (1, 1023, 40000):
        a = torch.rand(rows, columns) - 0.5
        expected, out = a.double().sum(1).float(), torch.empty(rows)
        counters, arrivals = torch.zeros(rows, dtype=torch.int32), torch.zeros(1, dtype=torch.int64)
        partials = torch.full((rows * 8,), torch.nan)
        launched = {
            "last_block": (a, partials, out, counters, columns),
            "grid_barrier": (a, partials, out, arrivals, columns),
            "atomic": (a, out, columns),
            "cluster": (a, partials, out, counters, columns),
        }
        for name, args in launched.items():
            for seed in range(3):  # what a launch leaves in its counters must suit the next
                out.fill_(0.0 if name == "atomic" else torch.nan)
                cluster = 8 if name == "cluster" else 1
                code.launch(name, *args, grid=(8, rows), threads=256, cluster=cluster, at_once=1, seed=seed)
                torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-3)


@pytest.mark.gpu
def test_the_last_block_adds_in_the_same_order_every_time() -> None:
    from aiperf_ch10.single_pass_reduction import one_launch

    a = torch.rand(16, 1 << 20, device="cuda") - 0.5
    last_block = one_launch("last_block")()
    last_block.prepare(a=a, rows=16, columns=1 << 20)
    first = last_block.run(a=a, columns=1 << 20).clone()
    assert all(torch.equal(first, last_block.run(a=a, columns=1 << 20)) for _ in range(20))
