"""Shared buffers: a worker's inputs at fixed addresses, and the memory for its outputs.

Where processes share the device's memory, the judge refreshes the inputs directly in the memory that a worker's code
reads. The worker's process knows neither the seed nor how the values are made. Otherwise the judge writes into host
memory, and the worker copies from there before a sample and back after it, outside the clock. That is weaker: code in
the worker's process could keep the old values, or hide what it did to them.
"""

from collections.abc import Iterable

import torch
from attrs import Factory, frozen

from aiperf_core.devices import host_memory
from aiperf_core.devices.device import DeviceKind, Told


@frozen(slots=False)  # a snapshot of a process reads the attributes
class Inputs:
    """The bytes that inputs are views of.

    staged: the bytes in host memory, where the judge cannot write to the device's.
    """

    bytes: torch.Tensor
    staged: torch.Tensor | None = None

    @property
    def in_process(self) -> bool:
        """Whether this process copies the values itself."""
        return self.staged is not None

    def fetch(self) -> None:
        """Copy the judge's values to the device."""
        if self.staged is not None:
            self.bytes.copy_(self.staged)

    def hand_back(self) -> None:
        """Copy what the call has left back to the judge's memory."""
        if self.staged is not None:
            self.staged.copy_(self.bytes)


@frozen(eq=False)
class Buffers:
    """A buffer for each rank: the bytes, and the messages and descriptors for processes that map them."""

    bytes: list[torch.Tensor] = Factory(list)
    messages: list[Told] = Factory(list)
    fds: list[int] = Factory(list)


def create(size: int, kind: DeviceKind, rank: int = 0) -> tuple[torch.Tensor, Told, tuple[int, ...]]:
    """Allocate a buffer. Return its bytes as a uint8 tensor, and the message and descriptors for `attach`."""
    size = max(size, 1)
    if kind.shares_memory:
        return kind.create_memory(size, rank)
    tensor, fd = host_memory.create(size)
    return tensor, {"device": "cpu", "size": size}, (fd,)


def create_each(sizes: Iterable[int], kind: DeviceKind) -> Buffers:
    """Allocate a buffer for each rank on its device; `sizes` are in bytes."""
    created = []
    for rank, size in enumerate(sizes):
        with kind.on(rank):
            created.append(create(size, kind, rank))
    tensors, messages, fds = zip(*created, strict=True)
    return Buffers(list(tensors), list(messages), [fd for own in fds for fd in own])


def attach(message: Told, fd: int | None, kind: DeviceKind) -> torch.Tensor:
    """Map a buffer that another process created; its bytes as a uint8 tensor. `fd` is its descriptor, if it has one."""
    if kind.shares_memory:
        return kind.map_memory(message, fd)
    assert fd is not None
    return host_memory.attach(fd, message["size"])


def attach_inputs(message: Told, fd: int | None, kind: DeviceKind) -> Inputs:
    """Map a buffer of inputs; where memory is not shared, allocate the device's copy of it."""
    shared = attach(message, fd, kind)
    if kind.shares_memory:
        return Inputs(shared)
    inputs = Inputs(torch.empty(message["size"], dtype=torch.uint8, device=kind.torch_device), shared)
    inputs.fetch()
    return inputs
