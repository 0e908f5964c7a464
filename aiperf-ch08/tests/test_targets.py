"""Every target of the chapter is right at the sizes of its lesson; `pytest --aiperf` tests the smallest and awkward ones."""

import pytest
import torch

from aiperf_ch08.atomics_aggregation import lost
from aiperf_ch08.load_imbalance import LONG, MEDIUM, bins
from aiperf_core.plugins import load_plugins
from aiperf_core.testing import Measure, problems

ON_CPU = [one.name for one in load_plugins().targets if one.group == "ch08" and "cpu" in one.devices]


@pytest.mark.long
@pytest.mark.parametrize("target", ON_CPU)
def test_right_on_the_cpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, target: str) -> None:
    assert problems(aiperf_measure(target, size="cpu")) == []


def test_bins_have_each_row_once_in_the_order_of_memory() -> None:
    lengths = torch.tensor([0, LONG + 1, MEDIUM, LONG, MEDIUM + 1, 5000, 1])
    row_starts = torch.cat((lengths.new_zeros(1), lengths.cumsum(0)))
    assert [rows.tolist() for rows in bins(row_starts)] == [[1, 5], [3, 4], [0, 2, 6]]


def test_no_element_may_be_lost_or_doubled_in_any_order() -> None:
    kept = torch.tensor([7, 3, 9, 3])
    assert lost(torch.tensor([3, 9, 3, 7]), kept) == 0
    assert lost(torch.tensor([3, 9, 9, 7]), kept) == 0.5
    assert lost(kept[:0], kept[:0]) == 0
