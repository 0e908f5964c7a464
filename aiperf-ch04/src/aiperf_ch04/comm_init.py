"""What a communicator costs before it has sent anything: joining, the first collective, a further group, leaving."""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from attrs import frozen

from aiperf_ch04.ranks import measured, on_gpus, wait

REPEATS = 3
STEPS = ("join", "first collective", "second collective", "new group", "first in group", "leave")


@frozen
class Step:
    """A step of a communicator's life.

    name: one of `STEPS`.
    time_s: the median over the repeats of the time of the slowest rank.
    """

    name: str
    time_s: float


def steps(device: str | None, ranks: int) -> tuple[str, list[Step]]:
    """The backend and the time of each step. Raises `UsageError` for fewer GPUs than ranks."""
    gpus = on_gpus(device, ranks)
    slowest = measured(_part, gpus, ranks).amax(0).median(0).values
    return "nccl" if gpus else "gloo", [Step(*one) for one in zip(STEPS, slowest.tolist(), strict=True)]


def _part(device: torch.device, join: Callable[[], None]) -> torch.Tensor:
    """Seconds of each step on this rank, a row for each repeat."""
    message = torch.ones(1, device=device)
    rows = []
    for _ in range(REPEATS):
        groups: list[dist.ProcessGroup] = []
        calls: list[Callable[[], object]] = [
            join,
            lambda: dist.all_reduce(message),
            lambda: dist.all_reduce(message),
            lambda groups=groups: groups.append(dist.new_group()),  # type: ignore[misc]
            lambda groups=groups: dist.all_reduce(message, group=groups[0]),  # type: ignore[misc]
            dist.destroy_process_group,
        ]
        times = []
        for call in calls:
            start = time.perf_counter()
            call()
            wait(device)
            times.append(time.perf_counter() - start)
        rows.append(times)
    return torch.tensor(rows, dtype=torch.float64)
