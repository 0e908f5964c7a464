"""Products of bfloat16 matrices in tiles, [rows, depth] by [depth, columns], with float32 sums.

A program multiplies ROWS rows by COLUMNS columns, DEPTH elements at a time. What a tile has beyond the last row or
column is some other row or column, whose results are not stored; beyond the depth it is zeros.
"""

import triton
import triton.language as tl


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
    a_in, b_in, row, column, rows, columns, depth,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """The sums of the tile at this row and column."""
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    down = (row + tl.arange(0, ROWS)) % rows
    for start in range(0, depth, DEPTH):
        if DESCRIPTORS:
            a, b = a_in.load([row, start]), b_in.load([start, column])
        else:
            # Where two loops became one, the compiler no longer knows that a tile begins at an aligned column. It reads
            # 16 bytes at once only if `columns` is a multiple of 16, and then this is true.
            across = tl.max_contiguous(tl.multiple_of((column + tl.arange(0, COLUMNS)) % columns, 16), 16)
            steps = start + tl.arange(0, DEPTH)
            there = steps < depth
            a = tl.load(a_in + down.to(tl.int64)[:, None] * depth + steps[None, :], mask=there[None, :], other=0.0)
            b = tl.load(b_in + steps.to(tl.int64)[:, None] * columns + across[None, :], mask=there[:, None], other=0.0)
        total = tl.dot(a, b, total)
    return total


@triton.jit
def _store(out_ptr, total, row, column, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    down, across = row + tl.arange(0, ROWS), column + tl.arange(0, COLUMNS)
    at = down.to(tl.int64)[:, None] * columns + across[None, :]
    inside = (down < rows)[:, None] & (across < columns)[None, :]
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def product(
    a_ptr, b_ptr, out_ptr, rows, columns, depth,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One program a tile."""
    row, column = _place(tl.program_id(0), rows, columns, ROWS, COLUMNS, GROUP)
    total = _sums(a_ptr, b_ptr, row, column, rows, columns, depth, ROWS, COLUMNS, DEPTH, False)
    _store(out_ptr, total, row, column, rows, columns, ROWS, COLUMNS)


@triton.jit
def persistent(
    a_ptr, b_ptr, out_ptr, rows, columns, depth,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One program an SM, which has every num_programs-th tile.

    Both loops are one for the compiler: the first loads of a tile are under way while the one before it ends. The place
    of the store has a counter of its own, so that no value of the loads has to wait for it.
    """
    programs = tl.num_programs(0)
    tiles = tl.cdiv(rows, ROWS) * tl.cdiv(columns, COLUMNS)
    stored = tl.program_id(0)
    for tile in tl.range(tl.program_id(0), tiles, programs, flatten=True):
        row, column = _place(tile, rows, columns, ROWS, COLUMNS, GROUP)
        total = _sums(a_ptr, b_ptr, row, column, rows, columns, depth, ROWS, COLUMNS, DEPTH, False)
        row, column = _place(stored, rows, columns, ROWS, COLUMNS, GROUP)
        _store(out_ptr, total, row, column, rows, columns, ROWS, COLUMNS)
        stored += programs


@triton.jit
def descriptors(
    a_in, b_in, out_in, rows, columns, depth,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """As `persistent`; the operands and the result are tensor descriptors, whose blocks end where the matrix ends."""
    programs = tl.num_programs(0)
    tiles = tl.cdiv(rows, ROWS) * tl.cdiv(columns, COLUMNS)
    stored = tl.program_id(0)
    for tile in tl.range(tl.program_id(0), tiles, programs, flatten=True):
        row, column = _place(tile, rows, columns, ROWS, COLUMNS, GROUP)
        total = _sums(a_in, b_in, row, column, rows, columns, depth, ROWS, COLUMNS, DEPTH, True)
        row, column = _place(stored, rows, columns, ROWS, COLUMNS, GROUP)
        out_in.store([row, column], total.to(out_in.dtype))
        stored += programs
