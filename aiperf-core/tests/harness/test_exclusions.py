"""Constructions of the harness that leave no room for an issue: each of these tests fails where one is broken.

`Issue.excluded` names them; others stand beside what they are about.
"""

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from aiperf_core import Cost
from aiperf_core.candidate_format import AIPERF
from aiperf_core.described import DescribedImplementation
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_core.harness.run import options
from aiperf_core.harness.run.options import Known, Options, StoppingRule
from aiperf_core.harness.run.participant import Pace, Participant
from aiperf_core.harness.run.sampler import Sampler
from aiperf_core.harness.run.setup import Trust
from aiperf_core.harness.run.taking import Method, SampleTaker
from aiperf_core.results.models import Judging, Row, TargetResult, Verdict
from aiperf_core.stats.judge import judge
from aiperf_core.stats.observations import Clocks
from aiperf_core.stats.standing import Rules
from aiperf_core.validity.check import Check, Seen
from aiperf_core.validity.evidence import Evidence

Measure = Callable[..., TargetResult]


# --- samples


class Judge:
    pid, paused = 0, False

    def ask(self, do: str, **_: Any) -> Any:
        return [] if do == "changed" else {}


class Worker:
    """Answers with the times that it is given."""

    pid, last_s, paused, guarded = 0, 0.0, False, True

    def __init__(self, times: Iterator[float]) -> None:
        self.times = times

    def ask(self, do: str, *, timeout: float, on_notice: Any = None, **_: Any) -> Any:
        if do != "sample":
            return None
        on_notice("start")
        on_notice("stop")
        counts = {"cpu_s": 0.0, "hidden": False, "voluntary_switches": 0, "involuntary_switches": 0, "output": None}
        return {"device_s": None, "wall_s": next(self.times), **counts}


def sides(*times: list[float]) -> list[Participant]:
    """A baseline and variants whose workers answer with these times."""
    found = []
    for number, one in enumerate(times):
        declared = DescribedImplementation(f"side {number}", "variant" if number else "baseline", "cpu", "x.py:1")
        child: Any = Worker(iter(one))
        found.append(Participant(declared, declared.name, child=child, pace=Pace(calls=1)))
    return found


def sampled(implementations: list[Participant], passes: int) -> None:
    judge: Any = Judge()
    method = Method(
        clock="wall",
        clocks=Clocks(),
        both_clocks=False,
        has_state=False,
        cold=False,
        off=frozenset({"judged_output"}),
        trust=Trust(),
        fingerprints=False,
        timeout_s=1.0,
    )
    rng = random.Random(0)
    taker = SampleTaker(judge, method, rng, 1)
    sampler = Sampler(taker, implementations, lambda _: None)
    for number in range(passes):
        sampler.run_pass(number, lambda _: None)


def scored(implementations: list[Participant], goal: str = "speed", floor: float = 0.01) -> list[Row]:
    rules = Rules(
        clock="wall",
        cache="warm",
        goal=goal,
        cost=attrs.asdict(Cost(flops=1)) | {"world_size": 1, "nodes": 1},
        floor=floor,
        ceilings=None,
        clocks=Clocks(),
        judging=Judging(),
        complete=True,
    )
    return judge([one.recorder.observations("exact") for one in implementations], rules)


def skewed(scale: float, spread: float, count: int = 40) -> list[float]:
    """Times with slow and fast outliers: minimum, mean and percentiles tell other stories than the median."""
    drawn = random.Random(spread)
    times = [scale * (1 + 0.01 * drawn.random()) for _ in range(count)]
    for index in range(0, count, 5):
        times[index] *= spread
    return times


def test_every_timed_sample_is_kept_and_scored() -> None:
    times = [skewed(2e-3, 900.0), skewed(1e-3, 0.01)]
    implementations = sides(*times)
    sampled(implementations, 40)
    rows = scored(implementations)
    for row, answered in zip(rows, times, strict=True):
        assert row.samples.wall_s == answered, "in the order in which they were answered"
        assert row.time_s is not None
        assert row.time_s.value == pytest.approx(np.median(answered))


