"""What is tuned, how often, and that the model of `pruned` keeps good tiles."""

from typing import Any

import pytest
import torch

from aiperf_ch19 import kernel_autotune_dispatch as dispatch
from aiperf_core.benchmark import call_with

SIZES: dict[str, Any] = {"width": 64, "hidden": 96, "tokens": 64, "rounds": 2, "bits": 32}


def prepared(kind: Any, seconds: Any) -> tuple[dict[Any, Any], int]:
    """The table of a variant, and the number of tiles that it timed, when a tile takes `seconds`."""
    task = dispatch.bench.task
    given = {**SIZES, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    assert task.static is not None
    drawn = {**SIZES, **call_with(task.inputs, given), **call_with(task.static, given)}
    timed: list[Any] = []

    class Known(kind):  # type: ignore[misc]
        def fastest(self, tiles: Any, x: Any, *_: Any) -> Any:
            timed.extend(tiles)
            return min(tiles, key=lambda tile: seconds(tile, len(x)))

    known = Known()
    call_with(known.prepare, drawn)
    return known.table, len(timed)


def test_a_search_finds_the_fastest_and_counts_its_trials() -> None:
    def by_height(tile: Any, rows: int) -> float:
        return -(-rows // tile[0]) * (tile[0] + 3) + abs(tile[1] - 16)

    table, trials = prepared(dispatch.Exhaustive, by_height)
    assert table[1, "up"] == (1, 16)
    assert table[64, "up"] == (8, 16)
    assert trials == len(dispatch.CPU_TILES) * len(table)
    _, pruned = prepared(dispatch.Pruned, by_height)
    assert pruned <= 0.15 * trials
    shared, transferred = prepared(dispatch.Transferred, by_height)
    assert transferred == trials / 2
    assert shared[4, "up"] == shared[1, "up"]
    assert shared[16, "up"] == shared[64, "up"]


def test_the_rule_takes_no_taller_tile_than_needed() -> None:
    table, trials = prepared(dispatch.ByRule, None)
    assert trials == 0
    assert [table[size, "down"] for size in (1, 4, 16, 64)] == [(1, 16), (4, 16), (6, 16), (6, 16)]


@pytest.mark.parametrize(("tokens", "rounds"), [(1, 1), (64, 64), (4096, 8), (63, 2)])
def test_batches_are_powers_of_four(tokens: int, rounds: int) -> None:
    sizes, counts = zip(*dispatch.batches(tokens, rounds), strict=True)
    assert list(sizes) == [4**power for power in range(20) if 4**power <= tokens]
    assert all(1 <= count <= rounds for count in counts)
    assert all(count * size <= tokens for size, count in zip(sizes, counts, strict=True))


def test_all_tiles_fit_and_few_are_kept() -> None:
    for rows, columns, depth, _, stages in dispatch.CUDA_TILES:
        assert 2 * stages * depth * (rows + columns) <= 160 << 10, (rows, columns)
    assert dispatch.CUDA_GOOD in dispatch.CUDA_TILES
    assert dispatch.CPU_GOOD in dispatch.CPU_TILES
    assert 0.15 * min(len(dispatch.CPU_TILES), len(dispatch.CUDA_TILES)) >= dispatch.KEPT
