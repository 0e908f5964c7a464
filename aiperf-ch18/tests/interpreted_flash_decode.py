"""Run the kernels of `flash_decode` under `TRITON_INTERPRET=1`, and say which are right."""

import torch

from aiperf_ch18 import flash_decode
from aiperf_core.benchmark import call_with

torch.manual_seed(0)
# Batch, heads, heads of the cache, width, length: a single key; groups of 1 to 8; lengths around blocks and parts.
SIZES = [(1, 1, 1, 16, 1), (1, 8, 1, 64, 65), (1, 4, 2, 32, 130), (2, 3, 1, 16, 257), (1, 5, 1, 128, 31)]
SIZES += [(1, 6, 1, 16, 64), (1, 7, 1, 16, 127), (3, 2, 2, 256, 17)]

for one in flash_decode.bench.implementations_on("cuda"):
    if one.role == "yardstick":
        continue
    for batch, heads, kv_heads, width, length in SIZES:
        # In float32: the interpreter of Triton 3.9 multiplies the bits of bfloat16 operands of `tl.dot` as integers.
        given = {
            "q": 3 * torch.randn(batch, heads, width),
            "keys": torch.randn(batch, kv_heads, length, width),
            "values": torch.randn(batch, kv_heads, length, width),
        }
        right = flash_decode.reference(**given)
        instance = one.code()
        call_with(instance.prepare, given)
        for _ in range(2):  # the second time with the counts that the first left
            out = call_with(instance.run, given)
            error = float((out - right).norm() / right.norm())
            assert error < 1e-5, (one.name, batch, heads, kv_heads, width, length, error)
    print(one.name, "is right")
