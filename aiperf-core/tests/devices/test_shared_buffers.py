import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from aiperf_core.devices import cuda_memory, shared_buffers
from aiperf_core.devices.cpu_kind import CpuKind
from aiperf_core.devices.cuda_kind import CudaKind
from aiperf_core.errors import AiperfError, SkipError
from aiperf_core.harness.processes.channel import Channel, Message


@contextmanager
def created(size: int) -> Iterator[tuple[torch.Tensor, Message, int]]:
    """An arena on the processor; its descriptor is closed afterwards."""
    ours, message, (fd,) = shared_buffers.create(size, CpuKind())
    try:
        yield ours, message, fd
    finally:
        os.close(fd)


def test_an_arena_is_bytes_of_zero_on_a_page() -> None:
    with created(10_000) as (ours, message, fd):
        assert message == {"device": "cpu", "size": 10_000}
        assert (ours.dtype, ours.shape) == (torch.uint8, (10_000,))
        assert not ours.any()
        assert ours.data_ptr() % 4096 == 0
        assert os.fstat(fd).st_size == 10_000


def test_no_inputs_still_have_a_place() -> None:
    with created(0) as (ours, message, fd):
        assert message["size"] == ours.numel() == 1
        assert shared_buffers.attach(message, fd, CpuKind()).numel() == 1


def test_both_sides_see_the_same_bytes() -> None:
    with created(4096) as (ours, message, fd):
        theirs = shared_buffers.attach(message, fd, CpuKind())
        assert theirs.data_ptr() != ours.data_ptr()
        ours[7] = 42
        theirs[8] = 43
        assert (int(theirs[7]), int(ours[8])) == (42, 43)


def test_it_outlives_its_descriptor_and_the_other_mapping() -> None:
    with created(4096) as (ours, message, fd):
        theirs = shared_buffers.attach(message, fd, CpuKind())
    ours[0] = 1
    del ours
    assert int(theirs[0]) == 1


def test_it_is_found_through_a_channel() -> None:
    here, there = Channel.pair()
    with here.sock, there.sock, created(100) as (ours, message, fd):
        here.send(message, (fd,))
        received = there.receive(1.0, most_fds=1)
        (other,) = received.pop("fds")
        theirs = shared_buffers.attach(received, other, CpuKind())
        os.close(other)
        ours.fill_(9)
        assert theirs.tolist() == [9] * 100


OTHER_PROCESS = """
import mmap, os, sys
memory = mmap.mmap(int(sys.argv[1]), 4096)
assert memory[0] == 5
memory[1] = 6
for change in (lambda fd: os.ftruncate(fd, 0), lambda fd: os.ftruncate(fd, 8192)):
    try:
        change(int(sys.argv[1]))
    except PermissionError:
        continue
    raise SystemExit("its size could be changed")
"""


def test_another_process_can_write_to_it_but_not_take_it_away() -> None:
    with created(4096) as (ours, _, fd):
        ours[0] = 5
        subprocess.run([sys.executable, "-I", "-c", OTHER_PROCESS, str(fd)], pass_fds=(fd,), check=True)
        assert int(ours[1]) == 6
        assert os.fstat(fd).st_size == 4096


def test_a_child_is_not_given_it_unasked() -> None:
    with created(1) as (_, _, fd):
        assert not os.get_inheritable(fd)


def test_without_the_package_a_gpu_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(SkipError) as caught:
        shared_buffers.create(1, CudaKind())
    assert str(caught.value) == "needs the package 'cuda-bindings' (pip install 'aiperf-core[cuda]')"


def test_failures_of_cuda_say_what_was_being_done() -> None:
    assert cuda_memory.checked((0, "pointer"), "allocating") == "pointer"
    assert cuda_memory.checked((0,), "freeing") is None
    with pytest.raises(AiperfError) as caught:
        cuda_memory.checked((2, None), "allocating 1,000 bytes for inputs and outputs")
    assert str(caught.value) == (
        "CUDA failed while allocating 1,000 bytes for inputs and outputs: 2. See the state of the GPU with: nvidia-smi"
    )
