"""Attention of a chunk of a prompt and of single tokens of other sequences, as items that any program can take.

An item of the prompt has ROWS queries of a head, and all keys before them. An item of a sequence has the GROUP queries
that share a head of its cache, and `span` of its keys. Exponents are of 2: `scale` contains log2(e).
prompt: [heads, chunk, WIDTH], its keys and values [kv_heads, context, WIDTH], of which the chunk is the end.
q: [sequences, heads, WIDTH], keys and values: [sequences, kv_heads, length, WIDTH]. parts: [sequences * heads, splits,
WIDTH], tops: [sequences * heads, splits], the logarithms of the sums of weights.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import smid


@triton.jit
def over_keys(
    q, keys_ptr, values_ptr, first, last, ends, scale, top, total, mixed,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr, MASKS: tl.constexpr,
):  # fmt: skip
    """Maximum, sum and weighted values, with the keys from `first` to `last`; with MASKS, those before a row's end."""
    columns = tl.arange(0, WIDTH)
    for start in tl.range(first, last, BLOCK, num_stages=STAGES):
        places = start + tl.arange(0, BLOCK)
        at = places[:, None] * WIDTH + columns[None, :]
        if MASKS:
            keys = tl.load(keys_ptr + at, mask=(places < last)[:, None], other=0.0)
            values = tl.load(values_ptr + at, mask=(places < last)[:, None], other=0.0)
        else:
            keys = tl.load(keys_ptr + at)
            values = tl.load(values_ptr + at)
        scores = tl.dot(q, tl.trans(keys), input_precision="ieee") * scale
        if MASKS:
            scores = tl.where(places[None, :] < ends[:, None], scores, -float("inf"))
        raised = tl.maximum(top, tl.max(scores, axis=1))
        weights, kept = tl.exp2(scores - raised[:, None]), tl.exp2(top - raised)
        total = total * kept + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(values.dtype), values, mixed * kept[:, None], input_precision="ieee")
        top = raised
    return top, total, mixed


@triton.jit
def of_prompt(
    number, prompt_ptr, keys_ptr, values_ptr, out_ptr, heads, chunk, context, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Item `number` of the prompt, the longest first."""
    head, tile = (number % heads).to(tl.int64), tl.cdiv(chunk, ROWS) - 1 - number // heads
    rows, columns = tile * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    at = (head * chunk + rows)[:, None] * WIDTH + columns[None, :]
    q = tl.load(prompt_ptr + at, mask=(rows < chunk)[:, None], other=0.0)
    top = tl.full([ROWS], -1e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, WIDTH], tl.float32)
    keys_ptr += head // GROUP * context * WIDTH
    values_ptr += head // GROUP * context * WIDTH
    # Keys that all rows see, then those of the diagonal.
    before = context - chunk + tile * ROWS
    inside = before // BLOCK * BLOCK
    ends = before + 1 + tl.arange(0, ROWS)
    top, total, mixed = over_keys(
        q, keys_ptr, values_ptr, 0, inside, ends, scale, top, total, mixed, WIDTH, BLOCK, STAGES, False
    )
    last = tl.minimum(before + ROWS, context)
    top, total, mixed = over_keys(
        q, keys_ptr, values_ptr, inside, last, ends, scale, top, total, mixed, WIDTH, BLOCK, STAGES, True
    )
    tl.store(out_ptr + at, (mixed / total[:, None]).to(out_ptr.dtype.element_ty), mask=(rows < chunk)[:, None])


@triton.jit
def of_sequence(
    number, q_ptr, keys_ptr, values_ptr, parts_ptr, tops_ptr, length, span, splits, scale,
    GROUP: tl.constexpr, FEW: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Item `number` of the sequences; FEW >= GROUP."""
    row, part = (number // splits).to(tl.int64), number % splits  # a sequence and head of its cache
    queries, columns = tl.arange(0, FEW), tl.arange(0, WIDTH)
    known = queries < GROUP
    at = row * GROUP + queries
    q = tl.load(q_ptr + at[:, None] * WIDTH + columns[None, :], mask=known[:, None], other=0.0)
    top = tl.full([FEW], -1e30, tl.float32)
    total = tl.zeros([FEW], tl.float32)
    mixed = tl.zeros([FEW, WIDTH], tl.float32)
    shift, first = row * length * WIDTH, part * span
    last = tl.minimum(first + span, length)
    ends = tl.full([FEW], 0, tl.int32) + last
    top, total, mixed = over_keys(
        q, keys_ptr + shift, values_ptr + shift, first, last, ends, scale, top, total, mixed, WIDTH, BLOCK, STAGES, True
    )
    at = at * splits + part
    tl.store(tops_ptr + at, top + tl.log2(total), mask=known)
    tl.store(parts_ptr + at[:, None] * WIDTH + columns[None, :], mixed / total[:, None], mask=known[:, None])


@triton.jit
def mixed_order(
    prompt_ptr, prompt_keys_ptr, prompt_values_ptr, prompt_out_ptr, q_ptr, keys_ptr, values_ptr, parts_ptr, tops_ptr,
    of_prompts, of_sequences, heads, chunk, context, length, span, splits, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, FEW: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """One program an item: those of the prompt are spread evenly among those of the sequences."""
    program, programs = tl.program_id(0), of_prompts + of_sequences
    number = (program.to(tl.int64) * of_prompts // programs).to(tl.int32)  # items of the prompt before this program
    after = ((program + 1).to(tl.int64) * of_prompts // programs).to(tl.int32)
    if after > number:
        of_prompt(
            number, prompt_ptr, prompt_keys_ptr, prompt_values_ptr, prompt_out_ptr, heads, chunk, context, scale,
            GROUP, ROWS, WIDTH, BLOCK, STAGES,
        )  # fmt: skip
    else:
        of_sequence(
            program - number, q_ptr, keys_ptr, values_ptr, parts_ptr, tops_ptr, length, span, splits, scale,
            GROUP, FEW, WIDTH, BLOCK, STAGES,
        )  # fmt: skip


@triton.jit
def by_sm(
    prompt_ptr, prompt_keys_ptr, prompt_values_ptr, prompt_out_ptr, q_ptr, keys_ptr, values_ptr, parts_ptr, tops_ptr,
    counters_ptr, of_prompts, of_sequences, heads, chunk, context, length, span, splits, scale,
    GROUP: tl.constexpr, ROWS: tl.constexpr, FEW: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    STAGES: tl.constexpr, SMS: tl.constexpr,
):  # fmt: skip
    """Programs of an SM begin with both kinds by turns, and take items of their kind, then of the other.

    counters: the items taken of the prompt, and of the sequences; then the programs that began on each SM. All from 0.
    Without SMS, where there are none, every two programs are an SM.
    """
    sm = smid() if SMS else tl.program_id(0) // 2
    kind = tl.atomic_add(counters_ptr + 2 + sm, 1) % 2
    left = 2  # kinds that may have items
    while left > 0:
        number = tl.atomic_add(counters_ptr + kind, 1)
        if number >= tl.where(kind == 0, of_prompts, of_sequences):
            kind = 1 - kind
            left -= 1
        elif kind == 0:
            of_prompt(
                number, prompt_ptr, prompt_keys_ptr, prompt_values_ptr, prompt_out_ptr, heads, chunk, context, scale,
                GROUP, ROWS, WIDTH, BLOCK, STAGES,
            )  # fmt: skip
        else:
            of_sequence(
                number, q_ptr, keys_ptr, values_ptr, parts_ptr, tops_ptr, length, span, splits, scale,
                GROUP, FEW, WIDTH, BLOCK, STAGES,
            )  # fmt: skip
