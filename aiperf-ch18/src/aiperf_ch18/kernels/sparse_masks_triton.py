"""Attention under a mask that is data: lists of tiles of keys that are visited, and the first key that each query sees.

q, keys, values and out are [heads, length, WIDTH]. A query sees keys of its listed tiles, from begins[query] to itself.
Exponents are of 2: `scale` contains log2(e).
"""

import triton
import triton.language as tl

# The score of a masked key. It is finite, so that a row whose keys of a block are all masked has no NaN: its weights
# are 1 then, and the next score that is not masked scales them to 0. Every row sees itself.
MASKED = tl.constexpr(-1e30)


@triton.jit
def over_tiles(
    q, keys_ptr, values_ptr, tiles_ptr, first, last, rows, begins, length, scale, top, total, mixed,
    WIDTH: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr, MASKS: tl.constexpr,
):  # fmt: skip
    """Maximum, sum and weighted values, with the tiles from `first` to `last` of a list. Without MASKS all are seen."""
    columns = tl.arange(0, WIDTH)
    for number in range(first * (TILE // BLOCK), last * (TILE // BLOCK)):
        start = tl.load(tiles_ptr + number // (TILE // BLOCK)) * TILE + number % (TILE // BLOCK) * BLOCK
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
            seen = (places[None, :] <= rows[:, None]) & (places[None, :] >= begins[:, None])
            scores = tl.where(seen, scores, MASKED)
        raised = tl.maximum(top, tl.max(scores, axis=1))
        weights, kept = tl.exp2(scores - raised[:, None]), tl.exp2(top - raised)
        total = total * kept + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(values.dtype), values, mixed * kept[:, None], input_precision="ieee")
        top = raised
    return top, total, mixed


@triton.jit
def tiled(
    q_ptr, keys_ptr, values_ptr, out_ptr, begins_ptr, tiles_ptr, whole_ptr, ends_ptr, order_ptr, length, most, scale,
    WIDTH: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program for TILE queries of a head.

    tiles: [tiles of queries, most]; of a row, the first whole[row] are seen as a whole, those up to ends[row] in part.
    """
    row = tl.load(order_ptr + tl.program_id(1))
    head = tl.program_id(0).to(tl.int64) * length * WIDTH
    rows, columns = row * TILE + tl.arange(0, TILE), tl.arange(0, WIDTH)
    known = rows < length
    at = head + rows[:, None] * WIDTH + columns[None, :]
    q = tl.load(q_ptr + at, mask=known[:, None], other=0.0)
    begins = tl.load(begins_ptr + rows, mask=known, other=0)
    top = tl.full([TILE], MASKED, tl.float32)
    total = tl.zeros([TILE], tl.float32)
    mixed = tl.zeros([TILE, WIDTH], tl.float32)
    tiles_ptr += row.to(tl.int64) * most
    whole, end = tl.load(whole_ptr + row), tl.load(ends_ptr + row)
    top, total, mixed = over_tiles(
        q, keys_ptr + head, values_ptr + head, tiles_ptr, 0, whole, rows, begins, length, scale, top, total, mixed,
        WIDTH, TILE, BLOCK, False,
    )  # fmt: skip
    top, total, mixed = over_tiles(
        q, keys_ptr + head, values_ptr + head, tiles_ptr, whole, end, rows, begins, length, scale, top, total, mixed,
        WIDTH, TILE, BLOCK, True,
    )  # fmt: skip
    tl.store(out_ptr + at, (mixed / total[:, None]).to(out_ptr.dtype.element_ty), mask=known[:, None])
