"""The runs that are going on, from the files that the observer of a run writes."""

import math
from typing import Any

from aiperf_analysis.live.tail import LiveRun, live_runs
from aiperf_analysis.result import Cell, Column, Figure, Record, Result, Table, counted
from aiperf_core import units

_COLUMNS = [
    Column("run", "run"), Column("state", "state"), Column("target", "target"), Column("index", "number"),
    Column("phase", "phase"), Column("implementation", "implementation"), Column("samples", "samples", "figure"),
    Column("interval", "speedup so far"), Column("left", "target ends in", "figure"),
    Column("load", "load", "figure"), Column("device", "device"), Column("bundle", "bundle"),
]  # fmt: skip
NOT_YET = "not known yet"


def running() -> Result:
    """The runs of this user on this machine that go on, or ended a few minutes ago."""
    runs = live_runs()
    active = sum(one.state == "running" for one in runs)
    told = f"{units.plural('run', active)} going on." if active else "No run is going on. Start a run: aiperf run"
    return Result(
        analysis="live",
        title="Live runs",
        summary=[told],
        tables=[Table("live", "runs that go on or ended a short time ago", _COLUMNS, [_record(one) for one in runs])],
    )


def _record(run: LiveRun) -> Record:
    state = run.newest
    index, total = state.get("index"), state.get("total")
    cells: dict[str, Cell] = {
        "run": run.name,
        "state": run.state,
        "target": _text(state.get("target")),
        "index": f"{index} of {total}" if index is not None else "",
        "phase": _text(state.get("phase")),
        "implementation": _text(state.get("implementation")),
        "samples": _number(state.get("samples"), "count"),
        "interval": _interval(state),
        "left": _number(state.get("seconds_left"), "s"),
        "load": _number(state.get("load"), "number"),
        "device": _text(state.get("device")),
        "bundle": _text(state.get("bundle")),
    }
    return Record(cells)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any, unit: str) -> Figure:
    return counted(value if _is_number(value) else None, unit, reason=NOT_YET)


def _interval(state: dict[str, object]) -> str:
    """The interval of the speedup of the implementation that is not decided yet."""
    ends = state.get("interval")
    if not isinstance(ends, list) or len(ends) != 2 or not all(map(_is_number, ends)):
        return ""
    low, high = (units.number(float(one)) for one in ends)
    return f"{low}x to {high}x, {_text(state.get('undecided'))}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
