"""What workers answer, checked: a worker's process runs code that may send anything.

Each function takes the result of a request and returns it as what it must be. Raises `ValueError` for anything else, with
what is wrong.
"""

import sys
from collections.abc import Callable
from typing import Any

from aiperf_core.measurements import Audit, Flush, Memory, Work
from aiperf_core.results.models import Confined

_MOST = 2**53


def sample(answer: Any) -> dict[str, Any]:
    """The times of a sample in seconds, its context switches, and its output where that was delivered."""
    told = _record(answer)
    times = {name: _optional(told.get(name), _time) for name in ("device_s", "wall_s", "cpu_s")}
    if times["device_s"] is None and times["wall_s"] is None:
        raise ValueError("it has no time")
    switches = {name: _count(told.get(name)) for name in ("voluntary_switches", "involuntary_switches")}
    return {
        **times,
        **switches,
        "hidden": _truth(told.get("hidden")),
        "beside": _beside(_record(told.get("beside", {}))),
        "latencies_s": [_time(one) for one in _list(told.get("latencies_s", []))],
        "output": _optional(told.get("output"), output),
        "integrity_probe": _optional(told.get("integrity_probe"), state),
    }


def output(answer: Any) -> dict[str, Any]:
    """The numbers of an output by their paths, and whether it changed late."""
    told = _record(answer)
    numbers = {str(path): _number(value) for path, value in _record(told.get("numbers")).items()}
    aliases = [_text(path) for path in _list(told.get("aliases"))]
    return {"numbers": numbers, "late": _truth(told.get("late")), "aliases": aliases}


def prepared(answer: Any) -> float:
    """Seconds that preparing took."""
    return _time(_record(answer).get("prepare_s"))


def memory(answer: Any) -> Memory:
    """Memory used."""
    told = _record(answer)
    names = ("peak_bytes", "allocated_bytes", "reserved_bytes", "host_peak_bytes")
    return Memory(**{name: _optional(told.get(name), _count) for name in names})


def begun(answer: Any) -> tuple[Confined | None, dict[str, Any], dict[str, Any] | None]:
    """What holds a candidate, None for all others; what its process says of its own state, and of the benchmark."""
    told = _record(answer)
    return confined(told.get("confined")), state(told.get("state")), _optional(told.get("declared"), _record)


def collectives(answer: Any) -> list[dict[str, Any]]:
    """What each rank sent in a call, as fields of `measurements.Rank`."""
    return [
        {
            "collectives": {_text(name): _count(one) for name, one in _record(told.get("collectives")).items()},
            "wire_bytes": _count(told.get("wire_bytes")),
            "buckets": tuple(map(_count, _list(told.get("buckets")))),
        }
        for told in map(_record, _list(answer))
    ]


def state(answer: Any) -> dict[str, Any]:
    """What a process says of its own state, by kind, group and name; only a check reads it that believes none of it."""
    return {kind: groups(one) for kind, one in _record(answer).items()}


def groups(answer: Any) -> dict[str, Any]:
    """One kind of that: what is in each group, by name."""
    return {group: _record(one) for group, one in _record(answer).items()}


def confined(answer: Any) -> Confined | None:
    """What holds a candidate; None for all others."""
    if answer is None:
        return None
    told = _record(answer)
    lacking = {_text(name): _text(why) for name, why in _record(told.get("lacking")).items()}
    return Confined([_text(name) for name in _list(told.get("applied"))], lacking)


def flush(answer: Any) -> Flush | None:
    """What a flush does; None where nothing has to be flushed."""
    if answer is None:
        return None
    told = _record(answer)
    return Flush(*(_time(told.get(name)) for name in ("hot_s", "cold_s", "flushed_s")))


def audit(answer: Any) -> Audit:
    """What CUPTI saw."""
    told = _record(answer)
    spans, events = ([_time(one) for one in _list(told.get(name))] for name in ("span_s", "event_s"))
    if not spans or len(spans) != len(events):
        raise ValueError(f"it has {len(spans)} spans and {len(events)} event times")
    work = [_work(_record(one)) for one in _list(told.get("work"))]
    return Audit(spans, events, work, _count(told.get("stray")), _count(told.get("threads")))


def _beside(told: dict[str, Any]) -> dict[str, float]:
    """What a sample has besides its times: only what the harness itself asks for."""
    of: dict[str, Callable[[Any], float]] = {"minor_faults": _number, "until_done_s": _time}
    return {name: of[name](one) for name, one in told.items() if name in of}


def _work(told: dict[str, Any]) -> Work:
    return Work(
        name=_text(told.get("name")),
        kind=_text(told.get("kind")),
        stream=_count(told.get("stream")),
        count=_count(told.get("count")),
        seconds=_time(told.get("seconds")),
        bytes=_count(told.get("bytes")),
    )


def _record(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__} stands where a record should")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"a {type(value).__name__} stands where a list should")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} stands where a text should")
    return value[:1000]


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"a {type(value).__name__} stands where yes or no should")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool):
        return value
    if not isinstance(value, int | float) or not -sys.float_info.max <= value <= sys.float_info.max:
        raise ValueError(f"{str(value)[:50]!r} stands where a number should")
    return value


def _time(value: Any) -> float:
    number = _number(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or number < 0:
        raise ValueError(f"{str(value)[:50]!r} stands where a time should")
    return float(number)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise ValueError(f"{str(value)[:50]!r} stands where a count should")
    return value


def _optional(value: Any, of: Callable[[Any], Any]) -> Any:
    return None if value is None else of(value)
