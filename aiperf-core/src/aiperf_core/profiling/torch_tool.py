"""torch: the PyTorch profiler (Kineto) within the profiled process; operators on a CPU, kernels and copies on a GPU.

It writes a Chrome trace for Perfetto or chrome://tracing, with Kineto's categories.
"""

import gzip
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve

from aiperf_core.errors import AiperfError
from aiperf_core.profiler import Hot, Job, Observed, Pace, Tool, Window
from aiperf_core.profiling import programs, timeline
from aiperf_core.profiling.numbers import NONE, identity, is_number
from aiperf_core.profiling.timeline import KERNEL_LAUNCHES, Call, Piece
from aiperf_core.profiling.trace_events import RUNTIME, WORK, TraceEvents, arguments

TRACE = "torch.trace.json.gz"
_WHY_NOT = "the torch profiler reads no hardware counters"


class TorchTool(Tool):
    """The PyTorch profiler."""

    pace = Pace(10, 2.0)

    def unavailable(self) -> str | None:
        """Metrics were asked for. It comes with torch; a missing CUPTI shows when it runs."""
        return programs.without_metrics("torch", self.job.metrics)

    def window(self, folder: Path) -> "TorchWindow":
        """Profile within the process."""
        return TorchWindow("cuda" if self.job.device == "cuda" else "cpu", folder / TRACE)

    def summarise(self, folder: Path, calls: int) -> Observed:
        """Read the trace."""
        try:
            with gzip.open(folder / TRACE) as file:
                events = TraceEvents(file)
                entries = list(events)
            if not events.found or events.ended_early:
                raise EOFError("the file ends early")
        except (OSError, EOFError, zlib.error) as error:
            raise AiperfError(f"The trace of the torch profiler cannot be read ({error}). Profile again.") from None
        return read({**events.fields, "traceEvents": entries}, self.job, calls)


class TorchWindow(Window):
    """The torch profiler around all calls. The profiled process marks each call by a range with the job's label.

    Of devices other than GPUs it sees the work of the CPU only.
    """

    def __init__(self, device: str, trace: Path) -> None:
        self._device, self._trace = device, trace

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Profile, and write the trace."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._device == "cuda" else [])]
        with profile(activities=activities):  # keeps its start-up of seconds out of the calls
            torch.zeros(1, device=self._device).add_(1)
        with profile(activities=activities, acc_events=True) as profiler:
            yield
        profiler.export_chrome_trace(str(self._trace))


def read(trace: dict[str, Any], job: Job, calls: int) -> Observed:
    """Read a Chrome trace of Kineto. Raises `AiperfError` when the ranges of the calls or most events are missing."""
    entries = [one for one in trace["traceEvents"] if not isinstance(one, dict) or one.get("ph") == "X"]
    events = [one for one in entries if _is_whole(one)]
    left_out = f"{len(entries) - len(events):,} of {len(entries):,} slices of the trace are no JSON or incomplete"
    if 2 * len(events) < len(entries):
        raise AiperfError(f"The trace of the torch profiler cannot be read ({left_out}). Profile again.")
    ranges = [one for one in events if one.get("cat") == "user_annotation" and one["name"] == job.label]
    if not ranges:
        raise AiperfError(f"The trace of the torch profiler has no range {job.label!r}. Profile again.")
    # A trace has the version of its schema, but not of torch.
    version = f"Kineto trace, schema {trace.get('schemaVersion', '?')}"
    observed = (_gpu if job.device == "cuda" else _cpu)(events, ranges, calls, version)
    if len(events) < len(entries):
        return evolve(observed, notes=[*observed.notes, f"{left_out}; they were left out."])
    return observed


def _is_whole(entry: Any) -> bool:
    """Tell a slice with a name and times, and with a category that is a text where it has one."""
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return False
    times = is_number(entry.get("ts")) and is_number(entry.get("dur")) and entry["dur"] >= 0
    return times and isinstance(entry.get("cat", ""), str)


def _thread(event: dict[str, Any]) -> str:
    return f"{event.get('pid')}/{event.get('tid')}"


