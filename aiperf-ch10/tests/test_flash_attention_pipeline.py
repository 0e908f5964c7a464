"""The kernels of attention, on the host: the two operand layouts, items of the ring, turns, the diagonal and edges."""

from typing import Any

import pytest
import torch
from torch.nn import functional

# A token; a tile with an edge; three tiles, and as many as make the ring go round, with edges that are other heads' rows.
SIZES = [(1, 1), (2, 100), (2, 300), (1, 640)]
THREADS = {"one_stage": 256, "specialized": 384, "ping_pong": 384, "overlapped": 384}


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "late"])
@pytest.mark.parametrize("name", THREADS)
def test_every_schedule_gives_the_attention(emulated: Any, name: str, eager: bool) -> None:
    code = emulated("flash_attention_pipeline.cu")
    for seed, (heads, length) in enumerate(SIZES):
        q, keys, values = (torch.randn(heads, length, 128).bfloat16() for _ in range(3))
        out = torch.full_like(q, torch.nan)
        maps = [code.box_map(matrix[0], (128, 64), 128) for matrix in (q, keys, values)]
        grid = (heads * -(-length // 128), 1)
        code.launch(name, *maps, out, length, grid=grid, threads=THREADS[name], eager=eager, seed=seed)
        expected = functional.scaled_dot_product_attention(q.double(), keys.double(), values.double(), is_causal=True)
        assert (out.double() - expected).norm() / expected.norm() < 5e-3
