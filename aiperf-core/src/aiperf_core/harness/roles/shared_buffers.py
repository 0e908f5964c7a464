"""The inputs of one process at fixed addresses, and the place where its outputs go.

Where processes share the device's memory, the judge writes new values straight into the memory that a worker's code reads, and
the worker's process knows neither the seed nor how the values are made. Where they do not, the judge writes into memory of
the host, and the worker copies from there before a sample and back after it, outside the clock. Code in that process could
keep the old values, or hide what it did to them, so this is weaker.
"""

import torch
from attrs import frozen

from aiperf_core.devices import host_memory
from aiperf_core.devices.device import DeviceKind
from aiperf_core.harness.processes.channel import Message


@frozen
class Inputs:
    """The bytes that inputs are views of. `staged` are those of the host, where the judge writes into them."""

    bytes: torch.Tensor
    staged: torch.Tensor | None = None

    @property
    def in_process(self) -> bool:
        """Whether this process copies the values itself."""
        return self.staged is not None

    def fetch(self) -> None:
        """Take what the judge has written."""
        if self.staged is not None:
            self.bytes.copy_(self.staged)

    def hand_back(self) -> None:
        """Let the judge see what the call has left."""
        if self.staged is not None:
            self.staged.copy_(self.bytes)


def create(size: int, kind: DeviceKind, rank: int = 0) -> tuple[torch.Tensor, Message, tuple[int, ...]]:
    """Allocate an arena. Return its bytes as a uint8 tensor, and the message and descriptors that let others map it."""
    size = max(size, 1)
    if kind.shares_memory:
        return kind.create_memory(size, rank)
    tensor, fd = host_memory.create(size)
    return tensor, {"device": "cpu", "size": size}, (fd,)


def attach(message: Message, fd: int | None, kind: DeviceKind) -> torch.Tensor:
    """Map an arena that another process created; its bytes as a uint8 tensor. `fd` is its descriptor, where it has one."""
    if kind.shares_memory:
        return kind.map_memory(message, fd)
    assert fd is not None
    return host_memory.attach(fd, message["size"])


def attach_inputs(message: Message, fd: int | None, kind: DeviceKind) -> Inputs:
    """Map an arena of inputs, or make one on the device of which that one is the copy."""
    shared = attach(message, fd, kind)
    if kind.shares_memory:
        return Inputs(shared)
    inputs = Inputs(torch.empty(message["size"], dtype=torch.uint8, device=kind.torch_device), shared)
    inputs.fetch()
    return inputs
