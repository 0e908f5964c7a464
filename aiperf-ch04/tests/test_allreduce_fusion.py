"""Every implementation leaves the sums on every rank."""

from collections.abc import Iterator

import pytest

from aiperf_core.results.models import TargetResult, Verdict
from aiperf_core.testing import Measuring

TARGET = "ch04.allreduce_fusion"


@pytest.fixture(scope="module")
def measuring() -> Iterator[Measuring]:
    with Measuring() as measuring:
        yield measuring


def assert_right(result: TargetResult, ranks: int) -> None:
    for row in result.rows:
        if row.verdict is Verdict.SKIPPED:
            assert row.reason is not None
            assert row.reason.startswith("needs")
            continue
        assert row.verdict not in (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED), (row.name, row.reason)
        assert row.judgement is not None
        assert row.judgement.samples > 0
        assert [one.rank for one in row.ranks] == list(range(ranks))


@pytest.mark.parametrize("sizes", [{"count": 1, "n": 1}, {"count": 3, "n": 1009}], ids=["one", "awkward"])
def test_right_on_the_cpu(measuring: Measuring, sizes: dict[str, float]) -> None:
    assert_right(measuring.measure(TARGET, **sizes), ranks=2)


def test_three_ranks(measuring: Measuring) -> None:
    assert_right(measuring.measure(TARGET, world_size=3), ranks=3)


@pytest.mark.gpu
@pytest.mark.parametrize("size", ["smoke", "cuda", "large"])
def test_right_on_gpus(measuring: Measuring, size: str) -> None:
    result = measuring.measure(TARGET, device="cuda", size=size)
    assert_right(result, ranks=2)
    assert {one.device for row in result.rows for one in row.ranks} == {"cuda:0", "cuda:1"}
