import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.render.report import drawing
from aiperf_core.render.report.drawing import Scale


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
        (2.1, 2.9, 5, [2.1]),
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
    found = drawing.picture(10, 10, bad, [drawing.text(1, 2, bad), drawing.titled(drawing.dot(1, 2, 3, "x"), bad)])
    assert found.count("&lt;script&gt;") == 3
    assert found.count("<") == 9  # svg, text, g, title and their ends, and a circle
    assert "\x1b" not in found
    assert '"&' not in found.replace('aria-label="&', "")


def test_numbers_are_short():
    assert [drawing.number(one) for one in (3.0, 3.04, -0.25, 1234.56)] == ["3", "3", "-0.2", "1234.6"]


def test_names_are_shortened_at_their_end():
    assert drawing.shortened("coalesced", 100) == "coalesced"
    assert drawing.shortened("a" * 40, 61) == "a" * 9 + "…"
