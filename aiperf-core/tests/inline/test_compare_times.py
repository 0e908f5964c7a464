"""Comparisons of real functions by real times."""

import pytest
import torch

from aiperf_core import compare
from aiperf_core.results.models import Verdict

pytestmark = pytest.mark.quiet


def draw() -> torch.Tensor:
    return torch.randn(64, 64)


def product(x: torch.Tensor) -> torch.Tensor:
    return x @ x


def product_and_more(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        result = x @ x
    return result


def test_a_function_is_neither_faster_nor_slower_than_itself() -> None:
    verdicts = [compare(product, lambda x: product(x), draw, budget_s=0.2, floor=0.05).verdict for _ in range(10)]
    assert set(verdicts) <= {Verdict.SAME, Verdict.INCONCLUSIVE}


def test_twice_the_work_is_found() -> None:
    found = compare(product_and_more, product, draw, budget_s=1.0)
    assert found.verdict is Verdict.FASTER, found
    assert 1.3 < found.speedup.value < 3
