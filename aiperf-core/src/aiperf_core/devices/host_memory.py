"""Host memory that several processes map: an anonymous file, passed on as a descriptor."""

import fcntl
import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def allocate(size: int) -> int:
    """The descriptor of `size` zero bytes that other processes may map, and none may resize."""
    fd = os.memfd_create("aiperf-buffers", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    # A process that shrinks the file would kill the others by SIGBUS at their next access.
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def create(size: int) -> "tuple[torch.Tensor, int]":
    """`size` bytes as a uint8 tensor, and the file descriptor by which other processes map them."""
    fd = allocate(size)
    return attach(fd, size), fd


def attach(fd: int, size: int) -> "torch.Tensor":
    """Map `size` bytes that another process created, as a uint8 tensor."""
    import torch

    # Populate all pages now, so that no timed call pays for the first touch of its inputs.
    memory = mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    return torch.frombuffer(memory, dtype=torch.uint8)
