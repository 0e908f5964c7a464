"""Running runs as results, for the dashboard, the API and the terminal: a table of all, and a run with its course."""

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from attrs import define, field

from aiperf_analysis.live.tail import Line, LiveRun, Tail, live_runs, path_of
from aiperf_core import units
from aiperf_core.report.result import Axis, Cell, Column, Drawing, Figure, Point, Record, Result, Series, Table, counted

COLUMNS = [
    Column("run", "run"), Column("state", "state"), Column("target", "target"), Column("index", "number"),
    Column("phase", "phase"), Column("implementation", "implementation"), Column("block", "block"),
    Column("samples", "samples", "figure"), Column("interval", "speedup so far"),
    Column("left", "target ends in", "figure"), Column("clock", "clock", "figure"),
    Column("temperature", "temperature", "figure"), Column("throttled", "throttled by"),
    Column("load", "load", "figure"), Column("device", "device"), Column("bundle", "bundle"),
]  # fmt: skip
# What a run says only while it goes on.
_WHILE_RUNNING = {
    "phase", "implementation", "block", "round", "interval", "undecided", "seconds_left", "clock_hz", "temperature_c",
    "throttled", "load",
}  # fmt: skip
NOT_YET, ENDED = "not known yet", "the run has ended"
NONE_RUNS = "No run is going on. Start a run: aiperf run"


@define
class Story:
    """What the lines of a run told: the newest state, the targets that finished, the course of the intervals.

    course: of the target that is measured: implementation, block, low and high of its speedup.
    """

    newest: Line = field(factory=dict)
    finished: dict[str, Mapping[str, object]] = field(factory=dict)
    course: list[tuple[str, float, float, float]] = field(factory=list)

    def add(self, lines: Sequence[Line]) -> None:
        """Add further lines."""
        for line in lines:
            if line.get("target") != self.newest.get("target"):
                self.course = []
            self.newest = line
            self.finished |= {_text(one.get("target")): one for one in finished_of(line)}
            earlier = line.get("course")
            if isinstance(earlier, list):
                self.course = [point for one in earlier if (point := _point(one)) is not None]
            point = _point([line.get("undecided"), line.get("block"), *_list(line.get("interval"))])
            if point is not None and point not in self.course[-1:]:
                self.course.append(point)


def finished_of(line: Line) -> list[Mapping[str, object]]:
    """The targets whose end a line tells."""
    return [one for one in _list(line.get("finished")) if isinstance(one, dict)]


def story_of(run: LiveRun) -> Story:
    """The story of a run so far."""
    story = Story()
    story.add(Tail(path_of(run)).read())
    return story


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _point(value: object) -> tuple[str, float, float, float] | None:
    if not isinstance(value, list) or len(value) != 4 or not all(_is_number(one) for one in value[1:]):
        return None
    name, block, low, high = value
    return (_text(name), float(block), float(low), float(high)) if 0 < low <= high else None


def every() -> Result:
    """The runs of this user on this machine that go on, or ended a few minutes ago."""
    runs = live_runs()
    active = sum(one.state == "running" for one in runs)
    told = f"{units.plural('run', active)} going on." if active else NONE_RUNS
    records = [Record(cells_of(one.name, one.state, one.newest)) for one in runs]
    return Result(
        analysis="live",
        title="Live runs",
        summary=[told],
        tables=[Table("live", "runs that go on or ended a short time ago", COLUMNS, records)],
    )


def one_run(run: LiveRun, story: Story) -> Result:
    """A run: its state, the targets that finished, and how the interval of a speedup narrowed."""
    state = Table("live", "state", COLUMNS, [Record(cells_of(run.name, run.state, story.newest))])
    columns = [Column("target", "target"), Column("verdicts", "verdicts")]
    records = [Record({"target": name, "verdicts": verdicts_of(one)}) for name, one in story.finished.items()]
    drawing = narrowing(story)
    return Result(
        analysis="live-run",
        title=name_of(run),
        summary=[headline(run.state, story.newest)],
        tables=[state, Table("finished", "targets that finished", columns, records)],
        drawings=[drawing] if drawing else [],
        options={"id": run.name},
    )


def name_of(run: LiveRun) -> str:
    """The name of a run: that of its bundle's folder, or of its file of states before there is a bundle."""
    bundle = run.newest.get("bundle")
    return f"Live run {PurePath(bundle).name if isinstance(bundle, str) else run.name}"


def headline(state: str, newest: Line) -> str:
    """The state in a sentence."""
    if state == "finished":
        return f"The run has finished with exit code {newest.get('exit_code')}."
    if state == "died":
        return "The run ended without a last word: it was killed, or the machine went down."
    target = _text(newest.get("target"))
    return f"Measuring {target}, {newest.get('index')} of {newest.get('total')}." if target else "The run begins."


