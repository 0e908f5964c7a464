"""Ranks for the chapter's diagnostics: processes that meet, measure their part and hand over a tensor."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from aiperf_core.devices.probe import has_cuda_device
from aiperf_core.errors import UsageError


def on_gpus(device: str | None, ranks: int) -> bool:
    """Whether ranks run on GPUs; by default where there are any. Raises `UsageError` for fewer GPUs than ranks."""
    chosen = has_cuda_device() if device is None else device == "cuda"
    if chosen and torch.cuda.device_count() < ranks:
        found = torch.cuda.device_count()
        raise UsageError(
            f"{ranks} ranks on GPUs need as many; this machine has {found}. Measure processes: --device cpu"
        )
    return chosen


def measured(part: Callable[..., torch.Tensor], on_gpu: bool, ranks: int, *given: Any) -> torch.Tensor:
    """Call `part(device, join, *given)` on each rank, and return the tensors of all, first dimension the rank.

    part: a function of a module. It calls `join()` to meet the other ranks; each time it may leave and join again.
    """
    with tempfile.TemporaryDirectory(prefix="aiperf-ranks-") as folder:
        spawn(_rank, args=(folder, on_gpu, ranks, part, given), nprocs=ranks)
        return torch.stack([torch.load(Path(folder) / f"{rank}.pt") for rank in range(ranks)])


def wait(device: torch.device) -> None:
    """Wait for the work of a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _rank(
    rank: int, folder: str, on_gpu: bool, ranks: int, part: Callable[..., torch.Tensor], given: tuple[Any, ...]
) -> None:
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    how: dict[str, Any] = {"device_id": device} if on_gpu else {}
    if on_gpu:
        # Multicast needs rights that a container may lack, and NCCL then fails.
        os.environ["NCCL_NVLS_ENABLE"] = "0"
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    meetings = iter(range(1000))

    def join() -> None:
        meet = f"file://{folder}/meet{next(meetings)}"
        dist.init_process_group("nccl" if on_gpu else "gloo", init_method=meet, rank=rank, world_size=ranks, **how)

    torch.save(part(device, join, *given), Path(folder) / f"{rank}.pt")
    if dist.is_initialized():
        dist.destroy_process_group()
