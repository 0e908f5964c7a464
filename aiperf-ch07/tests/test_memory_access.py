"""`ch07.memory_access` is right at every size, on every device."""

from collections.abc import Iterator

import pytest

from aiperf_ch07.memory_access import step_for
from aiperf_core.testing import Measuring, problems

# One element; around the width of a warp; primes; and sizes that leave every kernel's last block and quad partly full.
SIZES = [1, 2, 3, 31, 32, 33, 4099, 8192, 65537, 1000003]


@pytest.fixture(scope="module")
def measuring() -> Iterator[Measuring]:
    with Measuring() as measuring:
        yield measuring


@pytest.mark.parametrize("n", SIZES)
def test_right_on_the_cpu(measuring: Measuring, n: int) -> None:
    result = measuring.measure("ch07.memory_access", n=n)
    assert problems(result) == []
    assert [row.name for row in result.rows] == ["strided", "permuted", "coalesced", "streamed", "torch"]
    assert result.problem.bytes_read == result.problem.bytes_written == 4 * n


@pytest.mark.gpu
@pytest.mark.parametrize("n", SIZES)
def test_right_on_a_gpu(measuring: Measuring, n: int) -> None:
    result = measuring.measure("ch07.memory_access", device="cuda", n=n)
    assert problems(result) == []
    assert {row.verdict for row in result.rows if row.role == "variant"}.isdisjoint({"SKIPPED"})
    assert [row.name for row in result.rows] == ["strided", "permuted", "coalesced", "wide", "torch"]


@pytest.mark.parametrize("n", [*SIZES, 1 << 25, 1 << 28])
def test_the_permuted_order_visits_every_element_once(n: int) -> None:
    step = step_for(n)
    if n <= 65537:
        assert sorted(index * step % n for index in range(n)) == list(range(n))
    # Indices are multiplied in 64 bits.
    assert n * step < 1 << 63
