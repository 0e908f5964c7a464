"""Statistics and verdicts on samples of real runs, which no distribution in a textbook looks like.

The files in `recorded/` are written by `benchmarks/trust.py --keep-samples`; each says how and on what it was recorded.
"""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import asdict
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core import Cost
from aiperf_core.described import DescribedImplementation
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.run.recorder import Recorder
from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Judging, Row, Verdict
from aiperf_core.stats.intervals import Blocks, half_width, median_interval, ratio_interval, verdict
from aiperf_core.stats.judge import judge
from aiperf_core.stats.observations import Clocks
from aiperf_core.stats.standing import Rules

FILES = sorted((Path(__file__).parent / "recorded").glob("*.json"))
RECORDINGS: list[dict[str, Any]] = [json.loads(path.read_text()) for path in FILES]
BYTES_AT_MOST = 200_000
# Samples are recorded in whole nanoseconds.
ROUNDED_S = 1e-9

each = pytest.mark.parametrize("recording", RECORDINGS, ids=[path.stem for path in FILES])


def blocks(recording: dict[str, Any], name: str) -> Blocks:
    taken = recording["samples"][name]
    return Blocks.of(taken["seconds"], taken["passes"], taken["rounds"])


def of_median(one: Blocks) -> Estimate:
    estimate = median_interval(one)
    assert estimate is not None
    return estimate


def of_ratio(recording: dict[str, Any], name: str) -> Estimate:
    estimate = ratio_interval(blocks(recording, "plain"), blocks(recording, name))
    assert estimate is not None
    return estimate


def others(recording: dict[str, Any]) -> list[str]:
    """All but the baseline."""
    return [name for name in recording["samples"] if name != "plain"]


def scored(recording: dict[str, Any]) -> dict[str, Row]:
    """The rows that these samples give today."""
    names, implementations = list(recording["samples"]), []
    for place, name in enumerate(names):
        role = recording["line"]["rows"][name]["role"]
        declared = DescribedImplementation(name, role, recording["line"]["device"], "slowdown.py:1")
        one = Recorder.of(declared)
        taken = recording["samples"][name]
        for step, (time, number, which) in enumerate(
            zip(taken["seconds"], taken["passes"], taken["rounds"], strict=True)
        ):
            sample = Sample(**{f"{recording['clock']}_s": time}, bracket_s=time, begun_s=0.0)
            one.record((which, number * len(names) + place, step), sample, calls=1, judged=False)
        implementations.append(one.facts)
    floor = recording["line"]["floor"]
    cost = asdict(Cost(flops=1.0)) | {"world_size": 1, "nodes": 1}
    rules = Rules(
        clock=recording["clock"],
        cache="cold",
        goal="speed",
        cost=cost,
        floor=floor,
        ceilings=None,
        clocks=Clocks(),
        judging=Judging(),
        complete=True,
    )
    return {row.name: row for row in judge(implementations, rules)}


def test_there_are_recordings_and_they_are_small() -> None:
    assert len(FILES) >= 3
    assert sum(path.stat().st_size for path in FILES) < BYTES_AT_MOST


@each
def test_a_recording_is_whole(recording: dict[str, Any]) -> None:
    assert {"how", "clock", "line", "samples"} == recording.keys()
    for name, taken in recording["samples"].items():
        assert len(taken["seconds"]) == len(taken["passes"]) == len(taken["rounds"])
        assert min(taken["seconds"]) > 0
        # Every implementation had its turn in every pass.
        assert sorted(set(taken["passes"])) == list(range(max(taken["passes"]) + 1)), name
        assert set(taken["rounds"]) == set(recording["samples"]["plain"]["rounds"])


@each
def test_an_interval_contains_its_value(recording: dict[str, Any]) -> None:
    estimates = [of_median(blocks(recording, name)) for name in recording["samples"]]
    estimates += [of_ratio(recording, name) for name in others(recording)]
    for estimate in estimates:
        assert 0 < estimate.low < estimate.value < estimate.high


@each
def test_no_sample_is_dropped(recording: dict[str, Any]) -> None:
    """However far out: the value is the median of all, and what the run itself said."""
    for name, taken in recording["samples"].items():
        value = of_median(blocks(recording, name)).value
        assert value == np.median(taken["seconds"])
        assert value == pytest.approx(recording["line"]["rows"][name]["time_s"]["value"], abs=ROUNDED_S)


def slowed(one: Blocks, share: float) -> Blocks:
    """The same, but that the slowest samples took a quarter of an hour each."""
    slowest = np.argsort(one.times)[round(len(one.times) * (1 - share)) :]
    times = one.times.copy()
    times[slowest] = 1e3
    return Blocks(times, one.passes, one.rounds)


@each
def test_the_slowest_samples_count_by_their_number(recording: dict[str, Any]) -> None:
    plain = blocks(recording, "plain")
    assert of_median(slowed(plain, 1 / 3)).value == of_median(plain).value
    assert of_median(slowed(plain, 2 / 3)).value == 1e3


@each
def test_the_same_code_is_neither_faster_nor_slower(recording: dict[str, Any]) -> None:
    rows = scored(recording)
    for name in ("same_a", "same_b"):
        assert rows[name].speedup == of_ratio(recording, name)
        assert rows[name].verdict in (Verdict.SAME, Verdict.INCONCLUSIVE)


@each
def test_the_slowdown_is_found(recording: dict[str, Any]) -> None:
    assert scored(recording)["slower"].verdict is Verdict.SLOWER


def reordered(one: Blocks, order: tuple[int, ...]) -> Blocks:
    """The same samples, as if the rounds had come in another order."""
    times, passes, rounds, first = [], [], [], 0
    for place, which in enumerate(order):
        part = one.only(one.rounds == which)
        times += list(part.times)
        passes += list(part.passes - part.passes.min() + first)
        rounds += [place] * len(part.times)
        first = passes[-1] + 1
    return Blocks.of(times, passes, rounds)


@each
def test_the_order_of_the_rounds_changes_no_value(recording: dict[str, Any]) -> None:
    plain, slower = blocks(recording, "plain"), blocks(recording, "slower")
    before, ratio = of_median(plain), of_ratio(recording, "slower")
    for order in permutations(range(recording["samples"]["plain"]["rounds"][-1] + 1)):
        after = of_median(reordered(plain, order))
        turned = ratio_interval(reordered(plain, order), reordered(slower, order))
        assert turned is not None
        assert (after.value, turned.value) == (before.value, ratio.value)
        # Other passes are drawn, of the same ones.
        assert half_width(turned) == pytest.approx(half_width(ratio), rel=0.25)


SPEEDUPS = [of_ratio(recording, name) for recording in RECORDINGS for name in others(recording)]


@settings(deadline=None)
@given(st.sampled_from(SPEEDUPS), st.floats(0.0, 0.2), st.floats(0.0, 0.2))
def test_a_higher_floor_claims_less(speedup: Estimate, one: float, other: float) -> None:
    low, high = (verdict(speedup, floor) for floor in sorted((one, other)))
    # A claim may be given up for none or for sameness, never for the opposite; sameness stays.
    assert (
        high
        in {
            Verdict.FASTER: (Verdict.FASTER, Verdict.INCONCLUSIVE, Verdict.SAME),
            Verdict.SLOWER: (Verdict.SLOWER, Verdict.INCONCLUSIVE, Verdict.SAME),
            Verdict.INCONCLUSIVE: (Verdict.INCONCLUSIVE, Verdict.SAME),
            Verdict.SAME: (Verdict.SAME,),
        }[low]
    )
