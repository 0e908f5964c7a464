"""Checks on what workers answer: a worker's process runs code that may send anything.

Each function takes the result of a request and returns it in the expected form. Raises `ValueError`, which says what
was expected and what was found.
"""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from aiperf_core.measurements import Audit, Flush, Memory, Work
from aiperf_core.results.models import Confined

_T = TypeVar("_T")
_MAX_COUNT = 2**53
_MAX_TEXT = 1000


def sample(answer: Any) -> dict[str, Any]:
    """The times of a sample in seconds, its context switches and page faults, and its output where it was delivered."""
    told = _record(answer)
    times = {name: _optional(told.get(name), _time) for name in ("device_s", "wall_s", "cpu_s")}
    if times["device_s"] is None and times["wall_s"] is None:
        raise ValueError("the sample has no time")
    switches = {name: _count(told.get(name)) for name in ("voluntary_switches", "involuntary_switches")}
    return {
        **times,
        **switches,
        "hidden": _boolean(told.get("hidden")),
        "beside": _beside(_record(told.get("beside", {}))),
        "faults": _optional(told.get("faults"), _faults),
        "latencies_s": [_time(one) for one in _list(told.get("latencies_s", []))],
        "output": _optional(told.get("output"), output),
    }


def output(answer: Any) -> dict[str, Any]:
    """The numbers of an output by their paths, whether it changed late, and its leaves that alias an input."""
    told = _record(answer)
    return {
        "numbers": numbers(told.get("numbers")),
        "late": _boolean(told.get("late")),
        "aliases": _texts(told.get("aliases")),
    }


def numbers(answer: Any) -> dict[str, Any]:
    """The numbers of an output by their paths."""
    return {str(path): _number(value) for path, value in _record(answer).items()}


def prepared(answer: Any) -> float:
    """Seconds that preparing took."""
    return _time(_record(answer).get("prepare_s"))


def memory(answer: Any) -> Memory:
    """Memory used."""
    told = _record(answer)
    names = ("peak_bytes", "allocated_bytes", "reserved_bytes", "host_peak_bytes")
    return Memory(**{name: _optional(told.get(name), _count) for name in names})


def begun(answer: Any) -> tuple[Confined | None, dict[str, Any], dict[str, Any] | None]:
    """A candidate's confinement (None for trusted code), and the process's reports of its state and the benchmark."""
    told = _record(answer)
    return confined(told.get("confined")), state(told.get("state")), _optional(told.get("declared"), _record)


def collectives(answer: Any) -> list[dict[str, Any]]:
    """For each rank what it sent in a call: fields of `measurements.Rank`."""
    return [
        {
            "collectives": {_text(name): _count(one) for name, one in _record(told.get("collectives")).items()},
            "wire_bytes": _count(told.get("wire_bytes")),
            "buckets": tuple(map(_count, _list(told.get("buckets")))),
        }
        for told in map(_record, _list(answer))
    ]


def state(answer: Any) -> dict[str, Any]:
    """The state that a process reports, by kind, group and name. It is a claim: only a check reads it."""
    return {kind: groups(told) for kind, told in _record(answer).items()}


def groups(answer: Any) -> dict[str, Any]:
    """One kind of a reported state: the values of each group, by name."""
    return {group: _record(told) for group, told in _record(answer).items()}


def confined(answer: Any) -> Confined | None:
    """The confinement of a candidate; None for trusted code."""
    if answer is None:
        return None
    told = _record(answer)
    lacking = {_text(name): _text(why) for name, why in _record(told.get("lacking")).items()}
    return Confined(_texts(told.get("applied")), lacking)


def flush(answer: Any) -> Flush | None:
    """The effect of a flush; None where nothing has to be flushed."""
    if answer is None:
        return None
    told = _record(answer)
    return Flush(*(_time(told.get(name)) for name in ("hot_s", "cold_s", "flushed_s")))


def audit(answer: Any) -> Audit:
    """What CUPTI recorded."""
    told = _record(answer)
    spans, events = ([_time(one) for one in _list(told.get(name))] for name in ("span_s", "event_s"))
    if not spans or len(spans) != len(events):
        raise ValueError(f"the audit has {len(spans)} spans and {len(events)} event times")
    work = [_work(_record(one)) for one in _list(told.get("work"))]
    return Audit(spans, events, work, _count(told.get("stray")), _count(told.get("threads")))


def _beside(told: dict[str, Any]) -> dict[str, float]:
    """Further figures of a sample: only those that the harness asks for."""
    readers: dict[str, Callable[[Any], float]] = {"minor_faults": _number, "until_done_s": _time}
    return {name: readers[name](value) for name, value in told.items() if name in readers}


def _faults(told: Any) -> dict[str, int]:
    """Minor and major page faults."""
    return {name: _count(_record(told).get(name)) for name in ("minor", "major")}


def _work(told: dict[str, Any]) -> Work:
    counts = {name: _count(told.get(name)) for name in ("stream", "count", "bytes")}
    return Work(
        name=_text(told.get("name")), kind=_text(told.get("kind")), seconds=_time(told.get("seconds")), **counts
    )


def _typed(kind: type[_T], noun: str, value: Any) -> _T:
    if not isinstance(value, kind):
        raise _unexpected(noun, value)
    return value


def _record(value: Any) -> dict[str, Any]:
    return _typed(dict, "record", value)


def _list(value: Any) -> list[Any]:
    return _typed(list, "list", value)


def _text(value: Any) -> str:
    return _typed(str, "text", value)[:_MAX_TEXT]


def _texts(value: Any) -> list[str]:
    return [_text(one) for one in _list(value)]


def _boolean(value: Any) -> bool:
    return _typed(bool, "boolean", value)


def _number(value: Any) -> float:
    """A finite number, or a boolean: outputs may hold either."""
    if not isinstance(value, int | float) or not -sys.float_info.max <= value <= sys.float_info.max:
        raise _unexpected("number", value)
    return value


def _time(value: Any) -> float:
    if isinstance(value, bool) or _number(value) < 0:
        raise _unexpected("time", value)
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise _unexpected("count", value)
    return value


def _unexpected(noun: str, value: Any) -> ValueError:
    return ValueError(f"expected a {noun}, found {str(value)[:50]!r}")


def _optional(value: Any, read: Callable[[Any], Any]) -> Any:
    return None if value is None else read(value)
