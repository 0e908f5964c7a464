"""Rotate queries and keys by their positions, and put keys and values into a paged cache, in one pass.

A row of qkv is a token's: HEADS queries, KV_HEADS keys, KV_HEADS values, of WIDTH elements each. A row of the table is
a position's: WIDTH / 2 cosines, then as many sines, float32. `slots` are the tokens' places in the caches, which are
[places, KV_HEADS, WIDTH]; places are different, so that no two programs write to the same memory.

The pair i of a head is (2 i, 2 i + 1) where INTERLEAVED, else (i, i + WIDTH / 2).
"""

import triton
import triton.language as tl


@triton.jit
def turn(
    source, to, cosine, sine,
    COUNT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, PAIRS: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    """Rotate COUNT heads that lie one after the other. ROWS and PAIRS: powers of two that hold COUNT and WIDTH / 2."""
    heads = tl.arange(0, ROWS)[:, None]
    cosine, sine = cosine[None, :], sine[None, :]
    if INTERLEAVED:
        # Both elements of a pair in one wide access; they part in registers.
        columns = tl.arange(0, 2 * PAIRS)[None, :]
        at, mask = heads * WIDTH + columns, (heads < COUNT) & (columns < WIDTH)
        both = tl.load(source + at, mask=mask, other=0.0).to(tl.float32)
        first, second = tl.split(tl.reshape(both, [ROWS, PAIRS, 2]))
        both = tl.join(first * cosine - second * sine, second * cosine + first * sine)
        tl.store(to + at, tl.reshape(both, [ROWS, 2 * PAIRS]).to(to.dtype.element_ty), mask=mask)
    else:
        pairs = tl.arange(0, PAIRS)[None, :]
        at, mask = heads * WIDTH + pairs, (heads < COUNT) & (pairs < WIDTH // 2)
        first = tl.load(source + at, mask=mask, other=0.0).to(tl.float32)
        second = tl.load(source + at + WIDTH // 2, mask=mask, other=0.0).to(tl.float32)
        tl.store(to + at, (first * cosine - second * sine).to(to.dtype.element_ty), mask=mask)
        tl.store(to + at + WIDTH // 2, (second * cosine + first * sine).to(to.dtype.element_ty), mask=mask)


@triton.jit
def fused(
    qkv_ptr, positions_ptr, slots_ptr, table_ptr, q_ptr, keys_ptr, values_ptr,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, WIDTH: tl.constexpr, PAIRS: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    """One program a token and head of any kind."""
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot = tl.load(slots_ptr + token)
    pairs = tl.arange(0, PAIRS)
    angles = table_ptr + tl.load(positions_ptr + token) * WIDTH + pairs
    # Values are not rotated: a cosine of 1, a sine of 0.
    turned = pairs < tl.where(head < HEADS + KV_HEADS, WIDTH // 2, 0)
    cosine = tl.load(angles, mask=turned, other=1.0)
    sine = tl.load(angles + WIDTH // 2, mask=turned, other=0.0)
    if head < HEADS:
        to = q_ptr + (token * HEADS + head) * WIDTH
    elif head < HEADS + KV_HEADS:
        to = keys_ptr + (slot * KV_HEADS + head - HEADS) * WIDTH
    else:
        to = values_ptr + (slot * KV_HEADS + head - HEADS - KV_HEADS) * WIDTH
    source = qkv_ptr + (token * (HEADS + 2 * KV_HEADS) + head) * WIDTH
    turn(source, to, cosine, sine, 1, 1, WIDTH, PAIRS, INTERLEAVED)


@triton.jit
def heads_together(
    qkv_ptr, positions_ptr, slots_ptr, table_ptr, q_ptr, keys_ptr, values_ptr,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, WIDTH: tl.constexpr, PAIRS: tl.constexpr, INTERLEAVED: tl.constexpr,
    ROWS: tl.constexpr, KV_ROWS: tl.constexpr,
):  # fmt: skip
    """One program a token, with all heads. ROWS, KV_ROWS: powers of two that hold HEADS and KV_HEADS."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + token)
    pairs = tl.arange(0, PAIRS)
    angles = table_ptr + tl.load(positions_ptr + token) * WIDTH + pairs
    cosine = tl.load(angles, mask=pairs < WIDTH // 2, other=1.0)
    sine = tl.load(angles + WIDTH // 2, mask=pairs < WIDTH // 2, other=0.0)
    still, none = tl.full([PAIRS], 1.0, tl.float32), tl.zeros([PAIRS], tl.float32)
    source = qkv_ptr + token * (HEADS + 2 * KV_HEADS) * WIDTH
    keys, values = keys_ptr + slot * KV_HEADS * WIDTH, values_ptr + slot * KV_HEADS * WIDTH
    turn(source, q_ptr + token * HEADS * WIDTH, cosine, sine, HEADS, ROWS, WIDTH, PAIRS, INTERLEAVED)
    turn(source + HEADS * WIDTH, keys, cosine, sine, KV_HEADS, KV_ROWS, WIDTH, PAIRS, INTERLEAVED)
    source += (HEADS + KV_HEADS) * WIDTH
    turn(source, values, still, none, KV_HEADS, KV_ROWS, WIDTH, PAIRS, INTERLEAVED)
