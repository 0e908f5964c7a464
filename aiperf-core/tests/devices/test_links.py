"""Collectives of several processes, over gloo; copies where there are GPUs."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from aiperf_core.devices import links


def test_pairs_in_both_directions() -> None:
    assert list(links.pairs(1)) == []
    assert list(links.pairs(2)) == [(0, 1), (1, 0)]
    assert len(list(links.pairs(8))) == 56


@pytest.mark.parametrize(("world", "sizes"), [(2, [2]), (3, [2, 3]), (4, [2, 4]), (8, [2, 4, 8])])
def test_sizes_of_groups(world: int, sizes: list[int]) -> None:
    assert links.group_sizes(world) == sizes


def _rank(rank: int, store: str, results: Any) -> None:
    results.put((rank, links.all_reduce("cpu", rank, 3, store, 1 << 16)))


def test_ranks_agree_on_the_bus_bandwidth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    ranks = [context.Process(target=_rank, args=(rank, str(tmp_path / "store"), results)) for rank in range(3)]
    for one in ranks:
        one.start()
    found = dict(results.get(timeout=60) for _ in ranks)
    for one in ranks:
        one.join(timeout=30)
    assert found[0] == found[1]
    assert set(found[0]) == {"2", "3"}
    assert found[2] == {"3": found[0]["3"]}
    assert found[0]["3"].value > 0
    assert found[0]["3"].how == "gloo"


@pytest.mark.gpu
def test_pinned_memory_is_quicker() -> None:
    assert links.transfer(True, "to_device").value > links.transfer(False, "to_device").value > 1e8
