"""Sizing against real servers. A short version of `benchmarks/sizing_replicas.py`, which measures each demand."""

import itertools
import runpy
from pathlib import Path

import pytest

pytestmark = [pytest.mark.quiet, pytest.mark.long]

BENCHMARK = Path(__file__).parents[2] / "benchmarks/sizing_replicas.py"
SECONDS = 8.0


def test_the_predicted_replicas_carry_the_demand_and_one_less_does_not(tmp_path, despite_stalls):
    pytest.importorskip("aiperf_load")
    script = runpy.run_path(str(BENCHMARK))
    folders = (tmp_path / str(number) for number in itertools.count())

    def curve():
        found = script["curve"](SECONDS, next(folders))
        predicted = {demand: script["sizing"].size(found, demand).needed for demand in script["DEMANDS"]}
        assert predicted == script["DEMANDS"]
        return found

    def check(measured, demand, replicas):
        found = script["measure"](measured, demand, replicas, SECONDS, next(folders))
        assert found.problem == "", found

    measured = despite_stalls(curve)
    for replicas in (2, 1):
        despite_stalls(check, measured, 60, replicas)
