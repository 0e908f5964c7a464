"""Memory that every GPU of a group can read and write: torch's symmetric memory, without multicast.

Kernels that reach the memory of other GPUs are registered as operations on symmetric memory (`register`), so that
whoever counts what ranks send sees them as it sees torch's own.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from attrs import frozen

_LIBRARY = torch.library.Library("symm_mem", "FRAGMENT")


@frozen(eq=False)
class Peers:
    """Tensors of one shape on all ranks: this rank's own (`mine`), and a view of every rank's (`all`).

    `addresses` holds the addresses of all of them, as int64 on this GPU, for kernels.
    """

    mine: torch.Tensor
    all: list[torch.Tensor]
    addresses: torch.Tensor
    handle: Any

    def barrier(self, channel: int = 0) -> None:
        """Queue a meeting of all ranks on this GPU's current stream; what they wrote before it can be read after it.

        Meetings that may be queued on several streams at once need a channel for each stream.
        """
        self.handle.barrier(channel=channel)


def open_peers(*shape: int, dtype: torch.dtype) -> Peers:
    """Make a tensor of zeros on each rank that all ranks can reach; to be called by all of them, untimed."""
    import torch.distributed._symmetric_memory as symmetric

    without_multicast()
    mine = symmetric.empty(*shape, dtype=dtype, device=torch.device("cuda", torch.cuda.current_device()))
    handle = symmetric.rendezvous(mine, everyone())
    mine.zero_()
    views = [handle.get_buffer(rank, shape, dtype) for rank in range(dist.get_world_size())]
    addresses = torch.tensor([one.data_ptr() for one in views], dtype=torch.int64, device=mine.device)
    torch.cuda.synchronize()
    handle.barrier()
    torch.cuda.synchronize()
    return Peers(mine, views, addresses, handle)


def everyone() -> dist.ProcessGroup:
    """The group of all ranks."""
    group = dist.group.WORLD
    assert group is not None  # a benchmark of ranks runs in one
    return group


def without_multicast() -> None:
    """Keep torch from setting up multicast: it needs rights that a container may lack, and then fails."""
    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")


def register(schema: str, launch: Callable[..., object]) -> Any:
    """Register a launch as an operation on symmetric memory, by its schema, and return it as a callable."""

    def operation(*arguments: Any) -> None:
        launch(*arguments)

    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, operation, "CUDA")
    return getattr(torch.ops.symm_mem, name)


def put(to: torch.Tensor, source: torch.Tensor) -> None:
    """Copy a contiguous tensor to one of the same shape and dtype in a peer's memory.

    That is work of a copy engine, and multiprocessors are left to others.
    """
    _put(to, source)


_put = register("ch04_put(Tensor(a!) to, Tensor source) -> ()", torch.Tensor.copy_)
