"""The rank test: exact for few values, in step with the normal distribution for many."""

import itertools
import random
from math import comb

import pytest

from aiperf_core.stats import mann_whitney
from aiperf_core.stats.mann_whitney import chance_of_excess, chance_of_signs


def counted(values: list[float], others: list[float]) -> float:
    """The chance, by counting all ways to divide the values among the two sides."""

    def exceeded(side: tuple[int, ...]) -> int:
        whole = [*values, *others]
        return sum(whole[one] > whole[two] for one in side for two in range(len(whole)) if two not in side)

    seen = exceeded(tuple(range(len(values))))
    ways = itertools.combinations(range(len(values) + len(others)), len(values))
    return sum(exceeded(side) >= seen for side in ways) / comb(len(values) + len(others), len(values))


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (4, 4), (5, 3)])
def test_few_values_have_the_exact_chance(sizes: tuple[int, int]) -> None:
    rng = random.Random(sum(sizes))
    for _ in range(10):
        values, others = ([rng.random() for _ in range(size)] for size in sizes)
        assert chance_of_excess(values, others) == pytest.approx(counted(values, others))


def test_values_that_all_exceed_the_others_are_one_order_of_all() -> None:
    assert chance_of_excess([2.0] * 10, [1.0] * 10) == pytest.approx(1 / comb(20, 10))
    assert chance_of_excess([2.0] * 10, [1.0] * 10, 0.5) == pytest.approx(1 / comb(20, 10))


def test_a_shift_and_ties_count_against_an_excess() -> None:
    assert chance_of_excess([2.0] * 10, [1.0] * 10, 1.0) == 1.0
    assert chance_of_excess([1.0] * 10, [1.0] * 10) == 1.0


def test_no_values_prove_nothing() -> None:
    assert chance_of_excess([], [1.0]) == chance_of_excess([1.0], []) == 1.0


@pytest.mark.parametrize("shift", [-0.3, 0.0, 0.3])
def test_many_values_have_nearly_the_exact_chance(monkeypatch: pytest.MonkeyPatch, shift: float) -> None:
    rng = random.Random(33)
    values, others = ([rng.random() for _ in range(30)] for _ in range(2))
    exact = chance_of_excess(values, others, shift)
    monkeypatch.setattr(mann_whitney, "_MOST_PAIRS", 0)
    near = chance_of_excess(values, others, shift)
    assert near == pytest.approx(exact, abs=2e-3)
    assert near >= exact or exact > 0.01, "a small chance is not underestimated"


def test_signs_have_the_chance_of_coins() -> None:
    assert [chance_of_signs(positive, 3) for positive in range(4)] == [1.0, 7 / 8, 4 / 8, 1 / 8]
    assert chance_of_signs(0, 0) == 1.0


@pytest.mark.parametrize("positive", [500, 560, 600])
def test_many_signs_have_nearly_the_exact_chance(monkeypatch: pytest.MonkeyPatch, positive: int) -> None:
    exact = chance_of_signs(positive, 1000)
    monkeypatch.setattr(mann_whitney, "_MOST_PAIRS", 0)
    assert chance_of_signs(positive, 1000) == pytest.approx(exact, rel=0.2)
