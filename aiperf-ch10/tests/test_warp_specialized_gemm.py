"""The kernels of the specialised product, on the host: roles, rounds of the ring, descriptors and edges."""

from typing import Any

import pytest
import torch

# One step; more steps than stages, with edges; several tiles for each of two blocks.
SIZES = [(64, 8, 8), (130, 257, 328), (200, 600, 72)]
# The kernel, its threads, and the number of blocks: of tiles where it is None.
LAUNCHES = [("one_stage", 256, None), ("pipelined", 256, None), ("specialized", 384, None), ("specialized", 384, 2)]


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "late"])
def test_every_split_of_roles_gives_the_product(emulated: Any, eager: bool) -> None:
    code = emulated("warp_specialized_gemm.cu")
    for m, n, k in SIZES:
        a, b = (torch.randn(rows, k).bfloat16() for rows in (m, n))
        expected = a.float() @ b.float().T
        for seed, (name, threads, blocks) in enumerate(LAUNCHES):
            tiles = -(-m // 128) * -(-n // 256)
            maps = code.box_map(a, (128, 64), 128), code.box_map(b, (256, 64), 128)
            out = torch.full((m, n), torch.nan, dtype=torch.bfloat16)
            grid = (min(tiles, blocks or tiles), 1)
            code.launch(name, *maps, out, m, n, k, grid=grid, threads=threads, eager=eager, seed=seed)
            torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)
