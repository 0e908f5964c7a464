"""Blocks of numbers as codes of 8 bits with a scale each. Each program has ROWS blocks of BLOCK numbers in registers.

With KEEP, what a code lacks stays behind in `left`, which is added before the next encoding.
"""

import triton
import triton.language as tl


@triton.jit
def tile(ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The numbers of this program's blocks, and the places of their elements."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    return rows, rows[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]


@triton.jit
def store_codes(
    values, rows, places, left_ptr, codes_ptr, scales_ptr, count, LARGEST: tl.constexpr, KEEP: tl.constexpr
):
    """Encode blocks; a block of zeros has a scale above 0."""
    scales = tl.maximum(tl.max(tl.abs(values), axis=1), 1e-30) / LARGEST
    scaled = values / scales[:, None]
    if codes_ptr.dtype.element_ty == tl.int8:
        codes = tl.floor(scaled + 0.5).to(tl.int8)
    else:
        codes = scaled.to(codes_ptr.dtype.element_ty)
    inside = (rows < count)[:, None]
    tl.store(codes_ptr + places, codes, mask=inside)
    tl.store(scales_ptr + rows, scales, mask=rows < count)
    if KEEP:
        tl.store(left_ptr + places, values - codes.to(tl.float32) * scales[:, None], mask=inside)


@triton.jit
def encode(
    gradient_ptr,
    left_ptr,
    codes_ptr,
    scales_ptr,
    n,
    count,
    LARGEST: tl.constexpr,
    KEEP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Encode n numbers in `count` blocks, the last of which may be filled up with zeros."""
    rows, places = tile(ROWS, BLOCK)
    values = tl.load(gradient_ptr + places, mask=places < n, other=0).to(tl.float32)
    if KEEP:
        values += tl.load(left_ptr + places, mask=(rows < count)[:, None], other=0)
    store_codes(values, rows, places, left_ptr, codes_ptr, scales_ptr, count, LARGEST, KEEP)


@triton.jit
def add_shares(
    received_ptr,
    their_scales_ptr,
    left_ptr,
    codes_ptr,
    scales_ptr,
    world,
    count,
    LARGEST: tl.constexpr,
    KEEP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add up the `count` blocks that each rank sent, in the order of the ranks, and encode the sums."""
    rows, places = tile(ROWS, BLOCK)
    inside = (rows < count)[:, None]
    values = tl.zeros((ROWS, BLOCK), tl.float32)
    if KEEP:
        values += tl.load(left_ptr + places, mask=inside, other=0)
    for rank in range(world):
        first = rank * count
        scales = tl.load(their_scales_ptr + first + rows, mask=rows < count, other=0)
        # Undefined beyond the last block, where nothing is stored; a 0 cannot be cast to every type of code.
        codes = tl.load(received_ptr + first * BLOCK + places, mask=inside)
        values += codes.to(tl.float32) * scales[:, None]
    store_codes(values, rows, places, left_ptr, codes_ptr, scales_ptr, count, LARGEST, KEEP)


@triton.jit
def decode(
    codes_ptr,
    scales_ptr,
    before_ptr,
    out_ptr,
    n,
    factor,
    ADD: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write n decoded numbers times a factor, with ADD added to those of `before`."""
    rows, places = tile(ROWS, BLOCK)
    inside = places < n
    scales = tl.load(scales_ptr + rows, mask=rows * BLOCK < n, other=0)
    values = tl.load(codes_ptr + places, mask=inside).to(tl.float32) * scales[:, None] * factor
    if ADD:
        values += tl.load(before_ptr + places, mask=inside, other=0)
    tl.store(out_ptr + places, values.to(out_ptr.dtype.element_ty), mask=inside)
