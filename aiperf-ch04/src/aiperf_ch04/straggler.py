"""Which rank the others wait for: every rank does the same work and meets the others in an all-reduce, both timed.

The time in a collective says little by itself: the ranks in time spend the most of it there, and the late rank the
least. The late rank is the rank whose own work takes longer.
"""

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
import torch.distributed as dist
from attrs import frozen

from aiperf_ch04.ranks import measured, on_gpus, wait

ROUNDS, WARM_UP = 30, 3
SIDE = {"cpu": 256, "cuda": 4096}  # of the matrices of the work
ELEMENTS = 1 << 18  # of the message: 1 MiB
LATE = 1.10  # times the median work of all ranks


@frozen
class Rank:
    """What a rank did in a round, in the median over the rounds.

    rank: its number.
    work_s: seconds of its own work.
    collective_s: seconds in the all-reduce, waiting included.
    late: whether its work takes 10 % longer than that of the median rank.
    """

    rank: int
    work_s: float
    collective_s: float
    late: bool


def ranks_of(device: str | None, ranks: int, slowed: int | None, by_s: float) -> list[Rank]:
    """Measure all ranks, `slowed` with `by_s` seconds more work. Raises `UsageError` for fewer GPUs than ranks."""
    times = measured(_part, on_gpus(device, ranks), ranks, slowed, by_s).median(1).values
    return judged(times[:, 0].tolist(), times[:, 1].tolist())


def judged(work_s: Sequence[float], collective_s: Sequence[float]) -> list[Rank]:
    """Say of each rank whether the others wait for it."""
    # Of two ranks the faster is what is usual.
    usual = min(work_s) if len(work_s) == 2 else median(work_s)
    pairs = zip(work_s, collective_s, strict=True)
    return [Rank(rank, work, inside, work > LATE * usual) for rank, (work, inside) in enumerate(pairs)]


def _part(device: torch.device, join: Callable[[], None], slowed: int | None, by_s: float) -> torch.Tensor:
    """Seconds of work and of the all-reduce, a row for each round."""
    join()
    side = SIDE[device.type]
    a, message = torch.ones(side, side, device=device), torch.ones(ELEMENTS, device=device)
    rows = []
    for _ in range(WARM_UP + ROUNDS):
        dist.barrier()
        wait(device)
        start = time.perf_counter()
        a @ a
        wait(device)
        if slowed == dist.get_rank():
            time.sleep(by_s)
        worked = time.perf_counter()
        dist.all_reduce(message)
        wait(device)
        rows.append((worked - start, time.perf_counter() - worked))
    return torch.tensor(rows[WARM_UP:], dtype=torch.float64)
