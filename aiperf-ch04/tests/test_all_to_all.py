"""The kernels of `ch04.all_to_all` are right by Triton's interpreter, for all ranks in one process."""

import importlib.util
from pathlib import Path

import pytest

from aiperf_core.testing import interpreted


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_right_when_interpreted() -> None:
    assert interpreted(Path(__file__).with_name("interpreted_all_to_all.py")) == "puts is right\nputs_once is right\n"
