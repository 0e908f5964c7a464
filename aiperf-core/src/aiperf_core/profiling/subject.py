"""The profiled process: makes the inputs, prepares one implementation, warms it up, and calls it in the tool's window.

It starts as `python -m aiperf_core.profiling.subject REQUEST.json`, by the tool or under it, and writes `subject.json`
into its folder: the number of calls, or the reason for a failure.
"""

import contextlib
import gc
import json
import os
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from attrs import asdict

from aiperf_core import pytree
from aiperf_core.benchmark import EVICTED, Benchmark, Implementation, bind, call_with
from aiperf_core.contributed import make, resolve
from aiperf_core.described import TargetRef
from aiperf_core.devices.device import DeviceKind
from aiperf_core.devices.input_file import InputFile, evict_folder
from aiperf_core.devices.timing import TimingDevice, in_a_row
from aiperf_core.errors import AiperfError, BenchmarkError, SkipError
from aiperf_core.loading import load_benchmark
from aiperf_core.precision import set_float32_precision
from aiperf_core.profiler import Job, Tool
from aiperf_core.serving import at_desk

TOLD = "subject.json"
_WARM_CALLS = 3
# Code that compiles or tunes itself may need more than the first calls.
_WARM_S = 0.2
_MOST_IN_A_ROW = 10_000


def profile(job: Job, kind: DeviceKind, tool: Tool, folder: Path) -> dict[str, Any]:
    """Call one implementation on a device within the tool's window. Return `calls`, `in_a_row`, `call_s` and `cost`.

    Raises `SkipError` for an implementation that cannot run here, and what the implementation raises.
    """
    if job.threads:  # before torch makes its threads, which inherit this
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.threads])
        torch.set_num_threads(job.threads)
    kind.preload()
    set_float32_precision("highest")
    benchmark = load_benchmark(TargetRef(job.target, job.module))
    values = _draw(benchmark, job, kind.torch_device)
    call, finish, restore = _prepared(benchmark, job, values, folder)
    # No output is kept: recorded calls allocate theirs as usual.
    moved = sum(one.untyped_storage().nbytes() for one in (*pytree.tensors(values), *pytree.tensors(call())))
    device = kind.open(moved, all_streams=True)
    finish()
    seconds = _warm(device, call, finish, restore)
    pace = tool.pace
    row = min(max(1, int(pace.window_s / max(seconds, 1e-9))), _MOST_IN_A_ROW)
    if benchmark.task.state or benchmark.deferred:  # changed inputs must be restored before every call
        row = 1
    windows = max(1, int(min(pace.windows, pace.seconds / max(seconds * row, 1e-9))))
    several, window = in_a_row(call, row), tool.window(folder)
    taken = []
    gc.collect()
    gc.disable()
    with window.whole():
        for _ in range(windows):
            restore()
            if job.cache == "cold":
                device.flush()
            device.make_ready()
            device.synchronize()
            with window.call(), _named(job):
                start = time.perf_counter()
                several()
                device.synchronize()
                taken.append((time.perf_counter() - start) / row)
            finish()
    return {"calls": windows * row, "in_a_row": row, "call_s": taken, "cost": asdict(benchmark.work(job.params))}


def _draw(benchmark: Benchmark, job: Job, device: str) -> dict[str, Any]:
    """The inputs and static arguments by name, made as in the judge."""
    task, values = benchmark.task, {}
    for draw in filter(None, (task.inputs, task.static)):
        generator = torch.Generator(device).manual_seed(secrets.randbits(62))
        drawn = call_with(draw, {**job.params, "device": device, "generator": generator})
        if not isinstance(drawn, dict):
            raise BenchmarkError(f"{job.target!r}: the workload returned {type(drawn).__name__}; accepted is a dict")
        values.update(drawn)
    return values


def _prepared(
    benchmark: Benchmark, job: Job, values: dict[str, Any], folder: Path
) -> tuple[Callable[[], Any], Callable[[], Any], Callable[[], None]]:
    """The call, a function that waits for deferred work, and one that restores the inputs that a call may change."""
    code = next(one for one in benchmark.implementations_on(job.device) if one.name == job.implementation)
    files = {name: InputFile() for name in benchmark.task.files}
    for name, file in files.items():
        file.write(values[name])
    arguments = {**job.params, **values, **{name: file.path for name, file in files.items()}}
    own = folder / "scratch"
    if benchmark.folder:
        own.mkdir(exist_ok=True)
        arguments["folder"] = str(own)
    arguments, desk = at_desk(benchmark.task.served, arguments)
    run, finish = _ready(code, arguments, deferred=benchmark.deferred)
    state = [one for name in benchmark.task.state for one in pytree.tensors(values[name])]
    first = [one.clone() for one in state]

    def restore() -> None:
        for one, before in zip(state, first, strict=True):
            one.copy_(before)
        if job.cache == "cold":
            for file in files.values():
                file.evict()
            if benchmark.folder == EVICTED:
                evict_folder(own)

    call = partial(run, **bind(run, arguments).keywords)
    return call if desk is None else desk.serving(call), finish, restore


def _ready(
    code: Implementation, arguments: dict[str, Any], *, deferred: bool
) -> tuple[Callable[..., Any], Callable[[], Any]]:
    """The prepared callable, and the function that finishes a call."""
    if not code.is_class:
        return code.code, _nothing
    instance = code.code()
    if hasattr(instance, "prepare"):
        call_with(instance.prepare, arguments)
    return instance.run, instance.finish if deferred else _nothing


def _nothing() -> None:
    pass


def _warm(
    device: TimingDevice, call: Callable[[], Any], finish: Callable[[], Any], restore: Callable[[], None]
) -> float:
    """Call until compiling and tuning are over; return the seconds of the fastest call."""
    begun = time.perf_counter()
    taken: list[float] = []
    while len(taken) < _WARM_CALLS or time.perf_counter() - begun < _WARM_S:
        restore()
        device.synchronize()
        start = time.perf_counter()
        call()
        device.synchronize()
        taken.append(time.perf_counter() - start)
        finish()
    return min(taken)


@contextlib.contextmanager
def _named(job: Job) -> Iterator[None]:
    """Mark a call by an NVTX range and a range of torch, for all tools."""
    nvtx: AbstractContextManager[Any] = torch.cuda.nvtx.range(job.label) if job.device == "cuda" else nullcontext()
    with torch.profiler.record_function(job.label), nvtx:
        yield


def main(path: Path) -> int:
    """Serve a request, write the reply, and return the exit status."""
    request = json.loads(path.read_text())
    folder = path.parent
    try:
        job = Job(**{**request["job"], "metrics": tuple(request["job"]["metrics"])})
        told = profile(job, make(request["device"], DeviceKind), resolve(request["tool"])(job), folder)
    except SkipError as error:
        told = {"error": str(error), "failed": False}
    except AiperfError as error:
        told = {"error": str(error), "failed": True}
    except Exception as error:
        traceback.print_exc()
        told = {"error": f"raised {type(error).__name__}: {error}", "failed": True}
    (folder / TOLD).write_text(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
