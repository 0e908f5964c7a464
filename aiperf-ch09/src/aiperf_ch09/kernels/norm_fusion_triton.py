"""total = x + residual, y = weight * total / sqrt(mean of total^2 + epsilon): rows that stay in registers.

All compute in float32. A column beyond the row's end reads as zero, which adds nothing to the sum of squares.
"""

import triton
import triton.language as tl

EPSILON = tl.constexpr(1e-6)


@triton.jit
def _normalised(x_ptr, residual_ptr, total_ptr, y_ptr, start, weight, columns, BLOCK: tl.constexpr):
    """The row that begins at element `start`."""
    places = tl.arange(0, BLOCK)
    inside = places < columns
    x = tl.load(x_ptr + start + places, mask=inside, other=0.0).to(tl.float32)
    total = x + tl.load(residual_ptr + start + places, mask=inside, other=0.0).to(tl.float32)
    tl.store(total_ptr + start + places, total.to(total_ptr.dtype.element_ty), mask=inside)
    scale = 1 / tl.sqrt(tl.sum(total * total, axis=0) / columns + EPSILON)
    tl.store(y_ptr + start + places, (total * scale * weight).to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def row_in_registers(x_ptr, residual_ptr, weight_ptr, total_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    """One program a row, which fits in its registers: BLOCK is at least `columns`."""
    places = tl.arange(0, BLOCK)
    weight = tl.load(weight_ptr + places, mask=places < columns, other=0.0).to(tl.float32)
    start = tl.program_id(0).to(tl.int64) * columns
    _normalised(x_ptr, residual_ptr, total_ptr, y_ptr, start, weight, columns, BLOCK)


@triton.jit
def several_rows(
    x_ptr, residual_ptr, weight_ptr, total_ptr, y_ptr, rows, columns, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    """ROWS rows a program, one after the other; the weight stays in registers."""
    places = tl.arange(0, BLOCK)
    weight = tl.load(weight_ptr + places, mask=places < columns, other=0.0).to(tl.float32)
    first = tl.program_id(0).to(tl.int64) * ROWS
    for step in range(ROWS):
        if first + step < rows:
            start = (first + step) * columns
            _normalised(x_ptr, residual_ptr, total_ptr, y_ptr, start, weight, columns, BLOCK)
