"""Which work belongs to a call, by the records of a trace; and what stands around CUPTI."""

import subprocess
import sys

import pytest

from aiperf_core.devices.ledger import Piece, _ledger, _piece, _span, _windows
from aiperf_core.errors import SkipError


def piece(name: str, start: float, end: float, *, stream: int = 7, kind: str = "kernel", moved: int = 0) -> Piece:
    return Piece(name, kind, stream, start, end, moved)


def call(at: float, *work: Piece) -> list[Piece]:
    """A call that begins at a time: the harness's frame, with the work between."""
    shifted = [Piece(one.name, one.kind, one.stream, one.start + at, one.end + at, one.bytes) for one in work]
    return [piece("hold", at, at + 1), *shifted, piece("mark", at + 9, at + 9.1)]


WORK = (
    piece("gemm", 1.0, 3.0),
    piece("gemm", 3.5, 5.5),
    piece("Memcpy DtoD", 2.0, 6.0, stream=9, kind="copy", moved=64),
)


def test_what_lies_within_the_frame_belongs_to_the_call_whatever_its_stream() -> None:
    windows, stray = _windows([*call(0, *WORK), *call(10, *WORK)], 2, harness_between=0)
    assert [len(window) for window in windows] == [3, 3]
    assert [_span(window) for window in windows] == [5.0, 5.0]
    assert stray == 0


def test_the_flush_before_a_call_is_the_harness_s_and_other_work_between_calls_is_stray() -> None:
    flush = piece("Memset", -0.5, -0.1, kind="fill")
    assert _windows([flush, *call(0, *WORK)], 1, harness_between=1)[1] == 0
    late = piece("gemm", 9.2, 9.8)
    assert _windows([flush, *call(0, *WORK), late], 1, harness_between=1)[1] == 1


def test_how_the_gpus_of_ranks_met_before_a_call_is_no_part_of_it() -> None:
    met = [piece("ncclAllReduce", 1.1, 1.4), piece("mark", 1.5, 1.6)]
    late = [Piece(one.name, one.kind, one.stream, one.start + 1, one.end + 1, one.bytes) for one in WORK]
    first, last = call(0, *met, *late), call(10, *met, *late)
    windows, stray = _windows([*first, *last], 2, harness_between=0, aligned=True)
    assert [[one.name for one in window] for window in windows] == [["gemm", "gemm", "Memcpy DtoD"]] * 2
    assert stray == 0
    assert _windows([*first, *last, piece("gemm", 19.5, 19.8)], 2, harness_between=0, aligned=True)[1] == 1
    # Without a mark between them the two cannot be told apart.
    lost = [one for one in last if one.start != 11.5]
    with pytest.raises(SkipError, match="CUPTI recorded 2 and 1 of the 2 pairs"):
        _windows([*first, *lost], 2, harness_between=0, aligned=True)


@pytest.mark.parametrize("lost", ["hold", "mark"])
def test_lost_records_are_noticed(lost: str) -> None:
    pieces = [one for one in [*call(0, *WORK), *call(10, *WORK)] if not (one.name == lost and one.start >= 10)]
    with pytest.raises(SkipError, match="CUPTI recorded [12] and [12] of the 2 pairs of kernels around the calls"):
        _windows(pieces, 2, harness_between=0)


def test_a_call_without_work_is_noticed() -> None:
    with pytest.raises(SkipError, match="CUPTI recorded no work for a call"):
        _windows([*call(0, *WORK), *call(10)], 2, harness_between=0)


def test_the_ledger_adds_up_by_name_and_stream() -> None:
    (window,), _ = _windows(call(0, *WORK), 1, harness_between=0)
    assert _ledger(window) == [
        {"name": "gemm", "kind": "kernel", "stream": 0, "count": 2, "seconds": 4.0, "bytes": 0},
        {"name": "Memcpy DtoD", "kind": "copy", "stream": 1, "count": 1, "seconds": 4.0, "bytes": 64},
    ]


class Event:
    """A copy as torch's profiler tells of it: its bytes are in the metadata, and `nbytes` is that of allocations."""

    def __init__(self, name: str, metadata: str) -> None:
        self._name, self._metadata = name, metadata

    def name(self) -> str:
        return self._name

    def metadata_json(self) -> str:
        return self._metadata

    def nbytes(self) -> int:
        return 0

    def start_ns(self) -> int:
        return 2_000_000_000

    def duration_ns(self) -> int:
        return 500_000_000

    def device_resource_id(self) -> int:
        return 7


def test_a_copy_has_the_bytes_of_its_metadata() -> None:
    metadata = (
        '"device": 0, "context": 1, "stream": 7, "correlation": 9, "bytes": 131072, "memory bandwidth (GB/s)": 9.5'
    )
    name = "Memcpy DtoH (Device -> Pageable)"
    assert _piece(Event(name, metadata)) == piece(name, 2.0, 2.5, kind="copy", moved=131072)
    assert _piece(Event("gemm", metadata)).bytes == 0
    assert _piece(Event("Memset (Device)", "")).bytes == 0


# On a machine without a GPU the profiler runs all the same, and has nothing to record.
SCRIPT = """
import sys
import torch
import torch.autograd.profiler
from torch.profiler import ProfilerActivity

torch.cuda.is_available = lambda: True
torch.cuda.synchronize = lambda *_: None
torch.autograd.profiler._supported_activities = lambda: {ProfilerActivity.CUDA}

from aiperf_core.devices import ledger

with ledger.profiler() as profile:
    torch.ones(3)
assert [event for event in profile.kineto_results.events() if ledger._on_gpu(event)] == []
# The bytes of copies are in the metadata.
exposing = torch._C._profiler._ExperimentalConfig(expose_kineto_event_metadata=True)
assert profile.experimental_config.__getstate__() == exposing.__getstate__()
assert exposing.__getstate__() != torch._C._profiler._ExperimentalConfig().__getstate__()
print(*[name for name in ("torch._inductor", "torch._dynamo") if name in sys.modules])
"""


def test_nothing_of_the_compiler_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