def title_of(state: str, newest: Line) -> str:
    """The name of a run in a list, by its work: `ch07.transpose · blocked 4.5x ±84 % · 7 s left`."""
    target = _text(newest.get("target")) or "no target yet"
    if state != "running":
        number = f", {newest['index']} of {newest['total']}" if newest.get("index") is not None else ""
        return f"{target}{number} · {state}"
    parts, ends = [target], _ends(newest)
    if ends is not None:
        low, high = ends
        half = units.number(100 * (high - low) / (high + low), 2)
        parts.append(f"{_text(newest.get('undecided'))} {units.number(math.sqrt(low * high), 2)}x ±{half} %")
    left: Any = newest.get("seconds_left")
    return " · ".join([*parts, f"{units.span(left)} left"] if _is_number(left) else parts)


def _ends(newest: Line) -> tuple[float, float] | None:
    """The interval of the speedup of the implementation that is not decided yet; None before there is one."""
    ends = newest.get("interval")
    if not isinstance(ends, list) or len(ends) != 2 or not all(map(_is_number, ends)):
        return None
    low, high = map(float, ends)
    return (low, high) if 0 < low <= high else None


def verdicts_of(finished: Mapping[str, object]) -> str:
    """The verdicts of a target that finished, in one text."""
    verdicts = finished.get("verdicts")
    if not isinstance(verdicts, dict) or not verdicts:
        return "could not be started; the reason is in the bundle"
    return ", ".join(f"{_text(name)} {_text(word)}" for name, word in verdicts.items())


def narrowing(story: Story) -> Drawing | None:
    """How the interval of the speedup narrowed over the blocks; None where there is none yet."""
    if not story.course:
        return None
    series: dict[str, list[Point]] = {}
    for name, block, low, high in story.course:
        speedup = Figure(value=math.sqrt(low * high), low=low, high=high)
        series.setdefault(name, []).append(Point(label="", x=counted(block, "count"), y=speedup))
    name, _, low, high = story.course[-1]
    return Drawing(
        name="narrowing",
        title="Speedup so far over blocks",
        kind="lines",
        message=f"The speedup of {name} lies between {units.number(low)}x and {units.number(high)}x so far.",
        x=Axis(title="blocks of each implementation", unit="count"),
        y=Axis(title="speedup so far"),
        series=[Series(name=name, points=points, joined=True) for name, points in series.items()],
    )


def cells_of(name: str, state: str, newest: Line) -> dict[str, Cell]:
    """The state of a run as cells of `COLUMNS`. One that has ended is in no phase, and has nothing left."""
    missing = NOT_YET
    if state != "running":
        newest, missing = {key: value for key, value in newest.items() if key not in _WHILE_RUNNING}, ENDED
    index, total = newest.get("index"), newest.get("total")
    return {
        "run": name,
        "state": state,
        "target": _text(newest.get("target")),
        "index": f"{index} of {total}" if index is not None else "",
        "phase": _text(newest.get("phase")),
        "implementation": _text(newest.get("implementation")),
        "block": _block(newest),
        "samples": _number(newest.get("samples"), "count", missing),
        "interval": _interval(newest),
        "left": _number(newest.get("seconds_left"), "s", missing),
        "clock": _number(newest.get("clock_hz"), "Hz", missing),
        "temperature": _number(newest.get("temperature_c"), "°C", missing),
        "throttled": ", ".join(map(_text, _list(newest.get("throttled")))),
        "load": _number(newest.get("load"), "number", missing),
        "device": _text(newest.get("device")),
        "bundle": _text(newest.get("bundle")),
    }


def share_of(state: str, newest: Line) -> float | None:
    """The part of the target that is done, from 0 to 1."""
    share: Any = 1.0 if state == "finished" else newest.get("share")
    return min(1.0, max(0.0, float(share))) if _is_number(share) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _block(newest: Line) -> str:
    """Blocks taken so far, and the round."""
    block, at, rounds = (newest.get(name) for name in ("block", "round", "rounds"))
    if not isinstance(block, int) or at is None:
        return ""
    return f"{block}, round {at} of {rounds}"


def _number(value: Any, unit: str, missing: str = NOT_YET) -> Figure:
    return counted(value if _is_number(value) else None, unit, reason=missing)


def _interval(newest: Line) -> str:
    """The interval of the speedup of the implementation that is not decided yet."""
    ends = _ends(newest)
    if ends is None:
        return ""
    low, high = ends
    told = f"{units.number(low)}x to {units.number(high)}x, {_text(newest.get('undecided'))}"
    wanted: Any = newest.get("wanted")
    if not _is_number(wanted):
        return told
    # The half width as a part of the middle, as the stopping rule counts it.
    half = units.number(100 * (high - low) / (high + low), 2)
    return f"{told}: ±{half} %, wanted ±{100 * wanted:g} %"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
