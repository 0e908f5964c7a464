"""What is special about targets of the chapter; `pytest --aiperf` tests all of them at the smallest sizes and at awkward ones."""

import pytest

from aiperf_ch01.batched_gemm import bench as batched_gemm
from aiperf_ch01.plugin import aiperf_targets
from aiperf_core.testing import Measure, problems

TARGETS = [target.name for target in aiperf_targets()]


def check(aiperf_measure: Measure, name: str, device: str) -> None:
    result = aiperf_measure(f"ch01.{name}", device=device, size=device)
    assert problems(result) == []
    assert [row.reason for row in result.rows if row.verdict == "SKIPPED"] == []


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_right_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str) -> None:
    check(aiperf_measure, name, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("name", TARGETS)
def test_right_on_a_gpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str) -> None:
    check(aiperf_measure, name, "cuda")


def test_the_cubes_are_those_of_the_lesson() -> None:
    assert batched_gemm.work(batched_gemm.task.presets["cubes"]).flops == 2 * 512 * 64**3
