"""Collectives under one name for every torch, on GPUs and on processors.

Each takes `async_op=True` and then returns the work to wait for, as those of torch.distributed do.
"""

from typing import Any

import torch
import torch.distributed as dist


def all_gather(whole: torch.Tensor, part: torch.Tensor, **how: Any) -> Any:
    """Fill `whole` with every rank's `part`, in the order of the ranks."""
    # Torch 2.13 renames it and warns of the old name.
    call = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    return call(whole, part, **how)


def reduce_scatter(part: torch.Tensor, whole: torch.Tensor, **how: Any) -> Any:
    """Fill `part` with the sum over ranks of this rank's share of `whole`."""
    call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    return call(part, whole, **how)


def exchange(sends: dict[int, torch.Tensor], receives: dict[int, torch.Tensor]) -> None:
    """Send tensors to ranks and receive others from ranks, all at once, and wait for them."""
    ops = [dist.P2POp(dist.isend, one, to) for to, one in sends.items()]
    ops += [dist.P2POp(dist.irecv, one, source) for source, one in receives.items()]
    for work in dist.batch_isend_irecv(ops) if ops else ():
        work.wait()
