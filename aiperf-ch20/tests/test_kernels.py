"""The Triton kernels are right by Triton's interpreter."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_right_when_interpreted() -> None:
    # In a process of its own: a kernel is interpreted or compiled for as long as its process lives.
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("interpreted_kernels.py"))],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "fast_matmul is right\n"), done.stderr
