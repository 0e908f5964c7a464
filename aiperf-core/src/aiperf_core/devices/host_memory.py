"""Bytes of the host that several processes map: an anonymous file in memory, passed on as a descriptor."""

import fcntl
import mmap
import os

import torch


def create(size: int) -> tuple[torch.Tensor, int]:
    """So many bytes as a uint8 tensor, and the descriptor by which others map them."""
    fd = os.memfd_create("aiperf-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    # A worker that shrank it would kill the judge at its next access, by SIGBUS.
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return attach(fd, size), fd


def attach(fd: int, size: int) -> torch.Tensor:
    """Bytes that another process created."""
    # Populated at once, so that no timed call pays for the first touch of a page of its inputs.
    memory = mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    return torch.frombuffer(memory, dtype=torch.uint8)
