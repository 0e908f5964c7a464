"""out = gelu(x + bias) * scale + residual, cut off at -LIMIT and LIMIT; program (r, p) makes part p of row r."""

import triton
import triton.language as tl


@triton.jit
def tile(x_ptr, bias_ptr, scale_ptr, residual_ptr, out_ptr, columns, LIMIT: tl.constexpr, BLOCK: tl.constexpr):
    """BLOCK elements of a row, in float32. gelu(v) = v * sigmoid(2 u) with u = sqrt(2 / pi) (v + 0.044715 v^3)."""
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = places < columns
    row = tl.program_id(0).to(tl.int64) * columns
    v = tl.load(x_ptr + row + places, mask=inside).to(tl.float32) + tl.load(bias_ptr + places, mask=inside)
    active = v * tl.sigmoid(1.59576912 * (v + 0.044715 * v * v * v))
    value = active * tl.load(scale_ptr + places, mask=inside) + tl.load(residual_ptr + row + places, mask=inside)
    value = tl.minimum(tl.maximum(value, -LIMIT), LIMIT)
    tl.store(out_ptr + row + places, value.to(out_ptr.dtype.element_ty), mask=inside)
