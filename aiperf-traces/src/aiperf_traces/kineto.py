"""Reads traces in Chrome's JSON, as PyTorch's profiler (Kineto) writes them, event by event.

Format: see `aiperf_core.profiling.trace_events`, with Kineto's categories. Times in the file are microseconds.
"""

import gzip
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from aiperf_core.errors import AiperfError
from aiperf_core.profiling.numbers import identity, is_number, whole
from aiperf_core.profiling.trace_events import RUNTIME, WORK, TraceEvents, Unreadable, arguments
from aiperf_traces.building import RANK_IN_NAME, STEP, WORK_KINDS, Builder, call_kind, encodable, is_communication
from aiperf_traces.model import NONE, Kind, Trace

# No honest trace in gzip has more of a ratio than this, beyond the first bytes; the largest of deflate is 1032.
_MOST_RATIO = 200
_UNCHECKED = 64 << 20
MOST_THREADS = 100_000  # whose numbers are remembered
_ENOUGH = 100_000  # events that are no JSON, to refuse a file by
_MOST_RANKS = 1 << 20
_INCOMPLETE = "a field is missing or cannot be used"
_WRITTEN = "what torch.profiler's export_chrome_trace writes"

# Plain integers: in a loop over millions of events, members of an enumeration would take time.
_COMPUTE, _COMMUNICATION, _RANGE, _STEP = (
    int(kind) for kind in (Kind.COMPUTE, Kind.COMMUNICATION, Kind.RANGE, Kind.STEP)
)
_OPERATORS = {"cpu_op": int(Kind.OPERATOR), "operator": int(Kind.OPERATOR), "user_annotation": _RANGE, "nvtx": _RANGE}
_WORK = {category: int(WORK_KINDS[kind]) for category, kind in WORK.items()}


