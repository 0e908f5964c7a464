"""The witness: a loop whose time tells how quiet its processor is."""

from collections.abc import Iterable

import pytest

from aiperf_core.devices import witness
from aiperf_core.devices.witness import LONGEST_S, SHARE, TRIES, Quiet, await_quiet, turn_s


def turns_that_take(seconds: Iterable[float], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the loop take these times; return the turns that it is asked for."""
    asked: list[int] = []
    left = iter(seconds)

    def turn(turns: int) -> float:
        asked.append(turns)
        return next(left)

    monkeypatch.setattr(witness, "turn_s", turn)
    return asked


def test_a_turn_takes_time_that_grows_with_no_number_of_turns() -> None:
    one, many = min(turn_s(1) for _ in range(100)), min(turn_s(10) for _ in range(20))
    assert 1e-6 < one < 1e-3
    assert many < 3 * one


@pytest.mark.parametrize(
    ("seconds", "last", "tries"),
    [
        ([1.0], 1.0, 1),
        ([1.1, 9.0], 1.1, 1),
        ([1.5, 1.3, 1.05], 1.05, 3),
        ([1.5, 1.4, 1.3, 1.2, 1.0], 1.2, TRIES),
    ],
)
def test_the_loop_waits_for_a_quiet_processor_a_few_times_at_most(
    seconds: list[float], last: float, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = turns_that_take(seconds, monkeypatch)
    assert await_quiet(7, 1.1) == last
    assert asked == [7] * tries


def test_without_a_quiet_time_the_loop_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = turns_that_take([1.5], monkeypatch)
    assert await_quiet(3, None) == 1.5
    assert asked == [3]


def test_the_quiet_time_is_what_a_tenth_of_the_turns_keep_to() -> None:
    quiet = Quiet()
    for number in range(9):
        quiet.note(3e-5 + number * 1e-7)
    assert quiet.turn_s is None, "too few"
    quiet.note(1e-5)
    assert quiet.turn_s == 3e-5, "not the single one that was quicker"
    for _ in range(5):
        quiet.note(2e-5)
    assert quiet.turn_s == 2e-5


@pytest.mark.parametrize(("kept_s", "turn_s"), [(None, 3e-5), (2e-5, 2e-5), (4e-5, 3e-5)])
def test_a_quieter_run_of_before_counts(kept_s: float | None, turn_s: float) -> None:
    quiet = Quiet(kept_s)
    assert quiet.turn_s == kept_s
    for _ in range(20):
        quiet.note(3e-5)
    assert quiet.turn_s == turn_s


@pytest.mark.parametrize(
    ("sample_s", "turns"),
    [(0.0, 0), (0.9e-3, 0), (1e-3, 1), (10e-3, 10), (0.05, 50), (5.0, 50)],
)
def test_the_loop_takes_a_small_share_of_a_sample(sample_s: float, turns: int) -> None:
    assert Quiet(2e-5 * (1 - 1e-9)).turns(sample_s) == turns
    assert turns * 2e-5 <= min(SHARE * sample_s, LONGEST_S) * (1 + 1e-6)
