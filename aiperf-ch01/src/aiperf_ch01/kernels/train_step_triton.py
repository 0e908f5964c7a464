"""Stochastic gradient descent with momentum: one pass over a weight, its momentum and its gradient."""

import triton
import triton.language as tl


@triton.jit
def update(weight_ptr, momentum_ptr, gradient_ptr, copy_ptr, n, rate, momentum, BLOCK: tl.constexpr):
    """Update n weights and momenta (float32) with a gradient (bfloat16), and copy the weights to bfloat16."""
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = places < n
    moving = momentum * tl.load(momentum_ptr + places, mask=inside)
    moving += tl.load(gradient_ptr + places, mask=inside).to(tl.float32)
    weight = tl.load(weight_ptr + places, mask=inside) - rate * moving
    tl.store(momentum_ptr + places, moving, mask=inside)
    tl.store(weight_ptr + places, weight, mask=inside)
    tl.store(copy_ptr + places, weight.to(tl.bfloat16), mask=inside)
