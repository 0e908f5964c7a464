"""The list of metrics: names, belief, and the figures that rows have."""

import json
from collections import Counter

import pytest
from attrs import evolve, fields

from aiperf_core.measurements import Energy, Estimate
from aiperf_core.render.row_columns import COLUMNS
from aiperf_core.report import text, views
from aiperf_core.report.metrics import BY_NAME, METRICS, STORED, SUMMARY, disbelief, half_width, of_goal
from aiperf_core.report.result import Column, Figure, LeftOut, Source
from aiperf_core.report.verdict_counts import causes
from aiperf_core.results import example
from aiperf_core.results.models import DISBELIEVED, Observations, Row, SpeedOfLight, Verdict

RESULT = example.result()
WIDE = next(row for row in RESULT.rows if row.name == "wide")


def test_names_are_of_one_metric_each():
    names = [name for metric in METRICS.values() for name in {metric.key, metric.name, *metric.aliases}]
    assert Counter(names).most_common(1)[0][1] == 1
    assert BY_NAME.keys() == set(names)
    assert all(BY_NAME[name] is METRICS[BY_NAME[name].key] for name in names)
    assert all(metric in METRICS.values() and not metric.of_samples for metric in [*STORED.values(), *SUMMARY])


def test_each_number_that_is_judged_of_a_row_is_a_metric():
    judged = [column.name for column in fields(Row) if column not in fields(Observations)]
    numbers = {name for name in judged if isinstance(getattr(WIDE, name), float | Estimate)}
    assert {"time_s", "speedup", "bytes_per_s"} <= numbers
    assert numbers <= METRICS.keys()


def test_every_metric_is_a_column_of_tables_and_of_exports():
    for metric in METRICS.values():
        assert COLUMNS[metric.name].about
        assert (f"{metric.name}-interval" in COLUMNS) is (metric.has_interval and metric.unit != "%")
        assert (metric.key in text.COLUMNS) is not metric.of_samples
    (row,) = text.table("run", example.manifest(), [evolve(RESULT, rows=[WIDE])])
    assert (row["time_s"], row["time_low_s"], row["time_high_s"]) == (
        WIDE.time_s.value,
        WIDE.time_s.low,
        WIDE.time_s.high,
    )
    assert row["speed_of_light_fraction"] == pytest.approx(WIDE.speed_of_light.fraction)
    assert row["speed_of_light_fraction_low"] < row["speed_of_light_fraction"] < row["speed_of_light_fraction_high"]
    assert row["bytes_per_s"] == WIDE.bytes_per_s


def test_a_row_that_this_machine_cannot_run_is_not_distrusted():
    left_out = [LeftOut(verdict.value, verdict.value, "") for verdict in (*Verdict, Verdict.SKIPPED)]
    assert {verdict.name for verdict in Verdict if verdict.is_distrusted} == {"INVALID", "UNTRUSTED", "FAILED"}
    assert (
        causes([part for part in left_out if not Verdict(part.verdict).is_believed]) == "3 not trusted, 2 did not run"
    )
    assert causes([LeftOut("a bundle", "", "it cannot be read"), LeftOut("a point", "OVERLOAD", "")]) == ""


@pytest.mark.parametrize("verdict", DISBELIEVED)
def test_a_row_that_is_not_believed_has_no_figure_and_the_reason(verdict):
    row = evolve(WIDE, verdict=verdict, reason="clocks disagree")
    for metric in METRICS.values():
        shown = metric.of(RESULT, row)
        assert shown == Figure(value=None, unit=metric.unit, reason=f"{verdict.value}: clocks disagree")
        assert metric.estimate(RESULT, row) is None
    assert METRICS["time_s"].measure(RESULT, row).value == WIDE.time_s.value
    assert disbelief(verdict, None) == f"{verdict.value}: no reason was recorded"
    assert disbelief(WIDE.verdict, WIDE.reason) == ""


@pytest.mark.parametrize("row", [WIDE, evolve(WIDE, memory=None, energy=None, speed_of_light=None)])
def test_a_stored_figure_is_restored_as_it_was(row):
    for metric in STORED.values():
        shown = metric.of(RESULT, row)
        if shown.value is not None or metric in SUMMARY:
            value = None if shown.value is None else float(shown.value)  # as a database has it
            restored = metric.restored(value, shown.low, shown.high, shown.reason or "")
            assert repr(evolve(restored, reason=restored.reason or None)) == repr(shown), metric.key


def test_a_figure_that_was_not_measured_says_why():
    row = evolve(WIDE, memory=None, energy=None, no_energy="the device has no counter", bytes_per_s=None, speedup=None)
    reasons = {
        key: METRICS[key].of(RESULT, row).reason for key in METRICS if METRICS[key].of(RESULT, row).value is None
    }
    assert reasons["peak_bytes"] == "no peak of memory was measured"
    assert reasons["joules_per_call"] == reasons["net_joules_per_call"] == "the device has no counter"
    assert reasons["bytes_per_s"] == "the workload declares no bytes of memory"
    assert reasons["speedup"] == "too few samples for an interval"
    assert METRICS["speedup"].of(RESULT, evolve(row, role="baseline")).reason == "a baseline has none"
    assert all(reasons.values())


def test_a_fraction_of_the_speed_of_light_below_the_least_has_the_reason():
    row = evolve(WIDE, speed_of_light=evolve(WIDE.speed_of_light, bound="pcie", fraction=9e-5))
    shown = METRICS["speed_of_light_fraction"].of(RESULT, row)
    assert (shown.value, shown.reason) == (None, "below 0.01 %: another resource than PCIe bounds it")


