"""The table of a sweep: its rows, its widths and its notes."""

import attrs
import pytest
import swept
from rich.console import Console

from aiperf_core.render.look import Look
from aiperf_core.render.sweep_table import render_sweep
from aiperf_core.results.models import Finding
from aiperf_core.results.sweeps import sweeps


def lines(*results, width=80):
    (sweep,) = sweeps(results)
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(render_sweep(sweep, Look(plain=True), width))
    return [line.rstrip() for line in captured.get().splitlines()]


def cells(shown):
    """The cells of the table's rows, between the rule and the next empty line."""
    start = next(index for index, line in enumerate(shown) if line.startswith("---"))
    return [line.split() for line in shown[start + 1 : shown.index("", start)]]


def test_a_row_for_each_point_and_implementation_in_the_order_of_the_parameter():
    shown = lines(swept.point(2, n=10**8), swept.point(0, n=10**6), swept.point(1, n=10**7))
    assert shown[0] == "ch07.memory_access - cuda - sweep of n - 3 points"
    head = next(line for line in shown if "median" in line)
    assert head.split() == ["n", "implementation", "median", "95", "%", "interval", "speedup", "SOL", "verdict"]
    rows = cells(shown)
    assert [row[0] for row in rows] == [
        first for value in ("1e6", "1e7", "1e8") for first in (value, "coalesced", "remembered")
    ]
    first, second, third = rows[:3]
    assert (first[1], first[-1]) == ("strided", "baseline")
    name, _, unit, low, high, speedup, _, percent, verdict = second
    assert (name, unit, percent, verdict) == ("coalesced", "ms", "%", "FASTER")
    assert (low[0], high[-1], speedup[-1]) == ("[", "]", "x")
    # What is not believed has no figures.
    assert third == ["remembered", "INVALID"]
    assert shown[-1] == "3 FASTER, 3 INVALID"


@pytest.mark.parametrize(
    "names", [("strided", "coalesced"), ("strided", "a_variant_whose_name_takes_more_than_forty_characters_of_a_line")]
)
@pytest.mark.parametrize("values", [{"n": 33554432}, {"batch": 16, "columns": 123456, "heads": 8, "rows": 4096}])
def test_nothing_is_wider_than_80_columns(names, values):
    factors = dict(zip(names, (1.0, 0.5), strict=True))
    other = {name: value * 4 for name, value in values.items()}
    shown = lines(swept.point(0, factors=factors, **values), swept.point(1, factors=factors, **other))
    assert max(map(len, shown)) <= 80
    text = " ".join(shown)
    assert all(part in text for name in names for part in name.split("_"))


def test_points_stand_above_their_rows_where_a_line_has_no_room_for_them():
    values = {"a_long_parameter": 123457, "another_long_parameter": 8, "the_third_parameter": 5}
    shown = lines(swept.point(0, **values), swept.failed(**{**values, "another_long_parameter": 16}))
    assert "a_long_parameter=123,457, another_long_parameter=8, the_third_parameter=5" in shown
    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize(
    ("values", "spelled"),
    [
        ([8, 64], ["8", "64"]),
        ([1000, 10**6], ["1e3", "1e6"]),
        ([4096, 2**20], ["2**12", "2**20"]),
        ([10**6, 2**25], ["1e6", "2**25"]),
        ([1000, 123456], ["1,000", "123,456"]),
        ([0.25, 0.5], ["0.25", "0.5"]),
    ],
)
def test_long_values_are_spelled_as_the_option_takes_them(values, spelled):
    rows = cells(lines(*(swept.point(n=value) for value in values)))
    assert [row[0] for row in rows if row[1] == "strided"] == spelled


def test_a_point_that_failed_has_a_row_and_its_reason():
    shown = lines(swept.point(n=4), swept.failed("ran out of memory", n=8))
    assert cells(shown)[-1] == ["8", "FAILED"]
    assert "FAILED        at n=8: ran out of memory" in shown


def test_points_with_the_same_reason_or_warning_share_a_line():
    warned = [
        attrs.evolve(one, findings=[Finding("timing.noise", "warning", "a message")]) for one in swept.point().rows
    ]
    points = [attrs.evolve(swept.point(n=n), rows=warned) for n in (4, 8)]
    shown = lines(*points, attrs.evolve(swept.point(n=16), complete=False))
    assert "warning       timing.noise at n=4; n=8" in shown
    assert "interrupted   at n=16: figures are partial" in shown
    assert sum(line.startswith("INVALID") for line in shown) == 1
    assert any(line.startswith("INVALID       remembered at n=4; n=8; n=16: ") for line in shown)
