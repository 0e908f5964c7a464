"""Rates of links: between host and GPU, from GPU to GPU, between processes, and in all-reduces."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import torch

from aiperf_core.devices.host_memory import attach
from aiperf_core.devices.measuring import Best, Page, shortest, wall

_TRANSFER_BYTES = 256 << 20
_PEER_BYTES = 256 << 20
_REDUCE_BYTES = 1 << 30
_REDUCE_IN_A_ROW = 5
_REDUCE_ROUNDS = 4
_PATIENCE = timedelta(seconds=60)
# Messages that may fit in caches; larger ones have the size of the shared memory.
_SMALL_BYTES = (1 << 20, 16 << 20)
_LOOPBACK_S = 0.05
_MESSAGES_IN_A_ROW = 3
_MESSAGE_ROWS = 3


def fill_transfers(page: Page) -> None:
    """Measure transfers of the current GPU."""
    for pinned in (True, False):
        kind = "pinned" if pinned else "pageable"
        for towards in ("to_device", "from_device"):
            key = f"transfer_bytes_per_s.{kind}_{towards}"
            page.take(key, f"{kind} memory {towards.replace('_', ' ')}", partial(transfer, pinned, towards))


def fill_peers(page: Page) -> None:
    """Measure copies between each pair of GPUs, and of more than two GPUs from each to all others at once."""
    count = torch.cuda.device_count()
    for source, target in pairs(count):
        page.take(f"peer_bytes_per_s.{source}-{target}", f"GPU {source} to {target}", partial(peer, source, target))
    for source in range(count if count > 2 else 0):
        page.take(f"peer_bytes_per_s.{source}-all", f"GPU {source} to all others", partial(peers, source, count))


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


def peers(source: int, count: int) -> Best:
    """The rate at which one of `count` GPUs copies to all others at once, in bytes a second."""
    others = [other for other in range(count) if other != source]
    sent = torch.empty(_PEER_BYTES, dtype=torch.uint8, device=f"cuda:{source}")
    received = [torch.empty(_PEER_BYTES, dtype=torch.uint8, device=f"cuda:{other}") for other in others]
    streams = [torch.cuda.Stream(device=source) for _ in others]

    def copy() -> None:
        # A copy runs on the current stream of its source.
        for stream, target in zip(streams, received, strict=True):
            with torch.cuda.stream(stream):
                target.copy_(sent, non_blocking=True)
        for device in range(count):
            torch.cuda.synchronize(device)

    took = shortest(wall, copy, 0.01)
    return Best(len(others) * _PEER_BYTES / took, f"{_PEER_BYTES >> 20} MiB to each, at once")


def loopback(rank: int, store: str, memory: str) -> Best | None:
    """Take part as one of two ranks in transfers from rank 0 to rank 1; return the rate in bytes a second to rank 0.

    Transfers are messages through gloo, and memory that both processes map: `memory` is the path of a file in memory,
    `store` that of a file by which the ranks find each other. Shared memory is timed as rank 0 writes it, and as rank
    0 reads what rank 1 wrote; a transfer needs at least one of both.
    """
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    fd = os.open(memory, os.O_RDWR)
    try:
        shared = attach(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)
    with _ranks("gloo", rank, 2, store):
        sizes = (*(size for size in _SMALL_BYTES if size < shared.numel()), shared.numel())
        found = [_messages(rank, size) for size in sizes]
        if rank:
            shared.fill_(1)
            dist.barrier()
            return None
        dist.barrier()
        for size in sizes:
            part, own = shared[:size], torch.ones(size, dtype=torch.uint8)
            for name, call in (("read from", part.view(torch.int64).sum), ("written to", partial(part.copy_, own))):
                took = shortest(wall, call, _LOOPBACK_S)
                found.append(Best(size / took, f"{_mib(size)} {name} shared memory"))
    return max(found)


def _messages(rank: int, size: int) -> Best:
    """The rate of messages from rank 0 to rank 1, several in a row; rank 1 answers the last."""
    import torch.distributed as dist

    data, answer = torch.ones(size, dtype=torch.uint8), torch.ones(1, dtype=torch.uint8)

    def row() -> None:
        for _ in range(_MESSAGES_IN_A_ROW):
            dist.recv(data, 0) if rank else dist.send(data, 1)
        dist.send(answer, 0) if rank else dist.recv(answer, 1)

    took = min(wall(row) for _ in range(1 + _MESSAGE_ROWS))
    return Best(_MESSAGES_IN_A_ROW * size / took, f"{_mib(size)} messages, gloo")


@contextmanager
def _ranks(backend: str, rank: int, world: int, store: str) -> Iterator[None]:
    """The process group of all ranks, for the length of a block."""
    import torch.distributed as dist

    dist.init_process_group(
        backend,
        store=dist.FileStore(store, world),  # type: ignore[attr-defined]
        rank=rank,
        world_size=world,
        timeout=_PATIENCE,
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def _mib(size: int) -> str:
    return f"{size >> 20} MiB"


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
    with _ranks("nccl" if device == "cuda" else "gloo", rank, world, store):
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
