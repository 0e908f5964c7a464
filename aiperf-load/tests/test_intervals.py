"""Percentiles with intervals: their coverage on queues whose truth is known, ties, and what cannot be told."""

import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from aiperf_load import intervals
from aiperf_load.intervals import Figure, percentiles, ranks

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "load_intervals.py"))


@pytest.mark.parametrize("queue", ["M/D/1", "M/M/1"])
@pytest.mark.parametrize("load", [0.3, 0.8])
def test_intervals_hold_the_truth_on_queues(queue, load):
    found = {one.percentile: one for one in SCRIPT["measure"](queue, load, 2000, 40)}
    assert set(found) == {"p50", "p90", "p95", "p99"}
    for one in found.values():
        # Of 40 intervals that each hold with 95 %, at least 35 do in 99 of 100 cases.
        assert one.held >= 35, one
    # The median is always known from both sides. With the load, the tail is not.
    assert found["p50"].closed == 40
    assert (found["p99"].closed >= 20) == (load == 0.3)


def test_without_the_dependence_they_would_not_hold(monkeypatch):
    monkeypatch.setattr(intervals, "correlation_time", lambda values: 1.0)
    monkeypatch.setattr(intervals, "_batch_time", lambda values: 1.0)
    found = SCRIPT["measure"]("M/M/1", 0.8, 2000, 20)
    assert all(one.held < 15 for one in found)


def test_a_tie_has_the_mean_of_its_ranks():
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0, 3.0])).tolist() == [3.0, 0.0, 3.0, 1.0, 3.0]
    assert ranks(np.array([2.0, math.inf, math.inf])).tolist() == [0.0, 1.5, 1.5]


def test_ties_are_no_dependence():
    rng = np.random.default_rng(3)
    values = np.where(rng.random(4000) < 0.7, 1.0, 2.0)
    # All requests are independent, so that the caution alone divides their number, nearly.
    assert 1600 < intervals.independent(values, 1.0) <= 4000 / intervals.CAUTION
    found = percentiles(values)
    assert found["p50"] == Figure(value=1.0, low=1.0, high=1.0)
    assert found["p90"] == Figure(value=2.0, low=2.0, high=2.0)


def test_values_that_are_all_equal():
    assert percentiles(np.full(3000, 0.5))["p95"] == Figure(value=0.5, low=0.5, high=0.5)


def test_the_share_of_independent_hits_is_wilsons():
    hits = np.random.default_rng(1).random(2000) < 0.9
    found = intervals.share(hits)
    assert found.high - found.low == pytest.approx(2 * 1.96 * math.sqrt(0.09 / 2000), rel=0.2)


def test_places_of_independent_values_are_those_of_the_binomial_distribution():
    # The 95 % interval of the median of 100 values: P(40 <= hits <= 60) is 0.965, P(41 <= hits <= 59) is 0.943.
    assert intervals._binomial_ends(100, 0.5) == (40, 60)
    assert intervals._binomial_ends(10, 0.01) == (0, 1)
    assert intervals._binomial_ends(1, 0.5) == (0, 1)
    low, high = intervals._binomial_ends(1_000_000, 0.01)
    assert (low, high) == (pytest.approx(9805, abs=2), pytest.approx(10195, abs=2))


def test_very_many_values_are_summed_with_their_neighbours():
    rng = np.random.default_rng(2)
    noise = rng.standard_normal(400_000)
    values = np.zeros(len(noise))
    for place in range(1, len(noise)):
        values[place] = 0.9 * values[place - 1] + noise[place]
    # Of an autoregression: (1 + 0.9) / (1 - 0.9).
    assert intervals.correlation_time(values) == pytest.approx(19, rel=0.1)


def test_few_requests_and_timeouts_have_reasons():
    values = np.concatenate((np.linspace(1, 2, 900), np.full(100, np.inf)))
    np.random.default_rng(1).shuffle(values)
    found = percentiles(values, censored=100)
    assert found["p95"] == Figure(reason="100 of 1,000 requests had no end within the timeout")
    assert found["p99.9"] == Figure(reason="needs 10,000 requests, 1,000 were counted")
    assert (found["p90"].value, found["p90"].high) == (2.0, None)
    assert found["p90"].reason == "the high end lies beyond the timeout"


def test_dependent_requests_leave_the_high_end_open():
    # One long wave: the requests tell as much of the tail as a few independent ones.
    values = 2 + np.sin(np.arange(2000) / 2000 * 4 * math.pi)
    found = percentiles(values)["p99"]
    assert (found.high, found.reason) == (None, "too few independent requests beyond it, about 0.0")
    assert found.low < found.value


def test_a_value_lies_in_its_interval_also_where_the_requests_tell_as_much_as_one():
    found = percentiles(np.arange(2000.0))
    for one in found.values():
        assert one.value is None or (one.low <= one.value and one.high is None), one
    assert found["p99"].value == 1979.0


def test_the_page_has_the_table_of_the_stored_counts():
    root = Path(__file__).parents[2]
    stored = json.loads((root / "benchmarks/figures/load-intervals.json").read_text())
    table = SCRIPT["page_table"]([SCRIPT["Coverage"](**one) for one in stored], 5000)
    assert table in (root / "docs/load.md").read_text()
