"""The chosen sizes have the least padding, and an engine without graphs gives the reference's scores."""

from itertools import combinations
from typing import Any

import pytest
import torch

from aiperf_ch18 import graph_bucketing
from aiperf_ch18.graph_bucketing import least_padding, trace
from aiperf_core.benchmark import call_with


def padded(sizes: list[int], buckets: tuple[int, ...]) -> int:
    return sum(min(bucket for bucket in buckets if bucket >= size) for size in sizes)


@pytest.mark.parametrize("most", [1, 2, 3, 9])
@pytest.mark.parametrize(("steps", "rows"), [(1, 1), (7, 3), (30, 20)])
def test_no_choice_of_sizes_pads_less(steps: int, rows: int, most: int) -> None:
    sizes = trace(steps, rows)
    known = sorted(set(sizes))
    all_choices = [(*some, known[-1]) for count in range(most) for some in combinations(known[:-1], count)]
    chosen = least_padding(sizes, most)
    assert len(chosen) <= most
    assert padded(sizes, chosen) == min(padded(sizes, choice) for choice in all_choices)


def test_the_trace_of_the_default_sizes_is_padded_by_at_most_6_percent() -> None:
    sizes = trace(48, 64)
    assert padded(sizes, least_padding(sizes, graph_bucketing.BUCKETS)) <= 1.06 * sum(sizes)


def test_steps_leave_rows_beyond_the_batch_alone() -> None:
    given: dict[str, Any] = {**graph_bucketing.bench.task.presets["smoke"], "dtype": torch.float32, "device": "cpu"}
    given["generator"] = torch.Generator().manual_seed(1)
    given |= call_with(graph_bucketing.parameters, given) | call_with(graph_bucketing.inputs, given)
    eager = graph_bucketing.Eager()
    call_with(eager.prepare, given)
    assert torch.equal(call_with(eager.run, given), call_with(graph_bucketing.reference, given))
