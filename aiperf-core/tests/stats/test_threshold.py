"""The judge of thresholds: the interval decides, from either side."""

import pytest

from aiperf_core.measurements import Estimate
from aiperf_core.report.result import counted
from aiperf_core.stats.threshold import Threshold

CASES = [(2.0, 2.1, "MET", "UNCLEAR"), (1.9, 2.1, "UNCLEAR", "UNCLEAR"), (1.8, 2.0, "UNCLEAR", "MET"),
         (1.8, 1.99, "MISSED", "MET"), (3.0, 4.0, "MET", "MISSED"), (2.0, 2.0, "MET", "MET")]  # fmt: skip


@pytest.mark.parametrize(("low", "high", "least", "most"), CASES)
def test_the_interval_decides(low, high, least, most):
    figure = Estimate((low + high) / 2, low, high)
    assert Threshold("a.b", "", "speedup", 2.0).judge(figure) == least
    assert Threshold("a.b", "", "time_s", 2.0, at_most=True).judge(figure) == most


def test_a_counted_figure_is_its_own_interval_and_none_is_not_measured():
    bound = Threshold("a.b", "", "speedup", 2.0)
    assert [bound.judge(counted(value)) for value in (1.9, 2.0, None)] == ["MISSED", "MET", "NOT MEASURED"]
    assert bound.judge(None) == "NOT MEASURED"
