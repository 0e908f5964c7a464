"""Pictures of every kind with hostile values: their structure, and that no text leaves them or covers another."""

import json
import re
import xml.etree.ElementTree as ET
from itertools import combinations

import picture_cases
import pytest
from attrs import evolve

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.report import html, layout, picture, svg
from aiperf_core.report.result import Axis, Drawing, Figure, Origin, Point, Result, Series, counted

CASES = dict(picture_cases.cases())


def boxes(made):
    """The content and the box of each text: left, top, right, bottom."""
    for shape in made.shapes:
        if isinstance(shape, svg.Text):
            size = 15.0 if shape.kind == "title" else 11.0
            bold = layout.BOLD if shape.kind in ("title", "strong", "label strong") else 1.0
            width = svg.text_width(shape.content, size) * bold
            left = shape.x - {"start": 0.0, "middle": width / 2, "end": width}[shape.anchor]
            yield shape, (left, shape.y - 0.75 * size, left + width, shape.y + 1)


def test_the_structure_of_all_pictures():
    """After a change that is wanted: python aiperf-core/tests/report/picture_cases.py."""
    golden = json.loads(picture_cases.GOLDEN.read_text(encoding="utf-8"))
    made = json.loads(json.dumps(picture_cases.structures()))
    assert made.keys() == golden.keys()
    for name, structure in made.items():
        assert structure == golden[name], name


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wide", [layout.WIDE, layout.NARROW])
def test_all_parts_are_inside_and_no_text_covers_another(name, wide):
    made = picture.picture(CASES[name], wide=wide)
    assert made.width == wide
    texts = list(boxes(made))
    for shape, (left, top, right, bottom) in texts:
        assert left >= -1, shape
        assert right <= made.width + 1, shape
        assert top >= -1, shape
        assert bottom <= made.height, shape
    for (one, a), (two, b) in combinations(texts, 2):
        apart = a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 1 or b[3] <= a[1] + 1
        assert apart or not one.content or not two.content, (one, two)
    for shape in made.shapes:
        if isinstance(shape, svg.Path):
            assert all(0 <= x <= made.width and 0 <= y <= made.height for x, y in shape.points), shape
        elif isinstance(shape, svg.Dot):
            assert 0 <= shape.x <= made.width
            assert 0 <= shape.y <= made.height


@pytest.mark.parametrize("name", CASES)
def test_files_are_xml_without_markup_of_others(name):
    text = picture.render_svg(CASES[name])
    assert text == picture.picture_bytes(CASES[name], ".svg").decode()
    ET.fromstring(text)
    assert not re.search("<script|[\x00-\x08\x1b\u202e]", text)
    # A class without a rule would be black, also on a black page.
    classes = {word for words in re.findall(r'class="([^"]*)"', text) for word in words.split()}
    assert classes <= {*re.findall(r"^svg \.([\w-]+) ", text, re.MULTILINE), "name", "s0"}


def drawing(points, kind="scatter", **more):
    given = {"name": "d", "title": "D", "message": "m", "x": Axis(title="x"), "y": Axis(title="y")} | more
    return Drawing(kind=kind, series=[Series(name="s", points=points)], **given)


def point(label, x, y=0.0, **more):
    return Point(label=label, x=Figure(value=x, low=x * 0.9, high=x * 1.1), y=counted(y, "count"), **more)


def texts_of(made, *kinds):
    return [shape.content for shape in made.shapes if isinstance(shape, svg.Text) and shape.kind in kinds]


@pytest.mark.parametrize("kind", picture_cases.POINTS)
def test_points_lead_to_their_rows_in_their_colour_and_say_their_verdict(kind):
    points = [point("a", 1.0, 1.0, origin=Origin("b", "t", "r"), mark="FASTER"), point("b", 2.0, 2.0, colour="s7")]
    made = picture.picture(drawing(points, kind), lambda origin: f"/samples/{origin.bundle}?row={origin.row}")
    (linked,) = [shape for shape in made.shapes if getattr(shape, "href", "")]
    assert linked.href == "/samples/b?row=r"
    assert linked.title.endswith("FASTER")
    assert kind in ("bars", "waterfall") or "v-FASTER" in linked.kind
    assert any("s7" in shape.kind.split() for shape in made.shapes)
    assert not any(getattr(shape, "href", "") for shape in picture.picture(drawing(points, kind)).shapes)


