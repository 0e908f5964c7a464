"""Attention of one query a head to a cache of latents, which all heads share: a latent is read once, as key and value.

cache: [batch, length, LATENT + ROPE], a latent and the turned part of a key. q: [heads, batch, LATENT], queries in the
space of latents. turned: [batch, heads, ROPE]. Exponents are of 2: `scale` contains log2(e).
"""

import triton
import triton.language as tl


@triton.jit
def over_latents(
    q_ptr, turned_ptr, cache_ptr, parts_ptr, tops_ptr, batch, heads, length, span, splits, scale,
    LATENT: tl.constexpr, ROPE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One program for ROWS heads of a sequence and a part of `span` keys, of which every block has at least one.

    parts: [heads, batch, splits, LATENT]. tops: [heads, batch, splits], the logarithms of the sums of weights.
    """
    sequence, number = tl.program_id(1).to(tl.int64), tl.program_id(2)
    first = number * span
    last = tl.minimum(first + span, length)
    rows, columns, turns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, LATENT), tl.arange(0, ROPE)
    known = rows < heads
    at = rows * batch + sequence
    q = tl.load(q_ptr + at[:, None] * LATENT + columns[None, :], mask=known[:, None], other=0.0)
    at_turned = (sequence * heads + rows)[:, None] * ROPE + turns[None, :]
    turned = tl.load(turned_ptr + at_turned, mask=known[:, None], other=0.0)
    cache_ptr += sequence * length * (LATENT + ROPE)
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, LATENT], tl.float32)
    for start in tl.range(first, last, BLOCK, num_stages=STAGES):
        places = start + tl.arange(0, BLOCK)
        there = places < last
        begins = places[:, None] * (LATENT + ROPE)
        latents = tl.load(cache_ptr + begins + columns[None, :], mask=there[:, None], other=0.0)
        keys = tl.load(cache_ptr + begins + LATENT + turns[None, :], mask=there[:, None], other=0.0)
        scores = tl.dot(turned, tl.trans(keys), input_precision="ieee")
        scores = tl.dot(q, tl.trans(latents), scores, input_precision="ieee")
        scores = tl.where(there[None, :], scores * scale, -float("inf"))
        raised = tl.maximum(top, tl.max(scores, axis=1))
        weights, kept = tl.exp2(scores - raised[:, None]), tl.exp2(top - raised)
        total = total * kept + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(latents.dtype), latents, mixed * kept[:, None], input_precision="ieee")
        top = raised
    at_part = at * splits + number
    tl.store(tops_ptr + at_part, top + tl.log2(total), mask=known)
    out = (mixed / total[:, None]).to(parts_ptr.dtype.element_ty)
    tl.store(parts_ptr + at_part[:, None] * LATENT + columns[None, :], out, mask=known[:, None])
