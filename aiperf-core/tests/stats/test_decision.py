"""Sampling that goes on until it is decided: when it may stop, and how often it stops for a gain that is not there."""

import time
from collections import Counter

import numpy as np
import pytest

from aiperf_core.results.models import Verdict
from aiperf_core.stats.decision import Decision
from aiperf_core.stats.intervals import Blocks, ratio_interval, verdict

FASTER, SAME, INCONCLUSIVE = {"a": Verdict.FASTER}, {"a": Verdict.SAME}, {"a": Verdict.INCONCLUSIVE}


def looks(*said: dict[str, Verdict], not_before: float = 0.0) -> list[bool]:
    decision, passes, found = Decision(12, not_before), 12, []
    for one in said:
        assert decision.is_due(passes)
        assert not decision.is_due(passes - 2) or passes == 12
        found.append(decision.stands(one, passes))
        passes *= 2
    return found


def test_two_looks_in_a_row_must_agree() -> None:
    assert looks(FASTER, FASTER) == [False, True]
    assert looks(FASTER, SAME, FASTER, FASTER) == [False, False, False, True]
    assert looks(INCONCLUSIVE, INCONCLUSIVE) == [False, False]


def test_all_verdicts_must_be_decided() -> None:
    assert looks({**FASTER, "b": Verdict.INCONCLUSIVE}, {**FASTER, "b": Verdict.INCONCLUSIVE}) == [False, False]
    assert looks({}, {}) == [False, False]


def test_no_verdict_stands_before_the_budget_is_spent() -> None:
    assert looks(FASTER, FASTER, not_before=time.monotonic() + 60) == [False, False]


def ended(ratio: float, noise: float, seed: int, most: int = 400) -> tuple[Verdict, int]:
    """The verdict and the passes of a run with these times, which share the drift of the machine."""
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.normal(0, noise / 5, size=most))
    top = np.exp(steps + rng.normal(0, noise, size=most)) * ratio
    bottom = np.exp(steps + rng.normal(0, noise, size=most))
    decision, said = Decision(12, 0.0), Verdict.INCONCLUSIVE
    for passes in range(12, most + 1):
        if decision.is_due(passes) and passes % 2 == 0:
            sides = [Blocks.of(list(one[:passes]), list(range(passes))) for one in (top, bottom)]
            interval = ratio_interval(*sides)
            said = verdict(interval, 0.01) if interval else Verdict.INCONCLUSIVE
            if decision.stands({"a": said}, passes):
                return said, passes
    return said, most


@pytest.mark.parametrize("noise", [pytest.param(0.02, marks=pytest.mark.long), 0.1])
def test_code_is_rarely_faster_than_itself_however_long_it_is_looked_at(noise: float) -> None:
    found = Counter(ended(1.0, noise, seed)[0] for seed in range(150))
    assert found[Verdict.FASTER] + found[Verdict.SLOWER] <= 4, found


def test_a_gain_is_found_that_a_few_passes_do_not_show() -> None:
    found = [ended(1.06, 0.05, seed) for seed in range(60)]
    assert sum(said is Verdict.FASTER for said, _ in found) >= 55
    assert np.median([passes for _, passes in found]) > 24
