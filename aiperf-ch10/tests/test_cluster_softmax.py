"""The kernels of the softmax, on the host."""

from typing import Any

import pytest
import torch


@pytest.mark.parametrize("eager", [True, False], ids=["eager", "late"])
def test_a_cluster_and_two_kernels_give_the_softmax(emulated: Any, eager: bool) -> None:
    code, rows = emulated("cluster_softmax.cu"), 2
    for columns in (8, 136, 20008):  # slices without elements; with a few; with several a thread
        x = (4 * torch.randn(rows, columns)).bfloat16()
        x[0, : columns // 2] = 60.0  # a row whose slices have very different maxima
        expected, out, parts = torch.softmax(x.double(), 1).float(), torch.empty_like(x), torch.empty(rows, 4, 2)
        shape = {"grid": (4, rows), "threads": 512, "eager": eager}
        code.launch("leave_parts", x, parts, columns, **shape)
        code.launch("read_again", x, parts, out, columns, **shape)
        torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-9)
        out.fill_(torch.nan)
        code.launch("in_cluster", x, out, columns, cluster=4, **shape)
        torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-9)
