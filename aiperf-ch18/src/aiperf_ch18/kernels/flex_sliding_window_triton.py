"""Attention of each query to the `window` keys that end with its own: blocks of keys outside of it are not touched.

q, keys, values and out are [heads, length, WIDTH]. Exponents are of 2: `scale` contains log2(e).
"""

import triton
import triton.language as tl

# The score of a masked key. It is finite, so that a row all of whose keys in a block are masked has no NaN: its weights
# are 1 then, and the next score that is not masked scales them to 0. A row's last key is its own, and is not masked.
MASKED = tl.constexpr(-1e30)


@triton.jit
def over_keys(
    q, keys_ptr, values_ptr, top, total, mixed, rows, begin, end, length, window, scale,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, MASKS: tl.constexpr,
):  # fmt: skip
    """Maximum, sum and weighted values, with the keys from `begin` to `end`. Without MASKS, all rows see all keys."""
    columns = tl.arange(0, WIDTH)
    for start in range(begin, end, BLOCK):
        places = start + tl.arange(0, BLOCK)
        at = places[:, None] * WIDTH + columns[None, :]
        if MASKS:
            keys = tl.load(keys_ptr + at, mask=(places < length)[:, None], other=0.0)
            values = tl.load(values_ptr + at, mask=(places < length)[:, None], other=0.0)
        else:
            keys = tl.load(keys_ptr + at)
            values = tl.load(values_ptr + at)
        scores = tl.dot(q, tl.trans(keys), input_precision="ieee") * scale
        if MASKS:
            distance = rows[:, None] - places[None, :]
            scores = tl.where((distance >= 0) & (distance < window), scores, MASKED)
        raised = tl.maximum(top, tl.max(scores, axis=1))
        weights, kept = tl.exp2(scores - raised[:, None]), tl.exp2(top - raised)
        total = total * kept + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(values.dtype), values, mixed * kept[:, None], input_precision="ieee")
        top = raised
    return top, total, mixed


@triton.jit
def windowed(
    q_ptr, keys_ptr, values_ptr, out_ptr, length, window, scale,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EDGES: tl.constexpr,
):  # fmt: skip
    """One program for ROWS queries of a head. ROWS is a multiple of BLOCK. EDGES: masks only where they mask."""
    head, first = tl.program_id(1).to(tl.int64) * length * WIDTH, tl.program_id(0) * ROWS
    keys_ptr, values_ptr = keys_ptr + head, values_ptr + head
    rows, columns = first + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    at = head + rows[:, None] * WIDTH + columns[None, :]
    q = tl.load(q_ptr + at, mask=(rows < length)[:, None], other=0.0)
    top = tl.full([ROWS], MASKED, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    # The first row sees the keys from first - window + 1. The last row sees those from first + ROWS - window, and from
    # there to `first`, where the diagonal begins, every row sees every key. Windows narrower than a block have no such.
    begin = tl.maximum(first - window + 1, 0) // BLOCK * BLOCK
    end = tl.minimum(first + ROWS, length)
    if EDGES:
        inside = tl.minimum(tl.cdiv(tl.maximum(first + ROWS - window, 0), BLOCK) * BLOCK, first)
        top, total, mixed = over_keys(
            q, keys_ptr, values_ptr, top, total, mixed, rows, begin, inside, length, window, scale, WIDTH, BLOCK, True
        )
        top, total, mixed = over_keys(
            q, keys_ptr, values_ptr, top, total, mixed, rows, inside, first, length, window, scale, WIDTH, BLOCK, False
        )
        begin = first
    top, total, mixed = over_keys(
        q, keys_ptr, values_ptr, top, total, mixed, rows, begin, end, length, window, scale, WIDTH, BLOCK, True
    )
    tl.store(out_ptr + at, (mixed / total[:, None]).to(out_ptr.dtype.element_ty), mask=(rows < length)[:, None])
