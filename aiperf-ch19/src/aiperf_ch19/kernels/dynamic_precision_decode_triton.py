"""The steps of `ch19.dynamic_precision_decode` between its products with weights, each as one kernel."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=("place", "room"))
def attended(
    split_ptr, keys_ptr, values_ptr, cosine_ptr, sine_ptr, out_ptr, place, room, heads, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, HALF: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program a head of the cache: what its GROUP <= ROWS queries see of the tokens up to `place`.

    split: queries [heads, 2 HALF], then keys and values [heads / GROUP, 2 HALF] of the token. The first HALF elements
    of a head turn with the last, by the angle of their place: cosine, sine [HALF]; HALF <= PADDED. The token's key and
    value go to keys and values, [heads / GROUP, room, 2 HALF]. scale: of scores, with log2(e).
    """
    head, half = tl.program_id(0), tl.arange(0, PADDED)
    inside = half < HALF
    cosine = tl.load(cosine_ptr + half, mask=inside, other=0.0)
    sine = tl.load(sine_ptr + half, mask=inside, other=0.0)
    kind = keys_ptr.dtype.element_ty
    own = split_ptr + (heads + head) * (2 * HALF) + half
    first = tl.load(own, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(own + HALF, mask=inside, other=0.0).to(tl.float32)
    to = (head * room + place) * (2 * HALF) + half
    tl.store(keys_ptr + to, (first * cosine - second * sine).to(kind), mask=inside)
    tl.store(keys_ptr + to + HALF, (second * cosine + first * sine).to(kind), mask=inside)
    own += heads // GROUP * (2 * HALF)
    tl.store(values_ptr + to, tl.load(own, mask=inside, other=0.0), mask=inside)
    tl.store(values_ptr + to + HALF, tl.load(own + HALF, mask=inside, other=0.0), mask=inside)
    query = tl.arange(0, ROWS)[:, None]
    real = (query < GROUP) & inside[None, :]
    at = (head * GROUP + query) * (2 * HALF) + half[None, :]
    first = tl.load(split_ptr + at, mask=real, other=0.0).to(tl.float32)
    second = tl.load(split_ptr + at + HALF, mask=real, other=0.0).to(tl.float32)
    turned = (first * cosine[None, :] - second * sine[None, :]).to(kind).to(tl.float32)
    second = (second * cosine[None, :] + first * sine[None, :]).to(kind).to(tl.float32)
    first = turned
    tl.debug_barrier()  # all threads of the program see the token's key and value
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    low, high = tl.zeros([ROWS, PADDED], tl.float32), tl.zeros([ROWS, PADDED], tl.float32)
    for start in range(0, place + 1, BLOCK):
        places = start + tl.arange(0, BLOCK)
        there = (places <= place)[:, None] & inside[None, :]
        cached = (head * room + places)[:, None] * (2 * HALF) + half[None, :]
        keys = tl.load(keys_ptr + cached, mask=there, other=0.0).to(tl.float32)
        more = tl.load(keys_ptr + cached + HALF, mask=there, other=0.0).to(tl.float32)
        products = first[:, None, :] * keys[None, :, :] + second[:, None, :] * more[None, :, :]
        scores = tl.where((places <= place)[None, :], tl.sum(products, 2) * scale, -float("inf"))
        raised = tl.maximum(top, tl.max(scores, 1))
        weights, kept = tl.exp2(scores - raised[:, None]), tl.exp2(top - raised)
        values = tl.load(values_ptr + cached, mask=there, other=0.0).to(tl.float32)
        more = tl.load(values_ptr + cached + HALF, mask=there, other=0.0).to(tl.float32)
        low = low * kept[:, None] + tl.sum(weights[:, :, None] * values[None, :, :], 1)
        high = high * kept[:, None] + tl.sum(weights[:, :, None] * more[None, :, :], 1)
        total, top = total * kept + tl.sum(weights, 1), raised
    tl.store(out_ptr + at, (low / total[:, None]).to(kind), mask=real)
    tl.store(out_ptr + at + HALF, (high / total[:, None]).to(kind), mask=real)


@triton.jit
def normed(x_ptr, weight_ptr, out_ptr, count, epsilon, PADDED: tl.constexpr):
    """Out [count] = x / rms(x) * weight, in one program: PADDED >= count."""
    at = tl.arange(0, PADDED)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + at, mask=at < count, other=0.0).to(tl.float32)
    x *= tl.rsqrt(tl.sum(x * x, 0) / count + epsilon)
    tl.store(out_ptr + at, (x * weight).to(out_ptr.dtype.element_ty), mask=at < count)


@triton.jit
def gated(halves_ptr, out_ptr, count, BLOCK: tl.constexpr):
    """Out [count] = silu of the first half, [count], times the second."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    gate = tl.load(halves_ptr + at, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(halves_ptr + count + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, (gate * tl.sigmoid(gate) * up).to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def two_best(values_ptr, best_ptr, count, BLOCK: tl.constexpr):
    """The two largest of each BLOCK of `count` values: best [blocks, 2], the largest first."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(values_ptr + at, mask=at < count, other=-float("inf")).to(tl.float32)
    best, where = tl.max(values, 0, return_indices=True)
    others = tl.where(at == tl.program_id(0) * BLOCK + where, -float("inf"), values)
    tl.store(best_ptr + 2 * tl.program_id(0), best)
    tl.store(best_ptr + 2 * tl.program_id(0) + 1, tl.max(others, 0))
