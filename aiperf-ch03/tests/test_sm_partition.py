"""The kernels of sm_partition, on the host."""

from typing import Any

import torch

from aiperf_ch03.sm_partition import THREADS, TILE, reference


def test_blocks_take_every_tile_once_and_steps_add_up(emulated: Any) -> None:
    code, rounds, steps = emulated("sm_partition.cu"), 203, 3
    for n, batch in ((1, 1), (257, 5 * TILE), (515, 5 * TILE + 1)):
        x, queued = torch.randn(n), torch.randn(batch)
        total, out = torch.zeros(n), torch.full((batch,), torch.nan)
        running, taken = (torch.zeros(1, dtype=torch.int32) for _ in range(2))
        given = running.data_ptr(), queued, out, taken, rounds, batch
        code.launch("batch", *given, grid=(2, 1), threads=TILE, at_once=1)
        for number in range(steps):
            code.launch("step", x, total, number, rounds, n, grid=(-(-n // THREADS), 1), threads=THREADS)
        expected = reference(x.double(), queued.double(), steps, rounds)
        torch.testing.assert_close(total.double(), expected["steps"], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(out.double(), expected["batch"], rtol=1e-4, atol=1e-5)
        assert running.tolist() == [1]
        assert taken.item() == -(-batch // TILE) + 2
