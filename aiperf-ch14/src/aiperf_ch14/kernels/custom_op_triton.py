"""out = x + gelu(norm(x) * weight + bias): rows that stay in registers, in float32.

A column beyond the row's end reads as zero; its distance from the mean is not counted.
"""

import triton
import triton.language as tl


@triton.jit
def norm_gelu(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, epsilon, BLOCK: tl.constexpr):
    """One program a row, which fits in its registers: BLOCK is at least `columns`."""
    row = tl.program_id(0).to(tl.int64) * columns
    places = tl.arange(0, BLOCK)
    inside = places < columns
    x = tl.load(x_ptr + row + places, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, x - tl.sum(x, axis=0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / columns + epsilon)
    weight = tl.load(weight_ptr + places, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + places, mask=inside, other=0.0).to(tl.float32)
    y = centred * scale * weight + bias
    # tanh(u) = 1 - 2 / (1 + exp(2 u)), so that gelu(y) = y / (1 + exp(-2 u)), with 2 sqrt(2 / pi) in u.
    u = 1.5957691216 * (y + 0.044715 * y * y * y)
    tl.store(out_ptr + row + places, (x + y / (1 + tl.exp(-u))).to(out_ptr.dtype.element_ty), mask=inside)
