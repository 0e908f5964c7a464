"""The Triton kernels of the chapter compute what they should, by Triton's interpreter, for which no GPU is needed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

INTERPRETED = Path(__file__).with_name("interpreted_kernels.py")


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_right_when_interpreted() -> None:
    # In a process of its own: a kernel is interpreted or compiled for as long as its process lives.
    done = subprocess.run(
        [sys.executable, str(INTERPRETED)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    kernels = ("folds", "products", "update", "quantise_rows", "quantise_blocks")
    said = "".join(f"{kernel} is right\n" for kernel in kernels)
    assert (done.returncode, done.stdout) == (0, said), done.stderr
