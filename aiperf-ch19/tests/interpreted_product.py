"""Run the kernel of `kernel_autotune_dispatch` under `TRITON_INTERPRET=1`, and say whether it is right."""

import torch

from aiperf_ch19 import kernel_autotune_dispatch as dispatch

torch.manual_seed(0)
machine = dispatch.CudaTiles.__new__(dispatch.CudaTiles)
machine.kernel = dispatch.kernels.kernel("product")
for rows, depth, columns in ((1, 3, 1), (5, 67, 131), (130, 129, 33)):
    x, w = torch.randn(rows, depth), torch.randn(depth, columns)
    for tile in (dispatch.CUDA_TILES[0], dispatch.CUDA_GOOD):
        out = torch.full((rows, columns), torch.nan)
        machine.product(x, w, out, tile)
        torch.testing.assert_close(out, x @ w, rtol=1e-4, atol=1e-4)
print("product is right")
