"""Losses of some tokens, and the gradient of the mean loss by their logits, which takes the place of the logits.

All compute in float32. A masked column reads as -infinity, of which exp is 0; each block of columns has at least one
that is not masked, so that no maximum is -infinity.
"""

import triton
import triton.language as tl


@triton.jit
def loss_and_slope(logits_ptr, labels_ptr, losses_ptr, columns, share, BLOCK: tl.constexpr):
    """One program a token: one pass over its logits for maximum and sum, another that overwrites them."""
    token = tl.program_id(0).to(tl.int64)
    row = logits_ptr + token * columns
    label = tl.load(labels_ptr + token)
    largest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(row + places, mask=places < columns, other=-float("inf")).to(tl.float32)
        raised = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - raised) + tl.sum(tl.exp(x - raised), axis=0)
        largest = raised
    tl.store(losses_ptr + token, largest + tl.log(total) - tl.load(row + label).to(tl.float32))
    # Other threads of the program may still read the label's logit.
    tl.debug_barrier()
    for start in range(0, columns, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(row + places, mask=places < columns, other=-float("inf")).to(tl.float32)
        slope = tl.exp(x - largest) / total - (places == label).to(tl.float32)
        tl.store(row + places, (slope * share).to(logits_ptr.dtype.element_ty), mask=places < columns)
