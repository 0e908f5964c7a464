"""silu(x gate) * (x up) in bfloat16 with float32 sums: x is [tokens, width], gate and up are [width, hidden].

A tile has ROWS tokens and COLUMNS columns of gate and of up, DEPTH elements at a time. What it has beyond the last
token or column is some other one, whose results are not stored; beyond the width it is zeros.
"""

import triton
import triton.language as tl


@triton.jit
def _swiglu(gate, up):
    return gate * up / (1 + tl.exp(-gate))


@triton.jit
def gated(wide_ptr, out_ptr, hidden, BLOCK: tl.constexpr):
    """BLOCK columns of a row, from gate and up side by side, [tokens, 2 hidden]."""
    row, places = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = places < hidden
    at = wide_ptr + 2 * row * hidden + places
    gate = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(at + hidden, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * hidden + places, _swiglu(gate, up).to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _place(tile, tokens, hidden, ROWS: tl.constexpr, COLUMNS: tl.constexpr, GROUP: tl.constexpr):
    """The first token and column of a tile. GROUP rows of tiles are walked column by column, then the next GROUP."""
    across = tl.cdiv(hidden, COLUMNS)
    first = tile // (GROUP * across) * GROUP
    height = tl.minimum(tl.cdiv(tokens, ROWS) - first, GROUP)
    within = tile % (GROUP * across)
    return (first + within % height) * ROWS, within // height * COLUMNS


@triton.jit
def _gated_sums(
    x_in, gate_in, up_in, row, column, tokens, width, hidden,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """The results of the tile at this row and column: both products stay in registers."""
    gates = tl.zeros((ROWS, COLUMNS), tl.float32)
    ups = tl.zeros((ROWS, COLUMNS), tl.float32)
    down = (row + tl.arange(0, ROWS)) % tokens
    across = (column + tl.arange(0, COLUMNS)) % hidden
    for start in range(0, width, DEPTH):
        if DESCRIPTORS:
            x, gate, up = x_in.load([row, start]), gate_in.load([start, column]), up_in.load([start, column])
        else:
            steps = start + tl.arange(0, DEPTH)
            there = steps < width
            x = tl.load(x_in + down.to(tl.int64)[:, None] * width + steps[None, :], mask=there[None, :], other=0.0)
            at = steps.to(tl.int64)[:, None] * hidden + across[None, :]
            gate = tl.load(gate_in + at, mask=there[:, None], other=0.0)
            up = tl.load(up_in + at, mask=there[:, None], other=0.0)
        gates = tl.dot(x, gate, gates)
        ups = tl.dot(x, up, ups)
    return _swiglu(gates, ups)


@triton.jit
def dual(
    x_ptr, gate_ptr, up_ptr, out_ptr, tokens, width, hidden,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One program a tile."""
    row, column = _place(tl.program_id(0), tokens, hidden, ROWS, COLUMNS, GROUP)
    result = _gated_sums(
        x_ptr, gate_ptr, up_ptr, row, column, tokens, width, hidden, ROWS, COLUMNS, DEPTH, False
    )  # fmt: skip
    down, across = row + tl.arange(0, ROWS), column + tl.arange(0, COLUMNS)
    at = down.to(tl.int64)[:, None] * hidden + across[None, :]
    inside = (down < tokens)[:, None] & (across < hidden)[None, :]
    tl.store(out_ptr + at, result.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def descriptors(
    x_in, gate_in, up_in, out_in, tokens, width, hidden,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """As `dual`; operands and result are tensor descriptors, whose blocks end where the matrix ends."""
    row, column = _place(tl.program_id(0), tokens, hidden, ROWS, COLUMNS, GROUP)
    result = _gated_sums(x_in, gate_in, up_in, row, column, tokens, width, hidden, ROWS, COLUMNS, DEPTH, True)
    out_in.store([row, column], result.to(out_in.dtype))
