"""Tensor maps: the 128 bytes by which the copy engine (TMA) of sm_90 and later knows an array in global memory.

A kernel takes one as `const __grid_constant__ CUtensorMap`. It holds the array's address, sizes and pitches, the box
that one instruction moves, and how the box lies in shared memory.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from aiperf_core.errors import KernelError, SkipError

MAP_BYTES = 128
_TYPES = {torch.float32: 7, torch.bfloat16: 9}
_NO_INTERLEAVE, _PROMOTE_TO_128_BYTES, _ZEROS_OUTSIDE = 0, 2, 0
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


def tensor_map(array: torch.Tensor, box: Sequence[int], *, swizzle_bytes: int = 0) -> bytes:
    """Describe a float32 or bfloat16 array, whose last dimension has no gaps, to be moved in boxes of these sizes.

    Sizes of the box are in the order of the array's dimensions. Outside of the array it reads zeros. Raises `SkipError`
    where rows do not start at multiples of 16 bytes, which the copy engine needs.
    """
    pitches = [array.element_size() * stride for stride in array.stride()[:-1]]
    if any(pitch % 16 for pitch in pitches) or array.data_ptr() % 16:
        raise SkipError(
            f"the copy engine needs rows that start at multiples of 16 bytes; these are {pitches[-1]} apart"
        )
    rank = array.dim()
    storage = ctypes.create_string_buffer(MAP_BYTES + 64)
    at = -(-ctypes.addressof(storage) // 64) * 64  # where the driver wants it
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(at),
        _TYPES[array.dtype],
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
        raise KernelError(f"the driver refuses a tensor map for {list(array.shape)} in boxes of {list(box)}: {status}")
    return ctypes.string_at(at, MAP_BYTES)


@cache
def _driver() -> Any:
    """Load the CUDA driver's library. Not through cuda-bindings, which does not say how it aligns the map."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise SkipError(f"needs a CUDA driver ({error})") from None
