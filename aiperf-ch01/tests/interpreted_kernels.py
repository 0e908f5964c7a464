"""Run the kernels under `TRITON_INTERPRET=1` and say which are right: see `test_kernels.py`."""

from typing import Any

import torch

from aiperf_ch01 import batched_gemm, launch_overhead, precision_ladder, train_step
from aiperf_core.benchmark import call_with


def folds() -> None:
    fused, x = launch_overhead.fused(), torch.randn(1021)
    fused.prepare(x=x, n=1021, folds=9)
    torch.testing.assert_close(fused.run(x=x, n=1021), launch_overhead.reference(x, 9), rtol=0, atol=1e-6)


def products() -> None:
    for batch, m, n, k in ((1, 1, 1, 1), (2, 17, 37, 65)):
        a, b = torch.randn(batch, m, k), torch.randn(batch, k, n)
        sizes = {"batch": batch, "m": m, "n": n, "k": k}
        for one in batched_gemm.bench.implementations_on("cuda"):
            if one.name in ("grouped_triton", "strided_triton"):
                product = one.code()
                product.prepare(a=a, b=b, **sizes)
                right = batched_gemm.reference(a.double(), b.double())
                torch.testing.assert_close(
                    call_with(product.run, {"a": a, "b": b, **sizes}).double(), right, rtol=1e-5, atol=1e-4
                )


def update() -> None:
    kernel = train_step.kernels.kernel("update")
    for n in (1, 1025):
        weight, momentum, gradient = torch.randn(n), torch.randn(n), torch.randn(n).bfloat16()
        copy, weights, momenta = torch.zeros(n).bfloat16(), [weight.double()], [momentum.double()]
        train_step.update(weights, momenta, [gradient.double()])
        kernel[(-(-n // train_step.BLOCK),)](
            weight, momentum, gradient, copy, n, train_step.RATE, train_step.MOMENTUM, BLOCK=train_step.BLOCK
        )
        torch.testing.assert_close(weight.double(), weights[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(momentum.double(), momenta[0], rtol=0, atol=1e-6)
        # Triton 3.9's interpreter cuts off what does not fit into bfloat16, where a GPU rounds.
        torch.testing.assert_close(copy, weight.bfloat16(), rtol=2**-7, atol=0)


def quantise_rows() -> None:
    fp8 = precision_ladder.Fp8Rowwise()
    fp8.kernel = precision_ladder.kernels.kernel("quantise_rows")
    for relu, columns, padded in ((False, 139, 144), (True, 37, 48)):
        x = torch.randn(5, columns)
        x[0] = 0
        out, scales = precision_ladder.eight_bits(len(x), padded, x.device)
        out.view(torch.uint8).fill_(0xFF)
        fp8.rounded(x, out, scales, relu=relu)
        kept = x.relu() if relu else x
        torch.testing.assert_close(scales[1:], kept[1:].abs().amax(1, keepdim=True) / 448, rtol=1e-6, atol=0)
        wanted = (kept / scales).clamp(-448, 448).to(out.dtype).float()
        # Triton 3.9's interpreter loses the carry where rounding reaches the next power of two, in one of some 40.
        assert (out.float()[:, :columns] == wanted).float().mean() > 0.95
        assert not out.float()[:, columns:].any()
        assert not out[0].float().any()


def whole_rows() -> None:
    ladder, generator = precision_ladder.Int8Tensor(), torch.Generator().manual_seed(3)
    for tokens, width, hidden in ((3, 37, 139), (33, 131, 61)):
        x = precision_ladder.inputs(tokens, width, "cpu", generator)["x"]
        weights = precision_ladder.weights(width, hidden, "cpu", generator)
        x[0] = 0
        ladder.prepare(x, **weights)
        right = precision_ladder.reference(x, **weights)
        error = (ladder.run(x) - right).norm() / right.norm()
        assert 0.005 < error < 0.04, error
        assert not ladder.out[0].any()


def wide(narrow: Any, scales: Any, row_scales: Any) -> torch.Tensor:
    """Values of fp4, by the tables of the format and of the layout of scales."""
    rows, columns = narrow.shape[0], 2 * narrow.shape[1]
    codes = torch.stack([narrow & 15, narrow >> 4], -1).view(rows, columns).long()
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])[codes]
    tiles = scales.float().view(-(-rows // 128), columns // 64, 32, 4, 4)
    of_blocks = tiles.permute(0, 3, 2, 1, 4).reshape(-1, columns // 16)[:rows]
    return values * of_blocks.repeat_interleave(16, 1) * row_scales


def emulated(left: Any, right: Any) -> torch.Tensor:
    """A product by the tensor cores of sm_100, which does not know the scales of rows."""
    (a, a_scales, _), (b, b_scales, _) = left, right
    return (wide(a, a_scales, torch.ones(1)) @ wide(b, b_scales, torch.ones(1)).t()).bfloat16()


def quantise_blocks() -> None:
    ladder, generator = precision_ladder.Nvfp4(), torch.Generator().manual_seed(3)
    ladder.product = emulated
    x = precision_ladder.inputs(3, 37, "cpu", generator)["x"]
    weights = precision_ladder.weights(37, 61, "cpu", generator)
    x[0] = 0
    ladder.prepare(x, **weights)
    right = precision_ladder.reference(x, **weights)
    error = (ladder.run(x) - right).norm() / right.norm()
    assert 0.1 < error < 0.25, error
    # Scales that lie in more than one tile, in both directions.
    kept = torch.randn(129, 67).relu()
    narrow = ladder.rounded(kept, *precision_ladder.four_bits(129, 128, kept.device), relu=True)
    errors = (wide(*narrow)[:, :67] - kept).norm(dim=1) / kept.norm(dim=1)
    assert errors.max() < 0.25, errors


torch.manual_seed(0)
# Rows of several pieces, though short: the weights have a program for each row.
precision_ladder.COLUMNS = 128
for kernel in (folds, products, update, quantise_rows, whole_rows, quantise_blocks):
    kernel()
    print(kernel.__name__, "is right")
