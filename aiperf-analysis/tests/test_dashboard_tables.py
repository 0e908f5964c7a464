"""Tables and pictures of results as those of pages, and the pairs of runs that can be compared."""

import json
import re
import runpy
from pathlib import Path

from attrs import evolve

from aiperf_analysis.dashboard import shown
from aiperf_analysis.dashboard.pages import load_tables
from aiperf_calc.load_documents import load_of
from aiperf_core.report.result import Column, Origin, Record, Table, counted
from aiperf_core.results import example
from aiperf_core.results.models import Document

HERE = Path(__file__).parent
site = runpy.run_path(str(HERE / "dashboard_site.py"))
loads = runpy.run_path(str(HERE.parents[1] / "aiperf-calc" / "tests" / "load_bundles.py"))


def test_a_column_that_has_a_value_in_no_row_is_named_instead_of_shown():
    columns = [Column("row", "row"), Column("a", "first", "figure"), Column("b", "second", "figure"),
               Column("c", "third"), Column("d", "fourth", "figure")]  # fmt: skip
    none = counted(None, reason="never asked for")
    records = [
        Record({"row": "x", "a": none, "b": counted(0, "count"), "c": None, "d": counted(None, reason="one")}),
        Record({"row": "y", "a": none, "b": none, "c": "", "d": counted(None, reason="other")}),
    ]
    found = shown.filled(shown.table(Table("rows", "rows", columns, records, "A note.")))
    assert [title for title, _ in found.heads] == ["row", "second"]
    assert [[cell.text for cell in line.cells] for line in found.lines] == [["x", "0"], ["y", "-"]]
    assert found.note == "A note. Without a value in all rows: first (never asked for), third, fourth."
    nothing = shown.table(Table("rows", "rows", columns, []))
    assert shown.filled(nothing).heads == nothing.heads


def test_times_of_runs_read_the_same_on_all_pages():
    columns = [Column("row", "row"), Column("at", "began")]
    texts = ["2026-11-22T13:00:00+00:00", "2026-11-22T13:00:00", "2026-11-22", "T"]
    lines = shown.table(Table("runs", "runs", columns, [Record({"row": "x", "at": text}) for text in texts])).lines
    assert [line.cells[1].text for line in lines] == ["2026-11-22 13:00", "2026-11-22 13:00", "2026-11-22", "T"]


def test_runs_of_different_sizes_are_not_proposed_for_a_comparison(made):
    for day, size in ((1, 64), (2, 512), (3, 64)):
        one = made.result({"plain": 2e-3, "tiled": 1e-3}, problem=evolve(example.result().problem, params={"n": size}))
        made.bundle(f"run-{day}", one, created=f"2026-11-0{day}T10:00:00+00:00")
    text = site["client_of"](made.folder).get("/compare").text
    assert re.findall(r"run-. and run-. [^<]*", text) == ["run-1 and run-3 (2026-11-03 10:00 UTC)"]
    assert re.findall(r"selected>(run-.)", text) == ["run-1", "run-3"]


def drawn(*points):
    content = json.loads(json.dumps(loads["payload"](*points)))
    return load_tables.drawings(load_of(Document("load", "chat", "", content), "load/chat"), Origin("bundle"))


def test_a_load_at_several_rates_has_curves():
    point = loads["point"]
    goodput, latency = drawn(point(40, 30, trusted=False), point(20, 20))
    assert goodput.message == "Goodput at 2 offered rates from 20/s to 40/s; the largest is 30/s."
    (series,) = goodput.series
    assert [(one.x.value, one.y.value, one.mark) for one in series.points] == [(20, 20, ""), (40, 30, "UNTRUSTED")]
    assert [one.name for one in latency.series] == ["TTFT p50", "TTFT p99", "E2E p99"]
    assert [one.points[0].y.value for one in latency.series] == [0.01, 0.04, 0.2]
    assert drawn(point(20, 20)) == []
