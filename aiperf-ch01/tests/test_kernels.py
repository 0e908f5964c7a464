"""The Triton kernels of the chapter compute what they should, by Triton's interpreter, for which no GPU is needed."""

from pathlib import Path

from aiperf_core.testing import interpreted

INTERPRETED = Path(__file__).with_name("interpreted_kernels.py")


def test_right_when_interpreted() -> None:
    kernels = ("folds", "products", "update", "quantise_rows", "whole_rows", "quantise_blocks")
    said = "".join(f"{kernel} is right\n" for kernel in kernels)
    assert interpreted(INTERPRETED) == said
