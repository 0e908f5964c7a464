"""Rows that are written into the memory of the ranks that need them: see `all_to_all.py`.

Parameters that end in `_of_ptr` are tables of the addresses of one buffer on every rank. On each rank `rows` has room
for `capacity` rows from every rank, `notes` says of each row whose it is and what is asked of it (its token, then for
each choice the expert, or -1), `arrived` says how many came from every rank, and `out` holds a row for each choice of
each token.
"""

import triton
import triton.language as tl


@triton.jit
def dispatch(
    x_ptr,
    chosen_ptr,
    counts_ptr,
    rows_of_ptr,
    notes_of_ptr,
    rank,
    experts,
    width,
    capacity,
    CHOICES: tl.constexpr,
    ONCE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Send the row of a token to the ranks of its experts: for each expert, or with ONCE once a rank."""
    token = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mine_ptr = chosen_ptr + token * CHOICES
    row_ptr = x_ptr + token.to(tl.int64) * width
    for choice in tl.static_range(CHOICES):
        owner = tl.load(mine_ptr + choice) // experts
        needed = owner >= 0
        if ONCE:
            for earlier in tl.static_range(choice):
                needed = needed & (tl.load(mine_ptr + earlier) // experts != owner)
        if needed:
            # Which place a row gets depends on who comes first; its note says whose it is.
            place = rank * capacity + tl.atomic_add(counts_ptr + owner, 1)
            note_ptr = tl.load(notes_of_ptr + owner).to(tl.pointer_type(tl.int32)) + place * (CHOICES + 1)
            tl.store(note_ptr, token)
            for other in tl.static_range(CHOICES):
                expert = tl.load(mine_ptr + other)
                asked = expert // experts == owner
                if not ONCE:
                    asked = asked & (other == choice)
                tl.store(note_ptr + 1 + other, tl.where(asked, expert % experts, -1).to(tl.int32))
            there_ptr = tl.multiple_of(tl.load(rows_of_ptr + owner).to(tl.pointer_type(tl.bfloat16)), 16)
            there_ptr += place.to(tl.int64) * width
            for first in range(0, width, BLOCK):
                inside = first + columns < width
                tl.store(there_ptr + first + columns, tl.load(row_ptr + first + columns, mask=inside), mask=inside)


@triton.jit
def announce(counts_ptr, arrived_of_ptr, rank, ranks):
    """Tell every rank how many rows it was sent."""
    for peer in range(ranks):
        arrived_ptr = tl.load(arrived_of_ptr + peer).to(tl.pointer_type(tl.int32))
        tl.store(arrived_ptr + rank, tl.load(counts_ptr + peer))


@triton.jit
def combine(
    rows_of_ptr,
    notes_of_ptr,
    arrived_of_ptr,
    out_of_ptr,
    scales_ptr,
    rank,
    ranks,
    width,
    capacity,
    CHOICES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Make what the experts make of all rows that arrived, and write it where its token lives."""
    columns = tl.arange(0, BLOCK)
    rows_ptr = tl.multiple_of(tl.load(rows_of_ptr + rank).to(tl.pointer_type(tl.bfloat16)), 16)
    notes_ptr = tl.load(notes_of_ptr + rank).to(tl.pointer_type(tl.int32))
    arrived_ptr = tl.load(arrived_of_ptr + rank).to(tl.pointer_type(tl.int32))
    for source in range(ranks):
        out_ptr = tl.multiple_of(tl.load(out_of_ptr + source).to(tl.pointer_type(tl.bfloat16)), 16)
        for number in range(tl.program_id(0), tl.load(arrived_ptr + source), tl.num_programs(0)):
            place = source * capacity + number
            note_ptr = notes_ptr + place * (CHOICES + 1)
            token = tl.load(note_ptr).to(tl.int64)
            row_ptr = rows_ptr + place.to(tl.int64) * width
            for first in range(0, width, BLOCK):
                inside = first + columns < width
                row = tl.load(row_ptr + first + columns, mask=inside).to(tl.float32)
                for choice in tl.static_range(CHOICES):
                    expert = tl.load(note_ptr + 1 + choice)
                    wanted = first + columns < tl.where(expert >= 0, width, 0)
                    scale = tl.load(scales_ptr + expert * width + first + columns, mask=wanted).to(tl.float32)
                    product_ptr = out_ptr + (token * CHOICES + choice) * width
                    tl.store(product_ptr + first + columns, (row * scale).to(tl.bfloat16), mask=wanted)
