"""The MLP of one token on the host: rows and pieces that are left over, and launches that go on counting."""

from typing import Any

import pytest
import torch

from aiperf_ch10.megakernel_mlp import THREADS, bench, reference
from aiperf_core.benchmark import call_with


# A piece a row; more pieces than a lane has under way; more rows than warps, and warps without a row.
@pytest.mark.parametrize(("width", "hidden"), [(8, 8), (2064, 40), (40, 2104)])
def test_one_launch_and_several_give_the_products(emulated: Any, width: int, hidden: int) -> None:
    code, blocks = emulated("megakernel_mlp.cu"), 2
    sizes = {"width": width, "hidden": hidden, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    x = call_with(bench.task.inputs, sizes)["x"]
    gate, up, down = call_with(bench.task.static, sizes).values()
    expected = reference(*(one.double() for one in (x, gate, up, down))).float()
    h, arrived = torch.empty(hidden).bfloat16(), torch.zeros(1, dtype=torch.int64)

    def launch(name: str, *arguments: Any, grid: int = blocks) -> None:
        code.launch(name, *arguments, grid=(grid, 1), threads=THREADS, at_once=1)

    for _ in range(2):
        results = []
        for name in ("one_launch", "weights_ahead"):
            h.fill_(torch.nan)
            results.append(torch.full((width,), torch.nan).bfloat16())
            launch(name, results[-1], h, x, gate, up, down, arrived, width, hidden)
        of_gate, of_up = torch.empty_like(h), torch.empty_like(h)
        for separate in (False, True):
            h.fill_(torch.nan)
            results.append(torch.full((width,), torch.nan).bfloat16())
            if separate:
                launch("product", of_gate, gate, x, hidden, width)
                launch("product", of_up, up, x, hidden, width)
                launch("gated", h, of_gate, of_up, hidden, grid=-(-hidden // THREADS))
            else:
                launch("gate_and_up", h, gate, up, x, hidden, width)
            launch("product", results[-1], down, h, width, hidden)
        for out in results:
            assert (out.float() - expected).norm() < 1e-2 * expected.norm()  # four roundings
