"""Collectives against the size of their message, timed inside the ranks, and what a call costs beside its bytes."""

import time
from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from attrs import frozen

from aiperf_ch04.ranks import measured, on_gpus, wait
from aiperf_core.distributed import all_gather, exchange, reduce_scatter, wait_all

SAMPLES, WARM_UP = 9, 2
# So many calls in a row are a sample on a GPU, so that what the host adds is paid once.
CALLS = 10
SMALLEST, LARGEST = 1 << 10, {"cpu": 1 << 22, "cuda": 1 << 28}
STEP = 4


@frozen
class Point:
    """One collective with one size.

    message_bytes: the whole message: of a gather or scatter, that of all ranks together.
    time_s: the median over samples of the time of the slowest rank.
    alg_bytes_per_s: message bytes over time. bus_bytes_per_s: what a link carries for it, which can be compared with
        the link's rate whatever the number of ranks (NVIDIA, nccl-tests, PERFORMANCE.md).
    """

    collective: str
    message_bytes: int
    time_s: float
    alg_bytes_per_s: float
    bus_bytes_per_s: float


@frozen
class Fit:
    """Time as alpha + message bytes / rate, by least squares of relative errors (Hockney's model, 1994)."""

    collective: str
    alpha_s: float
    bytes_per_s: float | None
    worst_relative_error: float


def bus_factor(collective: str, ranks: int) -> float:
    """How many times the message's bytes a link carries."""
    share = (ranks - 1) / ranks
    return {"all_reduce": 2 * share, "broadcast": 1.0, "send_recv": 1.0}.get(collective, share)


def sweep(device: str | None, ranks: int, collectives: Iterable[str], largest: int | None) -> list[Point]:
    """Time each collective at sizes from 1 KiB on, in steps of four. Raises `UsageError` when devices are missing."""
    on_gpu = on_gpus(device, ranks)
    sizes = []
    size = SMALLEST
    while size <= (largest or LARGEST["cuda" if on_gpu else "cpu"]):
        sizes.append(size)
        size *= STEP
    chosen = list(collectives)
    times = measured(_part, on_gpu, ranks, chosen, sizes)
    slowest = times.amax(0).median(dim=-1).values
    return [
        Point(name, size, found, size / found, bus_factor(name, ranks) * size / found)
        for name, row in zip(chosen, slowest.tolist(), strict=True)
        for size, found in zip(sizes, row, strict=True)
    ]


def fit(points: Iterable[Point]) -> list[Fit]:
    """The two costs of each collective."""
    by_name: dict[str, list[Point]] = {}
    for one in points:
        by_name.setdefault(one.collective, []).append(one)
    return [_fit(name, some) for name, some in by_name.items()]


def _fit(name: str, points: list[Point]) -> Fit:
    times = torch.tensor([one.time_s for one in points], dtype=torch.float64)
    sizes = torch.tensor([one.message_bytes for one in points], dtype=torch.float64)
    # alpha / t + beta * bytes / t = 1, with neither below zero.
    rows = torch.stack([1 / times, sizes / times], dim=1)
    alpha, beta = torch.linalg.lstsq(rows, torch.ones(len(points), 1, dtype=torch.float64)).solution.flatten().tolist()
    if beta < 0 or len(points) < 2:
        alpha, beta = len(points) / float(rows[:, 0].sum()), 0.0
    elif alpha < 0:
        alpha, beta = 0.0, float(rows[:, 1].sum() / rows[:, 1].square().sum())
    errors = (alpha + beta * sizes - times).abs() / times
    return Fit(name, alpha, 1 / beta if beta > 0 else None, float(errors.max()))


def _part(device: torch.device, join: Callable[[], None], collectives: list[str], sizes: list[int]) -> torch.Tensor:
    """Seconds of everything on this rank."""
    join()
    times = [[_times(_call(name, size, device), device) for size in sizes] for name in collectives]
    return torch.tensor(times, dtype=torch.float64)


def _call(name: str, size: int, device: torch.device) -> Callable[[], object]:
    """A call with a message of that many bytes, all ranks together where each has a part."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    whole = torch.zeros(-(-size // (4 * ranks)) * ranks, device=device)
    other, part = torch.zeros_like(whole), torch.zeros_like(whole[: len(whole) // ranks])
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: all_gather(whole, part),
        "reduce_scatter": lambda: reduce_scatter(part, whole),
        "all_to_all": lambda: dist.all_to_all_single(other, whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "send_recv": lambda: wait_all(exchange({after: whole}, {before: other})),
    }
    return calls[name]


def _times(call: Callable[[], object], device: torch.device) -> list[float]:
    """Seconds a call on this rank, for each sample; all ranks begin a sample together."""
    calls = CALLS if device.type == "cuda" else 1
    times = []
    for _ in range(WARM_UP + SAMPLES):
        wait(device)
        dist.barrier()
        wait(device)
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait(device)
        times.append((time.perf_counter() - start) / calls)
    return times[WARM_UP:]
