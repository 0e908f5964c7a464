"""The kernels of `ch04.all_to_all` are right by Triton's interpreter, for all ranks in one process."""

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
        [sys.executable, str(Path(__file__).with_name("interpreted_all_to_all.py"))],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout) == (0, "puts is right\nputs_once is right\n"), done.stderr
