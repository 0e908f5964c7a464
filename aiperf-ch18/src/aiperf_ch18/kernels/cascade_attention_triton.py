"""Attention of one query a head of each sequence, to keys that all sequences share and to keys of their own.

q: [sequences, heads, WIDTH]. shared keys and values: [kv_heads, prefix, WIDTH], own: [sequences, kv_heads, own, WIDTH].
GROUP queries share a head of the cache. Exponents are of 2: `scale` contains log2(e). A masked key has a score of
-infinity, of which exp2 is 0; every block and every part has at least one key that is not masked.
"""

import triton
import triton.language as tl


@triton.jit
def over_keys(
    q, keys_ptr, values_ptr, first, last, scale, top, total, mixed,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Maximum, sum and weighted values, with the keys from `first` to `last`."""
    columns = tl.arange(0, WIDTH)
    for start in tl.range(first, last, BLOCK, num_stages=STAGES):
        places = start + tl.arange(0, BLOCK)
        there = places < last
        at = places[:, None] * WIDTH + columns[None, :]
        keys = tl.load(keys_ptr + at, mask=there[:, None], other=0.0)
        values = tl.load(values_ptr + at, mask=there[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(there[None, :], scores, -float("inf"))
        raised = tl.maximum(top, tl.max(scores, axis=1))
        weights, kept = tl.exp2(scores - raised[:, None]), tl.exp2(top - raised)
        total = total * kept + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(values.dtype), values, mixed * kept[:, None], input_precision="ieee")
        top = raised
    return top, total, mixed


@triton.jit
def separate(
    q_ptr, shared_keys_ptr, shared_values_ptr, own_keys_ptr, own_values_ptr, out_ptr, kv_heads, prefix, own, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One program a sequence and head of the cache: all keys of the sequence, the shared ones first."""
    sequence, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    queries, columns = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    known = (queries < GROUP)[:, None]
    at = ((sequence * kv_heads + head) * GROUP + queries)[:, None] * WIDTH + columns[None, :]
    q = tl.load(q_ptr + at, mask=known, other=0.0)
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    shift = head * prefix * WIDTH
    top, total, mixed = over_keys(
        q, shared_keys_ptr + shift, shared_values_ptr + shift, 0, prefix, scale, top, total, mixed, WIDTH, BLOCK, STAGES
    )
    shift = (sequence * kv_heads + head) * own * WIDTH
    top, total, mixed = over_keys(
        q, own_keys_ptr + shift, own_values_ptr + shift, 0, own, scale, top, total, mixed, WIDTH, BLOCK, STAGES
    )
    tl.store(out_ptr + at, (mixed / total[:, None]).to(out_ptr.dtype.element_ty), mask=known)


@triton.jit
def part(
    q_ptr, keys_ptr, values_ptr, parts_ptr, tops_ptr, head, kv_heads, from_query, to_query, first, last, slot, slots,
    scale, GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The attention of ROWS queries to the keys from `first` to `last`, in place `slot` of each query.

    Queries of a head of the cache are numbered by sequence and place in the group.
    parts: [sequences * heads, slots, WIDTH]. tops: [sequences * heads, slots], the logarithms of the sums of weights.
    """
    queries, columns = from_query + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    known = queries < to_query
    at = (queries // GROUP * kv_heads + head) * GROUP + queries % GROUP
    q = tl.load(q_ptr + at[:, None] * WIDTH + columns[None, :], mask=known[:, None], other=0.0)
    top = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    top, total, mixed = over_keys(q, keys_ptr, values_ptr, first, last, scale, top, total, mixed, WIDTH, BLOCK, STAGES)
    at = at * slots + slot
    tl.store(tops_ptr + at, top + tl.log2(total), mask=known)
    tl.store(parts_ptr + at[:, None] * WIDTH + columns[None, :], mixed / total[:, None], mask=known[:, None])


@triton.jit
def cascade(
    q_ptr, shared_keys_ptr, shared_values_ptr, own_keys_ptr, own_values_ptr, parts_ptr, tops_ptr,
    of_prefix, sequences, kv_heads, prefix, own, span, splits, scale,
    GROUP: tl.constexpr, MANY: tl.constexpr, FEW: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """The first `of_prefix` programs have MANY queries of all sequences and a part of the prefix.

    The others have a sequence's GROUP queries of a head and its own keys; FEW >= GROUP. Parts of the prefix are in the
    places from 0, those of the own keys in the last.
    """
    program = tl.program_id(0)
    if program < of_prefix:
        head, number = (program % kv_heads).to(tl.int64), program // kv_heads % splits
        shift, first = head * prefix * WIDTH, number * span
        part(
            q_ptr, shared_keys_ptr + shift, shared_values_ptr + shift, parts_ptr, tops_ptr, head, kv_heads,
            program // kv_heads // splits * MANY, sequences * GROUP, first, tl.minimum(first + span, prefix),
            number, splits + 1, scale, GROUP, MANY, WIDTH, BLOCK, STAGES,
        )  # fmt: skip
    else:
        row = (program - of_prefix).to(tl.int64)  # a sequence and head
        sequence, shift = row // kv_heads, row * own * WIDTH
        part(
            q_ptr, own_keys_ptr + shift, own_values_ptr + shift, parts_ptr, tops_ptr, row % kv_heads, kv_heads,
            sequence * GROUP, (sequence + 1) * GROUP, 0, own, splits, splits + 1, scale,
            GROUP, FEW, WIDTH, BLOCK, STAGES,
        )  # fmt: skip
