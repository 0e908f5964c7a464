"""The GPU work of a call from CUPTI: kernels, copies and fills with their streams and times.

CUPTI's records come through torch's profiler. Two kernels of the harness frame each call: `hold`, behind which the call
is queued, and `mark`, which waits for the work of every stream. All work between them belongs to the call, whatever its
name and thread. Launches are hidden, so the times exclude the cost of tracing them. With several ranks, another `mark`
separates the meeting of their GPUs from the call.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from attrs import frozen

from aiperf_core.devices.cuda import CudaDevice
from aiperf_core.errors import SkipError

_LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchCooperativeKernel", "cuLaunchCooperativeKernel")
_KINDS = (("Memcpy", "copy"), ("Memset", "fill"))
# The bytes of a copy or a fill in its metadata, which are the fields of a JSON object. An event's `nbytes` counts
# allocations only.
_BYTES = re.compile(r'"bytes": *(\d+)')


@frozen
class Piece:
    """A kernel, a copy or a fill; start and end in seconds since the zero of the profiler."""

    name: str
    kind: str
    stream: int
    start: float
    end: float
    bytes: int


@frozen
class Trace:
    """The GPU work of a trace.

    pieces: in the order of their start.
    ids: the correlation ids of the pieces.
    launches: the thread of each kernel launch of the host by correlation id.
    """

    pieces: list[Piece]
    ids: frozenset[int]
    launches: dict[int, int]

    def check(self) -> None:
        """Raise `SkipError` when CUPTI has no record of a launched kernel."""
        lost = len(self.launches.keys() - self.ids)
        if lost:
            raise SkipError(f"CUPTI dropped the records of {lost} of {len(self.launches)} launched kernels")


def start(device: CudaDevice) -> None:
    """Start CUPTI in this process, which is slow."""
    _profiled(device, device.empty, 1, flush=False)


def audit(
    device: CudaDevice,
    call: Callable[[], Any],
    calls: int,
    *,
    flush: bool,
    meet: Callable[[], None] | None = None,
    align: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Run a call `calls` times under CUPTI.

    With several ranks, `meet` makes the hosts meet before a call, and `align` queues a meeting of their GPUs.

    Returns `span_s` and `event_s` (a value for each call), `work` (fields of `Work` records), `stray` and `threads`.
    Raises `SkipError` when the records of CUPTI are incomplete.
    """
    start(device)  # keeps the start-up of the profiler out of the calls
    events, trace = _profiled(device, call, calls, flush=flush, meet=meet, align=align)
    trace.check()
    windows, stray = _windows(trace.pieces, calls, harness_between=1 if flush else 0, aligned=align is not None)
    return {
        "span_s": [_span(one) for one in windows],
        "event_s": events,
        "work": _ledger(windows[-1]),
        "stray": stray,
        "threads": max(1, len(set(trace.launches.values()))),
    }


def profiler() -> Any:
    """A context in which CUPTI records the GPU work; `kineto_results` has the records at its end.

    `torch.profiler.profile` uses it too, but imports torch's compiler for one of its settings, which takes seconds.
    """
    from torch._C._profiler import _ExperimentalConfig
    from torch.autograd.profiler import profile

    try:
        config = _ExperimentalConfig(expose_kineto_event_metadata=True)
    except TypeError:  # torch before 2.10 does not expose them: copies have no bytes there
        config = None
    return profile(use_cpu=False, use_device="cuda", use_kineto=True, experimental_config=config)


def _profiled(
    device: CudaDevice,
    call: Callable[[], Any],
    calls: int,
    *,
    flush: bool,
    meet: Callable[[], None] | None = None,
    align: Callable[[], None] | None = None,
) -> tuple[list[float], Trace]:
    """The event times of the calls in seconds, and the trace."""
    times = []
    torch.cuda.synchronize()
    with profiler() as profile:
        for _ in range(calls):
            if flush:
                device.flush()
            torch.cuda.synchronize()
            if meet is not None:
                meet()
            times.append(device.framed(call, align))
        torch.cuda.synchronize()
    events = profile.kineto_results.events()
    pieces = [_piece(event) for event in events if _on_gpu(event)]
    ids = frozenset(event.correlation_id() for event in events if _on_gpu(event))
    launches = {event.correlation_id(): event.device_resource_id() for event in events if _is_launch(event)}
    return times, Trace(sorted(pieces, key=lambda piece: piece.start), ids, launches)


def _is_launch(event: Any) -> bool:
    """Whether this host call launches a kernel. Launches of graphs do not count: one id stands for many kernels."""
    return not _on_gpu(event) and event.name().startswith(_LAUNCHES)


def _on_gpu(event: Any) -> bool:
    return str(event.device_type().name) == "CUDA"


def _piece(event: Any) -> Piece:
    name, start = event.name(), event.start_ns() / 1e9
    kind = next((kind for prefix, kind in _KINDS if name.startswith(prefix)), "kernel")
    told = _BYTES.search(event.metadata_json()) if kind != "kernel" and hasattr(event, "metadata_json") else None
    moved = int(told[1]) if told else 0
    return Piece(name, kind, int(event.device_resource_id()), start, start + event.duration_ns() / 1e9, moved)


def _windows(
    pieces: list[Piece], calls: int, harness_between: int, *, aligned: bool = False
) -> tuple[list[list[Piece]], int]:
    """The work of each call, and the number of pieces outside the calls that are not the harness's.

    An `aligned` call begins at a mark of its own; the work between `hold` and that mark is the meeting of the GPUs.
    """
    holds = [piece for piece in pieces if piece.name == "hold"]
    marks = [piece for piece in pieces if piece.name == "mark"]
    marks_a_call = 2 if aligned else 1
    if len(holds) != calls or len(marks) != calls * marks_a_call:
        raise SkipError(
            f"CUPTI recorded {len(holds)} and {len(marks) // marks_a_call} "
            f"of the {calls} pairs of kernels around the calls"
        )
    begins = marks[::2] if aligned else holds
    frames = list(zip(begins, marks[marks_a_call - 1 :: marks_a_call], strict=True))
    windows = [[one for one in pieces if begin.end <= one.start and one.end <= mark.start] for begin, mark in frames]
    if not all(windows):
        raise SkipError("CUPTI recorded no work for a call")
    meetings = sum(
        hold.end <= one.start and one.end <= begin.start
        for hold, begin in zip(holds, begins, strict=True)
        for one in pieces
        if aligned
    )
    harness = (1 + marks_a_call + harness_between) * calls + meetings
    return windows, len(pieces) - harness - sum(map(len, windows))


def _span(window: list[Piece]) -> float:
    return max(piece.end for piece in window) - min(piece.start for piece in window)


def _ledger(window: list[Piece]) -> list[dict[str, Any]]:
    """The work of a call, merged by name and stream; streams are numbered in the order of their first piece."""
    streams: dict[int, int] = {}
    groups: dict[tuple[str, str, int], list[Piece]] = defaultdict(list)
    for piece in window:
        groups[piece.name, piece.kind, streams.setdefault(piece.stream, len(streams))].append(piece)
    return [
        {
            "name": name[:300],
            "kind": kind,
            "stream": stream,
            "count": len(pieces),
            "seconds": sum(piece.end - piece.start for piece in pieces),
            "bytes": sum(piece.bytes for piece in pieces),
        }
        for (name, kind, stream), pieces in groups.items()
    ]
