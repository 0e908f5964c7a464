"""Attention of one query a head to a long cache of keys and values: parts of the cache, and the sum of the parts.

A row is a head of the cache of one sequence, to which GROUP queries belong. Keys and values are [rows, length, WIDTH].
Exponents are of 2: `scale` contains log2(e). A masked key has a score of -infinity, of which exp2 is 0; every block
and every part has at least one key that is not masked, so that no maximum is -infinity.
"""

import triton
import triton.language as tl


@triton.jit
def partial(
    q_ptr, keys_ptr, values_ptr, parts_ptr, tops_ptr, length, span, splits, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    DOT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One program a row and part of `span` keys: the attention of the row's queries to them, and its height.

    parts: [rows * GROUP, splits, WIDTH]. tops: [rows * GROUP, splits], the logarithms of the sums of weights.
    DOT: the products are those of tensor cores, of ROWS >= 16 queries, of which the last are padding.
    STAGES: the blocks of keys that are on their way, with the one that is computed.
    """
    row, number = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first = number * span
    last = tl.minimum(first + span, length)
    queries, columns = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    at_query = (row * GROUP + queries)[:, None] * WIDTH + columns[None, :]
    q = tl.load(q_ptr + at_query, mask=(queries < GROUP)[:, None], other=0.0)
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in tl.range(first, last, BLOCK, num_stages=STAGES):
        places = start + tl.arange(0, BLOCK)
        there = places < last
        at = (row * length + places)[:, None] * WIDTH + columns[None, :]
        keys = tl.load(keys_ptr + at, mask=there[:, None], other=0.0)
        values = tl.load(values_ptr + at, mask=there[:, None], other=0.0)
        if DOT:
            scores = tl.dot(q, tl.trans(keys))
        else:
            scores = tl.sum(q.to(tl.float32)[:, None, :] * keys.to(tl.float32)[None, :, :], axis=2)
        scores = tl.where(there[None, :], scores * scale, -float("inf"))
        raised = tl.maximum(top, tl.max(scores, axis=1))
        weights, kept = tl.exp2(scores - raised[:, None]), tl.exp2(top - raised)
        total = total * kept + tl.sum(weights, axis=1)
        if DOT:
            mixed = tl.dot(weights.to(values.dtype), values, mixed * kept[:, None])
        else:
            product = weights[:, :, None] * values.to(tl.float32)[None, :, :]
            mixed = mixed * kept[:, None] + tl.sum(product, axis=1)
        top = raised
    at_part = (row * GROUP + queries) * splits + number
    tl.store(tops_ptr + at_part, top + tl.log2(total), mask=queries < GROUP)
    at_part = at_part[:, None] * WIDTH + columns[None, :]
    tl.store(parts_ptr + at_part, mixed / total[:, None], mask=(queries < GROUP)[:, None])


@triton.jit
def combine(parts_ptr, tops_ptr, out_ptr, splits, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, SPLITS: tl.constexpr):
    """One program a query and COLUMNS of its width: the sum of its parts, each by its share; SPLITS >= splits."""
    head = tl.program_id(0).to(tl.int64)
    numbers, columns = tl.arange(0, SPLITS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there, at = numbers < splits, head * splits + numbers
    heights = tl.load(tops_ptr + at, mask=there, other=-float("inf"))
    part = tl.load(parts_ptr + at[:, None] * WIDTH + columns[None, :], mask=there[:, None], other=0.0)
    shares = tl.exp2(heights - tl.max(heights, axis=0))
    mixed = tl.sum(shares[:, None] * part, axis=0) / tl.sum(shares, axis=0)
    tl.store(out_ptr + head * WIDTH + columns, mixed.to(out_ptr.dtype.element_ty))
