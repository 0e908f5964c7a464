"""`aiperf ch02`: made-up machines with GPUs, and this one with or without."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aiperf_ch02 import hardware_info, topology
from aiperf_ch02.cli import ch02
from aiperf_core.devices.nvml import Nvml, NvmlMissingError
from aiperf_core.testing import advised, made_up_machine


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(ch02, list(arguments), standalone_mode=False)


class RefusedError(Exception):
    """What the made-up NVML raises."""


def address(index: int) -> str:
    return f"00000000:0{index}:00.0"


class Board:
    """A made-up NVML of some GPUs, whose handles are their numbers; `links` has what the links of each go to."""

    NVMLError = RefusedError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2
    NVML_NVLINK_MAX_LINKS = 4

    def __init__(self, count: int, links: dict[int, list[str | None]], lanes: int = 16) -> None:
        self.count, self.links, self.lanes = count, links, lanes

    def __getattr__(self, function: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlDeviceGetCount": lambda: self.count,
            "nvmlSystemGetDriverVersion": lambda: "580.1",
            "nvmlDeviceGetHandleByIndex": lambda index: index + 1,
            "nvmlDeviceGetName": lambda gpu: f"GPU of number {gpu - 1}",
            "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId=address(gpu - 1).upper()),
            "nvmlDeviceGetCudaComputeCapability": lambda gpu: (9, 0),
            "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(total=1 << 37),
            "nvmlDeviceGetMaxClockInfo": lambda gpu, clock: 1980 if clock == 1 else 3201,
            "nvmlDeviceGetEccMode": lambda gpu: [1, 1],
            "nvmlDeviceGetCurrPcieLinkGeneration": lambda gpu: 1,
            "nvmlDeviceGetMaxPcieLinkGeneration": lambda gpu: 5,
            "nvmlDeviceGetCurrPcieLinkWidth": lambda gpu: self.lanes,
            "nvmlDeviceGetMaxPcieLinkWidth": lambda gpu: 16,
            "nvmlDeviceGetNvLinkState": lambda gpu, link: link < len(self.links.get(gpu - 1, [])),
            "nvmlDeviceGetNvLinkRemoteDeviceType": lambda gpu, link: 0 if self.links[gpu - 1][link] else 2,
            "nvmlDeviceGetNvLinkRemotePciInfo": lambda gpu, link: SimpleNamespace(
                busId=(self.links[gpu - 1][link] or "").encode()
            ),
            "nvmlDeviceGetTopologyCommonAncestor": lambda one, other: 50,
            "nvmlDeviceGetP2PStatus": lambda one, other, kind: 0 if one + other == 3 else 1,
        }
        if function not in answers:
            raise AttributeError(function)
        return answers[function]


def made_up(board: Board) -> Any:
    @contextmanager
    def session() -> Iterator[Nvml]:
        yield Nvml(board)

    return session


@contextmanager
def without_driver() -> Iterator[Nvml]:
    raise NvmlMissingError("NVML Shared Library Not Found", library=False)
    yield


def test_links_through_switches_direct_links_and_none(tmp_path: Path) -> None:
    board = Board(4, {0: [None, None], 1: [None, address(2)], 2: [address(1)]})
    place = "sys/bus/pci/devices/0000:01:00.0"
    made_up_machine(tmp_path, {f"{place}/numa_node": "1", f"{place}/local_cpulist": "8-15"})
    found = topology.topology(tmp_path, made_up(board))
    assert [(one.nvlinks, one.node, one.cpus) for one in found.gpus] == [
        (2, None, ""),
        (2, 1, "8-15"),
        (1, None, ""),
        (0, None, ""),
    ]
    pairs = {(one.source, one.target): one for one in found.pairs}
    assert len(pairs) == 12
    assert (pairs[0, 1].short, pairs[0, 1].through_switch, pairs[0, 1].peer_access) == ("NV1", True, True)
    assert (pairs[1, 2].short, pairs[1, 2].through_switch, pairs[2, 1].short) == ("NV1", False, "NV1")
    assert (pairs[0, 3].short, pairs[0, 3].pcie, pairs[0, 3].peer_access) == ("SYS", "SYS: between NUMA nodes", False)


def test_one_gpu_none_and_no_driver(tmp_path: Path) -> None:
    one = topology.topology(tmp_path, made_up(Board(1, {})))
    assert (len(one.gpus), one.pairs, one.missing) == (1, [], "there is one GPU, so there are no links between GPUs")
    assert topology.topology(tmp_path, made_up(Board(0, {}))).missing == "the driver sees no GPU"
    assert topology.topology(tmp_path, without_driver) == topology.Topology(
        missing="no GPU can be seen: NVML Shared Library Not Found; install the driver of the GPU"
    )


def test_what_hardware_info_says_of_a_gpu(tmp_path: Path) -> None:
    asked = []

    def driver(bus_id: str) -> dict[str, int]:
        asked.append(bus_id)
        return {"multiprocessors": 132, "L2 cache": 60 << 20}

    settings = hardware_info.report(tmp_path, made_up(Board(1, {}, lanes=8)), driver)
    values = {one.name: one.value for one in settings}
    assert asked == [address(0).upper()]
    assert values["GPUs"] == "1"
    assert values["GPU 0: architecture"] == "sm_90"
    assert values["GPU 0: memory"] == "128 GiB"
    assert values["GPU 0: multiprocessors"] == "132"
    assert values["GPU 0: L2 cache"] == "60 MiB"
    assert values["GPU 0: copy engines"] == "unknown"
    assert values["GPU 0: clock of multiprocessors, at most"] == "1,980 MHz"
    assert values["GPU 0: ECC"] == "on"
    assert values["GPU 0: PCI Express"] == "generation 1 of 5, 8 of 16 lanes"
    assert list(advised(settings)) == ["GPU 0: PCI Express"]


def test_what_hardware_info_says_without_a_driver(tmp_path: Path) -> None:
    *_, last = hardware_info.report(tmp_path, without_driver)
    assert (last.name, last.value) == ("GPUs", "none: NVML Shared Library Not Found")
    assert last.advice == "for a GPU, install its driver"
    assert hardware_info.attributes("0000:ff:1f.7") == {}


@pytest.mark.parametrize("arguments", [("hardware-info",), ("topology",)])
def test_this_machine(arguments: tuple[str, ...]) -> None:
    assert invoke(*arguments).output
    found = json.loads(invoke(*arguments, "--json").output)
    if arguments == ("topology",):
        assert set(found) == {"gpus", "pairs", "missing"}
        assert found["gpus"] or found["missing"]
    else:
        assert {"processor", "memory", "GPUs"} <= {one["name"] for one in found["settings"]}


def test_the_tables_of_two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    found = topology.topology(nvml=made_up(Board(2, {0: [None, None], 1: [None, None]})))
    monkeypatch.setattr(topology, "topology", lambda: found)
    lines = [" ".join(line.split()) for line in invoke("topology").output.splitlines()]
    assert "GPU 0 - NV2" in lines
    assert "0 to 1 2 through switches SYS: between NUMA nodes yes" in lines
