"""out[r, c] = weight[c] * x[r, c] / sqrt(mean of x[r]^2 + epsilon), a program for each row."""

import triton
import triton.language as tl


@triton.jit
def row_in_registers(x_ptr, weight_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """Scale a row of at most BLOCK values; the lanes beyond its end add zeros."""
    places = tl.arange(0, BLOCK)
    inside = places < columns
    start = tl.program_id(0).to(tl.int64) * columns
    row = tl.load(x_ptr + start + places, mask=inside, other=0.0)
    scale = 1 / tl.sqrt(tl.sum(row * row, 0) / columns + 1e-6)
    tl.store(out_ptr + start + places, row * scale * tl.load(weight_ptr + places, mask=inside), mask=inside)
