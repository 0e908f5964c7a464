"""Weak and strong scaling of data-parallel training, measured inside the ranks."""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from attrs import field, frozen
from torch import distributed
from torch.multiprocessing.spawn import spawn

from aiperf_core.devices.probe import has_cuda_device
from aiperf_core.errors import UsageError

LAYERS = 3
RATE = 1e-3
WARM_UP = 5


@frozen
class Point:
    """Training on so many ranks. `efficiency` compares a rank's samples a second with those of the fewest ranks."""

    kind: str
    ranks: int
    samples_per_rank: int
    step_s: float
    samples_per_s: float
    efficiency: float


@frozen
class Scaling:
    """All points on one kind of device, and why others were left out."""

    device: str
    width: int
    points: list[Point] = field(factory=list)
    left_out: list[str] = field(factory=list)


def parse_ranks(text: str) -> list[int]:
    """`1,2,4` as numbers, in order. Raises `UsageError`."""
    try:
        ranks = sorted({int(one) for one in text.split(",")})
    except ValueError:
        ranks = []
    if not ranks or ranks[0] < 1:
        raise UsageError(f"--ranks {text!r} was given; accepted are whole numbers from 1, as in --ranks 1,2,4")
    return ranks


def measure(device: str | None, ranks: list[int], width: int | None, samples: int | None, steps: int) -> Scaling:
    """Train on each number of ranks that this machine has devices for. Raises `UsageError` where it has none."""
    on_gpu = has_cuda_device() if device is None else device == "cuda"
    if on_gpu and not has_cuda_device():
        raise UsageError("'cuda' was requested, but this machine has no CUDA GPU. Measure processes: --device cpu")
    most = torch.cuda.device_count() if on_gpu else len(os.sched_getaffinity(0))
    what = "GPUs" if on_gpu else "processors"
    fitting = [one for one in ranks if one <= most]
    if not fitting:
        raise UsageError(f"{ranks[0]} ranks are the fewest that were asked for; this machine has {most} {what}")
    width, samples = width or (4096 if on_gpu else 512), samples or (512 if on_gpu else 64)
    points: list[Point] = []
    for count in fitting:
        each = {"weak": samples, "strong": -(-samples // count)}
        for kind, step_s in slowest_steps(on_gpu, count, width, each, steps).items():
            per_rank = each[kind] / step_s
            least = next((one.samples_per_s / one.ranks for one in points if one.kind == kind), per_rank)
            points.append(Point(kind, count, each[kind], step_s, count * per_rank, per_rank / least))
    points.sort(key=lambda one: one.kind, reverse=True)
    left_out = [f"{one} ranks need as many {what}; this machine has {most}" for one in ranks if one > most]
    return Scaling(torch.cuda.get_device_name() if on_gpu else "cpu", width, points, left_out)


def slowest_steps(on_gpu: bool, ranks: int, width: int, samples: dict[str, int], steps: int) -> dict[str, float]:
    """For each number of samples a rank, the median over steps of the time on the slowest rank, in seconds."""
    with tempfile.TemporaryDirectory(prefix="aiperf-scaling-") as folder:
        spawn(train, args=(folder, on_gpu, ranks, width, list(samples.values()), steps), nprocs=ranks)
        times = torch.stack([torch.load(Path(folder) / f"{rank}.pt") for rank in range(ranks)])
    medians = times.amax(0).median(dim=1).values
    return dict(zip(samples, medians.tolist(), strict=True))


def train(rank: int, folder: str, on_gpu: bool, ranks: int, width: int, samples: list[int], steps: int) -> None:
    """One rank: time steps, each begun by all ranks together, and leave the times in the folder."""
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    how: dict[str, Any] = {"device_id": device} if on_gpu else {}
    if on_gpu:
        # Multicast needs rights that a container may lack, and NCCL then fails; as `aiperf ceilings` does.
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)  # one processor a rank, or a rank alone would have them all
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks, **how
    )
    times = [step_times(device, ranks, width, one, steps) for one in samples]
    torch.save(torch.tensor(times, dtype=torch.float64), Path(folder) / f"{rank}.pt")
    distributed.destroy_process_group()


def step_times(device: torch.device, ranks: int, width: int, samples: int, steps: int) -> list[float]:
    """The times of so many steps on this rank, in seconds, after some that are not counted."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    # Each rank has samples of its own; the weights are the same on all.
    own, shared = (torch.Generator(device).manual_seed(seed) for seed in (1 + distributed.get_rank(), 0))
    x = torch.randn(samples, width, device=device, generator=own).to(dtype)
    drawn = (torch.randn(width, width, device=device, generator=shared) for _ in range(LAYERS))
    weights = [(one / width**0.5).to(dtype).requires_grad_() for one in drawn]
    times = []
    for _ in range(WARM_UP + steps):
        distributed.barrier()
        wait(device)
        start = time.perf_counter()
        step(weights, x, ranks)
        wait(device)
        times.append(time.perf_counter() - start)
    return times[WARM_UP:]


def step(weights: list[torch.Tensor], x: torch.Tensor, ranks: int) -> None:
    """Forward, backward, the mean of all ranks' gradients, update."""
    for weight in weights:
        x = torch.nn.functional.gelu(x @ weight)
    gradients = torch.autograd.grad(x.float().square().mean(), weights)
    if ranks > 1:
        works = [distributed.all_reduce(one, async_op=True) for one in gradients]
        for work in works:
            work.wait()
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.add_(gradient, alpha=-RATE / ranks)


def wait(device: torch.device) -> None:
    """Wait for the work of a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
