"""NUMA: the nodes of this machine, the devices at each, and what this process may use of them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiperf_core import units
from aiperf_core.audit import Setting
from aiperf_core.devices.environment import facts
from aiperf_core.devices.sysfs import integer, numbers, text

# Classes of PCI devices (PCI Code and ID Assignment Specification) whose place matters.
CLASSES = {"0x0300": "GPU", "0x0302": "GPU", "0x0200": "network card", "0x0207": "InfiniBand card", "0x0108": "NVMe"}
MANY_MISSES = 0.05
BIND = "aiperf ch03 bind --node {} -- COMMAND"


def audit(root: Path = Path("/")) -> list[Setting]:
    """Nodes, their memory, their devices, and the binding of this process. `root` holds /proc and /sys."""
    found = facts("cpu", root)
    folder = root / "sys/devices/system/node"
    nodes = sorted(int(path.name.removeprefix("node")) for path in folder.glob("node[0-9]*"))
    if not nodes:
        return [Setting("NUMA nodes", "none shown", "/sys/devices/system/node")]
    parts = [_nodes(folder, nodes), _devices(root, nodes), _process(found, nodes)]
    return [setting for part in parts for setting in part]


def _nodes(folder: Path, nodes: list[int]) -> Iterator[Setting]:
    yield Setting("NUMA nodes", str(len(nodes)), "/sys/devices/system/node")
    for node in nodes:
        source = f"/sys/devices/system/node/node{node}"
        place = folder / f"node{node}"
        memory = dict(re.findall(r"(MemTotal|MemFree):\s+(\d+) kB", text(place / "meminfo")))
        total, free = (1024 * int(memory.get(name, 0)) for name in ("MemTotal", "MemFree"))
        cpus = text(place / "cpulist")
        value = f"CPUs {cpus or 'none'}; {units.size(free)} of {units.size(total)} free"
        yield Setting(f"node {node}", value, f"{source}/meminfo")
        if len(nodes) == 1:
            continue
        yield Setting(f"distances from node {node}", text(place / "distance"), f"{source}/distance")
        stat = dict(re.findall(r"^(\w+) (\d+)$", text(place / "numastat"), re.MULTILINE))
        hits, misses = (int(stat.get(name, 0)) for name in ("numa_hit", "numa_miss"))
        share = misses / (hits + misses) if hits + misses else 0.0
        yield Setting(
            f"pages of node {node} meant for others",
            units.percent(share).strip(),
            f"{source}/numastat",
            "another node was full when these pages were taken. Free its memory (page cache), or spread the programs"
            if share > MANY_MISSES
            else "",
        )


def _devices(root: Path, nodes: list[int]) -> Iterator[Setting]:
    for place in sorted((root / "sys/bus/pci/devices").glob("*")):
        kind = CLASSES.get(text(place / "class")[:6])
        if kind is None:
            continue
        node = integer(place / "numa_node")
        known = node is not None and node >= 0
        yield Setting(
            f"{kind} {place.name}",
            f"node {node}" if known else "node unknown",
            f"/sys/bus/pci/devices/{place.name}/numa_node",
            ""
            if known or len(nodes) == 1
            else "the firmware does not tell its node. Measure the copies from each node",
        )


def _process(found: dict[str, Any], nodes: list[int]) -> Iterator[Setting]:
    runs, takes = found.get("process_nodes"), found.get("memory_nodes")
    policy = found.get("numa_policy", "unknown")
    spread = len(nodes) > 1 and runs is not None and len(runs) > 1
    yield Setting(
        "nodes that this process may run on",
        "unknown" if runs is None else ", ".join(map(str, runs)),
        "sched_getaffinity",
        f"threads may move away from their memory. Bind the program to the node of its GPU: {BIND.format(nodes[0])}"
        if spread
        else "",
    )
    elsewhere = runs is not None and takes is not None and len(nodes) > 1 and not set(runs) & set(takes)
    yield Setting(
        "nodes that it may take memory from",
        "unknown" if takes is None else ", ".join(map(str, takes)),
        "/proc/self/status",
        "all memory is remote: no CPU of this process is at these nodes. Bind both to one node" if elsewhere else "",
    )
    yield Setting(
        "memory policy",
        str(policy),
        "get_mempolicy",
        "pages alternate between nodes, so about half of all accesses are remote. Use it only for data "
        "that all nodes read"
        if "interleave" in str(policy) and len(nodes) > 1
        else "",
    )


def node_cpus(root: Path = Path("/")) -> dict[int, list[int]]:
    """The CPUs of each node."""
    folders = (root / "sys/devices/system/node").glob("node[0-9]*")
    return {int(path.name.removeprefix("node")): numbers(text(path / "cpulist")) for path in sorted(folders)}