def _cpu(events: list[dict[str, Any]], ranges: list[dict[str, Any]], calls: int, version: str) -> Observed:
    total = sum(one["dur"] for one in ranges) / 1e6
    own: dict[str, list[float]] = defaultdict(list)
    outermost = 0.0
    for call in ranges:
        for event, seconds, depth in _nested(_inside(events, call)):
            own[event["name"]].append(seconds)
            outermost += event["dur"] / 1e6 if depth == 0 else 0.0
    operators = [
        Hot(name=name, kind="operator", count=len(times) / calls, seconds=sum(times) / calls, share=sum(times) / total)
        for name, times in own.items()
    ]
    return Observed(
        version=version,
        hot=sorted(operators, key=lambda one: -(one.seconds or 0.0)),
        figures={
            "call_s": total / calls,
            "operators": sum(map(len, own.values())) / calls,
            "outside_s": (total - outermost) / calls,
            "outside_share": max(0.0, 1 - outermost / total),
        },
        missing={
            **dict.fromkeys(("idle gaps", "bytes copied"), "on a CPU the profiler sees operators only"),
            "occupancy and stalls": _WHY_NOT,
        },
        files=[TRACE],
        notes=["Time outside of operators is Python and C code unknown to torch; --tool perf sees both."],
    )


def _gpu(events: list[dict[str, Any]], ranges: list[dict[str, Any]], calls: int, version: str) -> Observed:
    """Work belongs to the call within which the host launched it; CUPTI gives both the same correlation id."""
    found = [Call(one["dur"] / 1e6) for one in ranges]
    owner: dict[int, tuple[Call, str | None]] = {}
    for call, one in zip(found, ranges, strict=True):
        operators = [event for event in _inside(events, one) if _thread(event) == _thread(one)]
        start, end = one["ts"], one["ts"] + one["dur"]
        for event in events:
            if event.get("cat") not in RUNTIME or not start <= event["ts"] < end:
                continue
            launch = identity(arguments(event).get("correlation"))
            if launch != NONE:
                owner[launch] = (call, _covering(operators, event["ts"]))
                call.launches += event["name"].startswith(KERNEL_LAUNCHES)
    for event in events:
        kind, launch = WORK.get(event.get("cat", "")), identity(arguments(event).get("correlation"))
        if kind and launch in owner:
            call, by = owner[launch]
            call.pieces.append(_piece(event, kind, by))
    if not any(call.pieces for call in found):
        raise AiperfError(
            "CUPTI recorded no work of the GPU: another profiler may hold it, or the driver refuses "
            "(ERR_NVGPUCTRPERM is for counters only). End other profilers, see what torch prints with --tool torch "
            "under TORCH_LOGS=+all, or use: --tool nsys"
        )
    return Observed(
        version=version,
        hot=timeline.hot(found, calls),
        figures=timeline.figures(found, calls),
        missing={"occupancy and stalls": _WHY_NOT, "bytes by memory": _WHY_NOT},
        files=[TRACE],
    )


def _piece(event: dict[str, Any], kind: str, by: str | None) -> Piece:
    args, start = arguments(event), event["ts"] / 1e6
    metrics = {
        ours: float(args[theirs])
        for theirs, ours in (("registers per thread", "registers"), ("shared memory", "shared_bytes"))
        if kind == "kernel" and is_number(args.get(theirs))
    }
    moved: Any = args.get("bytes")
    size = float(moved) if is_number(moved) else 0.0
    return Piece(event["name"], kind, start, start + event["dur"] / 1e6, size, by, metrics)


def _inside(events: list[dict[str, Any]], one: dict[str, Any]) -> list[dict[str, Any]]:
    """The operators within a range, on any thread."""
    start, end = one["ts"], one["ts"] + one["dur"]
    return [event for event in events if event.get("cat") == "cpu_op" and start <= event["ts"] < end]


def _covering(operators: list[dict[str, Any]], ts: float) -> str | None:
    """The name of the innermost operator that runs at a time; None when no operator runs."""
    covering = [one for one in operators if one["ts"] <= ts < one["ts"] + one["dur"]]
    return str(min(covering, key=lambda one: one["dur"])["name"]) if covering else None


def _nested(events: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], float, int]]:
    """Each operator, its seconds without the operators that it calls, and its depth on its thread."""
    own = {id(event): float(event["dur"]) for event in events}
    depths: dict[int, int] = {}
    stack: list[dict[str, Any]] = []
    for event in sorted(events, key=lambda one: (_thread(one), one["ts"], -one["dur"])):
        while stack and (_thread(stack[-1]) != _thread(event) or stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]):
            stack.pop()
        if stack:
            own[id(stack[-1])] -= event["dur"]
        depths[id(event)] = len(stack)
        stack.append(event)
    return ((event, max(0.0, own[id(event)]) / 1e6, depths[id(event)]) for event in events)
