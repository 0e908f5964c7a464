"""A result as text, CSV, page and picture: widths, hostile names, and pictures whose parts stay inside."""

import csv
import io
import itertools
import re
import xml.etree.ElementTree as ET

import pytest
from attrs import evolve

from aiperf_analysis.render import csv_file, drawings, html
from aiperf_core.render import layout, plane, svg
from aiperf_core.report import cell_text
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
    Span,
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
    text = csv_file.text(of_table(*HOSTILE))
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
    assert csv_file.text(found) == (
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


# --- pictures


def texts_of(picture):
    return [shape for shape in picture.shapes if isinstance(shape, svg.Text)]


def inside(picture):
    """Whether each text and each path lies within the picture."""
    for shape in picture.shapes:
        if isinstance(shape, svg.Text):
            size = float(svg.properties(shape)["font-size"].removesuffix("px"))
            assert size >= 11, shape
            width = svg.text_width(shape.content, size) * (layout.BOLD if shape.kind == "title" else 1.0)
            left = shape.x - {"start": 0.0, "middle": width / 2, "end": width}[shape.anchor]
            assert left >= -1, shape
            assert left + width <= picture.width + 1, shape
            assert 0 <= shape.y <= picture.height, shape
        elif isinstance(shape, svg.Path):
            assert all(0 <= x <= picture.width and 0 <= y <= picture.height for x, y in shape.points), shape
        else:
            assert 0 <= shape.x <= picture.width
    return True


LABELS = ["ch07.memory_access:coalesced", "a name that is so long that no picture has the room for it" * 3, "b", "c"]


@pytest.mark.parametrize("kind", ["intervals", "lines", "scatter", "bars", "waterfall"])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("unit", ["1", "s", "B", "USD", "count"])
@pytest.mark.parametrize("wide", [drawings.WIDE, drawings.NARROW])
def test_all_parts_of_a_picture_are_inside(kind, log, unit, wide):
    values = [1e-7, 0.01, 1.0, 123_456_789.0]
    points = [
        Point(
            label=label,
            x=Figure(value=x, low=x / 2, high=x * 2, unit=unit),
            y=Figure(value=x * 3, unit=unit),
            mark=mark,
        )
        for label, x, mark in zip(LABELS, values, ("front", "undecided", "FASTER", ""), strict=True)
    ]
    found = drawing(
        points, kind, title=LABELS[1], x=Axis(title="x", unit=unit, log=log), y=Axis(title="y", unit=unit, log=log)
    )
    found = evolve(found, borders={"driver 570.86.10 -> 575.51.03 and more of it": 0.5, LABELS[1]: 2.0})
    picture = drawings.picture(found, wide=wide)
    assert picture.width == wide
    assert inside(picture)


@pytest.mark.parametrize("kind", ["flame", "timeline"])
@pytest.mark.parametrize("wide", [drawings.WIDE, drawings.NARROW])
def test_all_parts_of_a_picture_of_pieces_are_inside(kind, wide):
    spans = [Span(label=LABELS[1], lane=str(lane), start=lane, length=2.0, kind="copy") for lane in range(50)]
    axis, borders = Axis(title=LABELS[1], unit="s"), {"step 2": 9.0}
    found = Drawing(name="d", title=LABELS[1], kind=kind, message="m", x=axis, y=axis, spans=spans, borders=borders)
    assert inside(drawings.picture(found, wide=wide))


def test_a_page_has_both_layouts_of_a_picture_and_tells_them_apart():
    page = html.page(evolve(of_table("t"), drawings=[drawing([point("a", 1.0)], "intervals")]))
    layouts = re.findall(r'<svg class="([^"]*)" viewBox="0 0 (\d+) ', page)
    assert layouts == [("intervals", "720"), ("intervals narrow", "340")]
    assert "@container (max-width: 719px)" in page


def test_the_front_is_joined_in_steps():
    points = [point(name, x, y, mark="front") for name, x, y in (("c", 4.0, 1.0), ("a", 1.0, 4.0), ("b", 2.0, 2.0))]
    (front,) = [one for one in drawings.picture(drawing(points, "scatter")).shapes if one.kind.startswith("front")]
    assert len(front.points) == 5
    assert [x for x, _ in front.points] == sorted(x for x, _ in front.points)
    assert [y for _, y in front.points] == sorted(y for _, y in front.points)
    assert all(before[0] == after[0] or before[1] == after[1] for before, after in itertools.pairwise(front.points))


def test_a_point_has_the_colour_of_its_implementation():
    points = [point("a", 1.0, 1.0, colour="s4"), point("b", 2.0, 2.0, colour="s7")]
    for kind in ("lines", "scatter", "bars", "waterfall"):
        kinds = {word for one in drawings.picture(drawing(points, kind)).shapes for word in one.kind.split()}
        assert {"s4", "s7"} <= kinds, kind


@pytest.mark.parametrize("kind", ["intervals", "lines", "scatter", "bars", "waterfall"])
def test_pictures_of_nothing_of_one_point_and_of_missing_figures(kind):
    none = Point(label="n", x=Figure(value=None, reason="no energy counter"), y=Figure(value=None, reason="no"))
    for points in ([], [none], [point("a", 1.0)], [point("a", 1.0), point("b", 1.0), none]):
        for log in (False, True):
            picture = drawings.picture(drawing(points, kind, x=Axis(title="x", log=log), y=Axis(title="y", log=log)))
            assert inside(picture)
            ET.fromstring(svg.document(picture))


def test_a_plane_without_points_says_so():
    picture = drawings.picture(drawing([], "scatter"))
    assert "no figures to draw" in [one.content for one in texts_of(picture)]


def test_labels_cover_neither_marks_nor_each_other():
    points = [
        Point(label=f"point {place}", x=Figure(value=1.0 + place / 50), y=Figure(value=1.0)) for place in range(20)
    ]
    points.append(Point(label="far", x=Figure(value=9.0), y=Figure(value=5.0)))
    picture = drawings.picture(drawing(points, "scatter"))
    notes = [one for one in texts_of(picture) if one.content.startswith(("point", "far"))]
    assert "far" in [one.content for one in notes]
    boxes = [(one.x, one.x + svg.text_width(one.content), one.y) for one in notes]
    for place, (left, right, y) in enumerate(boxes):
        for other in boxes[place + 1 :]:
            assert abs(y - other[2]) > 8 or right < other[0] or other[1] < left


def test_the_legend_has_the_marks_of_the_points():
    series = [Series(name=kind, points=[point(kind, 1.0 + place, place, mark=kind)])
              for place, kind in enumerate(("front", "dominated", "undecided"))]  # fmt: skip
    found = Drawing(
        name="d", title="D", kind="scatter", message="m", x=Axis(title="x"), y=Axis(title="y"), series=series
    )
    marks = [shape for shape in drawings.picture(found).shapes if shape.kind.startswith(("mark", "hollow"))]
    legend, points = marks[:3], marks[3:]
    assert [one.kind for one in legend] == [one.kind for one in points] == ["mark s0", "hollow s1", "hollow s2"]
    assert [type(one) for one in legend] == [type(one) for one in points]


@pytest.mark.parametrize("log", [False, True])
def test_bytes_have_round_ticks(log):
    points = [Point(label="a", x=Figure(value=one), y=Figure(value=one * 2.0**20, unit="B")) for one in (1.0, 3.0, 7.0)]
    picture = drawings.picture(drawing(points, "scatter", y=Axis(title="memory", unit="B", log=log)))
    ticks = [one.content for one in texts_of(picture) if one.kind == "tick" and "B" in one.content]
    assert len(ticks) >= 3
    assert all(re.fullmatch(r"\d+ (MiB|KiB|B)", one) for one in ticks), ticks


def test_of_very_many_points_the_extremes_are_drawn():
    points = [Point(label="", x=Figure(value=float(at)), y=Figure(value=1.0)) for at in range(10_000)]
    points[4321] = Point(label="", x=Figure(value=4321.0), y=Figure(value=50.0), mark="front")
    picture = drawings.picture(drawing(points, "lines"))
    marks = [one for one in picture.shapes if one.kind.startswith(("mark", "hollow"))]
    assert len(marks) <= plane.OVER_TIME[0]
    assert min(one.y for one in marks) < max(one.y for one in marks) - 100


def test_only_points_that_are_drawn_have_a_label():
    points = [Point(label=f"p{at}", x=Figure(value=float(at)), y=Figure(value=float(at % 7))) for at in range(2_000)]
    picture = drawings.picture(drawing(points, "scatter"))
    tips = {one.title.partition(",")[0] for one in picture.shapes if one.kind.startswith(("mark", "hollow"))}
    labels = {one.content for one in picture.shapes if one.kind == "note"} & {one.label for one in points}
    assert len(tips) <= plane.MOST
    assert labels
    assert labels <= tips


def test_points_lead_to_their_rows():
    points = [point("a", 1.0, 1.0, origin=Origin("b", "t", "r"), mark="FASTER")]
    for kind in ("intervals", "lines", "scatter", "bars", "waterfall"):
        picture = drawings.picture(drawing(points, kind), lambda origin: f"/samples/{origin.bundle}?row={origin.row}")
        assert [one.href for one in picture.shapes if getattr(one, "href", "")] == ["/samples/b?row=r"], kind
        unlinked = drawings.picture(drawing(points, kind))
        assert not any(getattr(one, "href", "") for one in unlinked.shapes)


def test_lines_lie_below_all_marks():
    """A mark is a link, which the line of another course must not cover."""
    points = [Point(label="", x=counted(x, "count"), y=counted(1.0, "B")) for x in (1.0, 2.0)]
    level = [evolve(one, mark="fit") for one in points]
    drawing = Drawing(
        name="d", title="", kind="lines", message="", x=Axis(title="x", unit="count"), y=Axis(title="y", unit="B"),
        series=[Series(name="runs", points=points), Series(name="level", points=level, joined=True)],
    )  # fmt: skip
    kinds = [one.kind.split()[0] for one in drawings.picture(drawing).shapes]
    last_line = max(place for place, kind in enumerate(kinds) if kind == "course")
    assert last_line < min(place for place, kind in enumerate(kinds[last_line:], last_line) if kind == "mark")
    assert kinds[last_line:].count("mark") == 2