def by_the_caller(device: Estimate | None, bound="memory", fraction=0.4) -> Row:
    """A row by the caller's clock with 10 ms a call."""
    time = Estimate(10e-3, 9e-3, 11e-3)
    light = SpeedOfLight(bound, 10e-3 * fraction, fraction)
    return evolve(WIDE, clock="wall", time_s=time, wall_s=time, device_s=device, speed_of_light=light)


def test_the_host_share_is_the_part_of_the_call_beyond_the_device():
    shown = METRICS["host_share"].of(RESULT, by_the_caller(Estimate(4e-3, 3e-3, 4.5e-3)))
    assert (shown.value, shown.low, shown.high) == pytest.approx((60.0, 50.0, 100 * (1 - 3 / 11)))
    worst = METRICS["host_share"].of(RESULT, by_the_caller(Estimate(9.9e-3, 9e-3, 12e-3)))
    assert (worst.low, worst.value) == pytest.approx((0.0, 1.0))
    by_device = evolve(WIDE, wall_s=Estimate(2 * WIDE.time_s.value, WIDE.time_s.value, 1.0))
    assert METRICS["host_share"].of(RESULT, by_device).value == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (None, "no call was timed by the caller's clock and by the device's"),
        (Estimate(11e-3, 10e-3, 12e-3), "the device works for longer than its caller waits"),
    ],
)
def test_without_a_host_share_there_is_a_reason(device, reason):
    assert METRICS["host_share"].of(RESULT, by_the_caller(device)).reason == reason


@pytest.mark.parametrize(
    ("row", "fraction"),
    [
        (by_the_caller(Estimate(4e-3, 4e-3, 4e-3)), None),
        (by_the_caller(Estimate(6e-3, 6e-3, 6e-3)), 40.0),
        (by_the_caller(None), 40.0),
        (by_the_caller(Estimate(4e-3, 4e-3, 4e-3), "disk"), 40.0),  # the host waits for the disk
        (by_the_caller(Estimate(4e-3, 4e-3, 4e-3), "wire"), 40.0),
        (evolve(WIDE, wall_s=Estimate(1.0, 1.0, 1.0)), pytest.approx(100 * WIDE.speed_of_light.fraction)),
    ],
)
def test_where_the_host_is_the_bound_there_is_no_fraction_of_the_speed_of_light(row, fraction):
    shown = METRICS["speed_of_light_fraction"].of(RESULT, row)
    assert shown.value == fraction
    if fraction is None:
        assert shown.reason == "the host is the bound: the device works for less than half of the time"


def test_the_figures_of_a_row_are_all_that_it_has_and_the_reasons_of_a_summary():
    table = views.figures(RESULT, WIDE)
    keys = [column.key for column in table.columns]
    assert {"step_speedup", "wall_s", "host_share", *(metric.key for metric in SUMMARY)} <= set(keys)
    assert "device_s" not in keys
    (record,) = table.records
    assert record.cells["joules_per_call"].reason == "no energy was measured"


def test_the_view_of_rows_names_their_bounds():
    (table,) = views.rows(Source("seal", "a run", "", ""), example.manifest(), [RESULT]).tables
    assert [record.cells["bound"] for record in table.records][:2] == ["memory", "memory"]
    assert Column("bound", "bound") in table.columns
    unknown = evolve(RESULT, rows=[evolve(WIDE, speed_of_light=None)])
    (table,) = views.rows(Source("seal", "a run", "", ""), example.manifest(), [unknown]).tables
    assert "bound" not in [column.key for column in table.columns]


def test_the_view_of_rows_says_the_sizes_and_the_run_for_other_programs():
    manifest = example.manifest()
    (table,) = views.rows(Source("seal", "runs/monday", "", ""), manifest, [RESULT]).tables
    names = ["sizes", "run", "commit", "machine", "created"]
    assert [column.key for column in table.columns][-len(names) :] == names
    cells = table.records[0].cells
    assert json.loads(cells["sizes"]) == RESULT.problem.params
    exported = text.table("monday", manifest, [RESULT])[0]
    assert [cells[name] for name in names[1:]] == [exported[name] for name in names[1:]]


def test_the_interval_of_a_rate_is_that_of_the_time_turned_over():
    rate, time = METRICS["bytes_per_s"].of(RESULT, WIDE), WIDE.time_s
    assert rate.low * time.high == pytest.approx(rate.value * time.value)
    assert rate.high * time.low == pytest.approx(rate.value * time.value)


def test_energy_is_as_uncertain_as_time_and_counter():
    energy = Energy(2.0, 1.5, 70.0, 0.1, 0.3, 100, 10.0, 90, 0.1, "energy counter")
    row = evolve(WIDE, energy=energy)
    for key, value, steps in (("joules_per_call", 2.0, 0.1), ("net_joules_per_call", 1.5, 0.3)):
        shown = METRICS[key].estimate(RESULT, row)
        assert shown.value == value
        of_steps = half_width(Estimate(1.0, 1 / (1 + steps / value), 1 + steps / value))
        assert half_width(shown) ** 2 == pytest.approx(half_width(WIDE.time_s) ** 2 + of_steps**2)


def test_energy_within_a_step_of_the_counter_is_no_figure():
    row = evolve(WIDE, energy=Energy(0.1, 0.05, 70.0, 0.1, 0.1, 100, 10.0, 90, 0.1, "energy counter"))
    for key in ("joules_per_call", "net_joules_per_call"):
        assert METRICS[key].of(RESULT, row).reason == "a call takes no more than a step of the energy counter"


def test_the_gain_is_by_the_goal():
    assert of_goal(RESULT).key == "speedup"
    assert of_goal(evolve(RESULT, goal="memory")).key == "memory_gain"
    assert Verdict.SMALLER not in DISBELIEVED
