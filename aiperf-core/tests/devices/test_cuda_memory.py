"""GPU memory that another process maps is as fast there as memory of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

MIB = 1 << 20
SIZES = (64 * MIB + 512, 512 * MIB + 512)


def reader() -> None:
    """In the process that maps: print the times of a read of each memory over those of a read of its own."""
    import statistics

    import torch

    from aiperf_core.devices import cuda_memory
    from aiperf_core.devices.cuda import CudaDevice

    device = CudaDevice()

    def read_s(words: torch.Tensor) -> float:
        times = []
        for _ in range(11):
            device.flush()
            times.append(device._event_s(words.sum))
        return statistics.median(times)

    for handle, size in zip(sys.argv[1:], SIZES, strict=True):
        theirs = cuda_memory.attach(handle, size, "cuda")
        print(read_s(theirs.view(torch.int64)) / read_s(torch.empty_like(theirs).view(torch.int64)))


@pytest.mark.gpu
def test_memory_of_another_process_is_read_as_fast_as_own() -> None:
    from aiperf_core.devices import cuda_memory

    created = [cuda_memory.create(size, "cuda") for size in SIZES]
    handles = [handle for _, handle in created]
    done = subprocess.run([sys.executable, Path(__file__), *handles], capture_output=True, text=True, check=True)
    ratios = [float(line) for line in done.stdout.split()]
    assert ratios == pytest.approx([1, 1], abs=0.1)


if __name__ == "__main__":
    reader()