def test_a_slow_call_stays_among_the_samples(measure: Measure) -> None:
    row = measure("recompiling", budget_s=1.0, stopping=StoppingRule(width=1e-9)).rows[1]
    times = [time for time in row.samples.wall_s if time is not None]
    assert row.verdict is not Verdict.FAILED, row.reason
    # One sample in five, whatever samples that are not counted take of them.
    assert sum(time >= 0.02 for time in times) >= max(1, len(times) // 8)


@pytest.mark.parametrize("goal", ["speed", "latency", "throughput"])
@pytest.mark.parametrize("floor", [0.0, 0.01, 0.2])
def test_the_speedup_is_a_ratio_of_medians_whatever_is_chosen(goal: str, floor: float) -> None:
    times = [skewed(2e-3, 0.001), skewed(1e-3, 300.0)]
    implementations = sides(*times)
    sampled(implementations, 40)
    speedup = scored(implementations, goal, floor)[1].speedup
    assert speedup is not None
    assert speedup.value == pytest.approx(np.median(times[0]) / np.median(times[1]))
    chosen = {one.name for record in (Options, StoppingRule) for one in attrs.fields(record)}
    assert not {"statistic", "percentile", "quantile", "estimator"} & chosen


# --- data, limits, checks


def test_the_ranks_of_both_sides_map_the_same_shards(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    post = RankGroup.post

    def noted(self: RankGroup, do: str, *, fds: tuple[int, ...] = (), **arguments: Any) -> None:
        if do == "open":
            given[self.name] = fds, arguments["problem"]
        post(self, do, fds=fds, **arguments)

    monkeypatch.setattr(RankGroup, "post", noted)
    assert measure("several_ranks", "gathered").rows[1].speedup is not None
    fds, problem = given["library"]
    assert len(fds) == 4, "inputs and outputs of two ranks"
    assert problem["inputs_buffers"]
    assert given["gathered"] == (fds, problem)


def test_code_of_a_target_cannot_move_limits(measure: Measure) -> None:
    before = dict(options.TIERS)
    result = measure("moving_limits", timeout_s=2.0, budget_s=0.5, stopping=StoppingRule(width=1e-9))
    assert "moving_limits" not in sys.modules, "the supervisor imports no code of a target"
    assert before == options.TIERS
    baseline, twice, endless = result.rows
    assert len(set(baseline.samples.block)) == len(set(twice.samples.block)) >= 4
    assert (result.stopped, result.overhead.sampling_s >= 0.5) == ("sampling budget spent", True)
    assert endless.verdict is Verdict.FAILED
    assert "2 s" in str(endless.reason)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Options().timeout_s = 1e9  # type: ignore[misc]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Options().stopping.width = 1e9  # type: ignore[misc]


CANDIDATE = """
class Implementation:
    def run(self, x):
        return x.sum(-1)
"""


def fragile(evidence: Evidence) -> list[Seen]:
    if evidence.role == "variant":
        raise KeyError("what it expected")
    return []


@pytest.mark.parametrize("trusted", [True, False])
def test_a_check_that_raises_is_a_finding_of_the_row(measure: Measure, tmp_path: Path, trusted: bool) -> None:
    file = tmp_path / "candidate.py"
    file.write_text(CANDIDATE)
    more: dict[str, Any] = {} if trusted else {"candidate": check_candidate(file, AIPERF)}
    # On a busy machine others would be first to refuse a candidate.
    more |= {"off": frozenset({"clocks_agree", "process_census"}), "known": Known(checks=(Check("fragile", fragile),))}
    result = measure("aiperf_core.practice.sum_rows", size="smoke", **more)
    row = result.rows[1]
    message = "the check 'fragile' failed and guards nothing here: KeyError: 'what it expected'"
    assert ("evaluation.fails_open", message) in [(one.issue, one.message) for one in row.findings]
    assert (row.verdict is Verdict.UNTRUSTED) is not trusted
    assert trusted or row.reason == message
    assert not [one for one in result.rows[0].findings if one.issue == "evaluation.fails_open"]
