"""Rounding to fp8, int8 and fp4: each row is scaled so that its largest element becomes the largest of the format."""

import triton
import triton.language as tl

# Of e4m3 as torch and CUDA have it, without infinities.
LARGEST = tl.constexpr(448.0)
LARGEST_INT8 = tl.constexpr(127.0)
# Of e2m1, whose values are 0, 1/2, 1, 3/2, 2, 3, 4 and 6.
LARGEST_FP4 = tl.constexpr(6.0)
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


@triton.jit
def whole_rows(
    x_ptr,
    row_scale_ptr,
    column_scale_ptr,
    out_ptr,
    scale_ptr,
    columns,
    padded,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program a row: as `quantise_rows`, to int8.

    With HIDDEN, x has sums of products of whole numbers: their values are relu(x * row_scale * column_scale), where the
    scale of the row is left to that of the result. Without, both are not read.
    """
    row = tl.program_id(0).to(tl.int64)
    largest = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        x = hidden_part(x_ptr + row * columns, column_scale_ptr, start, columns, HIDDEN, BLOCK)
        largest = tl.maximum(largest, tl.abs(x))
    scale = tl.maximum(tl.max(largest, axis=0), TINIEST) / LARGEST_INT8
    tl.store(scale_ptr + row, scale * tl.load(row_scale_ptr + row) if HIDDEN else scale)
    for start in range(0, padded, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = hidden_part(x_ptr + row * columns, column_scale_ptr, start, columns, HIDDEN, BLOCK)
        whole = tl.minimum(tl.maximum(tl.floor(x / scale + 0.5), -LARGEST_INT8), LARGEST_INT8)
        tl.store(out_ptr + row * padded + places, whole.to(tl.int8), mask=places < padded)


@triton.jit
def hidden_part(row_ptr, column_scale_ptr, start, columns, HIDDEN: tl.constexpr, BLOCK: tl.constexpr):
    """A part of a row of `whole_rows` in float32, with zeros behind the row's end."""
    places = start + tl.arange(0, BLOCK)
    x = tl.load(row_ptr + places, mask=places < columns, other=0).to(tl.float32)
    if HIDDEN:
        x = tl.maximum(x, 0.0) * tl.load(column_scale_ptr + places, mask=places < columns, other=0.0)
    return x


@triton.jit
def quantise_blocks(x_ptr, out_ptr, scale_ptr, row_scale_ptr, columns, padded, RELU: tl.constexpr, BLOCK: tl.constexpr):
    """One program a row, with a scale for each 16 elements and one for the row; see `quantise_rows`.

    x has `columns` elements, out `padded` (a multiple of 64), two a byte: the first of a pair in the low bits. The
    scales of 128 rows and 4 blocks lie together, as cuBLAS reads them: rows r, r + 32, r + 64 and r + 96 in 16 bytes.
    """
    row = tl.program_id(0).to(tl.int64)
    largest = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        places = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + places, mask=places < columns, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, x if RELU else tl.abs(x))
    row_scale = tl.maximum(tl.max(largest, axis=0), TINIEST) / (LARGEST * LARGEST_FP4)
    tl.store(row_scale_ptr + row, row_scale)
    for start in range(0, padded // 16, BLOCK // 16):
        block = start + tl.arange(0, BLOCK // 16)
        pairs = block[:, None] * 8 + tl.arange(0, 8)[None, :]
        first_ptr = x_ptr + row * columns + 2 * pairs
        first = tl.load(first_ptr, mask=2 * pairs < columns, other=0.0).to(tl.float32)
        second = tl.load(first_ptr + 1, mask=2 * pairs + 1 < columns, other=0.0).to(tl.float32)
        first = tl.maximum(first, 0.0) if RELU else first
        second = tl.maximum(second, 0.0) if RELU else second
        of_block = tl.max(tl.maximum(tl.abs(first), tl.abs(second)), axis=1)
        # Division may round one bit beyond the format's largest.
        narrow = tl.minimum(of_block / (LARGEST_FP4 * row_scale), LARGEST).to(scale_ptr.dtype.element_ty)
        scale = narrow.to(tl.float32) * row_scale
        divisor = tl.where(scale > 0, scale, 1.0)[:, None]
        both = e2m1(first / divisor) | (e2m1(second / divisor) << 4)
        tl.store(out_ptr + row * (padded // 2) + pairs, both.to(tl.uint8), mask=2 * pairs < padded)
        tile = row // 128 * (padded // 64) + block // 4
        place = tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + block % 4
        tl.store(scale_ptr + place, narrow, mask=block < padded // 16)


@triton.jit
def e2m1(x):
    """The code of the nearest value of e2m1, of two nearest the even one; its highest bit is the sign."""
    size = tl.abs(x)
    code = (size > 0.25).to(tl.int32) + (size >= 0.75).to(tl.int32) + (size > 1.25).to(tl.int32)
    code += (size >= 1.75).to(tl.int32) + (size > 2.5).to(tl.int32) + (size >= 3.5).to(tl.int32)
    code += (size > 5.0).to(tl.int32)
    return tl.where(x < 0, code + 8, code)
