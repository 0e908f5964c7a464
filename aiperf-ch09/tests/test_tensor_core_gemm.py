"""The kernels of the product on tensor cores, on the host: fragments, swizzles, roles, clusters and edges."""

from typing import Any

import pytest
import torch

# One step; more steps than stages, with edges; several tiles for a block; an odd number of rows of tiles for a cluster.
SIZES = [(64, 8, 8), (130, 264, 328), (300, 520, 72)]
# The kernel, its threads, the blocks of a cluster and the number of blocks: of tiles where it is None.
LAUNCHES = [
    ("one_stage", 256, 1, None),
    ("pipelined", 256, 1, None),
    ("specialized", 384, 1, None),
    ("specialized", 384, 1, 2),
    ("multicast", 384, 2, None),
    ("multicast", 384, 2, 2),
    ("tma_store", 384, 2, None),
    ("tma_store", 384, 2, 2),
]


def operands(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Both operands, their product, and memory for another."""
    a, b = (torch.randn(rows, k).bfloat16() for rows in (m, n))
    return a, b, a.float() @ b.float().T, torch.full((m, n), torch.nan, dtype=torch.bfloat16)


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "late"])
def test_every_schedule_of_wgmma_gives_the_product(emulated: Any, eager: bool) -> None:
    code = emulated("tensor_core_gemm_wgmma.cu")
    for size in SIZES:
        for seed, (name, threads, cluster, blocks) in enumerate(LAUNCHES):
            (m, n, k), (a, b, expected, out) = size, operands(*size)
            tiles = cluster * -(-m // (128 * cluster)) * -(-n // 256)
            maps = code.box_map(a, (128, 64), 128), code.box_map(b, (256 // cluster, 64), 128)
            to = code.box_map(out, (64, 64), 128) if name == "tma_store" else out
            how = {"cluster": cluster, "eager": eager, "seed": seed}
            code.launch(name, *maps, to, m, n, k, grid=(min(tiles, blocks or tiles), 1), threads=threads, **how)
            torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "late"])
def test_kernels_without_wgmma_give_the_product(emulated: Any, eager: bool) -> None:
    code = emulated("tensor_core_gemm.cu")
    # The last has rows that do not start at multiples of 16 bytes.
    for m, n, k in [(130, 131, 8), (128, 256, 136), (1, 136, 232), (129, 5, 37)]:
        for name, threads in (("register_tiles", 256), ("mma_sync", 128))[: 1 if k % 8 else 2]:
            a, b, expected, out = operands(m, n, k)
            grid = (-(-m // 128) * -(-n // 128), 1)
            code.launch(name, a, b, out, m, n, k, grid=grid, threads=threads, eager=eager)
            torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)
