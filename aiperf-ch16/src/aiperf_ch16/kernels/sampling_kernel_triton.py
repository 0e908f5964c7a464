"""A token a row: of the `most` best logits, and of these the best that reach a limit of the probability.

The keys of floats are integers in the same order. A program has a row. It finds a threshold that at least `most` and at
most KEPT logits reach, collects these, and compares them in pairs.
"""

import triton
import triton.language as tl


@triton.jit
def keys_of(values):
    bits = values.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def count_from(row_ptr, vocabulary, threshold, BLOCK: tl.constexpr):
    """The number of logits whose keys are at least the threshold."""
    count = tl.zeros([BLOCK], tl.int32)
    for start in range(0, vocabulary, BLOCK):
        at = start + tl.arange(0, BLOCK)
        keys = keys_of(tl.load(row_ptr + at, mask=at < vocabulary, other=-float("inf")))
        count += ((keys >= threshold) & (at < vocabulary)).to(tl.int32)
    return tl.sum(count, axis=0)


@triton.jit
def collect(row_ptr, values_ptr, places_ptr, count_ptr, vocabulary, threshold, KEPT: tl.constexpr, BLOCK: tl.constexpr):
    """Write KEPT logits that reach the threshold, in any order, and their places; return how many reach it."""
    tl.store(count_ptr, 0)
    tl.debug_barrier()
    for start in range(0, vocabulary, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(row_ptr + at, mask=at < vocabulary, other=-float("inf"))
        reach = (keys_of(values) >= threshold) & (at < vocabulary)
        place = tl.atomic_add(count_ptr + tl.zeros([BLOCK], tl.int32), 1, mask=reach, sem="relaxed", scope="cta")
        tl.store(values_ptr + place, values, mask=reach & (place < KEPT))
        tl.store(places_ptr + place, at, mask=reach & (place < KEPT))
    tl.debug_barrier()
    return tl.load(count_ptr, volatile=True)


@triton.jit
def bound(row_ptr, vocabulary, most, BLOCK: tl.constexpr):
    """The key of the `most`-th best of the maxima of BLOCK parts of a row, or of -infinity if there are fewer."""
    best = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, vocabulary, BLOCK):
        at = start + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.load(row_ptr + at, mask=at < vocabulary, other=-float("inf")))
    keys = keys_of(best)
    low, high = tl.min(keys, axis=0).to(tl.int64), tl.max(keys, axis=0).to(tl.int64)
    while low < high:  # at least `most` keys reach `low`, fewer those above `high`
        middle = low + (high - low + 1) // 2
        enough = tl.sum((keys >= middle.to(tl.int32)).to(tl.int32), axis=0) >= most
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle - 1)
    return low


@triton.jit
def sample(
    logits_ptr, limits_ptr, uniform_ptr, values_ptr, places_ptr, counts_ptr, out_ptr, vocabulary, most, scale,
    KEPT: tl.constexpr, BLOCK: tl.constexpr, BOUND: tl.constexpr,
):  # fmt: skip
    """One program a row. values, places: [rows, KEPT]; counts: [rows]; BOUND: the threshold comes from maxima."""
    row = tl.program_id(0).to(tl.int64)
    row_ptr, count_ptr = logits_ptr + row * vocabulary, counts_ptr + row
    values_ptr += row * KEPT
    places_ptr += row * KEPT
    low = tl.full([], -0x7F800001, tl.int64)  # the key of -infinity
    high = tl.full([], 0x7F800000, tl.int64)
    found = tl.full([], KEPT + 1, tl.int32)
    if BOUND:
        low = bound(row_ptr, vocabulary, most, BLOCK)
        found = collect(row_ptr, values_ptr, places_ptr, count_ptr, vocabulary, low.to(tl.int32), KEPT, BLOCK)
    if found > KEPT:
        while (found > KEPT) & (low < high):
            middle = low + (high - low + 1) // 2
            count = count_from(row_ptr, vocabulary, middle.to(tl.int32), BLOCK)
            enough = count >= most
            found = tl.where(enough, count, found)
            low = tl.where(enough, middle, low)
            high = tl.where(enough, high, middle - 1)
        found = collect(row_ptr, values_ptr, places_ptr, count_ptr, vocabulary, low.to(tl.int32), KEPT, BLOCK)
    numbers = tl.arange(0, KEPT)
    there = numbers < found
    values = tl.load(values_ptr + numbers, mask=there, other=-float("inf"))
    places = tl.load(places_ptr + numbers, mask=there, other=0x7FFFFFFF)
    # In pairs: [one, the other].
    above = (values[None, :] > values[:, None]).to(tl.float32)
    before = (places[None, :] <= places[:, None]).to(tl.float32)
    ahead = tl.sum(above, axis=1)
    weights = tl.exp((values - tl.max(values, axis=0)) * scale)
    weights = tl.where(there & (ahead < most), weights, 0.0)
    limit = tl.load(limits_ptr + row) * tl.sum(weights, axis=0)
    kept = tl.where(tl.sum(above * weights[None, :], axis=1) < limit, weights, 0.0)
    reached = tl.sum(before * kept[None, :], axis=1)
    passes = (reached > tl.load(uniform_ptr + row) * tl.sum(kept, axis=0)) & (kept > 0)
    tl.store(out_ptr + row, tl.min(tl.where(passes, places, 0x7FFFFFFF), axis=0).to(tl.int64))
