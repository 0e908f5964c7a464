"""Sums over ranks of encoded numbers: see `grad_compression.py`.

Each rank adds up one share of the numbers: `count` blocks of BLOCK. A part is an encoded share: the codes of all
blocks, bfloat16 or with SCALED int8, and behind them with SCALED a float32 scale for each block. `part_of_ptr` is a
table: the address where the part for each rank is to be written. With SCALED, what a code lacks stays in `left`, and is
added before the next encoding. A program has ROWS blocks in registers.
"""

import triton
import triton.language as tl


@triton.jit
def tile(ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The numbers of this program's blocks in a share, and the places of their elements."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    return rows, rows[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]


@triton.jit
def part_bytes(count, SCALED: tl.constexpr, BLOCK: tl.constexpr):
    return count.to(tl.int64) * ((BLOCK + 4) if SCALED else 2 * BLOCK)


@triton.jit
def encode(values, SCALED: tl.constexpr):
    """Codes, the scales of the blocks, and the numbers that a reader decodes. A block of zeros has a scale above 0."""
    scales = tl.maximum(tl.max(tl.abs(values), axis=1), 1e-30) / 127
    if SCALED:
        codes = tl.floor(values / scales[:, None] + 0.5).to(tl.int8)
        decoded = codes.to(tl.float32) * scales[:, None]
    else:
        codes = values.to(tl.bfloat16)
        decoded = codes.to(tl.float32)
    return codes, scales, decoded


@triton.jit
def store_part(part, codes, scales, rows, places, count, SCALED: tl.constexpr, BLOCK: tl.constexpr):
    """Store the codes and scales of blocks in the part at an address."""
    codes_ptr = tl.multiple_of(part.to(tl.pointer_type(codes.dtype)), 16)
    tl.store(codes_ptr + places, codes, mask=(rows < count)[:, None])
    if SCALED:
        scales_ptr = tl.multiple_of((part + count * BLOCK).to(tl.pointer_type(tl.float32)), 16)
        tl.store(scales_ptr + rows, scales, mask=rows < count)


@triton.jit
def load_part(part_ptr, rows, places, count, SCALED: tl.constexpr, BLOCK: tl.constexpr):
    """Decode blocks of a part; undefined beyond its last one."""
    inside = (rows < count)[:, None]
    if SCALED:
        values = tl.load(part_ptr + places, mask=inside, other=0).to(tl.float32)
        scales_ptr = tl.multiple_of((part_ptr + count.to(tl.int64) * BLOCK).to(tl.pointer_type(tl.float32)), 16)
        values *= tl.load(scales_ptr + rows, mask=rows < count, other=0)[:, None]
    else:
        codes_ptr = tl.multiple_of(part_ptr.to(tl.pointer_type(tl.bfloat16)), 16)
        values = tl.load(codes_ptr + places, mask=inside, other=0).to(tl.float32)
    return values


@triton.jit
def scatter(
    gradient_ptr,
    left_ptr,
    part_of_ptr,
    n,
    rank,
    world,
    count,
    SCALED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Encode the share of each other rank; the second dimension of the grid are these ranks."""
    rank_there = (rank + 1 + tl.program_id(1)) % world  # not all write to the same one first
    rows, places = tile(ROWS, BLOCK)
    numbers = rank_there.to(tl.int64) * count * BLOCK + places
    inside = (rows < count)[:, None]
    values = tl.load(gradient_ptr + numbers, mask=inside & (numbers < n), other=0)
    if SCALED:
        values += tl.load(left_ptr + numbers, mask=inside, other=0)
    codes, scales, decoded = encode(values, SCALED)
    store_part(tl.load(part_of_ptr + rank_there), codes, scales, rows, places, count, SCALED, BLOCK)
    if SCALED:
        tl.store(left_ptr + numbers, values - decoded, mask=inside)


@triton.jit
def add_share(
    gradient_ptr,
    left_ptr,
    received_ptr,
    part_of_ptr,
    before_ptr,
    after_ptr,
    n,
    factor,
    rank,
    world,
    count,
    SCALED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add this rank's share and its parts from all others, encode the sums for them, and add them to its own total."""
    rows, places = tile(ROWS, BLOCK)
    numbers = rank * count.to(tl.int64) * BLOCK + places
    inside = (rows < count)[:, None]
    values = tl.load(gradient_ptr + numbers, mask=inside & (numbers < n), other=0)
    if SCALED:
        values += tl.load(left_ptr + places, mask=inside, other=0)
    for source in range(world):
        if source != rank:
            part_ptr = received_ptr + source * part_bytes(count, SCALED, BLOCK)
            values += load_part(part_ptr, rows, places, count, SCALED, BLOCK)
    codes, scales, decoded = encode(values, SCALED)
    for rank_there in range(world):
        if rank_there != rank:
            store_part(tl.load(part_of_ptr + rank_there), codes, scales, rows, places, count, SCALED, BLOCK)
    if SCALED:
        tl.store(left_ptr + places, values - decoded, mask=inside)
    wanted = inside & (numbers < n)
    total = tl.load(before_ptr + numbers, mask=wanted, other=0) + decoded * factor
    tl.store(after_ptr + numbers, total, mask=wanted)


@triton.jit
def add_sums(
    received_ptr,
    before_ptr,
    after_ptr,
    n,
    factor,
    rank,
    world,
    count,
    SCALED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add the sums of each other rank's share to the total; the second dimension of the grid are these ranks."""
    source = (rank + 1 + tl.program_id(1)) % world
    rows, places = tile(ROWS, BLOCK)
    part_ptr = received_ptr + source * part_bytes(count, SCALED, BLOCK)
    sums = load_part(part_ptr, rows, places, count, SCALED, BLOCK)
    numbers = source.to(tl.int64) * count * BLOCK + places
    wanted = (rows < count)[:, None] & (numbers < n)
    total = tl.load(before_ptr + numbers, mask=wanted, other=0) + sums * factor
    tl.store(after_ptr + numbers, total, mask=wanted)
