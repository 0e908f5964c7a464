"""Memory that every GPU of a group can read and write: torch's symmetric memory, without multicast.

A kernel that reaches the memory of other GPUs is registered as an operation on symmetric memory
(`register_peer_operation`). The harness then counts its bytes like those of torch's own operations.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from attrs import frozen

from aiperf_core.distributed.collectives import world_group
from aiperf_core.errors import SkipError

_NAMESPACE = "symm_mem"
_LIBRARY = torch.library.Library(_NAMESPACE, "FRAGMENT")


@frozen(eq=False)
class SymmetricBuffers:
    """Tensors of one shape and dtype, one on each rank's GPU.

    mine: this rank's own.
    all: a view of every rank's, by its number; writes to it arrive in that rank's `mine`.
    addresses: of `all`, as `world_size` int64 on this GPU, for kernels.
    handle: of torch's symmetric memory.
    """

    mine: torch.Tensor
    all: list[torch.Tensor]
    addresses: torch.Tensor
    handle: Any

    def barrier(self, channel: int = 0) -> None:
        """Queue a barrier of all ranks on this GPU's current stream.

        What ranks wrote before the barrier can be read after it. Barriers that are queued on several streams at once
        need a channel for each stream.
        """
        self.handle.barrier(channel=channel)


def symmetric_buffers(*shape: int, dtype: torch.dtype) -> SymmetricBuffers:
    """Make a tensor of zeros on each rank that all ranks can reach. All ranks call it together, in `prepare`.

    Raises `SkipError` without a GPU, and `BenchmarkError` outside of a workload with `world_size`. Raises
    `RuntimeError` for GPUs that cannot reach each other's memory.
    """
    group = world_group()
    if not torch.cuda.is_available():
        raise SkipError("needs GPUs: symmetric memory is memory of GPUs")
    import torch.distributed._symmetric_memory as symmetric

    disable_multicast()
    mine = symmetric.empty(*shape, dtype=dtype, device=torch.device("cuda", torch.cuda.current_device()))
    handle = symmetric.rendezvous(mine, group)
    mine.zero_()
    views = [handle.get_buffer(rank, shape, dtype) for rank in range(dist.get_world_size())]
    addresses = torch.tensor([view.data_ptr() for view in views], dtype=torch.int64, device=mine.device)
    torch.cuda.synchronize()
    handle.barrier()
    torch.cuda.synchronize()
    return SymmetricBuffers(mine, views, addresses, handle)


def disable_multicast() -> None:
    """Keep torch from setting up multicast, which needs rights that a container may lack, and fails without them."""
    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")


def register_peer_operation(schema: str, launch: Callable[..., object]) -> Any:
    """Register a launch that reaches the memory of other GPUs, and return it as a callable.

    schema: as torch.library wants it, such as `"ch04_put_rows(Tensor x, Tensor(a!) there) -> ()"`. The name begins with
        the chapter or package. Tensors that cross the link are arguments: the harness adds up their bytes.
    launch: gets the arguments of a call; what it returns is ignored.

    Raises `RuntimeError` for a schema that torch cannot read, and for a name that is registered already.
    """

    def operation(*arguments: Any) -> None:
        launch(*arguments)

    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, operation, "CUDA")
    return getattr(getattr(torch.ops, _NAMESPACE), name)


def put(to: torch.Tensor, source: torch.Tensor) -> None:
    """Copy a contiguous tensor to a tensor of the same shape and dtype in a peer's memory, on the current stream.

    A copy engine does the work; no multiprocessor is used.
    """
    _put(to, source)


_put = register_peer_operation("aiperf_put(Tensor(a!) to, Tensor source) -> ()", torch.Tensor.copy_)