def test_the_places_of_an_interval_follow_its_figures():
    made = picture.picture(drawing([point("a", 1.0), point("b", 4.0, mark="INCONCLUSIVE")], "intervals"))
    (one, two) = [
        shape for shape in made.shapes if shape.kind.startswith("whisker") and shape.points[0][1] == shape.points[1][1]
    ]
    for (left, _), (right, _) in (one.points, two.points):
        assert left < right
    assert one.points[1][0] < two.points[0][0]
    assert "4.00x [3.60, 4.40] INCONCLUSIVE" in texts_of(made, "label")
    (reference,) = [shape for shape in made.shapes if shape.kind == "one"]
    (mark,) = [shape for shape in made.shapes if shape.kind == "mark s0"]
    assert reference.points[0][0] == mark.x


def test_of_many_lanes_the_farthest_are_drawn_and_the_rest_are_counted():
    points = [point(f"p{at}", 100.0 if at == 50 else 1.0 + at / 1e6) for at in range(100)]
    made = picture.picture(drawing(points, "intervals"))
    assert "40 more lines are not drawn" in texts_of(made, "note")
    assert "p50" in texts_of(made, "label")


def test_a_point_without_a_figure_divides_a_line():
    values = [1.0, 2.0, None, 4.0, 5.0]
    points = [Point(label="", x=counted(float(at)), y=counted(value)) for at, value in enumerate(values)]
    lines = drawing(points, "lines")
    made = picture.picture(evolve(lines, series=[evolve(lines.series[0], joined=True)]))
    assert [len(shape.points) for shape in made.shapes if shape.kind == "course s0"] == [2, 2]


def test_lines_lie_below_all_marks():
    """A mark is a link, which the line of another series must not cover."""
    points = [point("", 1.0, 1.0), point("", 2.0, 1.0)]
    level = Series(name="level", points=[evolve(each, mark="fit") for each in points], joined=True)
    lines = drawing(points, "lines")
    shapes = picture.picture(evolve(lines, series=[*lines.series, level])).shapes
    places = [at for at, shape in enumerate(shapes) if shape.kind == "mark s0" and shape.title]
    assert len(places) == 2
    assert max(at for at, shape in enumerate(shapes) if shape.kind == "course s1") < min(places)


def test_the_front_is_joined_in_steps():
    points = [point(name, x, y, mark="front") for name, x, y in (("c", 4.0, 1.0), ("a", 1.0, 4.0), ("b", 2.0, 2.0))]
    (front,) = [shape for shape in picture.picture(drawing(points)).shapes if shape.kind.startswith("front")]
    assert [x for x, _ in front.points] == sorted(x for x, _ in front.points)
    assert len(front.points) == 5


def test_of_very_many_points_the_extremes_are_drawn():
    points = [Point(label="", x=counted(float(at)), y=counted(1.0)) for at in range(10_000)]
    points[4321] = Point(label="", x=counted(4321.0), y=counted(50.0), mark="front")
    marks = [shape for shape in picture.picture(drawing(points, "lines")).shapes if isinstance(shape, svg.Dot)]
    assert 100 < len(marks) <= 300
    assert min(mark.y for mark in marks) < max(mark.y for mark in marks) - 100


@pytest.mark.parametrize("log", [False, True])
def test_bytes_have_round_ticks(log):
    points = [Point(label="a", x=counted(each), y=Figure(value=each * 2.0**20, unit="B")) for each in (1.0, 3.0, 7.0)]
    made = picture.picture(drawing(points, y=Axis(title="memory", unit="B", log=log)))
    ticks = [text for text in texts_of(made, "tick") if "B" in text]
    assert len(ticks) >= 3
    assert all(re.fullmatch(r"\d+ (MiB|KiB|B)", text) for text in ticks), ticks


