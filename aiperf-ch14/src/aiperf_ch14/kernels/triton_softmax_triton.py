"""Softmax of rows that stay in registers, or are read twice in chunks.

All compute in float32, whatever the elements are. A column that is masked reads as -infinity, of which exp is 0; every
row and every chunk of one has at least one column that is not, so that no maximum is -infinity.
"""

import triton
import triton.language as tl


@triton.jit
def one_block(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """One program a row, which fits in its registers: BLOCK is at least `columns`."""
    row = tl.program_id(0).to(tl.int64) * columns
    places = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + places, mask=places < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + places, (weights / tl.sum(weights, axis=0)).to(out_ptr.dtype.element_ty), places < columns)


@triton.jit
def online(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """One program a row, of any length, in chunks of BLOCK: one pass for maximum and sum, another for the result.

    Where a chunk raises the maximum, the sum so far is scaled to it.
    """
    row = tl.program_id(0).to(tl.int64) * columns
    largest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + places, mask=places < columns, other=-float("inf")).to(tl.float32)
        raised = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - raised) + tl.sum(tl.exp(x - raised), axis=0)
        largest = raised
    for start in range(0, columns, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + places, mask=places < columns, other=-float("inf")).to(tl.float32)
        weights = tl.exp(x - largest) / total
        tl.store(out_ptr + row + places, weights.to(out_ptr.dtype.element_ty), mask=places < columns)
