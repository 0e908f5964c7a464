"""Goals: their words, and the figures that they accept. The messages for mistakes are in `test_benchmark.py`."""

import json
from typing import Any

import cattrs
import pytest
from attrs import asdict

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.described import Described
from aiperf_core.errors import BenchmarkError
from aiperf_core.goal import Goal, make_goal
from aiperf_core.harness.roles.describer import describe

WORDS = {
    "at least 92 % of the rate of a copy": {"of": "BW", "at_least": 0.92},
    "at least 97.5 % of the rate of bf16 matrix products": {"of": "MM:bf16", "at_least": 0.975},
    "at least 60 % of the rate of fp32 multiply-adds": {"of": "FMA:fp32", "at_least": 0.6},
    "at most 2x the time of an empty kernel that the host waits for": {"of": "LAT", "at_most": 2},
    "at most 1.15x the time of an empty kernel within a graph, for each of 1,201 launches": {
        "of": "GRAPH",
        "at_most": 1.15,
        "launches": 1201,
    },
    "at most 1.1x the time of library": {"of": "time:library", "at_most": 1.1},
    "at most 1.1x the longest time of one and other": {"of": "time:one,other", "at_most": 1.1},
    "at most 0.5x the peak memory of plain": {"of": "memory:plain", "at_most": 0.5},
    "at least 1.8x the speed of the baseline": {"of": "speedup", "at_least": 1.8},
    "at least 80 % of the rate of a copy between GPUs at size large, world_size=4": {
        "of": "P2P",
        "at_least": 0.8,
        "size": "large",
        "params": {"world_size": 4},
    },
}


def goal(**given: Any) -> Goal:
    return make_goal(**{"at_least": None, "at_most": None, **given})


@pytest.mark.parametrize("words", WORDS)
def test_a_goal_in_words(words: str) -> None:
    assert str(goal(**WORDS[words])) == words


@pytest.mark.parametrize(
    "of", ["MM", "MM:fp12", "time:", "time:a,,b", "time:a b", "memory:a,b", "memory", "speedup:a", "bw", ""]
)
def test_other_figures_are_refused(of: str) -> None:
    with pytest.raises(BenchmarkError, match="has a goal of"):
        goal(of=of, at_least=1)


@pytest.mark.parametrize("bar", [0, -1, float("inf"), float("nan"), True])
def test_other_bars_are_refused(bar: float) -> None:
    with pytest.raises(BenchmarkError, match="give one of them, a number above 0"):
        goal(of="BW", at_least=bar)


@pytest.mark.parametrize(("of", "launches"), [("BW", 2), ("LAT", 0), ("GRAPH", 1.5), ("time:a", 2)])
def test_launches_are_of_kernels(of: str, launches: float) -> None:
    with pytest.raises(BenchmarkError, match=r"with launches=.*; accepted is a whole number from 1, of LAT, GRAPH"):
        goal(of=of, at_most=1, launches=launches)


def test_goals_pass_between_processes_unchanged() -> None:
    """Worker and judge describe the benchmark too; a guard compares that with the description of the run."""
    bench = Benchmark(goal="speed")
    bench.workload(smoke={"n": 3, "k": 1}, cuda={"n": 4, "k": 2})(lambda n, k, device: {})
    bench.reference(tolerance=exact)(lambda: None)
    bench.cost(lambda n: Cost(bytes_read=n))
    bench.reach(of="BW", at_least=1, params={"n": 2})
    told = json.loads(json.dumps(asdict(describe(bench, __name__))))
    described = cattrs.structure(told, Described)
    assert asdict(described) == told
    assert described.sizes_of(described.goals[0]) == {"n": 2, "k": 2}
