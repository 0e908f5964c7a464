"""Attention of one query a head to sequences whose keys and values lie in pages; and the sum of parts of sequences.

Keys and values are [pages, kv_heads, PAGE, WIDTH]; a table has the pages of a sequence in their order. GROUP queries
share a head of the cache. Exponents are of 2: `scale` contains log2(e). A masked key has a score of -infinity, of which
exp2 is 0; every block and every part has at least one key that is not masked, so that no maximum is -infinity.
"""

import triton
import triton.language as tl


@triton.jit
def partial(
    q_ptr, keys_ptr, values_ptr, tables_ptr, plan_ptr, parts_ptr, tops_ptr, kv_heads, table_width, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, PAGE: tl.constexpr, BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """One program a head of the cache and row of the plan: the attention of the head's queries to its keys.

    plan: [parts, 4], the sequence, the first and the last key, and the place of the result.
    parts: [parts, heads, WIDTH]. tops: [parts, heads], the logarithms of the sums of weights.
    ROWS >= 16: queries of a product of tensor cores, of which the last are padding.
    STAGES: of the loads, of which those of the table take two; the others are blocks of keys and the one in use.
    """
    head, row = tl.program_id(0), plan_ptr + 4 * tl.program_id(1)
    sequence, first, last, place = tl.load(row), tl.load(row + 1), tl.load(row + 2), tl.load(row + 3)
    heads = kv_heads * GROUP
    queries, columns = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    real = queries < GROUP
    at_query = (sequence.to(tl.int64) * heads + head * GROUP + queries)[:, None] * WIDTH + columns[None, :]
    q = tl.load(q_ptr + at_query, mask=real[:, None], other=0.0)
    table = tables_ptr + sequence.to(tl.int64) * table_width
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in tl.range(first, last, BLOCK, num_stages=STAGES):
        places = start + tl.arange(0, BLOCK)
        there = places < last
        page = tl.load(table + places // PAGE, mask=there, other=0).to(tl.int64)
        at = ((page * kv_heads + head) * PAGE + places % PAGE)[:, None] * WIDTH + columns[None, :]
        keys = tl.load(keys_ptr + at, mask=there[:, None], other=0.0)
        values = tl.load(values_ptr + at, mask=there[:, None], other=0.0)
        scores = tl.where(there[None, :], tl.dot(q, tl.trans(keys)) * scale, -float("inf"))
        raised = tl.maximum(top, tl.max(scores, axis=1))
        weights, kept = tl.exp2(scores - raised[:, None]), tl.exp2(top - raised)
        total = total * kept + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(values.dtype), values, mixed * kept[:, None])
        top = raised
    at_part = place.to(tl.int64) * heads + head * GROUP + queries
    tl.store(tops_ptr + at_part, top + tl.log2(total), mask=real)
    result = (mixed / total[:, None]).to(parts_ptr.dtype.element_ty)
    tl.store(parts_ptr + at_part[:, None] * WIDTH + columns[None, :], result, mask=real[:, None])


@triton.jit
def combine(parts_ptr, tops_ptr, begins_ptr, out_ptr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SPLITS: tl.constexpr):
    """One program a sequence, a head and COLUMNS of its width: the sum of its parts, each by its share.

    begins: [sequences + 1], the first part of each sequence, which has at most SPLITS.
    """
    sequence, head, heads = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    begin, end = tl.load(begins_ptr + sequence), tl.load(begins_ptr + sequence + 1)
    numbers, columns = begin + tl.arange(0, SPLITS), tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    there, at = numbers < end, numbers.to(tl.int64) * heads + head
    heights = tl.load(tops_ptr + at, mask=there, other=-float("inf"))
    part = tl.load(parts_ptr + at[:, None] * WIDTH + columns[None, :], mask=there[:, None], other=0.0)
    shares = tl.exp2(heights - tl.max(heights, axis=0))
    mixed = tl.sum(shares[:, None] * part, axis=0) / tl.sum(shares, axis=0)
    tl.store(out_ptr + (sequence * heads + head) * WIDTH + columns, mixed.to(out_ptr.dtype.element_ty))
