"""Every target of the chapter is right at every size, on every device, and its judge is worth something."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from aiperf_ch01.batched_gemm import bench as batched_gemm
from aiperf_ch01.plugin import aiperf_targets
from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.testing import Measure, problems

Size = dict[str, float]

# One of what may be one (a single number that is nearly zero has no digits to compare); primes, with a last part that
# overhangs; full tiles and blocks.
SIZES: dict[str, list[Size]] = {
    "train_step": [
        {"steps": 1, "samples": 1, "micro_batch": 1, "width": 61},
        {"steps": 3, "samples": 17, "micro_batch": 7, "width": 31},
    ],
    "batched_gemm": [
        {"batch": 1, "m": 1, "n": 1, "k": 1},
        {"batch": 2, "m": 7, "n": 33, "k": 64},
        {"batch": 7, "m": 97, "n": 101, "k": 103},
    ],
    "batch_size": [
        {"requests": 3, "width": 521, "hidden": 61},
        {"requests": 131, "width": 31, "hidden": 67},
    ],
    "precision_ladder": [
        {"tokens": 3, "width": 521, "hidden": 61},
        {"tokens": 31, "width": 61, "hidden": 1031},
    ],
    "metric_sync": [
        {"steps": 1, "batch": 1, "width": 61},
        {"steps": 31, "batch": 7, "width": 13},
    ],
    "alloc_churn": [
        {"steps": 1, "rows": 1, "columns": 1},
        {"steps": 37, "rows": 101, "columns": 53},
    ],
    "inference_memory": [
        {"blocks": 1, "width": 61, "batch": 1},
        {"blocks": 5, "width": 31, "batch": 101},
    ],
    "launch_overhead": [
        {"n": 1, "folds": 1},
        {"n": 4099, "folds": 32},
    ],
}
CASES = [(name, size) for name, sizes in SIZES.items() for size in sizes]

ROWS = {
    "train_step": {
        "cpu": "micro_batches fused_batch",
        "cuda": "micro_batches fused_batch bf16 fused_bf16 graph fused_update compiled",
    },
    "batched_gemm": {"cpu": "loop over_batch bmm", "cuda": "loop graph grouped_triton strided_triton bmm"},
    "batch_size": {
        "cpu": "batch_4 batch_32 batch_128 roofline whole",
        "cuda": "batch_4 batch_32 batch_128 roofline whole",
    },
    "precision_ladder": {"cpu": "fp32 bf16 int8_rowwise", "cuda": "fp32 tf32 bf16 fp8_rowwise"},
    "metric_sync": {
        "cpu": "synced_each_step buffered background_thread",
        "cuda": "item every_tenth pinned_ring read_once",
    },
    "alloc_churn": {
        "cpu": "given_back cached preallocated in_place",
        "cuda": "given_back cached preallocated in_place graph",
    },
    "inference_memory": {
        "cpu": "grad_enabled inference_mode in_place chunked",
        "cuda": "grad_enabled inference_mode in_place chunked",
    },
    "launch_overhead": {"cpu": "eager fused_loop", "cuda": "eager graph fused_triton fused_graph compiled"},
}


def identity(value: str | Size) -> str:
    return value if isinstance(value, str) else "x".join(map(str, value.values()))


def check(aiperf_measure: Measure, name: str, device: str, **how: Any) -> None:
    result = aiperf_measure(f"ch01.{name}", device=device, **how)
    assert problems(result) == []
    assert " ".join(row.name for row in result.rows) == ROWS[name][device]
    assert [row.reason for row in result.rows if row.verdict == "SKIPPED"] == []


def test_every_target_has_sizes() -> None:
    assert {target.name for target in aiperf_targets()} == SIZES.keys() == ROWS.keys()


@pytest.mark.parametrize(("name", "size"), CASES, ids=identity)
def test_right_on_the_cpu(aiperf_measure: Measure, name: str, size: Size) -> None:
    check(aiperf_measure, name, "cpu", **size)


@pytest.mark.parametrize("name", SIZES)
def test_right_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str) -> None:
    check(aiperf_measure, name, "cpu", size="cpu")


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "size"), CASES, ids=identity)
def test_right_on_a_gpu(aiperf_measure: Measure, name: str, size: Size) -> None:
    check(aiperf_measure, name, "cuda", **size)


@pytest.mark.gpu
@pytest.mark.parametrize("name", SIZES)
def test_right_on_a_gpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str) -> None:
    check(aiperf_measure, name, "cuda", size="cuda")


def test_the_cubes_are_those_of_the_lesson() -> None:
    assert batched_gemm.work(batched_gemm.task.presets["cubes"]).flops == 2 * 512 * 64**3


def test_no_judge_can_be_fooled() -> None:
    result = CliRunner().invoke(Shell(load_plugins()), ["lint", "ch01", "--device", "cpu", "--json"])
    targets = json.loads(result.stdout)["targets"]
    outcomes = [{"target": one["target"], **outcome} for one in targets for outcome in one["outcomes"]]
    assert [one for one in outcomes if one["verdict"] in ("problem", "note")] == []
    assert [one["failed"] or one["skipped"] for one in targets] == [""] * len(SIZES)
