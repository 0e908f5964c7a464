"""Collectives and messages under one name for every torch, on GPUs (NCCL) and on processors (gloo).

Tensors must be contiguous and lie on the rank's device. Their number of elements counts, not their shape.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from aiperf_core.errors import BenchmarkError


def all_gather(whole: torch.Tensor, part: torch.Tensor, **how: Any) -> Any:
    """Fill `whole` with every rank's `part`, in the order of the ranks.

    whole: `world_size` times as many elements as `part`, of the same dtype.
    part: this rank's elements, as many on every rank.
    how: `group` and `async_op` of torch.distributed.

    Return the work to wait for with `async_op=True`, else None. Raises `RuntimeError` for tensors that do not fit.
    """
    # Torch 2.13 renames it and warns of the old name.
    call = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    return call(whole.view(-1), part.view(-1), **how)


def reduce_scatter(part: torch.Tensor, whole: torch.Tensor, **how: Any) -> Any:
    """Fill `part` with the sum over the ranks of this rank's share of `whole`.

    part: a share, with as many elements on every rank.
    whole: the shares of all ranks in their order: `world_size` times the elements of `part`, of the same dtype.
    how: `op`, `group` and `async_op` of torch.distributed.

    Return the work to wait for with `async_op=True`, else None. Raises `RuntimeError` for tensors that do not fit.
    """
    call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    return call(part.view(-1), whole.view(-1), **how)


def exchange(sends: Mapping[int, torch.Tensor], receives: Mapping[int, torch.Tensor]) -> list[Any]:
    """Start to send tensors to ranks and to receive tensors from ranks, all at once; return the works to wait for.

    sends, receives: a tensor for each rank. Two ranks must agree on the number of bytes. What a rank sends to itself is
        copied at once, also in a process without ranks.

    On GPUs the messages are one launch. No tensor may be changed before its work was waited for.
    """
    sends, receives, own = dict(sends), dict(receives), dist.get_rank() if dist.is_initialized() else 0
    if own in sends:
        receives.pop(own).view(-1).copy_(sends.pop(own).view(-1))
    ops = [dist.P2POp(dist.isend, tensor, rank) for rank, tensor in sends.items()]
    ops += [dist.P2POp(dist.irecv, tensor, rank) for rank, tensor in receives.items()]
    return list(dist.batch_isend_irecv(ops)) if ops else []


def wait_all(works: Sequence[Any]) -> None:
    """Wait for works; on GPUs, let the current stream wait for them."""
    for work in works:
        work.wait()


def world_group() -> dist.ProcessGroup:
    """The group of all ranks. Raises `BenchmarkError` outside of a workload with `world_size`."""
    group = dist.group.WORLD if dist.is_initialized() else None
    if group is None:
        raise BenchmarkError("there are no ranks in this process; declare world_size in the sizes of the workload")
    return group
