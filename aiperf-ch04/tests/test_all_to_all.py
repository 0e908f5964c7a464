"""The kernels of `ch04.all_to_all` are right by Triton's interpreter, for all ranks in one process."""

from pathlib import Path

from aiperf_core.testing import interpreted


def test_right_when_interpreted() -> None:
    assert interpreted(Path(__file__).with_name("interpreted_all_to_all.py")) == "puts is right\nputs_once is right\n"
