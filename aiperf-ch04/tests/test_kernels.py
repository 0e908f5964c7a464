"""The Triton kernels of the chapter are right by Triton's interpreter, for which no GPU is needed."""

from pathlib import Path

from aiperf_core.testing import interpreted


def test_right_when_interpreted() -> None:
    said = "".join(f"{what} right\n" for what in ("encoded sums are", "puts is", "puts_once is"))
    assert interpreted(Path(__file__).with_name("interpreted_kernels.py")) == said
