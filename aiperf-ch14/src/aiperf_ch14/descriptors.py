"""Tensor descriptors of Triton, by which the copy engine of sm_90 (TMA) moves blocks of a matrix."""

from collections.abc import Sequence
from typing import Any

import torch

from aiperf_core.errors import SkipError

ALIGNED_BYTES = 16


def described(x: torch.Tensor, block: Sequence[int]) -> Any:
    """A descriptor of the contiguous matrix `x` for blocks of this shape: of what is outside, loads are zeros.

    Raises `SkipError` where Triton has no descriptors, and for rows that do not begin at multiples of 16 bytes.
    """
    try:
        from triton.tools.tensor_descriptor import TensorDescriptor
    except ImportError:
        raise SkipError("needs tensor descriptors, which Triton has from 3.4 on") from None
    row_bytes = x.shape[1] * x.element_size()
    if row_bytes % ALIGNED_BYTES:
        raise SkipError(f"copies rows of multiples of {ALIGNED_BYTES} bytes; these have {row_bytes}")
    return TensorDescriptor.from_tensor(x, list(block))
