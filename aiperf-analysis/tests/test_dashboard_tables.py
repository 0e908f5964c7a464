"""Tables and pictures of results as those of pages, and the pairs of runs that can be compared."""

import json
import re
import runpy
from pathlib import Path

from attrs import evolve

from aiperf_analysis.dashboard import cells, shown
from aiperf_analysis.dashboard.pages import load_tables, samples
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
    assert found.note == "A note. Not shown: first (never asked for), third, fourth."
    nothing = shown.table(Table("rows", "rows", columns, []))
    assert shown.filled(nothing).heads == nothing.heads


def test_tables_beyond_a_few_screens_are_folded():
    short, long, none = (
        shown.table(
            Table("rows", "rows", [Column("row", "row")], [Record({"row": str(number)}) for number in range(count)])
        )
        for count in (20, 60, 0)
    )
    assert [is_open for _, is_open in shown.opened([short, long, short, none], [])] == [True, False, False, True]
    assert [is_open for _, is_open in shown.opened([long, none], [])] == [True, True]  # nothing else on the page


def test_a_row_of_all_rows_is_one_line(made):
    problem = evolve(example.result().problem, params={"n": 4096, "columns": 128})
    made.bundle("run", made.result({"plain": 2e-3, "tiled": 1e-3}, problem=problem))
    text = site["client_of"](made.folder).get("/rows").text
    table = text[text.index('<table class="terse"') :].partition("</table>")[0]
    assert 'class="below' not in table
    assert re.search(r'title="[^"]*variant"><a href="/samples/[^"]*">tiled', table)
    assert re.search(r'title="\[[^"]*\]">2\.\d+x', table)
    assert 'title="a baseline has none">-' in table
    assert "columns=128 n=4,096" in table


def test_samples_of_two_clocks_have_a_time_and_a_clock(made):
    one = made.result({"plain": 2e-3, "tiled": 1e-3})
    row = one.rows[1]
    count = len(row.samples.block)
    seconds = [1e-3] * count
    alternating = evolve(
        row.samples,
        device_s=[time if place % 2 else None for place, time in enumerate(seconds)],
        wall_s=[None if place % 2 else time for place, time in enumerate(seconds)],
    )
    table = samples.samples_table(one, evolve(row, samples=alternating), 0, 4)
    found = samples.of_one_clock(table)
    assert [column.title for column in found.columns][3:5] == ["time", "clock"]
    assert [record.cells["clock"] for record in found.records] == ["wall", "device", "wall", "device"]
    assert all(record.cells["time"].value == 1e-3 for record in found.records)
    both = samples.samples_table(one, evolve(row, samples=evolve(alternating, wall_s=seconds)), 0, 4)
    assert samples.of_one_clock(both) is both


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


def load(*points):
    content = json.loads(json.dumps(loads["payload"](*points)))
    return load_of(Document("load", "chat", "", content), "load/chat")


def drawn(*points):
    return load_tables.drawings(load(*points), Origin("bundle"))


def test_points_of_a_load_share_a_sentence():
    point = loads["point"]
    late = [point(rate, 20, trusted=False) for rate in (40, 40, 80)]
    assert load_tables.sentences(load(point(20, 20), *late)) == [
        "4 points, measured by aiperf-load.",
        "40/s, 80/s: UNTRUSTED: the generator was late.",
    ]


def test_a_load_at_several_rates_has_curves():
    point = loads["point"]
    goodput, latency = drawn(point(40, 30, trusted=False), point(20, 20))
    assert goodput.message == "Goodput at 2 offered rates from 20/s to 40/s; the largest is 30/s."
    (series,) = goodput.series
    assert [(one.x.value, one.y.value, one.mark) for one in series.points] == [(20, 20, ""), (40, 30, "UNTRUSTED")]
    assert [one.name for one in latency.series] == ["TTFT p50", "TTFT p99", "E2E p99", "TTFT limit 200 ms"]
    assert [one.points[0].y.value for one in latency.series] == [0.01, 0.04, 0.2, 0.2]
    repeated = [point(40, 30 + number, name=f"p00{number}", trusted=number == 1) for number in range(3)]
    (series,) = drawn(point(20, 20, name="p9"), *repeated)[0].series
    assert [(one.y.value, one.mark) for one in series.points] == [(20, ""), (31, "")]
    assert drawn(point(20, 20)) == []


def test_a_name_breaks_behind_its_parts_and_not_within_a_number():
    name, moment = "ch07.memory_access:wide", "a step at 2026-11-10 00:00"
    assert str(cells.breakable(name)) == "ch07.<wbr>memory_<wbr>access:<wbr>wide"
    assert str(cells.breakable(moment)) == moment
