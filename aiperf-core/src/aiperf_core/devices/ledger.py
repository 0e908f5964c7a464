"""What the GPU did in a call, as CUPTI saw it: which kernels, copies and fills, on which streams, for how long.

CUPTI's records come through torch's profiler. Each call is framed by two kernels of the harness: `hold`, behind which the
call is queued, and `mark`, which waits for the work of every stream. What ran between belongs to the call, whatever it is
called and whichever thread launched it. Launches being hidden, the cost of tracing them is not in the times.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from attrs import frozen

from aiperf_core.devices.cuda import CudaDevice
from aiperf_core.errors import SkipError

_LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchCooperativeKernel", "cuLaunchCooperativeKernel")
_KINDS = (("Memcpy", "copy"), ("Memset", "fill"))


@frozen
class Piece:
    """One piece of work: a kernel, a copy or a fill. Times in seconds since the profiler's own zero."""

    name: str
    kind: str
    stream: int
    start: float
    end: float
    bytes: int


@frozen
class Trace:
    """All work of a time in the order in which it began, and the launches of kernels that the host made: id and thread."""

    pieces: list[Piece]
    ids: frozenset[int]
    launches: dict[int, int]

    def check(self) -> None:
        """Raise `SkipError` where a kernel was launched and CUPTI has no record of its run."""
        lost = len(self.launches.keys() - self.ids)
        if lost:
            raise SkipError(f"CUPTI dropped the records of {lost} of {len(self.launches)} launched kernels")


def start(device: CudaDevice) -> None:
    """Start CUPTI in this process, which takes seconds; an audit starts it where that was not done."""
    _profiled(device, device.empty, 1, flush=False)


def audit(device: CudaDevice, call: Callable[[], Any], calls: int, *, flush: bool) -> dict[str, Any]:
    """Run a call so many times under CUPTI.

    Returns `span_s` and `event_s` of the calls (lists), `work` (records of `results.models.Work`), `stray` and `threads`.
    Raises `SkipError` where CUPTI gives no whole record.
    """
    start(device)  # the profiler's own start-up must not fall into a call
    events, trace = _profiled(device, call, calls, flush=flush)
    trace.check()
    windows, stray = _windows(trace.pieces, calls, harness_between=1 if flush else 0)
    return {
        "span_s": [_span(one) for one in windows],
        "event_s": events,
        "work": _ledger(windows[-1]),
        "stray": stray,
        "threads": max(1, len(set(trace.launches.values()))),
    }


def profiler() -> Any:
    """A context in which CUPTI records what the GPU does: a `torch.profiler.profile`."""
    from torch.profiler import ProfilerActivity, profile

    return profile(activities=[ProfilerActivity.CUDA], acc_events=True)


def _profiled(device: CudaDevice, call: Callable[[], Any], calls: int, *, flush: bool) -> tuple[list[float], Trace]:
    """The event times of the calls, and all work while they ran."""
    times = []
    torch.cuda.synchronize()
    with profiler() as profile:
        for _ in range(calls):
            if flush:
                device.flush()
            torch.cuda.synchronize()
            times.append(device.framed(call))
        torch.cuda.synchronize()
    events = profile.profiler.kineto_results.events()
    pieces = [_piece(event) for event in events if _on_gpu(event)]
    ids = frozenset(event.correlation_id() for event in events if _on_gpu(event))
    launches = {event.correlation_id(): event.device_resource_id() for event in events if _is_launch(event)}
    return times, Trace(sorted(pieces, key=lambda piece: piece.start), ids, launches)


def _is_launch(event: Any) -> bool:
    """Whether the host launched a kernel by this call. A launch of a whole graph is none: it has one id for many kernels."""
    return not _on_gpu(event) and event.name().startswith(_LAUNCHES)


def _on_gpu(event: Any) -> bool:
    return str(event.device_type().name) == "CUDA"


def _piece(event: Any) -> Piece:
    name, start = event.name(), event.start_ns() / 1e9
    kind = next((kind for prefix, kind in _KINDS if name.startswith(prefix)), "kernel")
    moved = int(event.nbytes()) if kind != "kernel" and hasattr(event, "nbytes") else 0
    return Piece(name, kind, int(event.device_resource_id()), start, start + event.duration_ns() / 1e9, max(0, moved))


def _windows(pieces: list[Piece], calls: int, harness_between: int) -> tuple[list[list[Piece]], int]:
    """The work of each call, and how many pieces lie outside that are not the harness's."""
    holds = [piece for piece in pieces if piece.name == "hold"]
    marks = [piece for piece in pieces if piece.name == "mark"]
    if len(holds) != calls or len(marks) != calls:
        raise SkipError(
            f"CUPTI recorded {len(holds)} and {len(marks)} of the {calls} pairs of kernels around the calls"
        )
    frames = list(zip(holds, marks, strict=True))
    windows = [[one for one in pieces if hold.end <= one.start and one.end <= mark.start] for hold, mark in frames]
    if not all(windows):
        raise SkipError("CUPTI recorded no work for a call")
    return windows, len(pieces) - 2 * calls - sum(map(len, windows)) - calls * harness_between


def _span(window: list[Piece]) -> float:
    return max(piece.end for piece in window) - min(piece.start for piece in window)


def _ledger(window: list[Piece]) -> list[dict[str, Any]]:
    """The work of a call, pieces of one name on one stream together; streams are numbered as they first appear."""
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
