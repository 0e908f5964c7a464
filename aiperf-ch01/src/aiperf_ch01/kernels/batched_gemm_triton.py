"""Batched matrix products in float32: one launch, one program for each tile of each product.

`strided` finds its matrices by a multiple of the matrix size, as equal shapes allow. `grouped` reads their addresses
from a table, as matrices that lie anywhere need. Both multiply a tile of A by a tile of B at a time along k, in IEEE
float32: no rounding of operands to TF32.
"""

import triton
import triton.language as tl


@triton.jit
def product_tile(
    a_ptr, b_ptr, c_ptr, m, n, k, tile, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """One tile of C = A B; A is m x k, B is k x n, C is m x n, all row-major without gaps."""
    tiles_n = tl.cdiv(n, BLOCK_N)
    rows = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        # Beyond the edges of the matrices the masks read zeros, which add nothing.
        a_mask = (rows[:, None] < m) & (inner[None, :] < k)
        b_mask = (inner[:, None] < k) & (columns[None, :] < n)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    c_mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], total, mask=c_mask)


@triton.jit
def strided(a_ptr, b_ptr, out_ptr, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Product number `program_id(1)` starts at that multiple of the size of a matrix."""
    product = tl.program_id(1).to(tl.int64)
    product_tile(
        a_ptr + product * m * k,
        b_ptr + product * k * n,
        out_ptr + product * m * n,
        m,
        n,
        k,
        tl.program_id(0),
        BLOCK_M,
        BLOCK_N,
        BLOCK_K,
    )


@triton.jit
def grouped(table_ptr, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Product number `program_id(1)` has the addresses of A, B and C in its row of the table (int64, three a row)."""
    row_ptr = table_ptr + 3 * tl.program_id(1)
    a_ptr = tl.multiple_of(tl.load(row_ptr).to(tl.pointer_type(tl.float32)), 4)
    b_ptr = tl.multiple_of(tl.load(row_ptr + 1).to(tl.pointer_type(tl.float32)), 4)
    c_ptr = tl.multiple_of(tl.load(row_ptr + 2).to(tl.pointer_type(tl.float32)), 4)
    product_tile(a_ptr, b_ptr, c_ptr, m, n, k, tl.program_id(0), BLOCK_M, BLOCK_N, BLOCK_K)
