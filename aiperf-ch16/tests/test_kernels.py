"""The chapter's Triton kernels are right when they are interpreted, where no GPU is needed."""

from pathlib import Path

from aiperf_core.testing import interpreted

KERNELS = "padded paged split full_sort top_k bisection bounded Fp8 Int8 Int4 Hadamard Window"


def test_kernels_are_right_when_interpreted() -> None:
    said = [f"{name} is right" for name in KERNELS.split()]
    assert interpreted(Path(__file__).with_name("interpreted_kernels.py")).splitlines() == said
