"""Attention of one query a head to pages of keys and values of 8 or 4 bits, each token and head with a scale.

Keys and values are [pages, kv_heads, PAGE, WIDTH * BITS / 8] of bytes, and their scales [pages, kv_heads, PAGE]. Of 4
bits the low half of byte i is channel i, the high half channel i + WIDTH / 2, so that both halves of a head are blocks
of their own. Codes become float16 exactly, and scales are factors of a token, outside of the products.
"""

import triton
import triton.language as tl


@triton.jit
def _wide(codes, ZERO: tl.constexpr):
    """The numbers of codes: whole ones above ZERO or, where ZERO is 0, those of e4m3, divided by 256.

    The bits of 1024 + n in float16 are those of 1024, and n below them. e4m3 has the fields of float16 with fewer bits
    of each, and an exponent that counts from -7 in place of -15.
    """
    bits = codes.to(tl.uint16)
    if ZERO == 0:
        return (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).to(tl.float16, bitcast=True)
    return (bits | 0x6400).to(tl.float16, bitcast=True) - (1024 + ZERO)


@triton.jit
def _halves(codes_ptr, at, there, WIDTH: tl.constexpr, BITS: tl.constexpr, ZERO: tl.constexpr):
    """Both halves of the channels of the tokens `at`, [BLOCK, WIDTH / 2]."""
    columns = tl.arange(0, WIDTH // 2)[None, :]
    first = tl.load(codes_ptr + at[:, None] * (WIDTH * BITS // 8) + columns, mask=there[:, None], other=0)
    if BITS == 4:
        low, high = first & 0xF, first >> 4
    else:
        low = first
        high = tl.load(codes_ptr + at[:, None] * WIDTH + columns + WIDTH // 2, mask=there[:, None], other=0)
    return _wide(low, ZERO), _wide(high, ZERO)


@triton.jit
def narrow(
    q_ptr, keys_ptr, key_scales_ptr, values_ptr, value_scales_ptr, rotation_ptr, tables_ptr, plan_ptr, parts_ptr,
    tops_ptr, kv_heads, table_width, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr,
    STAGES: tl.constexpr, BITS: tl.constexpr, ZERO: tl.constexpr, ROTATED: tl.constexpr,
):  # fmt: skip
    """One program a head of the cache and row of the plan, as `partial` of paged attention.

    rotation: [WIDTH, WIDTH], by which the keys were multiplied, if ROTATED. `scale` contains log2(e).
    """
    head, row = tl.program_id(0), plan_ptr + 4 * tl.program_id(1)
    sequence, first, last, place = tl.load(row), tl.load(row + 1), tl.load(row + 2), tl.load(row + 3)
    heads, half = kv_heads * GROUP, WIDTH // 2
    queries, columns = tl.arange(0, ROWS), tl.arange(0, WIDTH // 2)
    real = queries < GROUP
    of_query = (sequence.to(tl.int64) * heads + head * GROUP + queries)[:, None] * WIDTH
    if ROTATED:
        all_columns = tl.arange(0, WIDTH)
        q = tl.load(q_ptr + of_query + all_columns[None, :], mask=real[:, None], other=0.0).to(tl.float16)
        rotation = rotation_ptr + all_columns[:, None] * WIDTH + columns[None, :]
        q_low = tl.dot(q, tl.load(rotation)).to(tl.float16)
        q_high = tl.dot(q, tl.load(rotation + half)).to(tl.float16)
    else:
        at_query = q_ptr + of_query + columns[None, :]
        q_low = tl.load(at_query, mask=real[:, None], other=0.0).to(tl.float16)
        q_high = tl.load(at_query + half, mask=real[:, None], other=0.0).to(tl.float16)
    table = tables_ptr + sequence.to(tl.int64) * table_width
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed_low = tl.zeros([ROWS, WIDTH // 2], tl.float32)
    mixed_high = tl.zeros([ROWS, WIDTH // 2], tl.float32)
    for start in tl.range(first, last, BLOCK, num_stages=STAGES):
        places = start + tl.arange(0, BLOCK)
        there = places < last
        page = tl.load(table + places // PAGE, mask=there, other=0).to(tl.int64)
        at = (page * kv_heads + head) * PAGE + places % PAGE
        key_scales = tl.load(key_scales_ptr + at, mask=there, other=1.0)
        value_scales = tl.load(value_scales_ptr + at, mask=there, other=1.0)
        low, high = _halves(keys_ptr, at, there, WIDTH, BITS, ZERO)
        scores = tl.dot(q_high, tl.trans(high), tl.dot(q_low, tl.trans(low))) * (key_scales * scale)[None, :]
        # A weight times the scale of its value is a power, too: in float16 it is at most one, whatever the scale is.
        scores = tl.where(there[None, :], scores + tl.log2(value_scales)[None, :], -float("inf"))
        raised = tl.maximum(top, tl.max(scores, axis=1))
        weights, kept = tl.exp2(scores - raised[:, None]), tl.exp2(top - raised)
        total = total * kept + tl.sum(weights / value_scales[None, :], axis=1)
        low, high = _halves(values_ptr, at, there, WIDTH, BITS, ZERO)
        mixed_low = tl.dot(weights.to(tl.float16), low, mixed_low * kept[:, None])
        mixed_high = tl.dot(weights.to(tl.float16), high, mixed_high * kept[:, None])
        top = raised
    at_part = place.to(tl.int64) * heads + head * GROUP + queries
    tl.store(tops_ptr + at_part, top + tl.log2(total), mask=real)
    at_part = parts_ptr + at_part[:, None] * WIDTH + columns[None, :]
    tl.store(at_part, mixed_low / total[:, None], mask=real[:, None])
    tl.store(at_part + half, mixed_high / total[:, None], mask=real[:, None])
