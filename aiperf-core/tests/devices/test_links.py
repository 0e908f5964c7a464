"""Collectives of several processes, over gloo; copies where there are GPUs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf_core.devices import host_memory, links

pytestmark = pytest.mark.quiet


def test_pairs_in_both_directions() -> None:
    assert list(links.pairs(1)) == []
    assert list(links.pairs(2)) == [(0, 1), (1, 0)]
    assert len(list(links.pairs(8))) == 56


@pytest.mark.parametrize(("world", "sizes"), [(2, [2]), (3, [2, 3]), (4, [2, 4]), (8, [2, 4, 8])])
def test_sizes_of_groups(world: int, sizes: list[int]) -> None:
    assert links.group_sizes(world) == sizes


RANK = """
import json, sys
from aiperf_core.devices import links
found = links.all_reduce("cpu", int(sys.argv[1]), 3, sys.argv[2], 1 << 16)
print(json.dumps({size: [best.value, best.how] for size, best in found.items()}))
"""


def test_ranks_agree_on_the_bus_bandwidth(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RANK]
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store")], env=env, stdout=subprocess.PIPE, text=True)
        for rank in range(3)
    ]
    found = [json.loads(one.communicate(timeout=60)[0]) for one in ranks]
    assert found[0] == found[1]
    assert set(found[0]) == {"2", "3"}
    assert found[2] == {"3": found[0]["3"]}
    value, how = found[0]["3"]
    assert value > 0
    assert how == "gloo"


LOOPBACK = """
import json, sys
from aiperf_core.devices import links
found = links.loopback(int(sys.argv[1]), sys.argv[2], sys.argv[3])
print(json.dumps(found))
"""


def test_the_rate_between_two_processes(tmp_path: Path) -> None:
    fd = host_memory.allocate(2 << 20)
    memory = f"/proc/{os.getpid()}/fd/{fd}"
    command = [sys.executable, "-c", LOOPBACK]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "store"), memory], stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    (rate, how), other = [json.loads(one.communicate(timeout=120)[0]) for one in ranks]
    written = os.pread(fd, 1 << 20, 0)
    os.close(fd)
    assert rate > 1e6
    assert how.endswith(("messages, gloo", "read from shared memory", "written to shared memory"))
    assert other is None
    assert set(written) == {1}


@pytest.mark.gpu
def test_copies_to_all_others_are_no_slower_than_to_one() -> None:
    import torch

    count = torch.cuda.device_count()
    if count < 3:
        pytest.skip("needs three GPUs")
    assert links.peers(0, count).value > 0.9 * links.peer(0, 1).value


@pytest.mark.gpu
def test_pinned_memory_is_quicker() -> None:
    assert links.transfer(True, "to_device").value > links.transfer(False, "to_device").value > 1e8
