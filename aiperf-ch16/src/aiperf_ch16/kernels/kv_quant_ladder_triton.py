"""Attention of one query a head to pages of keys and values of 8 or 4 bits, each token and head with a scale.

Keys and values are [pages, kv_heads, PAGE, PIECE] words of 16 bits, their scales [pages, kv_heads, PAGE]; of values the
logarithms to base 2. A word has 2 codes of 8 bits or 4 of 4 bits, the lowest first: of channels i, i + PIECE, ... of
WIDTH, so that a piece of a head is a block of its own, and words are moved like float16. Codes become float16 exactly;
scales are factors of a token, outside of the products.
"""

import triton
import triton.language as tl


@triton.jit
def _pair(words, BITS: tl.constexpr, ZERO: tl.constexpr):
    """The numbers of two neighbours among codes: whole ones above ZERO or, where that is 0, of e4m3, divided by 256.

    The bits of 1024 + n in float16 are those of 1024, and n below them. e4m3 has the fields of float16 with fewer bits
    of each, and an exponent that counts from -7 in place of -15.
    """
    if ZERO == 0:
        low, high = ((words & 0x80) << 8) | ((words & 0x7F) << 7), (words & 0x8000) | ((words & 0x7F00) >> 1)
        return low.to(tl.float16, bitcast=True), high.to(tl.float16, bitcast=True)
    if BITS == 8:
        low, high = (words & 0xFF) | 0x6400, (words >> 8) | 0x6400
        return low.to(tl.float16, bitcast=True) - (1024 + ZERO), high.to(tl.float16, bitcast=True) - (1024 + ZERO)
    low, high = (words & 0xF) | 0x6400, (words & 0xF0) | 0x6400  # 1024 + n, 1024 + 16 n
    return low.to(tl.float16, bitcast=True) - (1024 + ZERO), high.to(tl.float16, bitcast=True) * 0.0625 - (64 + ZERO)


@triton.jit
def narrow(
    q_ptr, keys_ptr, key_scales_ptr, values_ptr, value_logs_ptr, rotation_ptr, tables_ptr, plan_ptr, parts_ptr,
    tops_ptr, kv_heads, table_width, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr,
    STAGES: tl.constexpr, BITS: tl.constexpr, ZERO: tl.constexpr, ROTATED: tl.constexpr, PIECE: tl.constexpr,
):  # fmt: skip
    """One program a head of the cache and row of the plan, as `partial` of paged attention.

    rotation: [WIDTH, WIDTH], by which the keys were multiplied, if ROTATED. PIECE: WIDTH * BITS / 16.
    `scale` contains log2(e).
    """
    head, row = tl.program_id(0), plan_ptr + 4 * tl.program_id(1)
    sequence, first, last, place = tl.load(row), tl.load(row + 1), tl.load(row + 2), tl.load(row + 3)
    heads = kv_heads * GROUP
    queries, columns = tl.arange(0, ROWS), tl.arange(0, PIECE)
    real = queries < GROUP
    at_query = q_ptr + (sequence.to(tl.int64) * heads + head * GROUP + queries)[:, None] * WIDTH
    if ROTATED:
        channels = tl.arange(0, WIDTH)
        q = tl.load(at_query + channels[None, :], mask=real[:, None], other=0.0).to(tl.float16)
        rotation = rotation_ptr + channels[:, None] * WIDTH + columns[None, :]
        q_0 = tl.dot(q, tl.load(rotation)).to(tl.float16)
        q_1 = tl.dot(q, tl.load(rotation + PIECE)).to(tl.float16)
        if BITS == 4:
            q_2 = tl.dot(q, tl.load(rotation + 2 * PIECE)).to(tl.float16)
            q_3 = tl.dot(q, tl.load(rotation + 3 * PIECE)).to(tl.float16)
    else:
        at_query += columns[None, :]
        q_0 = tl.load(at_query, mask=real[:, None], other=0.0).to(tl.float16)
        q_1 = tl.load(at_query + PIECE, mask=real[:, None], other=0.0).to(tl.float16)
        if BITS == 4:
            q_2 = tl.load(at_query + 2 * PIECE, mask=real[:, None], other=0.0).to(tl.float16)
            q_3 = tl.load(at_query + 3 * PIECE, mask=real[:, None], other=0.0).to(tl.float16)
    table = tables_ptr + sequence.to(tl.int64) * table_width
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed_0 = tl.zeros([ROWS, PIECE], tl.float32)
    mixed_1 = tl.zeros([ROWS, PIECE], tl.float32)
    mixed_2 = tl.zeros([ROWS, PIECE], tl.float32)
    mixed_3 = tl.zeros([ROWS, PIECE], tl.float32)
    for start in tl.range(first, last, BLOCK, num_stages=STAGES):
        places = start + tl.arange(0, BLOCK)
        there = places < last
        page = tl.load(table + places // PAGE, mask=there, other=0).to(tl.int64)
        at = (page * kv_heads + head) * PAGE + places % PAGE
        key_scales = tl.load(key_scales_ptr + at, mask=there, other=0.0)
        value_logs = tl.load(value_logs_ptr + at, mask=there, other=0.0)
        at = at[:, None] * PIECE + columns[None, :]
        words = tl.load(keys_ptr + at, mask=there[:, None], other=0)
        low, high = _pair(words, BITS, ZERO)
        scores = tl.dot(q_1, tl.trans(high), tl.dot(q_0, tl.trans(low)))
        if BITS == 4:
            low, high = _pair(words >> 8, BITS, ZERO)
            scores = tl.dot(q_3, tl.trans(high), tl.dot(q_2, tl.trans(low), scores))
        scores = tl.where(there[None, :], scores * (key_scales * scale)[None, :], -float("inf"))
        # Times the scale of its value a weight is a power of two, too, and as a float16 at most one.
        heights = scores + value_logs[None, :]
        raised = tl.maximum(top, tl.max(heights, axis=1))
        weights, kept = tl.exp2(heights - raised[:, None]).to(tl.float16), tl.exp2(top - raised)
        total = total * kept + tl.sum(tl.exp2(scores - raised[:, None]), axis=1)
        words = tl.load(values_ptr + at, mask=there[:, None], other=0)
        low, high = _pair(words, BITS, ZERO)
        mixed_0 = tl.dot(weights, low, mixed_0 * kept[:, None])
        mixed_1 = tl.dot(weights, high, mixed_1 * kept[:, None])
        if BITS == 4:
            low, high = _pair(words >> 8, BITS, ZERO)
            mixed_2 = tl.dot(weights, low, mixed_2 * kept[:, None])
            mixed_3 = tl.dot(weights, high, mixed_3 * kept[:, None])
        top = raised
    at_part = place.to(tl.int64) * heads + head * GROUP + queries
    tl.store(tops_ptr + at_part, top + tl.log2(total), mask=real)
    part = parts_ptr + at_part[:, None] * WIDTH + columns[None, :]
    tl.store(part, mixed_0 / total[:, None], mask=real[:, None])
    tl.store(part + PIECE, mixed_1 / total[:, None], mask=real[:, None])
    if BITS == 4:
        tl.store(part + 2 * PIECE, mixed_2 / total[:, None], mask=real[:, None])
        tl.store(part + 3 * PIECE, mixed_3 / total[:, None], mask=real[:, None])