def test_an_axis_with_ends_and_named_places():
    axis = Axis(title="n", unit="count", log=True, ends=(1.0, 1000.0), places={"2**3": 8.0, "1e2": 100.0})
    points = [Point(label="", x=counted(x), y=counted(1.0)) for x in (8.0, 1e9)]
    made = picture.picture(drawing(points, x=axis))
    assert texts_of(made, "tick")[:2] == ["2**3", "1e2"]
    marks = [shape for shape in made.shapes if shape.kind == "mark s0"]
    assert marks[-1].x == layout.WIDE - layout.EDGE - 8


def test_several_drawings_stand_below_each_other():
    parts = [drawing([point("a", 1.0)], "intervals"), drawing([point("b", 1.0)], title="E")]
    made = picture.picture(parts)
    heights = [picture.picture(part).height for part in parts]
    assert made.height == sum(heights)
    (second,) = [shape for shape in made.shapes if isinstance(shape, svg.Text) and shape.content == "E"]
    assert heights[0] < second.y < heights[0] + 30


def test_figures_as_a_table():
    made = picture.table(drawing([point("a", 1.0, 2.0, mark="SAME", origin=Origin("b", "t", "r"))]))
    (record,) = made.records
    assert [column.title for column in made.columns] == ["point", "series", "x", "y", ""]
    assert (record.cells["point"], record.cells["mark"], record.origins) == ("a", "SAME", [Origin("b", "t", "r")])
    spans = picture.table(CASES["timeline: one"])
    assert [column.title for column in spans.columns] == ["piece", "lane", "kind", "start (s)", "length (s)"]


@pytest.mark.parametrize(("kind", "magic"), [(".png", b"\x89PNG"), (".pdf", b"%PDF-")])
def test_other_formats(kind, magic):
    pytest.importorskip("vl_convert")
    assert picture.picture_bytes(CASES["intervals: hostile names"], kind).startswith(magic)


def test_files_that_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"is not \.svg, \.png or \.pdf; give --picture a name"):
        picture.check(tmp_path / "x.gif", "--picture")
    with pytest.raises(AiperfError, match="cannot write .* Choose another --out"):
        picture.write(CASES["bars: one"], tmp_path / "missing" / "x.svg")
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    with pytest.raises(AiperfError, match=r"pip install 'aiperf-core\[plots\]'"):
        picture.check(tmp_path / "x.png")


def test_a_page_has_both_layouts_and_the_figures_of_each_picture():
    result = Result(analysis="a", title="A", summary=["s"], drawings=[CASES["intervals: hostile names"]])
    page = html.page(result)
    assert re.findall(r'<svg class="([^"]*)" viewBox="0 0 (\d+) ', page) == [
        ("intervals", "720"),
        ("intervals narrow", "340"),
    ]
    assert "@container (max-width: 719px)" in page
    assert page.count("<summary>figures as a table</summary>") == 1
    assert not re.search("<script|[\x00-\x08\x1b\u202e]", page)


@pytest.mark.parametrize(("log", "far"), [(False, 86.0), (True, 86.0), (True, 1e-6)])
def test_a_wide_interval_does_not_flatten_the_points_and_its_cut_is_marked(log, far):
    ys = [1e-3, 1.1e-3, 1.2e-3]
    points = [Point(label="", x=counted(float(at), "count"), y=counted(y, "s")) for at, y in enumerate(ys)]
    last = Figure(value=1.1e-3, low=min(far, 1e-3), high=max(far, 1.3e-3), unit="s")
    points.append(Point(label="", x=counted(3.0, "count"), y=last))
    made = picture.picture(drawing(points, y=Axis(title="y", unit="s", log=log)))
    marks = [shape for shape in made.shapes if shape.kind == "mark s0" and isinstance(shape, svg.Dot)]
    assert max(mark.y for mark in marks) - min(mark.y for mark in marks) > 25
    (cut,) = [shape for shape in made.shapes if shape.kind.startswith("cut ")]
    assert cut.title == "the interval goes on beyond the plane"
    (whisker,) = [shape for shape in made.shapes if shape.kind.startswith("whisker")]
    assert cut.points[0] == whisker.points[1 if far > 1 else 0]
    narrow = drawing(points[:3], y=Axis(title="y", unit="s", log=log))
    assert not [shape for shape in picture.picture(narrow).shapes if shape.kind.startswith("cut ")]
