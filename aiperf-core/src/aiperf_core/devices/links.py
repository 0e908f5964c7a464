"""Rates of links: between host and GPU, from GPU to GPU, and in all-reduces."""

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import torch

from aiperf_core.devices.measuring import Best, Page, shortest, wall

_TRANSFER_BYTES = 256 << 20
_PEER_BYTES = 256 << 20
_REDUCE_BYTES = 1 << 30
_REDUCE_IN_A_ROW = 5
_REDUCE_ROUNDS = 4
_PATIENCE = timedelta(seconds=60)


def fill(page: Page) -> None:
    """Measure transfers of the current GPU, and copies between each pair of GPUs."""
    for pinned in (True, False):
        kind = "pinned" if pinned else "pageable"
        for towards in ("to_device", "from_device"):
            key = f"transfer_bytes_per_s.{kind}_{towards}"
            page.take(key, f"{kind} memory {towards.replace('_', ' ')}", partial(transfer, pinned, towards))
    for source, target in pairs(torch.cuda.device_count()):
        page.take(f"peer_bytes_per_s.{source}-{target}", f"GPU {source} to {target}", partial(peer, source, target))


def pairs(count: int) -> Iterator[tuple[int, int]]:
    """Every pair of GPUs, in both directions."""
    for first in range(count):
        for second in range(first + 1, count):
            yield first, second
            yield second, first


def transfer(pinned: bool, towards: str) -> Best:
    """The rate of a copy between host and device, in bytes a second."""
    host = torch.empty(_TRANSFER_BYTES, dtype=torch.uint8, pin_memory=pinned)
    host.fill_(1)
    device = torch.empty(_TRANSFER_BYTES, dtype=torch.uint8, device="cuda")
    target, source = (device, host) if towards == "to_device" else (host, device)

    def copy() -> None:
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    took = shortest(wall, copy, 0.05)
    return Best(_TRANSFER_BYTES / took, f"{_TRANSFER_BYTES >> 20} MiB copies")


def peer(source: int, target: int) -> Best:
    """The rate of a copy from one GPU to another, in bytes a second."""
    left, right = (torch.empty(_PEER_BYTES, dtype=torch.uint8, device=f"cuda:{one}") for one in (source, target))

    def copy() -> None:
        right.copy_(left, non_blocking=True)
        torch.cuda.synchronize(source)
        torch.cuda.synchronize(target)

    took = shortest(wall, copy, 0.01)
    direct = torch.cuda.can_device_access_peer(target, source)
    return Best(_PEER_BYTES / took, f"{_PEER_BYTES >> 20} MiB, {'peer copy' if direct else 'through the host'}")


def all_reduce(device: str, rank: int, world: int, store: str, count_bytes: int | None = None) -> dict[str, Best]:
    """Take part in all-reduces of 2, 4, ... and all ranks; return the bus bandwidth by number of ranks.

    `store` is a file by which the ranks find each other. Every rank of a group returns the same figures. The bus
    bandwidth is 2 (n - 1) / n of the data in the time of the slowest rank, the load of each link, as nccl-tests define
    it.
    """
    import torch.distributed as dist

    # Multicast in switches (NVLS) is off by default; the user may allow it.
    nvls = os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(
        backend,
        store=dist.FileStore(store, world),  # type: ignore[attr-defined]
        rank=rank,
        world_size=world,
        timeout=_PATIENCE,
    )
    try:
        size = count_bytes or _REDUCE_BYTES
        data = torch.ones(size // 4, device=device)
        found: dict[str, Best] = {}
        for count in group_sizes(world):
            group = dist.new_group(list(range(count)))
            if rank < count:
                took = _reduce_time(data, group, device)
                how = f"NCCL, NVLS {'off' if nvls == '0' else 'allowed'}" if device == "cuda" else "gloo"
                found[str(count)] = Best(2 * (count - 1) / count * 4 * data.numel() / took, how)
        dist.barrier()
    finally:
        dist.destroy_process_group()
    return found


def group_sizes(world: int) -> list[int]:
    """2, 4, 8, ... and `world`."""
    return sorted({world, *(1 << power for power in range(1, world.bit_length()) if 1 << power <= world)})


def _reduce_time(data: torch.Tensor, group: Any, device: str) -> float:
    """Seconds of an all-reduce: the best row of several, in which a late rank counts little."""
    import torch.distributed as dist

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    rows = []
    for row in range(1 + _REDUCE_ROUNDS):
        data.fill_(1.0)
        dist.barrier(group=group)
        wait()
        start = time.perf_counter()
        for _ in range(_REDUCE_IN_A_ROW):
            dist.all_reduce(data, group=group)
        wait()
        took = torch.tensor([(time.perf_counter() - start) / _REDUCE_IN_A_ROW], dtype=torch.float64, device=device)
        dist.all_reduce(took, op=dist.ReduceOp.MAX, group=group)
        if row:  # the first row sets up connections
            rows.append(float(took))
    return min(rows)
