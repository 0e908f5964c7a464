import math

import pytest

import aiperf_core
from aiperf_core import Tolerance
from aiperf_core.errors import BenchmarkError
from aiperf_core.tolerance import TOLERANCES

NAMES = "exact, fp32, fp32_reduction, tf32, bf16, fp8"


def test_the_named_tolerances_are_what_authors_import() -> None:
    assert ", ".join(TOLERANCES) == NAMES
    for name, tolerance in TOLERANCES.items():
        assert getattr(aiperf_core, name) is tolerance
        assert tolerance.name == name
        assert tolerance.reason


def test_they_widen_with_the_arithmetic() -> None:
    budgets = [one.rel_l2 for one in TOLERANCES.values()]
    assert budgets == sorted(budgets)
    assert [one.name for one in TOLERANCES.values() if one.is_exact] == ["exact"]


@pytest.mark.parametrize(
    ("tolerance", "text"),
    [
        (aiperf_core.exact, "bit-exact"),
        (aiperf_core.fp32, "fp32 (relative L2 error at most 1e-06)"),
        (aiperf_core.bf16, "bf16 (relative L2 error at most 0.005)"),
        (Tolerance(2e-4, "a chain of 40 products"), "custom (relative L2 error at most 0.0002)"),
        (Tolerance(0.0, "integers"), "bit-exact"),
    ],
)
def test_in_words(tolerance: Tolerance, text: str) -> None:
    assert str(tolerance) == text


@pytest.mark.parametrize("reason", ["", " \n"])
def test_another_tolerance_needs_its_reason(reason: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        Tolerance(2e-4, reason)
    assert str(caught.value) == (f"Tolerance(0.0002) has no reason; say why in reason='...', or take one of: {NAMES}")


@pytest.mark.parametrize("rel_l2", [-1e-9, 1, 1.5, math.inf, math.nan])
def test_budgets_that_cannot_be(rel_l2: float) -> None:
    with pytest.raises(BenchmarkError) as caught:
        Tolerance(rel_l2, "because")
    assert str(caught.value) == f"a tolerance of {rel_l2!r} was requested; accepted is a number from 0 up to 1"
