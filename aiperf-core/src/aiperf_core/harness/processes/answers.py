"""Checks on what workers answer: a worker's process runs code that may send anything.

Each function takes the result of a request and returns it in the expected form. Raises `ValueError`, which says what
was expected and what came.
"""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import field, frozen

from aiperf_core.measurements import Audit, Faults, Flush, Memory, Work
from aiperf_core.results.models import Confined

_T = TypeVar("_T")
_MAX_COUNT = 2**53
_MAX_TEXT = 1000


@frozen(kw_only=True)
class Output:
    """The worker's report of an output: its numbers by their paths, and its leaves that alias an input.

    late: whether it changed after the clock had stopped.
    """

    numbers: dict[str, Any]
    late: bool
    aliases: list[str]


@frozen(kw_only=True)
class Sample:
    """A sample: the worker's report, then the supervisor's own measurements. Times are in seconds.

    witness_s: of a turn of the witness before the call.
    witness_took_s: of all its turns.
    simulated_s: the virtual time that the call returned.
    faults: page faults in a call that an observer timed.
    output: where it was delivered.
    own_s: the worker's time of a sample that an observer timed.
    bracket_s: from the notice of the start to that of the stop; for an observer, until it saw the end.
    begun_s: from the request to the start.
    answered_s: from the request to the whole output.
    replied_s: from the request to the reply, or until all processes had stopped.
    stopped_s: processor time that the process used while it was stopped.
    kept_waiting_s: how long others kept the process, and the supervisor, from running.
    """

    device_s: float | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    hidden: bool = False
    minor_faults: float | None = None
    until_done_s: float | None = None
    witness_s: float | None = None
    witness_took_s: float = 0.0
    simulated_s: float | None = None
    faults: Faults | None = None
    latencies_s: list[float] = field(factory=list)
    output: Output | None = None
    own_s: float | None = None
    bracket_s: float = 0.0
    begun_s: float | None = None
    answered_s: float | None = None
    replied_s: float | None = None
    stopped_s: float | None = None
    kept_waiting_s: tuple[float, float] = (0.0, 0.0)

    @property
    def time_s(self) -> float:
        """Its time by the clock that it was taken with."""
        times = (self.device_s, self.wall_s, self.simulated_s)
        return next(time_s for time_s in times if time_s is not None)


def sample(answer: Any) -> Sample:
    """The worker's report of a sample."""
    report = _record(answer)
    times = {name: _optional(report.get(name), _time) for name in ("device_s", "wall_s", "cpu_s")}
    beside = _record(report.get("beside", {}))
    if times["device_s"] is None and times["wall_s"] is None and "simulated_s" not in beside:
        raise ValueError("the sample has no time")
    return Sample(
        **times,
        voluntary_switches=_count(report.get("voluntary_switches")),
        involuntary_switches=_count(report.get("involuntary_switches")),
        hidden=_boolean(report.get("hidden")),
        minor_faults=_number(beside["minor_faults"]) if "minor_faults" in beside else None,
        until_done_s=_time(beside["until_done_s"]) if "until_done_s" in beside else None,
        witness_s=_time(beside["witness_s"]) if "witness_s" in beside else None,
        witness_took_s=_time(beside.get("witness_took_s", 0.0)),
        simulated_s=_time(beside["simulated_s"]) if "simulated_s" in beside else None,
        faults=_optional(report.get("faults"), _faults),
        latencies_s=[_time(seconds) for seconds in _list(report.get("latencies_s", []))],
        output=_optional(report.get("output"), output),
    )


def output(answer: Any) -> Output:
    """The worker's report of an output."""
    report = _record(answer)
    return Output(
        numbers=numbers(report.get("numbers")),
        late=_boolean(report.get("late")),
        aliases=_texts(report.get("aliases")),
    )


def numbers(answer: Any) -> dict[str, Any]:
    """The numbers of an output by their paths."""
    return {str(path): _number(value) for path, value in _record(answer).items()}


def prepared(answer: Any) -> float:
    """Seconds that preparing took."""
    return _time(_record(answer).get("prepare_s"))


def memory(answer: Any) -> Memory:
    """Memory used."""
    report = _record(answer)
    names = ("peak_bytes", "allocated_bytes", "reserved_bytes", "host_peak_bytes")
    return Memory(**{name: _optional(report.get(name), _count) for name in names})


def begun(answer: Any) -> tuple[Confined | None, dict[str, Any], dict[str, Any] | None]:
    """A candidate's confinement (None for trusted code), and the process's reports of its state and the benchmark."""
    report = _record(answer)
    return confined(report.get("confined")), state(report.get("state")), _optional(report.get("declared"), _record)


def collectives(answer: Any) -> list[dict[str, Any]]:
    """For each rank what it sent in a call: fields of `measurements.Rank`."""
    return [
        {
            "collectives": {_text(name): _count(one) for name, one in _record(report.get("collectives")).items()},
            "wire_bytes": _count(report.get("wire_bytes")),
            "buckets": tuple(map(_count, _list(report.get("buckets")))),
        }
        for report in map(_record, _list(answer))
    ]


def state(answer: Any) -> dict[str, Any]:
    """The state that a process reports, by kind, group and name. It is a claim: only a check reads it."""
    return {kind: groups(report) for kind, report in _record(answer).items()}


def groups(answer: Any) -> dict[str, Any]:
    """One kind of a reported state: the values of each group, by name."""
    return {group: _record(report) for group, report in _record(answer).items()}


def confined(answer: Any) -> Confined | None:
    """The confinement of a candidate; None for trusted code."""
    if answer is None:
        return None
    report = _record(answer)
    lacking = {_text(name): _text(why) for name, why in _record(report.get("lacking")).items()}
    return Confined(_texts(report.get("applied")), lacking)


def flush(answer: Any) -> Flush | None:
    """The effect of a flush; None where nothing has to be flushed."""
    if answer is None:
        return None
    report = _record(answer)
    return Flush(*(_time(report.get(name)) for name in ("hot_s", "cold_s", "flushed_s")))


def floor(answer: Any) -> tuple[list[float], str | None]:
    """Seconds of the calls at the sizes of the host floor, or why there are none."""
    report = _record(answer)
    return [_time(one) for one in _list(report.get("times_s", []))], _optional(report.get("reason"), _text)


def audit(answer: Any) -> Audit:
    """Structure the record of CUPTI."""
    report = _record(answer)
    spans, events = ([_time(one) for one in _list(report.get(name))] for name in ("span_s", "event_s"))
    if not spans or len(spans) != len(events):
        raise ValueError(f"the audit has {len(spans)} spans and {len(events)} event times")
    work = [_work(_record(one)) for one in _list(report.get("work"))]
    return Audit(spans, events, work, _count(report.get("stray")), _count(report.get("threads")))


def _faults(report: Any) -> Faults:
    counts = _record(report)
    return Faults(_count(counts.get("minor")), _count(counts.get("major")))


def _work(report: dict[str, Any]) -> Work:
    counts = {name: _count(report.get(name)) for name in ("stream", "count", "bytes")}
    return Work(
        name=_text(report.get("name")), kind=_text(report.get("kind")), seconds=_time(report.get("seconds")), **counts
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
