"""The ladder's Triton kernels are right where they are interpreted; `pytest --aiperf` tests what runs here."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf_labs import moe_ladder


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_the_kernels_are_right_when_interpreted() -> None:
    # In a process of its own: a kernel is interpreted or compiled for as long as its process lives.
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("interpreted_experts.py"))],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "the experts are right\n"), done.stderr


def test_each_variant_without_a_mechanism_has_all_others() -> None:
    here = {one.name: {*moe_ladder.bench.mechanisms_of(one)} for one in moe_ladder.bench.implementations_on("cuda")}
    assert here["graph"] - here["without_gather"] == {"gathered operands"}
    assert here["graph"] - here["without_fusion"] == {"fused activation"}
    assert here["graph"] - here["fused"] == {"cuda graph"}
