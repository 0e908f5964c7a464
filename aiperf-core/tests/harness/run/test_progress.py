"""How long a target's run takes: the estimate, and what is stored of earlier runs."""

import json
from pathlib import Path

import pytest

from aiperf_core.harness.run import progress
from aiperf_core.harness.run.progress import FINAL, Store, TimeLeft, key_of

BEFORE = {"setup": 2.0, "warm-up": 1.0, "verification": 0.5, FINAL: 4.0, "pass": 0.1}


class Clock:
    """A clock that stands still until it is set forward."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_all_phases_of_all_rounds_count() -> None:
    assert TimeLeft(1, 3.0, 6, BEFORE).whole_s == 2 + 1 + 3 + 0.5 + 4
    assert TimeLeft(3, 3.0, 6, BEFORE).whole_s == 3 * (2 + 1 + 3 + 0.5) + 4


def test_without_an_earlier_run_only_the_budget_counts() -> None:
    assert TimeLeft(3, 3.0, 6).whole_s == 9.0


def test_the_least_passes_take_longer_than_a_short_budget() -> None:
    assert TimeLeft(1, 0.3, 60, BEFORE).whole_s == pytest.approx(2 + 1 + 6 + 0.5 + 4)


def test_intervals_that_were_narrow_early_are_expected_again() -> None:
    assert TimeLeft(1, 3.0, 6, {**BEFORE, "sampling": 1.0}).whole_s == 2 + 1 + 1 + 0.5 + 4


def test_time_left_of_sampling_counts_the_passes_that_are_owed(clock: Clock) -> None:
    left = TimeLeft(1, 0.3, 6, clock=clock)
    left.enter("warm-up")
    left.warm_pass_s = 2.0
    left.begin_sampling()
    assert left.seconds_left == 12.0
    clock.now += 3.0
    left.note_pass(3.0)
    assert left.seconds_left == 15.0  # five passes like the first
    for _ in range(5):
        clock.now += 3.0
        left.note_pass(3.0)
    assert left.seconds_left == 0.0


def test_what_comes_after_sampling_is_left_too(clock: Clock) -> None:
    left = TimeLeft(1, 3.0, 0, BEFORE, clock=clock)
    left.enter("warm-up")
    left.begin_sampling()
    clock.now += 10.0
    assert left.seconds_left == 4.5
    left.enter("verification")
    clock.now += 0.25
    assert left.seconds_left == 4.25
    left.enter(FINAL)
    clock.now += 1.0
    assert left.seconds_left == 3.0


def test_rounds_that_ended_say_what_the_next_take(clock: Clock) -> None:
    left = TimeLeft(3, 3.0, 0, BEFORE, clock=clock)
    for phase, seconds in (("warm-up", 5.0), ("sampling", 6.0), ("verification", 7.0), ("setup", 8.0)):
        clock.now += seconds
        left.begin_round(1) if phase == "setup" else left.enter(phase)
    # Each phase took what came before the next one began.
    assert left.seconds_left == 2 * (5 + 6 + 7 + 8) + 4


def test_a_run_that_ended_says_what_it_took(clock: Clock) -> None:
    left = TimeLeft(1, 3.0, 0, clock=clock)
    for phase, seconds in (("warm-up", 5.0), ("sampling", 6.0), ("verification", 7.0), (FINAL, 8.0)):
        clock.now += seconds
        left.enter(phase)
    left.note_pass(2.0)
    clock.now += 9.0
    assert left.durations == {"setup": 5.0, "warm-up": 6.0, "verification": 8.0, FINAL: 9.0, "pass": 2.0}
    left.stopped_early = True
    assert left.durations["sampling"] == 7.0


def test_durations_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    key = key_of("ch07.memory_access", "cpu", {"n": 4})
    assert Store().of(key) == {}
    first, second = Store(), Store()
    first.keep(key, BEFORE)
    second.keep("other", {"setup": 1.0})
    assert (Store().of(key), Store().of("other")) == (BEFORE, {"setup": 1.0})
    assert key_of("ch07.memory_access", "cpu", {"n": 5}) != key


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"key": 3}', '{"key": {"setup": "1", "pass": -1, "x": 1, "final": true}}']
)
def test_a_store_that_cannot_be_read_is_empty(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    (tmp_path / "durations.json").write_text(text)
    assert Store().of("key") == {}


def test_a_store_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "file" / "cache"))
    (tmp_path / "file").write_text("")
    store = Store()
    store.keep("key", BEFORE)
    assert store.of("key") == BEFORE


def test_the_store_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(progress, "_MOST_STORED", 2)
    for key in "abc":
        Store().keep(key, BEFORE)
    assert list(json.loads((tmp_path / "durations.json").read_text())) == ["b", "c"]
