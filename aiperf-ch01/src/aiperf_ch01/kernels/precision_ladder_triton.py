"""Rounding to fp8: each row is scaled so that its largest element becomes the largest that the format has."""

import triton
import triton.language as tl

# Of e4m3 as torch and CUDA have it, without infinities.
LARGEST = tl.constexpr(448.0)
TINIEST = tl.constexpr(1e-30)


@triton.jit
def quantise_rows(x_ptr, out_ptr, scale_ptr, columns, padded, RELU: tl.constexpr, BLOCK: tl.constexpr):
    """One program a row: x has `columns` elements in it, out `padded` (the rest is zero); x = scale * out.

    With RELU, negative elements count as zero. The second pass over the row finds it in the cache.
    """
    row = tl.program_id(0).to(tl.int64)
    largest = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + places, mask=places < columns, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, x if RELU else tl.abs(x))
    scale = tl.maximum(tl.max(largest, axis=0), TINIEST) / LARGEST
    tl.store(scale_ptr + row, scale)
    for start in range(0, padded, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + places, mask=places < columns, other=0.0).to(tl.float32)
        x = tl.maximum(x, 0.0) if RELU else x
        # Division may round one bit beyond the format's largest.
        scaled = tl.minimum(tl.maximum(x / scale, -LARGEST), LARGEST)
        tl.store(out_ptr + row * padded + places, scaled.to(out_ptr.dtype.element_ty), mask=places < padded)
