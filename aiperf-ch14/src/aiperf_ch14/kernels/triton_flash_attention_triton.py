"""Causal attention in one kernel: a tile of queries passes over the keys in blocks, and no score leaves the chip.

Queries, keys, values and results are [heads, length, WIDTH]; a batch is more heads. Scores are float32, weights are
rounded to the dtype of the values for the second product. Query i sees the keys up to i, so that the first block has a
visible key for every query, and no maximum is -infinity after it.
"""

import triton
import triton.language as tl


@triton.jit
def _passed(
    q, top, total, mixed, keys_in, values_in, begin, first, last, length, queries, scale,
    WIDTH: tl.constexpr, KEYS: tl.constexpr, MASK: tl.constexpr, EXP2: tl.constexpr,
    DESCRIPTORS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The state of the tile after the keys from `first` to `last`: maxima, sums of weights, weighted sums of values.

    begin: the first row of the head. MASK: some keys are behind a query, or behind the end.
    """
    for start in tl.range(first, last, KEYS, num_stages=STAGES):
        places = start + tl.arange(0, KEYS)
        if DESCRIPTORS:  # rows of the next head, or zeros, stand behind the end
            keys = keys_in.load([(begin + start).to(tl.int32), 0])
            values = values_in.load([(begin + start).to(tl.int32), 0])
        else:
            at = (begin + places)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
            if MASK:
                keys = tl.load(keys_in + at, mask=(places < length)[:, None], other=0.0)
                values = tl.load(values_in + at, mask=(places < length)[:, None], other=0.0)
            else:
                keys, values = tl.load(keys_in + at), tl.load(values_in + at)
        scores = tl.dot(q, tl.trans(keys))
        if MASK:
            scores = tl.where(queries[:, None] >= places[None, :], scores, -float("inf"))
        if EXP2:  # `scale` contains log2(e), and is in one multiply-add with the subtraction
            raised = tl.maximum(top, tl.max(scores, axis=1) * scale)
            weights, kept = tl.exp2(scores * scale - raised[:, None]), tl.exp2(top - raised)
        else:
            scores = scores * scale
            raised = tl.maximum(top, tl.max(scores, axis=1))
            weights, kept = tl.exp(scores - raised[:, None]), tl.exp(top - raised)
        total = total * kept + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(values.dtype), values, mixed * kept[:, None])
        top = raised
    return top, total, mixed


@triton.jit
def attention(
    q_ptr, keys_in, values_in, out_ptr, length, scale,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, SKIP: tl.constexpr, EXP2: tl.constexpr,
    DESCRIPTORS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One program a tile of ROWS queries and a head; KEYS divides ROWS.

    SKIP: blocks of which no query sees a key are left out, and those that all see have no mask.
    DESCRIPTORS: keys_in and values_in are tensor descriptors of [heads * length, WIDTH], else pointers.
    """
    # The last tile has the most keys, and starts first.
    tile = (tl.num_programs(0) - 1 - tl.program_id(0)) * ROWS
    begin = tl.program_id(1).to(tl.int64) * length
    queries, columns = tile + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    at = (begin + queries)[:, None] * WIDTH + columns[None, :]
    there = (queries < length)[:, None]
    q = tl.load(q_ptr + at, mask=there, other=0.0)
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    diagonal, last = 0, length
    if SKIP:
        diagonal, last = tile, tl.minimum(tile + ROWS, length)
        top, total, mixed = _passed(
            q, top, total, mixed, keys_in, values_in, begin, 0, diagonal, length, queries, scale,
            WIDTH, KEYS, False, EXP2, DESCRIPTORS, STAGES,
        )  # fmt: skip
    top, total, mixed = _passed(
        q, top, total, mixed, keys_in, values_in, begin, diagonal, last, length, queries, scale,
        WIDTH, KEYS, True, EXP2, DESCRIPTORS, STAGES,
    )  # fmt: skip
    tl.store(out_ptr + at, (mixed / total[:, None]).to(out_ptr.dtype.element_ty), mask=there)
