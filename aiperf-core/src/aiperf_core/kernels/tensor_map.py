"""Tensor maps: the 128 bytes by which the copy engine (TMA) of sm_90 and later knows an array in global memory.

A kernel takes one as `const __grid_constant__ CUtensorMap`. It holds the array's address, sizes and pitches, the box
that one instruction moves, and how the box lies in shared memory. The instructions are in the header `aiperf/bulk.cuh`.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from aiperf_core.errors import KernelError, SkipError

if TYPE_CHECKING:
    import torch

MAP_BYTES = 128
MOST_DIMENSIONS = 5
MOST_IN_A_BOX = 256  # elements of a box in each dimension
ALIGNMENT = 16  # bytes: of the address, of each pitch, and of a row of a box
# CUtensorMapDataType. Types of one byte are moved as bytes; their values play no part.
_TYPES = {
    "float32": 7,
    "float16": 6,
    "bfloat16": 9,
    "int32": 3,
    "int8": 0,
    "uint8": 0,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
}
_NO_INTERLEAVE, _PROMOTE_TO_128_BYTES, _ZEROS_OUTSIDE = 0, 2, 0
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


def tensor_map(array: "torch.Tensor", box: Sequence[int], *, swizzle_bytes: int = 0) -> bytes:
    """Describe an array of one to five dimensions, to be moved in boxes.

    array: float32, float16, bfloat16, int32, int8, uint8, float8_e4m3fn or float8_e5m2; its last dimension has no gaps.
    box: the sizes of a box in elements, in the order of the array's dimensions. A row of it is a multiple of 16 bytes.
    swizzle_bytes: 0, 32, 64 or 128: the width of the pattern that spreads the rows of a box over the banks of shared
        memory. A row of the box is then no wider.

    A load reads zeros outside of the array; a store writes nothing there. The map is valid while the array keeps its
    address and its shape.

    Raises `KernelError` for an array or a box that no map can describe, and `SkipError` where rows do not start at
    multiples of 16 bytes, as these sizes happen to be, or where there is no CUDA driver.
    """
    kind = _checked(array, box, swizzle_bytes)
    size, rank = array.element_size(), array.dim()
    pitches = [size * stride for stride in array.stride()[:-1]]
    uneven = [pitch for pitch in pitches if pitch % ALIGNMENT]
    if uneven:
        raise SkipError(f"the copy engine needs rows that start at multiples of 16 bytes; these are {uneven[-1]} apart")
    if array.data_ptr() % ALIGNMENT:
        raise SkipError("the copy engine needs an array that starts at a multiple of 16 bytes")
    storage = ctypes.create_string_buffer(MAP_BYTES + 64)
    at = -(-ctypes.addressof(storage) // 64) * 64  # where the driver wants it
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(at),
        kind,
        ctypes.c_uint32(rank),
        ctypes.c_void_p(array.data_ptr()),
        (ctypes.c_uint64 * rank)(*reversed(array.shape)),
        (ctypes.c_uint64 * max(rank - 1, 1))(*reversed(pitches)),
        (ctypes.c_uint32 * rank)(*reversed(box)),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        _NO_INTERLEAVE,
        _SWIZZLES[swizzle_bytes],
        _PROMOTE_TO_128_BYTES,
        _ZEROS_OUTSIDE,
    )
    if status:
        raise KernelError(
            f"the driver refuses a tensor map for {list(array.shape)} in boxes of {list(box)}: CUDA error {status}"
        )
    return ctypes.string_at(at, MAP_BYTES)


def _checked(array: "torch.Tensor", box: Sequence[int], swizzle_bytes: int) -> int:
    """The driver's number of the array's type. Raises `KernelError` for what no map can describe."""
    name = str(array.dtype).removeprefix("torch.")
    if name not in _TYPES:
        raise KernelError(f"a tensor map takes {', '.join(_TYPES)}; this array is {name}")
    if not 1 <= array.dim() <= MOST_DIMENSIONS or array.stride(-1) != 1:
        raise KernelError(
            f"a tensor map takes 1 to {MOST_DIMENSIONS} dimensions, the last of them without gaps; this array has the "
            f"shape {list(array.shape)} and the strides {list(array.stride())}"
        )
    if len(box) != array.dim() or not all(1 <= size <= MOST_IN_A_BOX for size in box):
        raise KernelError(
            f"a box for the shape {list(array.shape)} takes {array.dim()} sizes from 1 to {MOST_IN_A_BOX}; "
            f"got {list(box)}"
        )
    row_bytes = box[-1] * array.element_size()
    if row_bytes % ALIGNMENT:
        raise KernelError(f"a row of a box takes a multiple of 16 bytes; {box[-1]} of {name} are {row_bytes}")
    if swizzle_bytes not in _SWIZZLES or (swizzle_bytes and row_bytes > swizzle_bytes):
        raise KernelError(
            f"swizzle_bytes takes 0, or 32, 64 or 128 that are at least a row of the box ({row_bytes} bytes); "
            f"got {swizzle_bytes}"
        )
    return _TYPES[name]


@cache
def _driver() -> Any:
    """Load the CUDA driver's library. Not through cuda-bindings, which does not say how it aligns the map."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise SkipError(f"needs a CUDA driver ({error})") from None
