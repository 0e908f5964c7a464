"""Collectives and messages of two processes, over gloo."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from aiperf_core.distributed import exchange, world_group
from aiperf_core.errors import BenchmarkError

RANK = """
import json, sys
import torch
import torch.distributed as dist
from aiperf_core.distributed import all_gather, exchange, reduce_scatter, wait_all, world_group

rank = int(sys.argv[1])
dist.init_process_group("gloo", store=dist.FileStore(sys.argv[2], 2), rank=rank, world_size=2)
found = {"ranks": world_group().size()}
part = torch.tensor([[1.0, 2.0]]) + 10 * rank
whole = torch.empty(2, 1, 2)
all_gather(whole, part)
found["gathered"] = whole.tolist()
late = torch.empty(4)
all_gather(late, part, async_op=True).wait()
found["gathered_later"] = late.tolist()
share = torch.empty(2, 1)
reduce_scatter(share, torch.arange(4.0) + rank)
found["sums"] = share.tolist()
received = torch.empty(3)
wait_all(exchange({1 - rank: torch.full((3,), float(rank))}, {1 - rank: received}))
found["received"] = received.tolist()
ring = [torch.empty(1) for _ in range(2)]
wait_all(exchange({to: torch.tensor([10.0 * rank + to]) for to in range(2)}, dict(enumerate(ring))))
found["own"] = [float(one) for one in ring]
print(json.dumps(found))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two ranks found."""
    store = tmp_path_factory.mktemp("ranks") / "store"
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(store)], env=env, stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    return [json.loads(rank.communicate(timeout=120)[0]) for rank in ranks]


def test_every_rank_gets_all_parts_in_the_order_of_the_ranks(found: list[dict[str, Any]]) -> None:
    for one in found:
        assert one["ranks"] == 2
        assert one["gathered"] == [[[1.0, 2.0]], [[11.0, 12.0]]]
        assert one["gathered_later"] == [1.0, 2.0, 11.0, 12.0]


def test_every_rank_gets_the_sums_of_its_share(found: list[dict[str, Any]]) -> None:
    # 0 1 2 3 of rank 0 and 1 2 3 4 of rank 1.
    assert [one["sums"] for one in found] == [[[1.0], [3.0]], [[5.0], [7.0]]]


def test_messages_cross(found: list[dict[str, Any]]) -> None:
    assert [one["received"] for one in found] == [[1.0] * 3, [0.0] * 3]


def test_a_message_to_itself_is_there_beside_that_of_the_other_rank(found: list[dict[str, Any]]) -> None:
    assert [one["own"] for one in found] == [[0.0, 10.0], [1.0, 11.0]]


def test_no_message_is_no_work() -> None:
    assert exchange({}, {}) == []


def test_a_process_without_ranks_sends_to_itself() -> None:
    received = torch.zeros(2, 3)
    assert exchange({0: torch.arange(6)}, {0: received}) == []
    assert received.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_process_without_ranks_has_no_group() -> None:
    with pytest.raises(BenchmarkError) as caught:
        world_group()
    assert str(caught.value) == "there are no ranks in this process; declare world_size in the sizes of the workload"
