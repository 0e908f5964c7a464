"""Collectives under one name for every torch, on GPUs and on processors.

Tensors must be contiguous; their shapes do not matter. With `async_op=True` the first two return the work to wait for,
as those of torch.distributed do.
"""

from typing import Any

import torch
import torch.distributed as dist


def all_gather(whole: torch.Tensor, part: torch.Tensor, **how: Any) -> Any:
    """Fill `whole` with every rank's `part`, in the order of the ranks."""
    # Torch 2.13 renames it and warns of the old name.
    call = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    return call(whole.view(-1), part.view(-1), **how)


def reduce_scatter(part: torch.Tensor, whole: torch.Tensor, **how: Any) -> Any:
    """Fill `part` with the sum over ranks of this rank's share of `whole`."""
    call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    return call(part.view(-1), whole.view(-1), **how)


def exchange(sends: dict[int, torch.Tensor], receives: dict[int, torch.Tensor]) -> list[Any]:
    """Start to send tensors to ranks and to receive others from ranks, all at once; return the works to wait for."""
    ops = [dist.P2POp(dist.isend, one, to) for to, one in sends.items()]
    ops += [dist.P2POp(dist.irecv, one, source) for source, one in receives.items()]
    return list(dist.batch_isend_irecv(ops)) if ops else []


def wait_for(works: list[Any]) -> None:
    """Wait for works; on GPUs, let the current stream wait for them."""
    for work in works:
        work.wait()
