"""The Triton kernels of the chapter compute what they should, by Triton's interpreter, for which no GPU is needed."""

import importlib.util
from pathlib import Path

import pytest

from aiperf_core.testing import interpreted

INTERPRETED = Path(__file__).with_name("interpreted_kernels.py")


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_right_when_interpreted() -> None:
    kernels = ("folds", "products", "update", "quantise_rows", "quantise_blocks")
    said = "".join(f"{kernel} is right\n" for kernel in kernels)
    assert interpreted(INTERPRETED) == said
