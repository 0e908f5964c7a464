"""The view of a sweep: its rows, what was left out, and its notes."""

import attrs
import pytest
import swept

from aiperf_core.report import cell_text
from aiperf_core.report.drawings import spelled
from aiperf_core.report.result import Source
from aiperf_core.report.sweeps import view
from aiperf_core.results import example
from aiperf_core.results.models import Finding
from aiperf_core.results.sweeps import sweeps


def shown(*results):
    return view(sweeps(results), Source("then", "then", "", ""), example.manifest().machine)


def cells(result):
    (table,) = result.tables
    return [[cell_text.text(record.cells.get(column.key)) for column in table.columns] for record in table.records]


def test_a_row_for_each_point_and_implementation_in_the_order_of_the_parameter():
    result = shown(swept.point(2, n=10**8), swept.point(0, n=10**6), swept.point(1, n=10**7))
    assert result.tables[0].title == "ch07.memory_access: cuda, sweep of n, 3 points"
    rows = cells(result)
    assert [row[:2] for row in rows] == [
        [n, name]
        for n in ("1,000,000", "10,000,000", "100,000,000")
        for name in ("strided (baseline)", "coalesced", "remembered")
    ]
    assert (rows[0][3], rows[0][5]) == ("-", "MEASURED")
    _, _, time, speedup, light, verdict = rows[1]
    assert (time[-3:], speedup[-1], light[-2:], verdict) == (" ms", "x", " %", "FASTER")
    # What is not believed has no figures.
    assert rows[2][2:] == ["-", "-", "-", "INVALID"]
    assert result.summary[0] == "3 FASTER, 3 INVALID"
    assert [drawing.title for drawing in result.drawings] == [
        "ch07.memory_access: time of a call against n",
        "ch07.memory_access: fraction of the speed of light against n",
    ]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([8, 64], ["8", "64"]),
        ([1000, 10**6], ["1e3", "1e6"]),
        ([4096, 2**20], ["2**12", "2**20"]),
        ([10**6, 2**25], ["1e6", "2**25"]),
        ([1000, 123456], ["1,000", "123,456"]),
        ([0.25, 0.5], ["0.25", "0.5"]),
    ],
)
def test_long_values_are_spelled_as_the_option_takes_them(values, texts):
    (sweep,) = sweeps(swept.point(n=value) for value in values)
    assert [spelled(sweep, "n", value) for value in values] == texts


def test_a_point_that_failed_has_a_row_and_its_reason():
    result = shown(swept.point(n=4), swept.failed("ran out of memory", n=8))
    assert cells(result)[-1] == ["8", "-", "-", "-", "-", "FAILED"]
    failed = result.left_out[-1]
    assert (failed.what, failed.verdict, failed.reason) == (
        "ch07.memory_access at n=8",
        "FAILED",
        "ran out of memory",
    )


def test_points_with_the_same_reason_or_warning_share_a_line():
    warned = [
        attrs.evolve(one, findings=[Finding("timing.noise", "warning", "a message")]) for one in swept.point().rows
    ]
    points = [attrs.evolve(swept.point(n=n), rows=warned) for n in (4, 8)]
    result = shown(*points, attrs.evolve(swept.point(n=16), complete=False))
    assert result.summary[1:3] == ["interrupted at n=16: figures are partial", "warning timing.noise at n=4; n=8"]
    assert [part.what for part in result.left_out] == ["remembered at n=4; n=8; n=16"]
