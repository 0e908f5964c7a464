"""Reads of a file for a GPU: what can be tested without one."""

import os
from pathlib import Path

import pytest

from aiperf_ch05 import gpu_load
from aiperf_core.errors import BenchmarkError


def test_memory_beyond_the_end_of_a_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(100)))
    memory = bytearray(b"\xff" * 64)
    fd = os.open(path, os.O_RDONLY)
    gpu_load.fill(fd, 60, memoryview(memory), 40)
    assert bytes(memory) == bytes(range(60, 100)) + b"\xff" * 24
    with pytest.raises(BenchmarkError) as caught:
        gpu_load.fill(fd, 60, memoryview(memory), 41)
    os.close(fd)
    assert str(caught.value) == "the input's file ends after 100 bytes; 101 are needed"
