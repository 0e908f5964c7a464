"""The Triton kernels of the chapter are right by Triton's interpreter, for which no GPU is needed."""

from pathlib import Path

from aiperf_core.testing import interpreted


def test_right_when_interpreted() -> None:
    said = "between_products is right\nproduct_in_tiles is right\n"
    assert interpreted(Path(__file__).with_name("interpreted_kernels.py")) == said
