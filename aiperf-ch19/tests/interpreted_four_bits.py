"""Run the kernel of `dynamic_precision_decode` under `TRITON_INTERPRET=1`, and say whether it is right."""

import torch

from aiperf_ch19 import dynamic_precision_decode as decode

torch.manual_seed(0)
kernel = decode.kernels.kernel("product")
for rows, columns in ((1, 64), (17, 1100), (37, 65)):
    packed, x = decode.Packed(torch.randn(rows, columns)), torch.randn(1, columns)
    padded, y = torch.nn.functional.pad(x, (0, packed.padding)), torch.full((1, rows), torch.nan)
    sizes = {"ROWS": decode.ROWS, "WORDS": decode.WORDS}
    kernel[(-(-rows // decode.ROWS),)](packed.codes, packed.scales, padded, y, rows, packed.groups, **sizes)
    torch.testing.assert_close(y, packed(x), rtol=1e-4, atol=1e-4)
print("product is right")
