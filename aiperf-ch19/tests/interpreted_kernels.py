"""Run the Triton kernels of the chapter under `TRITON_INTERPRET=1`, and say which are right: see `test_kernels.py`."""

import torch

from aiperf_ch19 import dynamic_precision_decode as decode
from aiperf_ch19 import kernel_autotune_dispatch as dispatch


def product_of_four_bits() -> None:
    kernel = decode.kernels.kernel("product")
    for rows, columns in ((1, 64), (17, 1100), (37, 65)):
        packed, x = decode.Packed(torch.randn(rows, columns)), torch.randn(1, columns)
        padded, y = torch.nn.functional.pad(x, (0, packed.padding)), torch.full((1, rows), torch.nan)
        sizes = {"ROWS": decode.ROWS, "WORDS": decode.WORDS}
        kernel[(-(-rows // decode.ROWS),)](packed.codes, packed.scales, padded, y, rows, packed.groups, **sizes)
        torch.testing.assert_close(y, packed(x), rtol=1e-4, atol=1e-4)


def product_in_tiles() -> None:
    machine = dispatch.CudaTiles.__new__(dispatch.CudaTiles)
    machine.kernel = dispatch.kernels.kernel("product")
    for rows, depth, columns in ((1, 3, 1), (5, 67, 131), (130, 129, 33)):
        x, w = torch.randn(rows, depth), torch.randn(depth, columns)
        for tile in (dispatch.CUDA_TILES[0], dispatch.CUDA_GOOD):
            out = torch.full((rows, columns), torch.nan)
            machine.product(x, w, out, tile)
            torch.testing.assert_close(out, x @ w, rtol=1e-4, atol=1e-4)


torch.manual_seed(0)
for kernel in (product_of_four_bits, product_in_tiles):
    kernel()
    print(kernel.__name__, "is right")
