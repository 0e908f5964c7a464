"""Steps, drift and the standing of the newest run, on series whose truth is known."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from aiperf_analysis.history.changes import course, largest_step
from aiperf_analysis.history.newest import newest
from aiperf_analysis.history.noise import alikeness, between, logs, long_run, variances
from aiperf_core import units
from aiperf_core.measurements import Estimate


def series(*parts, sd=0.005, seed=0):
    rng = np.random.default_rng(seed)
    values = np.concatenate([level + sd * rng.standard_normal(runs) for runs, level in parts])
    return values, np.full(len(values), 1e-6)


# --- noise


def test_intervals_of_bundles_become_standard_errors():
    # A repeated run of the same error lies within 1.96 * sqrt(2) of them.
    half = 1.959964 * math.sqrt(2) * 0.01
    values, within = logs([Estimate(1e-3, 1e-3 * math.exp(-half), 1e-3 * math.exp(half))])
    assert values == pytest.approx([math.log(1e-3)])
    assert within == pytest.approx([1e-4])


def test_the_variance_between_runs_ignores_a_step():
    values, within = series((200, 0.0), (200, 1.0))
    assert math.sqrt(between(values, within)) == pytest.approx(0.005, rel=0.15)


def test_the_variance_within_runs_is_taken_off():
    rng = np.random.default_rng(0)
    values = 0.01 * rng.standard_normal(2000)
    assert between(values, np.full(2000, 1e-4)) < 2e-5
    assert variances(values, np.full(2000, 1e-4)) == pytest.approx(np.full(2000, 1e-4), rel=0.2)


def test_neighbours_are_alike_only_beyond_chance():
    rng = np.random.default_rng(1)
    assert alikeness(rng.standard_normal(200)) == 0.0
    values = np.zeros(400)
    for place in range(1, 400):
        values[place] = 0.5 * values[place - 1] + rng.standard_normal()
    assert alikeness(values) == pytest.approx(0.5, abs=0.12)
    assert long_run(0.5) == 3.0


# --- steps


def test_a_step_has_a_place_a_size_and_an_interval():
    values, within = series((10, 0.0), (10, math.log(1.02)))
    found = course(values, within, 0.005)
    (step,) = found.steps
    assert abs(step.at - 10) <= 1
    assert step.first <= step.at <= step.last
    assert step.ratio.low < 1.02 < step.ratio.high
    assert step.p <= 0.01
    assert [one.runs for one in found.segments] == [step.at, 20 - step.at]
    assert found.sd == pytest.approx(0.005, rel=0.5)


def test_several_steps_are_found():
    values, within = series((20, 0.0), (20, 0.05), (20, 0.02))
    assert [one.at for one in course(values, within, 0.01).steps] == [20, 40]
    values, within = series(*[(25, level) for level in (0.0, 0.03, 0.0, 0.02, 0.05, 0.0)])
    assert [one.at for one in course(values, within, 0.01).steps] == [25, 50, 75, 100, 125]


def test_a_step_below_the_floor_is_dropped():
    values, within = series((30, 0.0), (30, 0.01))
    assert len(course(values, within, 0.005).steps) == 1
    assert course(values, within, 0.03).steps == []


def test_noise_has_no_step():
    found = [course(*series((60, 0.0), seed=seed), 0.0).steps for seed in range(40)]
    assert sum(map(bool, found)) <= 2


def test_alike_neighbours_are_no_step():
    def alike(seed):
        rng = np.random.default_rng(seed)
        values = np.zeros(100)
        for place in range(1, 100):
            values[place] = 0.5 * values[place - 1] + 0.005 * rng.standard_normal()
        return bool(course(values, np.full(100, 1e-6), 0.0).steps)

    # As if neighbours were independent, it would be about 15 of 40.
    assert sum(alike(seed) for seed in range(40)) <= 3


def test_an_outlier_is_no_step():
    values, within = series((30, 0.0))
    values[15] += 0.2
    assert course(values, within, 0.0).steps == []


def test_counted_figures_without_noise_have_steps():
    values = np.array([20.0] * 12 + [20.1] * 8)
    (step,) = course(values, np.zeros(20), 0.01).steps
    assert (step.at, round(math.log(step.ratio.value), 6)) == (12, 0.1)
    assert course(np.full(20, 3.0), np.zeros(20), 0.0).steps == []


def test_a_run_with_a_wide_interval_weighs_little():
    values, within = series((12, 0.0), seed=5)
    values[9:] += 0.04
    within[9:] = 0.04**2
    assert course(values, within, 0.0).steps == []


def test_the_decision_is_the_same_with_all_permutations():
    # The permutations end early; with alpha 1 they never do.
    for seed in range(20):
        values, within = series((15, 0.0), (15, 0.006), seed=seed)
        spread = variances(values, within)
        early = largest_step(values, spread, np.random.default_rng(1))[1]
        all_ = largest_step(values, spread, np.random.default_rng(1), alpha=1.0)[1]
        assert (early <= 0.01) == (all_ <= 0.01)


def test_more_permutations_resolve_smaller_probabilities():
    values, within = series((20, 0.0), (20, 0.05))
    spread = variances(values, within)
    assert largest_step(values, spread, np.random.default_rng(0))[1] == pytest.approx(1 / 1000)
    assert largest_step(values, spread, np.random.default_rng(0), permutations=9999)[1] == pytest.approx(1 / 10000)


def test_short_series_have_one_segment():
    for runs in range(1, 6):
        values, within = series((runs, 0.0))
        found = course(values, within, 0.0)
        assert [one.runs for one in found.segments] == [runs]
        assert found.p == 1.0


# --- drift


def test_a_drift_is_no_staircase():
    values, within = series((60, 0.0))
    values += 0.002 * np.arange(60)
    found = course(values, within, 0.01)
    assert found.steps == []
    assert found.drift is not None
    assert found.drift.per_run.low < math.exp(0.002) < found.drift.per_run.high


def test_noise_has_no_drift():
    found = [course(*series((40, 0.0), seed=seed), 0.0).drift for seed in range(40)]
    assert sum(one is not None for one in found) <= 2


def test_a_step_is_no_drift():
    found = course(*series((20, 0.0), (20, 0.03)), 0.01)
    assert (len(found.steps), found.drift) == (1, None)


# --- the newest run


def words(*parts, better="down", **more):
    values, within = series(*parts, seed=2)
    return newest(values, within, 0.01, better, **more).word


def test_the_newest_run():
    assert words((15, 0.0)) == "FINE"
    assert words((15, 0.0), (1, 0.04)) == "SUSPECT"
    assert words((15, 0.0), (2, 0.04)) == "REGRESSION"
    assert words((15, 0.0), (2, -0.04)) == "IMPROVED"
    assert words((15, 0.0), (2, 0.04), better="up") == "IMPROVED"
    assert words((4, 0.0)) == "NEW"


def test_a_slow_level_stays_a_regression_until_it_has_enough_runs():
    found = [words((15, 0.0), (runs, 0.04)) for runs in range(1, 8)]
    assert found[:5] == ["SUSPECT", *["REGRESSION"] * 4]
    assert found[-1] == "FINE"


def test_a_lone_outlier_before_is_no_confirmation():
    assert words((15, 0.0), (1, 0.04), (1, 0.0)) == "FINE"
    # Opposite sides do not agree.
    assert words((15, 0.0), (1, 0.04), (1, -0.08)) == "SUSPECT"


def test_more_runs_may_be_demanded():
    assert words((15, 0.0), (2, 0.04), confirm=2) == "SUSPECT"
    assert words((15, 0.0), (3, 0.04), confirm=2) == "REGRESSION"


def test_below_the_floor_nothing_is_suspect():
    values, within = series((15, 0.0), sd=0.0005)
    values[-1] = 0.008
    assert newest(values, within, 0.01, "down").word == "FINE"
    assert newest(values, within, 0.005, "down").word == "SUSPECT"


def test_a_series_from_the_smallest_to_the_largest_figure():
    values = np.log([1e-30, 1e-30, 1e30, 1e30, 1e-30, 1e30])
    found = newest(values, np.full(len(values), 1e4), 0.01, "down")
    assert math.isfinite(found.expected.high)
    assert math.isfinite(found.change)


def test_many_series_widen_the_interval():
    values, within = series((15, 0.0))
    alone, many = (newest(values, within, 0.0, "down", family=count).expected for count in (1, 100))
    assert alone is not None
    assert many is not None
    assert many.high > alone.high


# --- the script with the published rates


def script(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_script_prints_all_rates(capsys, monkeypatch):
    rates = script("analysis_history")
    monkeypatch.setattr(rates, "LENGTHS", (30,))
    monkeypatch.setattr(rates, "GATE_TO", 12)
    rates.main(["--repeats", "2", "--jobs", "1"])
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 1 + 4 * 2 + 6 + 4 * 2 + 4
    assert "step of 2% located within 1 run" in printed


def test_the_script_tells_met_from_not_met():
    rates = script("analysis_history")
    assert rates.Rate("a", 10, 1000, most=0.02).word == "met"
    assert rates.Rate("a", 24, 1000, most=0.02).word == "unclear"
    assert rates.Rate("a", 50, 1000, most=0.02).word == "NOT MET"
    assert rates.Rate("a", 840, 1000, least=0.85).word == "unclear"
    assert rates.Rate("a", 500, 1000, least=0.85).word == "NOT MET"


def test_runs_too_far_apart_to_see_a_change_are_called_too_noisy():
    """Seven runs of 3 to 14 ms beside a lucky one of 1 ms: the newest may be 34 times the level."""
    values = np.log([1.1e-3, 5e-3, 12e-3, 3e-3, 14e-3, 6e-3, 9e-3, 12e-3])
    within = np.array([1e-6, *[0.25] * 7])
    found = newest(values, within, 0.01, "down")
    assert found.word == "TOO NOISY"
    beyond = found.expected.high / found.expected.value
    assert beyond > 2
    assert found.reason == f"the runs differ: only a change beyond {units.number(beyond)}x would be seen"


def test_one_run_with_a_narrow_interval_does_not_place_the_level_alone():
    values = np.log([1.1e-3, 5e-3, 12e-3, 3e-3, 14e-3, 6e-3, 9e-3, 12e-3])
    within = np.array([1e-6, *[0.25] * 7])
    (level,) = course(values, within, 0.01).segments
    assert 3e-3 < math.exp(level.level) < 14e-3