class Unpacked:
    """A file that is read once, unpacked where it is a gzip file, with the number of bytes so far.

    Raises AiperfError where more than `most` bytes come out, or where the ratio is that of a zip bomb.
    """

    def __init__(self, path: Path, most: int) -> None:
        self._raw = path.open("rb")
        self._packed = self._raw.read(2) == b"\x1f\x8b"
        self._raw.seek(0)
        self._file: IO[bytes] = gzip.GzipFile(fileobj=self._raw) if self._packed else self._raw  # type: ignore[assignment]
        self._path, self._most = path, most
        self.count = 0
        self.cut: str | None = None

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at the end, also where a gzip file ends early."""
        try:
            data = self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.cut = f"the gzip data ends early or is damaged ({error})"
            return b""
        self.count += len(data)
        if self.count > self._most:
            raise AiperfError(
                f"'{self._path}' has more than {self._most:,} bytes unpacked. Give a larger --most-bytes, or record "
                f"fewer steps."
            )
        if self._packed and self.count > _UNCHECKED and self.count > _MOST_RATIO * self._raw.tell():
            raise AiperfError(
                f"'{self._path}' unpacks to more than {_MOST_RATIO} times its size, which no trace does; it may be a "
                f"zip bomb, and was not read further. Unpack it yourself if you trust it: gunzip -k"
            )
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()


def read(path: Path, most_bytes: int, rank: int | None = None) -> Trace:
    """Read a trace. Events that are no JSON, or incomplete, are left out and counted.

    most_bytes: of the file, unpacked.
    rank: where neither the file nor its name says it.
    Raises AiperfError where the file is no trace, or where most of its events are left out.
    """
    source = Unpacked(path, most_bytes)
    events = TraceEvents(source)
    reader = _Reader(events)
    try:
        for event in events:
            reader.take(event)
            if isinstance(event, Unreadable) and reader.left_out > _ENOUGH and reader.is_mostly_left_out:
                break  # a hostile file of millions of nested objects would take hours
    finally:
        source.close()
    if not events.found:
        cut = f"; {source.cut}" if source.cut else ""
        raise AiperfError(
            f"'{path}' is no trace{cut}: a JSON document with the list 'traceEvents' was expected, or such a list. "
            f"Traces are {_WRITTEN}, and what nsys exports with --type sqlite."
        )
    why = source.cut or "the file ends early"
    if not reader.events:
        if events.ended_early:
            raise AiperfError(
                f"'{path}' is no trace: no event could be read; {why} near byte {source.count:,}. A trace is "
                f"{_WRITTEN}."
            )
        raise AiperfError(f"'{path}' has no events in 'traceEvents'. Record again with torch.profiler, then export.")
    left_out = reader.left_out
    if reader.is_mostly_left_out:
        raise AiperfError(
            f"'{path}' is no trace, or most of it is damaged: {left_out:,} of {reader.events:,} entries are no whole "
            f"events, {reader.first}. A trace is {_WRITTEN}."
        )
    notes = []
    if events.ended_early or source.cut:
        notes.append(
            f"'{path}' is damaged: {why} near byte {source.count:,}. The {reader.events - left_out:,} events before it "
            f"were read; figures are of these."
        )
    if left_out:
        notes.append(
            f"'{path}' is damaged: {left_out:,} of {reader.events:,} events were left out as no JSON or incomplete, "
            f"{reader.first}. Figures are of the others."
        )
    if events.damage:
        notes.append(
            f"'{path}' is damaged: the fields beside its events are no JSON ({events.damage}), so its rank and its GPU "
            f"may be missing."
        )
    return reader.finish(path, events.fields, notes, rank)


class _Reader:
    """Takes the events, a kind at a time."""

    def __init__(self, source: TraceEvents) -> None:
        self.events = 0
        self.first = ""  # the first event that was left out, in words
        self.builder = Builder()
        self._source = source
        self._add, self._number = self.builder.add, self.builder.names.number
        self._open: dict[int, list[dict[str, Any]]] = {}
        self._communication: dict[int, bool] = {}
        self._calls: dict[int, int] = {}
        self._threads: dict[tuple[int | str, int | str], int] = {}
        self._largest = 0
        self._fraction = False
        self._ways: dict[str, Callable[[dict[str, Any], int, int], None]] = {
            **dict.fromkeys(_OPERATORS, self._host),
            **dict.fromkeys(_WORK, self._work),
            **dict.fromkeys(RUNTIME, self._call),
            "cuda_sync": self._wait,
        }

    @property
    def left_out(self) -> int:
        """The number of events that were left out."""
        return self.builder.facts["damaged"]

    @property
    def is_mostly_left_out(self) -> bool:
        """Tell whether most events were left out."""
        return 2 * self.left_out > self.events

    def take(self, event: Any) -> None:
        """Take an event of the file; what is no event is counted."""
        self.events += 1
        phase = event.get("ph") if isinstance(event, dict) else None
        if not isinstance(phase, str):
            self._leave_out(event.why if isinstance(event, Unreadable) else "no event of a trace")
            return
        if phase == "X":
            self._slice(event)
        elif phase == "i" and event.get("name") == "[memory]":
            self._memory(event)
        elif phase == "B":
            self._open.setdefault(self._thread(event), []).append(event)
        elif phase == "E":
            stack = self._open.get(self._thread(event))
            begun = stack.pop() if stack else None
            if begun is None or not is_number(event.get("ts")) or not is_number(begun.get("ts")):
                self._leave_out("an end without a begin" if begun is None else _INCOMPLETE)
            else:
                self._slice({**begun, "ph": "X", "dur": event["ts"] - begun["ts"]})

    def _leave_out(self, why: str = _INCOMPLETE) -> None:
        self.builder.facts["damaged"] += 1
        self.first = self.first or f"the first of them entry {self.events:,}, near byte {self._source.place:,} ({why})"

    def _slice(self, event: dict[str, Any]) -> None:
        category: Any = event.get("cat")
        way = self._ways.get(category) if type(category) is str else None
        if way is None:
            if not isinstance(category, str) or category.lower() not in self._ways:
                self.builder.facts["not used"] += 1
                return
            way = self._ways[category] = self._ways[category.lower()]
        ts: Any = event.get("ts")
        dur: Any = event.get("dur")
        if not is_number(ts) or not is_number(dur) or type(event.get("name")) is not str:
            self._leave_out()
            return
        if dur < 0:
            self.builder.facts["backwards"] += 1
            return
        if ts > self._largest:
            self._largest = ts
        self._fraction = self._fraction or type(ts) is float
        start = round(ts * 1000)
        way(event, start, start + round(dur * 1000))

    def _host(self, event: dict[str, Any], start: int, end: int) -> None:
        name = event["name"]
        kind = _OPERATORS[event["cat"].lower()]
        if kind == _RANGE and STEP.fullmatch(name):
            kind = _STEP
        self._add(start, end, kind, self._number(name), thread=self._thread(event))

    def _call(self, event: dict[str, Any], start: int, end: int) -> None:
        number = self._number(event["name"])
        kind = self._calls.get(number)
        if kind is None:
            kind = self._calls[number] = int(call_kind(event["name"]))
        correlation = identity(arguments(event).get("correlation"))
        self._add(start, end, kind, number, thread=self._thread(event), correlation=correlation)

    def _work(self, event: dict[str, Any], start: int, end: int) -> None:
        args = arguments(event)
        number = self._number(event["name"])
        kind = _WORK[event["cat"].lower()]
        group = sequence = NONE
        size = whole(args.get("bytes"), 0)
        if kind == _COMPUTE:
            communicates = self._communication.get(number)
            if communicates is None:
                communicates = self._communication[number] = is_communication(event["name"])
            if communicates or "Collective name" in args:
                kind = _COMMUNICATION
                sequence = identity(args.get("Seq"))
                if "Process Group Name" in args:
                    group = self._number(str(args["Process Group Name"]))
        device, stream = identity(args.get("device", event.get("pid"))), identity(args.get("stream", event.get("tid")))
        joined = identity(args.get("correlation"))
        self._add(
            start, end, kind, number,
            stream=stream, device=device, correlation=joined, size=size, group=group, sequence=sequence,
        )  # fmt: skip

    def _wait(self, event: dict[str, Any], start: int, end: int) -> None:
        args = arguments(event)
        names = ("correlation", "stream", "wait_on_stream", "wait_on_cuda_event_record_corr_id")
        correlation, stream, on, record = (identity(args.get(name)) for name in names)
        self.builder.waits.append((correlation, stream, on, record))

    def _memory(self, event: dict[str, Any]) -> None:
        args = arguments(event)
        ts: Any = event.get("ts")
        if not is_number(ts) or not is_number(args.get("Bytes")):
            self._leave_out()
            return
        device = identity(args.get("Device Id")) if whole(args.get("Device Type"), 0) else NONE
        total, reserved = whole(args.get("Total Allocated")), whole(args.get("Total Reserved"))
        time, size, address = round(ts * 1000), whole(args["Bytes"], 0), identity(args.get("Addr"))
        self.builder.memory.append((time, size, address, total, device, self._thread(event), reserved))

    def _thread(self, event: dict[str, Any]) -> int:
        pid: Any = event.get("pid")
        tid: Any = event.get("tid")
        key = pid if type(pid) in (int, str) else str(pid), tid if type(tid) in (int, str) else str(tid)
        number = self._threads.get(key)
        if number is None:
            number = self.builder.threads.number(f"{pid}/{tid}")
            if len(self._threads) < MOST_THREADS:
                self._threads[key] = number
        return number

    def finish(self, path: Path, head: dict[str, Any], notes: list[str], rank: int | None) -> Trace:
        """The trace, with what the head of the file says about it."""
        for stack in self._open.values():
            for _ in stack:
                self.builder.facts["without end"] += 1
        self.builder.facts["events"] = self.events
        raw = head.get("distributedInfo")
        job: dict[str, Any] = raw if isinstance(raw, dict) else {}
        match = RANK_IN_NAME.search(path.name)
        own = whole(job.get("rank"), int(match[1]) if match else NONE)
        known = 0 <= own < _MOST_RANKS
        devices = head.get("deviceProperties")
        named = [one for one in devices if isinstance(one, dict)] if isinstance(devices, list) else []
        kinds = [encodable(str(device.get("name", ""))) for device in named]
        # A double of `largest` microseconds ends in steps of this many nanoseconds.
        resolution = max(1, math.ceil(math.ulp(float(self._largest)) * 1000)) if self._fraction else 1000
        world = whole(job.get("world_size"))
        return self.builder.finish(
            rank=own if known else (rank or 0),
            rank_known=known,
            path=str(path),
            tool="kineto",
            world=world if 0 < world <= _MOST_RANKS else None,
            hardware=", ".join(dict.fromkeys(kinds)) or "no GPU named",
            notes=notes,
            resolution=resolution,
        )
