"""What is special about targets of the chapter; `pytest --aiperf` tests all of them, with two ranks and with three."""

from typing import Any

import pytest

from aiperf_ch04.plugin import aiperf_targets
from aiperf_core.results.models import TargetResult
from aiperf_core.testing import Measure, problems

NAMES = [target.name for target in aiperf_targets()]


def check(aiperf_measure: Measure, name: str, device: str, ranks: int, **how: Any) -> TargetResult:
    result = aiperf_measure(f"ch04.{name}", device=device, world_size=ranks, **how)
    assert problems(result) == []
    for row in result.rows:
        if row.verdict == "SKIPPED":
            assert str(row.reason).startswith("needs ")
        else:
            assert [one.rank for one in row.ranks] == list(range(ranks))
    return result


def test_what_sends_far_less_than_a_wasteful_baseline_is_no_cheat(aiperf_measure: Measure) -> None:
    """Of the rows that the baseline sends nearly all are padding."""
    result = check(aiperf_measure, "all_to_all", "cpu", 2, tokens=401, width=31, experts=64)
    sent = {row.name: sum(one.wire_bytes for one in row.ranks) for row in result.rows}
    assert sent["exact_splits"] < 0.1 * sent["padded"]


def test_a_cache_goes_round_a_ring_of_four(aiperf_measure: Measure) -> None:
    check(aiperf_measure, "kv_transfer", "cpu", 4, layers=3, blocks=7, block_bytes=106)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_right_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str) -> None:
    check(aiperf_measure, name, "cpu", 2, size="cpu")


@pytest.mark.gpu
@pytest.mark.aiperf_gpus(2)
@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((name, "cuda") for name in NAMES),
        ("allreduce_fusion", "large"),
        ("allreduce_small", "tiny"),
        ("allreduce_small", "medium"),
        ("allreduce_small", "large"),
        ("ddp_overlap", "comm_alone"),
        ("comm_compute_overlap", "products_alone"),
        ("comm_compute_overlap", "sum_alone"),
        ("grad_compression", "drift"),
        ("pipeline_schedule", "interleaved"),
    ],
)
def test_right_on_gpus_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str, size: str) -> None:
    result = check(aiperf_measure, name, "cuda", 2, size=size)
    assert {one.device for row in result.rows for one in row.ranks} == {"cuda:0", "cuda:1"}
