"""Sums of blocks of a matrix with small factors: all sums in one pass."""

import triton
import triton.language as tl


@triton.jit
def combine(
    source_ptr,
    factors_ptr,
    out_ptr,
    size,
    source_row,
    source_down,
    source_right,
    out_row,
    out_down,
    out_right,
    INS: tl.constexpr,
    OUTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write block o of `out` as the sum of factors[o, i] times block i of `source`, for all o.

    Blocks are size x size. Block i begins (i // 2) * down + (i % 2) * right elements behind the first, and its rows are
    `row` apart: quadrants of a matrix, or blocks one after the other. A program has BLOCK elements of one row of all
    blocks; what several sums need is in the first-level cache when they load it again.
    """
    row = tl.program_id(0).to(tl.int64)
    wide = row * 0  # a product with a 32-bit size becomes one of 64 bits
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = places < size
    for o in tl.static_range(OUTS):
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for i in tl.static_range(INS):
            factor = tl.load(factors_ptr + o * INS + i)
            begin = source_ptr + (i // 2) * (wide + source_down) + (i % 2) * (wide + source_right) + row * source_row
            x = tl.load(begin + places, mask=places < tl.where(factor == 0, 0, size), other=0.0)
            total += factor * x.to(tl.float32)
        begin = out_ptr + (o // 2) * (wide + out_down) + (o % 2) * (wide + out_right) + row * out_row
        tl.store(begin + places, total.to(out_ptr.dtype.element_ty), mask=inside)
