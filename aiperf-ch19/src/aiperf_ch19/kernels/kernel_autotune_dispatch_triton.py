"""The product of `ch19.kernel_autotune_dispatch`, in tiles that are constants of the compilation."""

import triton
import triton.language as tl


# A batch of one, or of a multiple of 16, is no other kernel.
@triton.jit(do_not_specialize=["rows"])
def product(
    x_ptr, w_ptr, out_ptr, rows, depth, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr
):
    """Out [rows, columns] = x [rows, depth] w [depth, columns]; a program for each tile, one below the other first.

    Offsets are at most rows x depth, depth x columns and rows x columns, which fit into 32 bits at all sizes here.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, depth, DEPTH):
        place = start + tl.arange(0, DEPTH)
        left = tl.load(
            x_ptr + row[:, None] * depth + place[None, :],
            mask=(row[:, None] < rows) & (place[None, :] < depth),
            other=0.0,
        )
        right = tl.load(
            w_ptr + place[:, None] * columns + column[None, :],
            mask=(place[:, None] < depth) & (column[None, :] < columns),
            other=0.0,
        )
        # float32 operands are multiplied in full.
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(
        out_ptr + row[:, None] * columns + column[None, :],
        total.to(out_ptr.dtype.element_ty),
        mask=(row[:, None] < rows) & (column[None, :] < columns),
    )
