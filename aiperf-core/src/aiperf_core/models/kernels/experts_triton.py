"""Products of rows with the matrix of their expert, for rows that are sorted by expert.

A program has a tile of ROWS rows of one expert and COLUMNS columns. `ends` has the end of each expert's rows in the
sorted order. The grid is as large as the number of tiles can be: a sum of ceil(count / ROWS) over the experts is at
most floor(all / ROWS) + the number of experts that have rows. Programs beyond the last tile return.
"""

import triton
import triton.language as tl


@triton.jit
def tile_of(number, ends_ptr, experts, ROWS: tl.constexpr, EXPERTS: tl.constexpr):
    """The expert of a tile (`experts` or more beyond the last), its first row, and the end of the expert's rows."""
    ids = tl.arange(0, EXPERTS)
    ends = tl.load(ends_ptr + ids, mask=ids < experts, other=0)
    begins = tl.load(ends_ptr + ids - 1, mask=(ids > 0) & (ids < experts), other=0)
    tiles = (ends - begins + ROWS - 1) // ROWS
    after = tl.cumsum(tiles, 0)
    expert = tl.sum((after <= number).to(tl.int32), 0)
    mine = ids == expert
    first = tl.sum(tl.where(mine, begins + (number - after + tiles) * ROWS, 0), 0)
    return expert, first, tl.sum(tl.where(mine, ends, 0), 0)


@triton.jit
def gathered(
    x_ptr,
    weights_ptr,
    order_ptr,
    ends_ptr,
    out_ptr,
    experts,
    chosen,
    depth,
    columns,
    GATHER: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    EXPERTS: tl.constexpr,
):
    """One product. With GATHER, rows come from tokens and go to the sorted order; else from there to their slots."""
    across = tl.cdiv(columns, COLUMNS)
    expert, first, end = tile_of(tl.program_id(0) // across, ends_ptr, experts, ROWS, EXPERTS)
    if expert < experts:
        rows = first + tl.arange(0, ROWS)
        slots = tl.load(order_ptr + rows, mask=rows < end, other=0)
        sources = slots // chosen if GATHER else rows.to(tl.int64)
        targets = rows.to(tl.int64) if GATHER else slots
        places = (tl.program_id(0) % across) * COLUMNS + tl.arange(0, COLUMNS)
        steps = tl.arange(0, DEPTH)
        left = x_ptr + sources[:, None] * depth + steps[None, :]
        right = weights_ptr + expert.to(tl.int64) * depth * columns + steps[:, None] * columns + places[None, :]
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for start in range(0, depth, DEPTH):
            inside = start + steps < depth
            a = tl.load(left, mask=(rows < end)[:, None] & inside[None, :], other=0.0)
            b = tl.load(right, mask=inside[:, None] & (places < columns)[None, :], other=0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
            left += DEPTH
            right += DEPTH * columns
        mask = (rows < end)[:, None] & (places < columns)[None, :]
        tl.store(out_ptr + targets[:, None] * columns + places[None, :], total.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def gathered_swiglu(
    x_ptr,
    weights_ptr,
    order_ptr,
    ends_ptr,
    out_ptr,
    experts,
    chosen,
    depth,
    columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    EXPERTS: tl.constexpr,
):
    """The product with gate and up, of `columns` columns each, side by side; only silu(gate) * up is stored."""
    across = tl.cdiv(columns, COLUMNS)
    expert, first, end = tile_of(tl.program_id(0) // across, ends_ptr, experts, ROWS, EXPERTS)
    if expert < experts:
        rows = first + tl.arange(0, ROWS)
        sources = tl.load(order_ptr + rows, mask=rows < end, other=0) // chosen
        places = (tl.program_id(0) % across) * COLUMNS + tl.arange(0, COLUMNS)
        steps = tl.arange(0, DEPTH)
        left = x_ptr + sources[:, None] * depth + steps[None, :]
        wide = 2 * columns
        right = weights_ptr + expert.to(tl.int64) * depth * wide + steps[:, None] * wide + places[None, :]
        gate = tl.zeros((ROWS, COLUMNS), tl.float32)
        up = tl.zeros((ROWS, COLUMNS), tl.float32)
        for start in range(0, depth, DEPTH):
            inside = start + steps < depth
            both = inside[:, None] & (places < columns)[None, :]
            a = tl.load(left, mask=(rows < end)[:, None] & inside[None, :], other=0.0)
            gate = tl.dot(a, tl.load(right, mask=both, other=0.0), gate, input_precision="ieee")
            up = tl.dot(a, tl.load(right + columns, mask=both, other=0.0), up, input_precision="ieee")
            left += DEPTH
            right += DEPTH * wide
        hidden = gate / (1 + tl.exp(-gate)) * up
        mask = (rows < end)[:, None] & (places < columns)[None, :]
        tl.store(
            out_ptr + rows.to(tl.int64)[:, None] * columns + places[None, :],
            hidden.to(out_ptr.dtype.element_ty),
            mask=mask,
        )
