"""A result as text, CSV and page: widths and hostile names."""

import csv
import io
import re
import xml.etree.ElementTree as ET

import pytest

from aiperf_core.report import cell_text, flat_tables, html
from aiperf_core.report.result import (
    Axis,
    Column,
    Drawing,
    Figure,
    LeftOut,
    Origin,
    Point,
    Record,
    Result,
    Series,
    Table,
    counted,
)

HOSTILE = [
    "=HYPERLINK(1)",
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m",
    "\u202egnp.exe",
    "x" * 10_000,
    "+1",
    "@a",
    "a\nb",
]


def of_table(*cells, key="name"):
    records = [
        Record({key: one, "gain": Figure(value=None, reason=str(one))}, [Origin("b", str(one))]) for one in cells
    ]
    columns = [Column(key, "name"), Column("gain", "gain", "figure")]
    return Result(
        analysis="a",
        title=str(cells[0]),
        summary=[str(one) for one in cells],
        tables=[Table("t", str(cells[0]), columns, records, str(cells[0]))],
        assumptions=[str(cells[0])],
        left_out=[LeftOut(str(one), "INVALID", str(one)) for one in cells],
        drawings=[drawing([point(str(one), 1.0 + place) for place, one in enumerate(cells)], message=str(cells[0]))],
    )


def point(label, x, y=0.0, **more):
    return Point(label=label, x=Figure(value=x, low=x * 0.9, high=x * 1.1), y=counted(y, "count"), **more)


def drawing(points, kind="intervals", **more):
    given = {"name": "d", "title": "D", "message": "m", "x": Axis(title="x"), "y": Axis(title="y")} | more
    return Drawing(kind=kind, series=[Series(name="s", points=points)], **given)


# --- figures


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, "-"),
        (True, "yes"),
        (1234, "1,234"),
        ("text", "text"),
        (Figure(value=None, reason="no"), "-"),
        (Figure(value=1.2345), "1.23x"),
        (Figure(value=1.5, low=1.4, high=1.6), "1.50x [1.40, 1.60]"),
        (Figure(value=0.0015, unit="s"), "1.50 ms"),
        (Figure(value=3 << 20, unit="B"), "3 MiB"),
        (Figure(value=-(3 << 20), unit="B"), "-3 MiB"),
        (Figure(value=2.5e12, unit="FLOP/s"), "2.50 TFLOP/s"),
        (Figure(value=0.002, unit="J"), "2.00 mJ"),
        (Figure(value=12.0, unit="%"), "12 %"),
        (Figure(value=2240.0, low=-94.7, high=56789.0, unit="%"), "2,240 % [-94.7, 56,789]"),
        (Figure(value=12345.0, unit="count"), "12,345"),
        (Figure(value=0.004, unit="number"), "0.00400"),
        (Figure(value=2.0, certainty="estimated"), "~2.00x"),
    ],
)
def test_cells_as_text(cell, shown):
    assert cell_text.whole(cell) == shown


# --- terminal


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("name", ["overview", "pareto", "tradeoff", "recommend", "improvements"])
def test_no_line_is_wider_than_the_terminal(name, columns, example_runs, aiperf):
    told = aiperf("analyze", name, "--in", example_runs, columns=columns)
    assert told.code == 0
    assert max(map(len, told.out.splitlines())) <= columns


def test_hostile_names_in_a_bundle(made, aiperf, tmp_path):
    times = {"plain": 2e-3, **{name[:300]: 1e-3 for name in HOSTILE}}
    made.bundle("one", made.result(times, target="ch07.<b>\x1b[2J=1", memory=dict.fromkeys(times, 10)))
    for name in ("overview", "pareto", "tradeoff", "recommend"):
        told = aiperf("analyze", name, "--in", made.folder)
        assert told.code == 0
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", told.out)
        aiperf("analyze", name, "--in", made.folder, "--out", tmp_path / "x.html")
        page = (tmp_path / "x.html").read_text()
        assert "<script" not in page
        assert "<b>" not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
        aiperf("analyze", name, "--in", made.folder, "--out", tmp_path / "x.svg")
        ET.parse(tmp_path / "x.svg")


# --- CSV


def test_no_cell_of_csv_is_a_formula():
    text = flat_tables.text(of_table(*HOSTILE))
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["name", "gain", "gain_low", "gain_high", "gain_unit", "gain_reason", "bundle", "target", "row"]
    assert len(rows) == 1 + len(HOSTILE)
    for row in rows[1:]:
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)
    assert rows[1][0] == "'=HYPERLINK(1)"
    assert rows[1][5] == "'=HYPERLINK(1)"


def test_csv_of_several_tables_and_mixed_cells():
    table = Table("one", "One", [Column("a", "A"), Column("b", "B")],
                  [Record({"a": "x", "b": Figure(value=1.0, low=0.5, high=2.0, unit="s")}), Record({"a": None, "b": "y"})])  # fmt: skip
    found = Result(analysis="a", title="A", summary=["s"], tables=[table, Table("two", "Two", [Column("c", "C")], [])])
    assert flat_tables.text(found) == (
        "# one\na,b,b_low,b_high,b_unit,b_reason,bundle,target,row\nx,1.0,0.5,2.0,s,,,,\n,y,,,,,,,\n"
        "\n# two\nc,bundle,target,row\n"
    )


# --- page


def test_a_page_escapes_all_texts():
    page = html.page(of_table(*HOSTILE[1:]))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
