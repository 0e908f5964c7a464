"""Reads traces in Chrome's JSON, as PyTorch's profiler (Kineto) writes them, event by event.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU, with Kineto's categories.
Times in the file are microseconds.
"""

import gzip
import math
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from aiperf_analysis.traces.building import CHUNK, STEP, Builder, call_kind, is_communication
from aiperf_analysis.traces.model import NONE, Kind, Trace
from aiperf_core.errors import AiperfError
from aiperf_core.names import words

_BUFFER = 1 << 18  # bytes that are parsed at once
_HEAD = 64 << 20  # bytes before the events, at most
# No honest trace in gzip has more of a ratio than this, beyond the first bytes; the largest of deflate is 1032.
_MOST_RATIO = 200
_UNCHECKED = 64 << 20
# Brackets that a buffer opens and does not close. ijson takes time in the square of the depth.
_MOST_OPEN = 10_000
_RANK_IN_NAME = re.compile(r"rank[-_.]?(\d+)", re.IGNORECASE)
MOST_THREADS = 100_000  # whose numbers are remembered
_EXACT = 1 << 53  # integers that a double holds exactly

# Plain integers: in a loop over millions of events, members of an enumeration would take time.
_COMPUTE, _COMMUNICATION, _RANGE, _STEP = (
    int(kind) for kind in (Kind.COMPUTE, Kind.COMMUNICATION, Kind.RANGE, Kind.STEP)
)
_OPERATORS = {"cpu_op": int(Kind.OPERATOR), "operator": int(Kind.OPERATOR), "user_annotation": _RANGE, "nvtx": _RANGE}
_WORK = {"kernel": _COMPUTE, "gpu_memcpy": int(Kind.COPY), "gpu_memset": int(Kind.FILL)}
_RUNTIME = ("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "runtime")


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

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none at the end, also where a gzip file ends early."""
        try:
            data = self._file.read(size if size >= 0 else _BUFFER)
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
        if data.count(b"[") + data.count(b"{") - data.count(b"]") - data.count(b"}") > _MOST_OPEN:
            raise AiperfError(
                f"'{self._path}' nests its values deeper than a trace does, near byte {self.count:,}; it was not read "
                f"further. Record the trace again."
            )
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()


def _ijson() -> Any:
    try:
        import ijson  # type: ignore[import-untyped]
    except ImportError:
        raise AiperfError(
            "reading a trace in JSON needs the package 'ijson', which is not installed: "
            "pip install 'aiperf-analysis[trace]'. Databases of nsys need nothing more."
        ) from None
    return ijson


def read(path: Path, most_bytes: int, rank: int | None = None) -> Trace:
    """Read a trace.

    most_bytes: of the file, unpacked.
    rank: where neither the file nor its name says it.
    Raises AiperfError where the file is no trace, or not even a first event can be read.
    """
    ijson = _ijson()
    head, place = _head(ijson, path, most_bytes)
    source = Unpacked(path, most_bytes)
    reader = _Reader()
    notes: list[str] = []
    try:
        for event in ijson.items(source, f"{place}item", use_float=True, buf_size=_BUFFER):
            reader.take(event)
    except ijson.JSONError as error:
        why = source.cut or ("the file ends early" if _early(error) else f"no JSON ({words(_message(error))})")
        if not reader.events:
            raise AiperfError(
                f"'{path}' is no trace: no event could be read; {why} near byte {source.count:,}. A trace is what "
                f"torch.profiler's export_chrome_trace writes."
            ) from None
        notes.append(
            f"'{path}' is damaged: {why} near byte {source.count:,}. The {reader.events:,} events before it were read; "
            f"figures are of these."
        )
    finally:
        source.close()
    if not reader.events:
        raise AiperfError(f"'{path}' has no events in 'traceEvents'. Record again with torch.profiler, then export.")
    return reader.finish(path, head, notes, rank)


def _early(error: Exception) -> bool:
    return type(error).__name__ == "IncompleteJSONError" and "premature" in str(error)


def _message(error: Exception) -> str:
    return str(error).split("\n")[0][:120]


def _head(ijson: Any, path: Path, most_bytes: int) -> tuple[dict[str, Any], str]:
    """The fields before the events, and the prefix of the events in ijson's terms."""
    source = Unpacked(path, most_bytes)
    found: dict[str, Any] = {}
    builder, key = None, ""
    try:
        for prefix, kind, value in ijson.parse(source, use_float=True):
            if prefix == "" and kind == "start_array":
                return {}, ""
            if prefix == "" and kind == "map_key":
                key, builder = value, ijson.ObjectBuilder()
            elif prefix == "traceEvents" and kind == "start_array":
                return found, "traceEvents."
            elif builder is not None and prefix:
                builder.event(kind, value)
                if prefix == key:
                    found[key] = getattr(builder, "value", None)
            if source.count > _HEAD:
                break
    except ijson.JSONError:
        pass
    finally:
        source.close()
    cut = f"; {source.cut}" if source.cut else ""
    raise AiperfError(
        f"'{path}' is no trace{cut}: a JSON document with the list 'traceEvents' was expected, or such a list. Traces "
        f"are what torch.profiler's export_chrome_trace writes, and what nsys exports with --type sqlite."
    )


class _Reader:
    """Takes the events, a kind at a time."""

    def __init__(self) -> None:
        self.events = 0
        self.builder = Builder()
        self._rows, self._number = self.builder.rows, self.builder.names.number
        self._open: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
        self._communication: dict[int, bool] = {}
        self._calls: dict[int, int] = {}
        self._threads: dict[tuple[int | str, int | str], int] = {}
        self._largest = 0
        self._fraction = False
        self._ways: dict[str, Callable[[dict[str, Any], int, int], None]] = {
            **dict.fromkeys(_OPERATORS, self._host),
            **dict.fromkeys(_WORK, self._work),
            **dict.fromkeys(_RUNTIME, self._call),
            "cuda_sync": self._wait,
        }

    def take(self, event: Any) -> None:
        """Take an event of the file; what is no event is counted."""
        self.events += 1
        if not isinstance(event, dict):
            self.builder.count("damaged")
            return
        phase = event.get("ph")
        if phase == "X":
            self._slice(event)
        elif phase == "i" and event.get("name") == "[memory]":
            self._memory(event)
        elif phase == "B":
            self._open.setdefault((event.get("pid"), event.get("tid")), []).append(event)
        elif phase == "E":
            stack = self._open.get((event.get("pid"), event.get("tid")))
            begun = stack.pop() if stack else None
            if begun is None or not _number(event.get("ts")) or not _number(begun.get("ts")):
                self.builder.count("damaged")
            else:
                self._slice({**begun, "ph": "X", "dur": event["ts"] - begun["ts"]})

    def _slice(self, event: dict[str, Any]) -> None:
        category: Any = event.get("cat")
        way = self._ways.get(category) if type(category) is str else None
        if way is None:
            if not isinstance(category, str) or category.lower() not in self._ways:
                self.builder.count("not used")
                return
            way = self._ways[category] = self._ways[category.lower()]
        ts: Any = event.get("ts")
        dur: Any = event.get("dur")
        if not _number(ts) or not _number(dur) or type(event.get("name")) is not str:
            self.builder.count("damaged")
            return
        if dur < 0:
            self.builder.count("backwards")
            return
        if ts > self._largest:
            self._largest = ts
        self._fraction = self._fraction or type(ts) is float
        start = round(ts * 1000)
        way(event, start, start + round(dur * 1000))
        if len(self._rows) >= CHUNK:
            self.builder.settle()

    def _host(self, event: dict[str, Any], start: int, end: int) -> None:
        name = event["name"]
        kind = _OPERATORS[event["cat"].lower()]
        if kind == _RANGE and STEP.fullmatch(name):
            kind = _STEP
        self._rows.append((start, end, kind, self._number(name), NONE, NONE, self._thread(event), NONE, 0, NONE, NONE))

    def _call(self, event: dict[str, Any], start: int, end: int) -> None:
        number = self._number(event["name"])
        kind = self._calls.get(number)
        if kind is None:
            kind = self._calls[number] = int(call_kind(event["name"]))
        correlation = _whole(_args(event).get("correlation"))
        self._rows.append((start, end, kind, number, NONE, NONE, self._thread(event), correlation, 0, NONE, NONE))

    def _work(self, event: dict[str, Any], start: int, end: int) -> None:
        args = _args(event)
        number = self._number(event["name"])
        kind = _WORK[event["cat"].lower()]
        group = sequence = NONE
        size = _whole(args.get("bytes"), 0)
        if kind == _COMPUTE:
            communicates = self._communication.get(number)
            if communicates is None:
                communicates = self._communication[number] = is_communication(event["name"])
            if communicates or "Collective name" in args:
                kind = _COMMUNICATION
                sequence = _whole(args.get("Seq"))
                if "Process Group Name" in args:
                    group = self._number(str(args["Process Group Name"]))
        device, stream = _whole(args.get("device", event.get("pid"))), _whole(args.get("stream", event.get("tid")))
        self._rows.append(
            (start, end, kind, number, stream, device, NONE, _whole(args.get("correlation")), size, group, sequence)
        )

    def _wait(self, event: dict[str, Any], start: int, end: int) -> None:
        args = _args(event)
        names = ("correlation", "stream", "wait_on_stream", "wait_on_cuda_event_record_corr_id")
        correlation, stream, on, record = (_whole(args.get(name)) for name in names)
        self.builder.waits.append((correlation, stream, on, record))

    def _memory(self, event: dict[str, Any]) -> None:
        args = _args(event)
        ts: Any = event.get("ts")
        if not _number(ts) or not _number(args.get("Bytes")):
            self.builder.count("damaged")
            return
        device = _whole(args.get("Device Id")) if _whole(args.get("Device Type"), 0) else NONE
        total, reserved = _whole(args.get("Total Allocated")), _whole(args.get("Total Reserved"))
        time, size, address = round(ts * 1000), _whole(args["Bytes"], 0), _whole(args.get("Addr"))
        self.builder.memory.append((time, size, address, total, device, self._thread(event), reserved))

    def _thread(self, event: dict[str, Any]) -> int:
        pid: Any = event.get("pid")
        tid: Any = event.get("tid")
        key = pid if type(pid) in (int, str) else str(pid), tid if type(tid) in (int, str) else str(tid)
        found = self._threads.get(key)
        if found is None:
            found = self.builder.threads.number(f"{pid}/{tid}")
            if len(self._threads) < MOST_THREADS:
                self._threads[key] = found
        return found

    def finish(self, path: Path, head: dict[str, Any], notes: list[str], rank: int | None) -> Trace:
        """The trace, with what the head of the file says about it."""
        for stack in self._open.values():
            for _ in stack:
                self.builder.count("without end")
        self.builder.facts["events"] = self.events
        raw = head.get("distributedInfo")
        job: dict[str, Any] = raw if isinstance(raw, dict) else {}
        named = _RANK_IN_NAME.search(path.name)
        own = _whole(job.get("rank"), int(named[1]) if named else NONE)
        known = own != NONE
        devices = head.get("deviceProperties")
        kinds = (
            [str(one.get("name", "")) for one in devices if isinstance(one, dict)] if isinstance(devices, list) else []
        )
        # A double of `largest` microseconds ends in steps of this many nanoseconds.
        resolution = max(1, math.ceil(math.ulp(float(self._largest)) * 1000)) if self._fraction else 1000
        world = _whole(job.get("world_size"))
        return self.builder.finish(
            rank=own if known else (rank or 0),
            rank_known=known,
            path=str(path),
            tool="kineto",
            world=world if world > 0 else None,
            hardware=", ".join(dict.fromkeys(kinds)) or "no GPU named",
            notes=notes,
            resolution=resolution,
        )


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _number(value: Any) -> bool:
    return type(value) in (int, float) and -_EXACT < value < _EXACT


def _whole(value: Any, otherwise: int = NONE) -> int:
    if type(value) is int and -(1 << 62) < value < 1 << 62:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 18:
        return int(value)
    return otherwise
