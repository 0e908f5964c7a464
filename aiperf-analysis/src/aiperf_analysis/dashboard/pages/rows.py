"""All rows: every implementation of every run, with filters, a search and pages."""

from collections.abc import Sequence

from aiperf_analysis.dashboard import filters
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.dashboard.site import whole_number
from aiperf_analysis.result import Cell, Column, Record, Result, Table, counted, figure
from aiperf_analysis.selection import Entry
from aiperf_core import units
from aiperf_core.results.models import DISBELIEVED

LIMIT = 500  # rows of a page
NOT_BELIEVED = "the row is not believed"
COLUMNS = [
    Column("row", "implementation"),
    Column("target", "target"),
    Column("class", "machine"),
    Column("role", "role"),
    Column("verdict", "verdict", "verdict"),
    Column("time", "median time", "figure"),
    Column("speedup", "speedup", "figure"),
    Column("light", "SOL", "figure"),
    Column("peak", "peak memory", "figure"),
    Column("energy", "energy per call", "figure"),
    Column("created", "run"),
    Column("reason", "reason"),
]


def record(one: Entry) -> Record:
    """A row as a record of a table. A row that is not believed has no figures."""
    row = one.row
    believed = row.verdict not in DISBELIEVED
    why = NOT_BELIEVED if not believed else "not measured"
    light = row.speed_of_light.fraction * 100 if believed and row.speed_of_light else None
    peak = row.memory.peak_bytes if believed and row.memory else None
    energy = row.energy.joules_per_call if believed and row.energy else None
    cells: dict[str, Cell] = {
        "row": row.name,
        "target": one.result.target,
        "class": one.hardware,
        "role": row.role,
        "verdict": row.verdict.value,
        "time": figure(row.time_s if believed else None, "s", reason=why),
        "speedup": figure(row.speedup if believed else None, reason=why),
        "light": counted(light, "%", why),
        "peak": counted(peak, "B", why),
        "energy": counted(energy, "J", why),
        "created": one.run.created,
        "reason": row.reason,
    }
    return Record(cells, [one.origin])


def page(asked: Asked) -> View:
    """A page of the rows that match."""
    found = matching(asked)
    pages = max(1, -(-len(found) // LIMIT))
    at = min(max(whole_number("page", asked.one("page", "1")), 1), pages)
    part = found[(at - 1) * LIMIT : at * LIMIT]
    pairs = [*asked.filters.query, *([("q", asked.one("q"))] if asked.one("q") else [])]
    return document.view(
        asked,
        result(part, len(found)),
        api=filters.with_query("/api/v1/rows", pairs),
        template="rows.html.jinja",
        page_number=at,
        page_count=pages,
        here=filters.with_query("/rows", [*pairs, ("page", "")]),
    )


def matching(asked: Asked) -> list[Entry]:
    """The rows of the filters whose texts contain all words of `q`."""
    every = asked.site.source.selection(asked.filters).every
    wanted = asked.one("q").lower().split()
    if not wanted:
        return list(every)
    return [one for one in every if all(word in text for text in [_text(one)] for word in wanted)]


def _text(one: Entry) -> str:
    row = one.row
    return f"{one.result.target} {row.name} {one.hardware} {row.role} {row.verdict.value} {row.reason}".lower()


def result(part: Sequence[Entry], whole: int) -> Result:
    """Rows as a result."""
    return Result(
        analysis="rows",
        title=units.plural("row", whole),
        summary=[f"{len(part):,} of {units.plural('row', whole)} are shown."],
        tables=[Table("rows", "Rows", COLUMNS, [record(one) for one in part])],
    )
