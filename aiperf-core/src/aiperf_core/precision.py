"""The precision of float32 matrix products and convolutions.

The harness computes them in full float32 in every process, whatever the machine's image switches on. Code that may
round operands says so for the time of a call:

    with float32_precision("high"):  # TF32
        return x @ weight
"""

import contextlib
from collections.abc import Iterator


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
