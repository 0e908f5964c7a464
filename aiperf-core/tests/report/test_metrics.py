"""The list of metrics: names, belief, and the figures that rows have."""

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
from aiperf_core.results.models import DISBELIEVED, Observations, Row, Verdict

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
    (row,) = text.table([evolve(RESULT, rows=[WIDE])])
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


def test_the_view_of_rows_names_their_bounds():
    (table,) = views.rows(Source("seal", "a run", "", ""), example.manifest(), [RESULT]).tables
    assert [record.cells["bound"] for record in table.records][:2] == ["memory", "memory"]
    assert table.columns[-1] == Column("bound", "bound")
    unknown = evolve(RESULT, rows=[evolve(WIDE, speed_of_light=None)])
    (table,) = views.rows(Source("seal", "a run", "", ""), example.manifest(), [unknown]).tables
    assert table.columns[-1].key != "bound"


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
