"""The kernels of stream_priority, on the host."""

from typing import Any

import torch

from aiperf_ch11.stream_priority import AHEAD, BUSY_THREADS, EACH, THREADS, reference


def test_all_blocks_swing_as_the_reference_does(emulated: Any) -> None:
    code, rounds, steps = emulated("stream_priority.cu"), 203, 2
    running = torch.zeros(1, dtype=torch.int32)
    for n, busy_n in ((1, 1), (257, 5 * BUSY_THREADS + 1)):
        x, busy = torch.randn(n), torch.randn(busy_n)
        expected = reference(x.double(), busy.double(), steps, rounds)
        total = torch.zeros(n)
        for step in range(steps):
            code.launch("foreground", x, total, step, rounds, n, grid=(-(-n // THREADS), 1), threads=THREADS)
        torch.testing.assert_close(total.double(), expected["total"], rtol=1e-4, atol=1e-5)
        for each in (1, EACH):
            total, grid = torch.zeros(busy_n), (-(-busy_n // (each * BUSY_THREADS)), 1)
            for step in range(AHEAD + steps):
                given = running.data_ptr(), busy, total, step, rounds // EACH, each, busy_n
                code.launch("background", *given, grid=grid, threads=BUSY_THREADS)
            torch.testing.assert_close(total.double(), expected["busy"], rtol=1e-4, atol=1e-5)
    assert running.tolist() == [1]
