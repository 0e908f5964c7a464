"""Results against a file of performance targets, each with its source and date.

    [[target]]
    name = "ch07.memory_access"   # a benchmark, or a pattern
    row = "coalesced"             # an implementation; without it, the best variant
    metric = "speedup"
    at_least = 4.0                # or at_most
    class = "nvidia-h200-*"       # without it, every kind of machine
    source = "DESIGN.md, section 3"
    date = 2026-11-01

A metric `ceiling.NAME` holds what the machine was measured to reach, such as `ceiling.copy_bytes_per_s`.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from aiperf_analysis.selection import Selection, required
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.report.metrics import BY_NAME, STORED
from aiperf_core.report.result import (
    Axis,
    Column,
    Drawing,
    Figure,
    Point,
    Record,
    Result,
    Series,
    Status,
    Table,
    counted,
)
from aiperf_core.stats.best import best_of
from aiperf_core.stats.threshold import MET, MISSED, OUTCOMES, Threshold
from aiperf_core.targets import nearest
from aiperf_core.text_file import text_of

LARGEST_FILE = 1 << 20  # bytes
CEILING = "ceiling."
_FIELDS = ("name", "row", "metric", "at_least", "at_most", "class", "source", "date", "note")
_HEAD = re.compile(r"^\s*\[\[\s*target\s*\]\]", re.MULTILINE)


@frozen
class Options:
    """Options of this analysis."""

    file: Path | None = option(None, "The file of targets, in TOML.", metavar="FILE")
    require_met: bool = option(False, "End with 4 for a MISSED target, with 5 for one UNCLEAR or NOT MEASURED.")


@frozen
class Wanted:
    """An entry of the file. line: where it begins in the file."""

    threshold: Threshold
    date: date
    line: int
    note: str


def analyze(selection: Selection, options: Options) -> Result:
    """Check the newest results against a file of performance targets.

    MET: the whole interval lies on the good side of the target. MISSED: it lies on the other. UNCLEAR: it contains the
    target. NOT MEASURED: no row has the figure. Each target has a source and a date; one without them is refused.
    """
    if options.file is None:
        raise UsageError(
            "--file is missing: a TOML file of performance targets, with entries [[target]] that have name, metric, "
            "at_least or at_most, source and date."
        )
    wanted = read(options.file)
    newest = selection.latest()
    required(newest.entries, newest)
    records: list[Record] = []
    points: list[Point] = []
    for one in wanted:
        for record, actual in _checked(one, newest):
            records.append(record)
            share = _share(actual, one.threshold)
            place = Figure(value=float(len(points)), unit="count", certainty="counted")
            origin = record.origins[0] if record.origins else None
            label = f"{record.cells['target']} {one.threshold.metric}"
            points.append(Point(label=label, x=share, y=place, mark=str(record.cells["status"]), origin=origin))
    counts = Counter(str(record.cells["status"]) for record in records)
    told = ", ".join(f"{counts[kind]} {kind}" for kind in OUTCOMES if counts[kind])
    status: Status = "ok"
    if options.require_met and counts[MET] < len(records):
        status = "regression" if counts[MISSED] else "inconclusive"
    message = f"{units.plural('target', len(wanted))}, {units.plural('result', len(records))}: {told}."
    return Result(
        analysis="targets",
        title="Performance targets",
        summary=[message],
        status=status,
        tables=[Table("targets", f"results against '{options.file}'", _columns(), records)],
        drawings=[
            Drawing(
                name="targets",
                title="Results as a share of their targets",
                kind="intervals",
                message=message,
                x=Axis(title="figure / target; a target 'at most' is met below 1", log=True),
                y=Axis(title="target", unit="count"),
                series=[Series(name="results", points=points)],
            )
        ],
        options=asdict(options),
        left_out=newest.left_out,
        sources=newest.sources,
    )


# --- the file


def read(path: Path) -> list[Wanted]:
    """The entries of a file. Raises UsageError with path and line for one that is not complete."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--file cannot be read: '{path}': {error.strerror or error}.") from error
    if len(data) > LARGEST_FILE:
        raise UsageError(f"--file '{path}' has {units.size(len(data))}; a file of targets has at most 1 MiB.")
    text = text_of(path, data)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"--file '{path}' is no TOML: {words(str(error))}.") from None
    entries = document.get("target")
    others = sorted(set(document) - {"target"})
    if others or not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        found = f"found {words(others[0])!r}" if others else "found none"
        raise UsageError(f"--file '{path}' takes entries [[target]] and nothing else; {found}.")
    lines = [text.count("\n", 0, match.end()) + 1 for match in _HEAD.finditer(text)]
    if len(lines) != len(entries):
        lines = [1] * len(entries)
    return [_entry(path, line, one) for line, one in zip(lines, entries, strict=True)]


