"""The precision of float32 matrix products and convolutions, and dtypes as sizes.

The harness computes them in full float32 in every process, whatever the machine's image switches on. Code that may
round operands says so for the time of a call:

    with float32_precision("high"):  # TF32
        return x @ weight
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from aiperf_core.errors import BenchmarkError

if TYPE_CHECKING:
    import torch

# The dtypes of a preset, by the bits of a value: sizes are numbers wherever they are stored.
DTYPE_BITS = {"bf16": 16, "fp32": 32}


def dtype_of(bits: float) -> "torch.dtype":
    """The dtype of a size `bits`. Raises `BenchmarkError` for any other number than 16 and 32."""
    import torch

    dtypes = {16: torch.bfloat16, 32: torch.float32}
    if bits not in dtypes:
        accepted = ", ".join(f"{number} ({name})" for name, number in DTYPE_BITS.items())
        raise BenchmarkError(f"the size bits={bits:g} is no dtype; accepted are {accepted}")
    return dtypes[int(bits)]


@contextlib.contextmanager
def float32_precision(precision: str) -> Iterator[None]:
    """Compute float32 products at this precision meanwhile: `highest`, `high` (TF32) or `medium` (bfloat16)."""
    import torch

    before, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    set_float32_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        torch.backends.cudnn.allow_tf32 = convolutions


def set_float32_precision(precision: str) -> None:
    """Set the precision for this process, of matrix products and of cuDNN's convolutions."""
    import torch

    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = precision != "highest"
