import math
import operator
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.report import layout, svg
from aiperf_core.report.result import Axis
from aiperf_core.report.svg import Dot, Picture, Scale, Text


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [(0, 4.2, 5, [0, 1, 2, 3, 4]), (-0.011, 0.027, 4, [-0.01, 0, 0.01, 0.02]), (0.3, 0.9, 3, [0.4, 0.6, 0.8])],
)
def test_ticks_are_round(low, high, most, expected):
    assert Scale(low, high, 0, 100).ticks(most) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0.9, 21, 6, [1, 2, 5, 10, 20]),
        (0.9, 210, 6, [1, 3, 10, 30, 100]),
        (1e-6, 1e6, 5, [1e-6, 1e-3, 1, 1e3, 1e6]),
        (2.1, 2.9, 5, [2.2, 2.4, 2.6, 2.8]),
    ],
)
def test_ticks_of_a_logarithmic_scale(low, high, most, expected):
    assert Scale(low, high, 0, 100, log=True).ticks(most) == pytest.approx(expected)


@given(st.floats(1e-9, 1e9), st.floats(1.001, 1e6), st.booleans(), st.floats(-1e9, 1e12))
def test_places_lie_on_the_axis_in_the_order_of_the_values(low, factor, log, value):
    scale = Scale(low, low * factor, 10, 90, log)
    assert (scale(low), scale(low * factor)) == pytest.approx((10, 90))
    assert 10 - 1e-6 <= scale(value) <= 90 + 1e-6
    ticks = scale.ticks(6)
    assert 1 <= len(ticks) <= 10
    assert ticks == sorted(ticks)
    assert all(math.isfinite(one) for one in ticks)


def test_a_scale_may_run_upwards():
    scale = Scale(0, 10, 100, 0)
    assert (scale(0), scale(2.5), scale(20)) == (100, 75, 0)


def test_words_of_others_are_escaped_wherever_they_stand():
    bad = "\"><script>'\x1b[2J\nb"
    found = svg.markup(Picture(10, 10, bad, bad, [Text(1, 2, bad), Dot(1, 2, 3, "x", bad)]))
    assert found.count("&lt;script&gt;") == 4
    assert found.count("<") == 13  # svg, its title and desc, text, g, title and their ends, and a circle
    assert "\x1b" not in found


def test_numbers_are_short():
    assert [svg.number(one) for one in (3.0, 3.04, -0.25, 1234.56)] == ["3", "3", "-0.2", "1234.6"]


def test_names_are_shortened_at_their_end():
    assert svg.shortened("coalesced", 100) == "coalesced"
    assert svg.shortened("a" * 40, 61) == "a" * 7 + "…"
    assert svg.text_width("a" * 7 + "…") <= 61 < svg.text_width("a" * 8 + "…")


def test_names_that_differ_at_their_end_are_shortened_in_their_middle():
    names = [f"ch09.matmul:tiled n={size}" for size in (64, 512)]
    found = [svg.shortened(one, 100, keeps_end=True) for one in names]
    assert found == ["ch09.…:tiled n=64", "ch09.…iled n=512"]
    assert all(svg.text_width(one) <= 100 for one in found)
    assert svg.shortened("coalesced", 100, keeps_end=True) == "coalesced"
    long = svg.shortened("a" * 10_000 + "the end", 100, keeps_end=True)
    assert long == "aaaa…aaathe end"


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("wide 82 %", 52.0),
        ("last-level cache 11.0 TB/s", 128.4),
        ("ch07.memory_access", 108.2),
        ("MMMM", 34.5),
        ("1,000 µs", 43.4),
    ],
)
def test_the_width_of_a_text_is_nearly_that_of_dejavu_sans(text, true):
    assert svg.text_width(text, 10.0) == pytest.approx(true, rel=0.12)


def test_the_style_sheet_goes_from_general_to_special():
    sheet, plain = svg.style_sheet(), svg.style_sheet(plain=True)
    assert "svg .v-FASTER { color: var(--good, #0b7038) }\n" in sheet
    assert "svg .v-FASTER { color: #0b7038 }\n" in plain
    assert "svg .mark { stroke: #ffffff; stroke-width: 1; fill: currentColor }\n" in plain
    assert "var(" not in plain
    order = [plain.index(rule) for rule in ("path {", "svg .v-FASTER {", "svg .mark {", "svg .hollow {")]
    assert all(rule.startswith(("svg .", "path ", "circle ", "text ")) for rule in plain.splitlines())
    assert order == sorted(order), "of two rules for one shape, the later holds"


def test_a_file_has_its_size_its_style_and_a_background():
    text = svg.document(Picture(30, 20, "what", "x", [svg.line(0, 0, 1, 1, "roof")]))
    assert text.startswith('<svg width="30" height="20" viewBox="0 0 30 20" ')
    assert "><title>what</title><desc>x</desc><style>path {" in text
    assert '<rect class="paper" width="100%" height="100%"/><path class="roof"' in text


def test_a_file_follows_the_colour_scheme_of_its_reader():
    text = svg.document(Picture(30, 20, "x", "x", []))
    light, dark = text.split("@media (prefers-color-scheme: dark) {")
    for sheet, palette in ((light, svg.PALETTE), (dark, {**svg.PALETTE, **svg.DARK})):
        for kind in ("v-FASTER", "s0", "baseline"):
            assert f"svg .{kind} {{ color: {palette[svg._COLOURS[kind]]} }}" in sheet
        assert f"svg .paper {{ fill: {palette['page']} }}" in sheet
        assert f"stroke: {palette['page']}; stroke-width: 3px" in sheet
    assert "var(" not in text


def linear(colour):
    """The red, green and blue of a colour by their light."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]


def lab(colour):
    """A colour of sRGB in CIELAB, in which distances are what an eye sees."""
    matrix = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    x, y, z = (sum(map(operator.mul, row, linear(colour))) for row in matrix)
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x / 0.95047, y, z / 1.08883))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("palette", [svg.PALETTE, {**svg.PALETTE, **svg.DARK}], ids=["light", "dark"])
def test_colours_of_series_are_told_apart_and_stand_out_from_the_page(palette):
    for one, other in combinations((*svg.SERIES, "page"), 2):
        assert math.dist(lab(palette[one]), lab(palette[other])) > 22, (one, other)


def test_a_legend_breaks_into_rows():
    shapes, bottom = svg.legend([("circle", "x", "baseline")] * 3, 0, 180, 0)
    assert [(shape.x, shape.y) for shape in shapes if isinstance(shape, Text)] == [
        (16, 12),
        (pytest.approx(101, abs=3), 12),
        (16, 29),
    ]
    assert bottom == 34


def test_labels_of_an_axis_stay_within_the_picture():
    scale = Scale(0, 10, 8, 332)
    axis = svg.axis_below(scale, 0, 50, [(0, "0 ns"), (5, "5"), (10, "10,000 ms")])
    texts = [shape for shape in axis if isinstance(shape, Text)]
    assert [text.anchor for text in texts] == ["start", "middle", "end"]


def test_near_sizes_have_labels_that_differ():
    axis = Axis(title="peak memory", unit="B")
    labels = [label for _, label in layout.ticks(axis, Scale(15.886 * 2**20, 15.941 * 2**20, 0.0, 200.0), 6)]
    assert labels == ["15.89 MiB", "15.9 MiB", "15.91 MiB", "15.92 MiB", "15.93 MiB", "15.94 MiB"]
