"""Products of e4m3 matrices with scales of blocks, and float32 sums: X is [rows, depth], W is [columns, depth].

A scale of X is that of DEPTH elements of a row, a scale of W that of DEPTH x DEPTH. What a tile has beyond the last row
or column is some other one, whose results are not stored; beyond the depth it is zeros. Scales of X are [blocks of the
depth, rows], so that those of neighbouring rows are neighbours.
"""

import triton
import triton.language as tl


@triton.jit
def widen(
    codes_ptr, scales_ptr, wide_ptr, depth, of_row, of_block,
    HEIGHT: tl.constexpr, DEPTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """BLOCK elements of a row as bfloat16. HEIGHT rows share a scale, which is `of_row` and `of_block` apart."""
    row, places = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = places < depth
    codes = tl.load(codes_ptr + row * depth + places, mask=inside, other=0.0)
    scales = tl.load(scales_ptr + row // HEIGHT * of_row + places // DEPTH * of_block, mask=inside, other=0.0)
    tl.store(wide_ptr + row * depth + places, (codes.to(tl.float32) * scales).to(tl.bfloat16), mask=inside)


@triton.jit
def _place(tile, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP: tl.constexpr):
    """The first row and column of a tile. GROUP rows of tiles are walked column by column, then the next GROUP."""
    across = tl.cdiv(columns, COLUMNS)
    first = tile // (GROUP * across) * GROUP
    height = tl.minimum(tl.cdiv(rows, ROWS) - first, GROUP)
    within = tile % (GROUP * across)
    return (first + within % height) * ROWS, within // height * COLUMNS


@triton.jit
def _sums(
    x_in, w_in, x_scales_ptr, w_scales_ptr, row, column, rows, columns, depth,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """The sums of a tile of ROWS x DEPTH. Of a step of DEPTH, X has a scale a row and W one: its sums are scaled."""
    total = tl.zeros((ROWS, DEPTH), tl.float32)
    down, across = (row + tl.arange(0, ROWS)) % rows, (column + tl.arange(0, DEPTH)) % columns
    blocks = tl.cdiv(depth, DEPTH)
    at_scale = w_scales_ptr + column // DEPTH * blocks
    for block in range(blocks):
        if DESCRIPTORS:
            x, w = x_in.load([row, block * DEPTH]), w_in.load([column, block * DEPTH])
        else:
            steps = block * DEPTH + tl.arange(0, DEPTH)
            there = (steps < depth)[None, :]
            x = tl.load(x_in + down.to(tl.int64)[:, None] * depth + steps[None, :], mask=there, other=0.0)
            w = tl.load(w_in + across.to(tl.int64)[:, None] * depth + steps[None, :], mask=there, other=0.0)
        scales = tl.load(x_scales_ptr + tl.cast(block, tl.int64) * rows + down) * tl.load(at_scale + block)
        total += tl.dot(x, tl.trans(w)) * scales[:, None]
    return total


@triton.jit
def promoted(
    x_ptr, w_ptr, x_scales_ptr, w_scales_ptr, out_ptr, rows, columns, depth,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One program a tile."""
    row, column = _place(tl.program_id(0), rows, columns, ROWS, DEPTH, GROUP)
    total = _sums(x_ptr, w_ptr, x_scales_ptr, w_scales_ptr, row, column, rows, columns, depth, ROWS, DEPTH, False)
    down, across = row + tl.arange(0, ROWS), column + tl.arange(0, DEPTH)
    inside = (down < rows)[:, None] & (across < columns)[None, :]
    at = down.to(tl.int64)[:, None] * columns + across[None, :]
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def descriptors(
    x_in, w_in, out_in, x_scales_ptr, w_scales_ptr, rows, columns, depth,
    ROWS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """As `promoted`; the operands and the result are tensor descriptors, whose blocks end where the matrix ends."""
    row, column = _place(tl.program_id(0), rows, columns, ROWS, DEPTH, GROUP)
    total = _sums(x_in, w_in, x_scales_ptr, w_scales_ptr, row, column, rows, columns, depth, ROWS, DEPTH, True)
    out_in.store([row, column], total.to(out_in.dtype))
