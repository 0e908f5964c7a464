"""Run the Triton kernels of the chapter under `TRITON_INTERPRET=1`, and say which are right: see `test_kernels.py`."""

import torch

from aiperf_ch19 import dynamic_precision_decode as decode
from aiperf_ch19 import kernel_autotune_dispatch as dispatch
from aiperf_core.models import ModelConfig


def between_products() -> None:
    # Heads, heads of the cache, width: groups and halves that are no powers of two; more tokens than a block.
    for heads, kv_heads, head_width, steps in ((3, 1, 16, 2), (6, 2, 24, 66), (2, 2, 2, 3)):
        sizes = ModelConfig(layers=1, width=heads * head_width, heads=heads, kv_heads=kv_heads, hidden=7, vocabulary=5)
        angles = torch.rand(steps, head_width // 2)
        caches = torch.zeros(2, 2, kv_heads, steps, head_width)
        right, fused = (kind(sizes, (angles.cos(), angles.sin())) for kind in (decode.InTorch, decode.InTriton))
        for place in range(steps):
            split = torch.randn(1, (heads + 2 * kv_heads) * head_width)
            found, wanted = (
                one.attended(split, *cache, place) for one, cache in zip((fused, right), caches, strict=True)
            )
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(*caches)
    stream, weight = torch.randn(1, 67), torch.randn(67)
    torch.testing.assert_close(fused.normed(stream, weight), right.normed(stream, weight))
    halves, logits = torch.randn(1, 2 * 1031), torch.randn(4099)
    torch.testing.assert_close(fused.gated(halves), right.gated(halves))
    assert float(fused.lead(logits)) == float(right.lead(logits))
    logits[[5, 2000]] = 9.0
    assert float(fused.lead(logits)) == 0.0


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
for kernel in (between_products, product_in_tiles):
    kernel()
    print(kernel.__name__, "is right")
