"""The sweeps on the host: edges of the grid and of tiles, and the words that blocks exchange."""

from typing import Any

import pytest
import torch

from aiperf_ch10.persistent_jacobi import CHIP_ROWS, CHIP_THREADS, RIM, ROWS, THREADS, reference, tiles


# Less than a group of four; tiles that are cut, with neighbours on all sides; whole tiles; an even and an odd number.
@pytest.mark.parametrize(("n", "sweeps"), [(3, 2), (300, 5), (256, 4)])
def test_points_in_memory_and_in_registers_are_those_of_sweeps(emulated: Any, n: int, sweeps: int) -> None:
    code, u = emulated("persistent_jacobi.cu"), torch.randn(n, n)
    expected = reference(u.double(), sweeps).float()
    blocks, on_chip = min(tiles(n, ROWS), 5), tiles(n, CHIP_ROWS)
    arrived, spare = torch.zeros(1, dtype=torch.int64), torch.empty(n, n)
    rims, words = torch.full((2, on_chip, RIM), torch.nan), torch.zeros(2, on_chip, RIM, dtype=torch.int64)
    launches = {
        "in_memory": ((spare, arrived, n, sweeps), blocks, THREADS),
        "in_registers": ((rims, arrived, n, sweeps), on_chip, CHIP_THREADS),
        "by_neighbours": ((words, n, sweeps), on_chip, CHIP_THREADS),
    }
    for name, (given, grid, threads) in launches.items():
        arrived.zero_()  # by another number of blocks
        for seed in range(2):
            out = torch.full((n, n), torch.nan)
            words.zero_()
            code.launch(name, out, u, *given, grid=(grid, 1), threads=threads, at_once=1, seed=seed)
            torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)


def test_a_sweep_from_memory_to_memory_has_zeros_around_it(emulated: Any) -> None:
    n = 130
    code, u, out = emulated("persistent_jacobi.cu"), torch.randn(n, n), torch.full((n, n), torch.nan)
    code.launch("sweep", out, u, n, grid=(tiles(n, ROWS), 1), threads=THREADS)
    torch.testing.assert_close(out, reference(u.double(), 1).float(), rtol=1e-5, atol=1e-6)
