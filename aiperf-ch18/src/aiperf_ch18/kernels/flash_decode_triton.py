"""Attention of one query a head to a long cache of keys and values: parts of the cache, and the sum of the parts.

A row is a head of the cache of one sequence, to which GROUP queries belong. Keys and values are [rows, length, WIDTH].
Exponents are of 2: `scale` contains log2(e). A masked key has a score of -infinity, of which exp2 is 0; every block
and every part has at least one key that is not masked, so that no maximum is -infinity.
"""

import triton
import triton.language as tl


@triton.jit
def over_keys(
    q_ptr, keys_ptr, values_ptr, row, first, last, length, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    DOT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The attention of a row's queries to the keys from `first` to `last`, and the logarithms of its sums.

    DOT: the products are those of tensor cores, of ROWS >= 16 queries, of which the last are padding.
    STAGES: the blocks of keys that are on their way, with the one that is computed.
    """
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
    return mixed / total[:, None], top + tl.log2(total)


@triton.jit
def summed(
    parts_ptr, tops_ptr, out_ptr, head, splits,
    HEADS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Write the sum of the parts of HEADS <= ROWS queries from `head`, CHUNK parts at a time, each by its share.

    Another program wrote the parts, perhaps in this launch, so they come from the cache that all share (.cg).
    """
    queries, columns = head + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    real = tl.arange(0, ROWS) < HEADS
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(0, splits, CHUNK):
        numbers = start + tl.arange(0, CHUNK)
        at = queries[:, None] * splits + numbers[None, :]
        there = real[:, None] & (numbers < splits)[None, :]
        # Queries that are padding have a height of 0, so that theirs is no infinite difference.
        heights = tl.load(tops_ptr + at, mask=there, other=-float("inf"), cache_modifier=".cg")
        heights = tl.where(real[:, None], heights, 0.0)
        part = tl.load(
            parts_ptr + at[:, :, None] * WIDTH + columns[None, None, :],
            mask=there[:, :, None],
            other=0.0,
            cache_modifier=".cg",
        )
        raised = tl.maximum(top, tl.max(heights, axis=1))
        shares, kept = tl.exp2(heights - raised[:, None]), tl.exp2(top - raised)
        total = total * kept + tl.sum(shares, axis=1)
        mixed = mixed * kept[:, None] + tl.sum(shares[:, :, None] * part, axis=1)
        top = raised
    result = (mixed / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + queries[:, None] * WIDTH + columns[None, :], result, mask=real[:, None])


@triton.jit
def per_row(
    q_ptr, keys_ptr, values_ptr, out_ptr, length, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a row, for all keys."""
    row = tl.program_id(0).to(tl.int64)
    mixed, _ = over_keys(
        q_ptr, keys_ptr, values_ptr, row, 0, length, length, scale, GROUP, ROWS, WIDTH, BLOCK, False, 1
    )
    queries, columns = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    at = (row * GROUP + queries)[:, None] * WIDTH + columns[None, :]
    tl.store(out_ptr + at, mixed.to(out_ptr.dtype.element_ty), mask=(queries < GROUP)[:, None])


@triton.jit
def partial(
    q_ptr, keys_ptr, values_ptr, out_ptr, parts_ptr, tops_ptr, counts_ptr, length, span, splits, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    DOT: tl.constexpr, STAGES: tl.constexpr, SUM_ROWS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One program a row and part of `span` keys. With CHUNK above 0, the last program of a row sums its parts.

    parts: [rows * GROUP, splits, WIDTH]. tops: [rows * GROUP, splits]. counts: of a row's finished programs, 0 before
    and after a launch.
    """
    row, number = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first = number * span
    last = tl.minimum(first + span, length)
    mixed, height = over_keys(
        q_ptr, keys_ptr, values_ptr, row, first, last, length, scale, GROUP, ROWS, WIDTH, BLOCK, DOT, STAGES
    )
    queries, columns = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    at = (row * GROUP + queries) * splits + number
    tl.store(tops_ptr + at, height, mask=queries < GROUP)
    tl.store(parts_ptr + at[:, None] * WIDTH + columns[None, :], mixed, mask=(queries < GROUP)[:, None])
    if CHUNK > 0:
        # All threads have stored before one of them counts; who counts last sees what all others stored.
        tl.debug_barrier()
        before = tl.atomic_add(counts_ptr + row, 1, sem="acq_rel")
        if before == splits - 1:
            tl.debug_barrier()
            summed(parts_ptr, tops_ptr, out_ptr, row * GROUP, splits, GROUP, SUM_ROWS, WIDTH, CHUNK)
            tl.store(counts_ptr + row, 0)


@triton.jit
def combine(parts_ptr, tops_ptr, out_ptr, splits, WIDTH: tl.constexpr, CHUNK: tl.constexpr):
    """One program a query: the sum of its parts."""
    summed(parts_ptr, tops_ptr, out_ptr, tl.program_id(0).to(tl.int64), splits, 1, 1, WIDTH, CHUNK)
