"""`ch01.batched_gemm` is right at every size, on every device."""

from collections.abc import Iterator

import pytest

from aiperf_core.testing import Measuring, problems

# One element; primes; full tiles in some directions and partly filled ones in others, for tiles of 6, 16 and 32.
SIZES = [
    {"batch": 1, "m": 1, "n": 1, "k": 1},
    {"batch": 3, "m": 5, "n": 37, "k": 17},
    {"batch": 2, "m": 7, "n": 33, "k": 64},
    {"batch": 5, "m": 6, "n": 32, "k": 1},
    {"batch": 7, "m": 97, "n": 101, "k": 103},
    {"batch": 4, "m": 32, "n": 256, "k": 256},
]


@pytest.fixture(scope="module")
def measuring() -> Iterator[Measuring]:
    with Measuring() as measuring:
        yield measuring


def identity(size: dict[str, int]) -> str:
    return "x".join(map(str, size.values()))


@pytest.mark.parametrize("size", SIZES, ids=identity)
def test_right_on_the_cpu(measuring: Measuring, size: dict[str, int]) -> None:
    result = measuring.measure("ch01.batched_gemm", **size)
    assert problems(result) == []
    assert [row.name for row in result.rows] == ["loop", "over_batch", "bmm"]


@pytest.mark.gpu
@pytest.mark.parametrize("size", SIZES, ids=identity)
def test_right_on_a_gpu(measuring: Measuring, size: dict[str, int]) -> None:
    result = measuring.measure("ch01.batched_gemm", device="cuda", **size)
    assert problems(result) == []
    assert {row.verdict for row in result.rows if row.role == "variant"}.isdisjoint({"SKIPPED"})
    assert [row.name for row in result.rows] == ["loop", "graph", "grouped_triton", "strided_triton", "bmm"]


def test_the_presets_are_those_of_the_lesson(measuring: Measuring) -> None:
    assert measuring.measure("ch01.batched_gemm", size="cubes").problem.flops == 2 * 512 * 64**3
