"""Every target of the chapter is right on every rank: at the sizes of a run and at awkward ones, on two ranks and three."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from aiperf_ch04.plugin import aiperf_targets
from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import TargetResult
from aiperf_core.testing import Measure, problems

Size = dict[str, float]

# Single elements, primes, and what no number of ranks divides.
SIZES: dict[str, list[Size]] = {
    "allreduce_fusion": [{"count": 1, "n": 1}, {"count": 3, "n": 1009}],
    "allreduce_small": [{"n": 1}, {"n": 8197}],
    "ddp_overlap": [
        {"layers": 1, "width": 61, "rows": 1, "bucket_bytes": 1},
        {"layers": 5, "width": 31, "rows": 67, "bucket_bytes": 5000},
    ],
    "grad_accum_sync": [
        {"layers": 1, "width": 61, "rows": 1, "micro": 1},
        {"layers": 4, "width": 31, "rows": 13, "micro": 7},
    ],
    "grad_compression": [{"rounds": 1, "n": 1009}, {"rounds": 7, "n": 5003}],
    "tensor_parallel_mlp": [
        {"tokens": 3, "width": 31, "hidden": 61},
        {"tokens": 101, "width": 61, "hidden": 67},
    ],
    "comm_compute_overlap": [{"n": 1, "m": 1, "products": 1}, {"n": 4099, "m": 61, "products": 5}],
    "optimizer_sharding": [{"layers": 2, "n": 1, "steps": 1}, {"layers": 5, "n": 1009, "steps": 5}],
    "all_to_all": [
        {"tokens": 1, "width": 31, "experts": 1},
        {"tokens": 997, "width": 61, "experts": 7},
    ],
    "pipeline_schedule": [
        {"blocks": 1, "width": 61, "rows": 1, "micro": 1},
        {"blocks": 2, "width": 61, "rows": 29, "micro": 7},
    ],
    "pipeline_memory": [
        {"blocks": 1, "width": 61, "rows": 5, "micro": 3},
        {"blocks": 2, "width": 61, "rows": 29, "micro": 5},
    ],
    "kv_transfer": [{"layers": 1, "blocks": 1, "block_bytes": 2}, {"layers": 5, "blocks": 31, "block_bytes": 202}],
}
CASES = [(name, size) for name, sizes in SIZES.items() for size in sizes]
RANKS = {2: [(name, sizes[0]) for name, sizes in SIZES.items()], 3: [(name, sizes[1]) for name, sizes in SIZES.items()]}


def identity(value: str | Size) -> str:
    return value if isinstance(value, str) else "-".join(f"{name}={size}" for name, size in value.items())


def check(aiperf_measure: Measure, name: str, device: str, ranks: int, **how: Any) -> TargetResult:
    result = aiperf_measure(f"ch04.{name}", device=device, world_size=ranks, **how)
    assert problems(result) == []
    for row in result.rows:
        if row.verdict == "SKIPPED":
            assert device == "cuda", (row.name, row.reason)
            assert str(row.reason).startswith("needs ")
        else:
            assert [one.rank for one in row.ranks] == list(range(ranks))
    return result


def test_every_target_has_sizes() -> None:
    assert {target.name for target in aiperf_targets()} == SIZES.keys()


@pytest.mark.parametrize(("name", "size"), RANKS[2], ids=identity)
def test_right_with_two_ranks(aiperf_measure: Measure, name: str, size: Size) -> None:
    check(aiperf_measure, name, "cpu", 2, **size)


@pytest.mark.parametrize(("name", "size"), RANKS[3], ids=identity)
def test_right_with_three_ranks(aiperf_measure: Measure, name: str, size: Size) -> None:
    check(aiperf_measure, name, "cpu", 3, **size)


def test_what_sends_far_less_than_a_wasteful_baseline_is_no_cheat(aiperf_measure: Measure) -> None:
    """Of the rows that the baseline sends nearly all are padding."""
    result = check(aiperf_measure, "all_to_all", "cpu", 2, tokens=401, width=31, experts=64)
    sent = {row.name: sum(one.wire_bytes for one in row.ranks) for row in result.rows}
    assert sent["exact_splits"] < 0.1 * sent["padded"]


def test_a_cache_goes_round_a_ring_of_four(aiperf_measure: Measure) -> None:
    check(aiperf_measure, "kv_transfer", "cpu", 4, layers=3, blocks=7, block_bytes=106)


@pytest.mark.parametrize("name", SIZES)
def test_right_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str) -> None:
    check(aiperf_measure, name, "cpu", 2, size="cpu")


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "size"), CASES, ids=identity)
def test_right_on_gpus(aiperf_measure: Measure, name: str, size: Size) -> None:
    result = check(aiperf_measure, name, "cuda", 2, **size)
    assert {one.device for row in result.rows for one in row.ranks} == {"cuda:0", "cuda:1"}


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((name, "cuda") for name in SIZES),
        ("allreduce_fusion", "large"),
        ("allreduce_small", "tiny"),
        ("allreduce_small", "large"),
        ("grad_compression", "drift"),
    ],
)
def test_right_on_gpus_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str, size: str) -> None:
    check(aiperf_measure, name, "cuda", 2, size=size)


def test_no_judge_can_be_fooled() -> None:
    result = CliRunner().invoke(Shell(load_plugins()), ["lint", "ch04", "--device", "cpu", "--json"])
    targets = json.loads(result.stdout)["targets"]
    outcomes = [{"target": one["target"], **outcome} for one in targets for outcome in one["outcomes"]]
    assert [one for one in outcomes if one["verdict"] == "problem"] == []
    assert [one["failed"] or one["skipped"] for one in targets] == [""] * len(SIZES)
