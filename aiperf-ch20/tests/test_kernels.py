"""The Triton kernels are right by Triton's interpreter."""

from pathlib import Path

from aiperf_core.testing import interpreted


def test_right_when_interpreted() -> None:
    assert interpreted(Path(__file__).with_name("interpreted_kernels.py")) == "fast_matmul is right\n"
