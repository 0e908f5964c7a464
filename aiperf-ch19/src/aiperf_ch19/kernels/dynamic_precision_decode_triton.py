"""The product of `ch19.dynamic_precision_decode` with weights of four bits."""

import triton
import triton.language as tl


@triton.jit
def product(codes_ptr, scales_ptr, x_ptr, y_ptr, rows, groups, ROWS: tl.constexpr, WORDS: tl.constexpr):
    """Y [rows] = W x: a program for ROWS rows, WORDS words of each at a time.

    `codes` are [rows, groups, 8] words, of which word l has the columns l, l + 8, ..., l + 56 of its group, from its
    lowest bits on: at most rows x groups x 8 of them, which fits into 32 bits. x has groups x 64 numbers.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, WORDS), tl.float32)
    for start in range(0, groups * 8, WORDS):
        word = start + tl.arange(0, WORDS)
        group, lane = word // 8, word % 8
        inside = (row[:, None] < rows) & (word[None, :] < groups * 8)
        codes = tl.load(codes_ptr + row[:, None] * (groups * 8) + word[None, :], mask=inside, other=0)
        scales = tl.load(scales_ptr + row[:, None] * groups + group[None, :], mask=inside, other=0.0)
        part = tl.zeros((ROWS, WORDS), tl.float32)
        for eighth in tl.static_range(8):
            x = tl.load(x_ptr + group * 64 + eighth * 8 + lane, mask=word < groups * 8, other=0.0).to(tl.float32)
            part += (((codes >> (4 * eighth)) & 15) - 8).to(tl.float32) * x[None, :]
        total += part * scales
    tl.store(y_ptr + row, tl.sum(total, 1).to(y_ptr.dtype.element_ty), mask=row < rows)