def _entry(path: Path, line: int, given: dict[str, Any]) -> Wanted:
    def refuse(why: str) -> UsageError:
        return UsageError(f"{path}:{line}: {why}")

    for key in given:
        if key not in _FIELDS:
            hint = nearest(key, list(_FIELDS))
            raise refuse(f"{words(key)!r} is no field of a target.{hint} Accepted: {', '.join(_FIELDS)}.")
    texts = {}
    for key in ("name", "row", "metric", "class", "source", "note"):
        texts[key] = given.get(key, "")
        if not isinstance(texts[key], str):
            raise refuse(f"'{key}' takes a text; found {words(str(given[key]))}.")
    metric = texts["metric"]
    if (metric not in BY_NAME or BY_NAME[metric].of_samples) and not metric.startswith(CEILING):
        accepted = [known.key for known in STORED.values()]
        asked = f"{words(metric)!r} is no metric.{nearest(metric, accepted)}" if metric else "'metric' is missing."
        raise refuse(f"{asked} Accepted: {', '.join(accepted)}, {CEILING}NAME.")
    if not texts["name"] and not metric.startswith(CEILING):
        raise refuse("'name' is missing: a benchmark, or a pattern such as 'ch07.*'.")
    if not texts["source"].strip():
        raise refuse("'source' is missing: where the figure comes from, such as a document.")
    when = given.get("date")
    if isinstance(when, str):
        try:
            when = date.fromisoformat(when)
        except ValueError:
            when = None
    if isinstance(when, datetime):
        when = when.date()
    if not isinstance(when, date):
        raise refuse("'date' is missing, or is none: when the target was set, such as 2026-11-01.")
    bounds = [key for key in ("at_least", "at_most") if key in given]
    value = given[bounds[0]] if len(bounds) == 1 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise refuse("a target takes either 'at_least' or 'at_most', with a number above 0 in SI units.")
    at_most, hardware = "at_most" in given, texts["class"] or "*"
    threshold = Threshold(texts["name"], texts["row"], metric, float(value), at_most, hardware, texts["source"])
    return Wanted(threshold, when, line, texts["note"])


# --- results


def _checked(wanted: Wanted, selection: Selection) -> Iterator[tuple[Record, Figure]]:
    """The results that a target is for, or a record that says that there is none."""
    bound = wanted.threshold
    found = list(_of_ceilings(bound, selection) if bound.metric.startswith(CEILING) else _of_rows(bound, selection))
    unit = BY_NAME[bound.metric].unit if bound.metric in BY_NAME else _unit(bound.metric)
    if not found:
        name = f"{bound.target}:{bound.row}" if bound.row else bound.target or bound.metric
        none = Figure(value=None, unit=unit, reason="no believed result of this benchmark, row and kind of machine")
        found = [(name, bound.hardware, none, [])]
    for name, hardware, actual, origins in found:
        record = Record(
            {
                "target": name,
                "class": hardware,
                "metric": bound.metric,
                "wanted": Figure(value=bound.bound, unit=unit, certainty="counted"),
                "bound": bound.direction,
                "actual": actual,
                "status": bound.judge(actual),
                "source": bound.source,
                "date": wanted.date.isoformat(),
                "line": wanted.line,
                "note": wanted.note or None,
            },
            origins,
        )
        yield record, actual


def _of_rows(bound: Threshold, selection: Selection) -> Iterator[tuple[str, str, Figure, list[Any]]]:
    for entries in selection.targets().values():
        first = entries[0]
        if not fnmatchcase(first.result.target, bound.target) or not fnmatchcase(first.hardware, bound.hardware):
            continue
        if bound.row:
            chosen = next((one for one in entries if one.row.name == bound.row), None)
        else:
            best = best_of([one.row for one in entries], first.result.goal)
            chosen = next((one for one in entries if one.row is best), None)
        if chosen is not None:
            actual = BY_NAME[bound.metric].of(chosen.result, chosen.row)
            yield chosen.name, chosen.hardware, actual, [chosen.origin]


def _of_ceilings(bound: Threshold, selection: Selection) -> Iterator[tuple[str, str, Figure, list[Any]]]:
    """The ceilings of the newest bundle of each kind of machine."""
    seen: set[str] = set()
    name, _, key = bound.metric.removeprefix(CEILING).partition(".")
    for one in sorted(selection.entries, key=lambda one: one.run.created, reverse=True):
        if one.hardware in seen or not fnmatchcase(one.hardware, bound.hardware) or one.ceilings is None:
            continue
        seen.add(one.hardware)
        value = getattr(one.ceilings, name, None)
        value = value.get(key) if isinstance(value, dict) else value
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
        shown = counted(number, _unit(bound.metric), f"the machine's ceilings have no '{words(bound.metric)}'")
        yield bound.metric, one.hardware, shown, [one.origin]


def _unit(metric: str) -> str:
    name = metric.removeprefix(CEILING).partition(".")[0]
    for end, unit in (("flop_per_s", "FLOP/s"), ("bytes_per_s", "B/s"), ("_s", "s"), ("_bytes", "B"), ("_hz", "Hz")):
        if name.endswith(end):
            return unit
    return "number"


def _share(actual: Figure, bound: Threshold) -> Figure:
    if actual.value is None:
        return Figure(value=None, certainty="derived", reason=actual.reason)
    low = None if actual.low is None else actual.low / bound.bound
    high = None if actual.high is None else actual.high / bound.bound
    return Figure(value=actual.value / bound.bound, low=low, high=high, certainty="derived")


def _columns() -> list[Column]:
    return [
        Column("target", "target"),
        Column("class", "kind of machine"),
        Column("metric", "metric"),
        Column("bound", "bound"),
        Column("wanted", "target figure", "figure"),
        Column("actual", "actual", "figure"),
        Column("status", "status", "verdict"),
        Column("source", "source"),
        Column("date", "date"),
    ]
