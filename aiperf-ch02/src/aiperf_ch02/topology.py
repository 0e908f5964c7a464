"""Topology: how the GPUs of this machine reach each other, and which processors are near them. It reads only."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from attrs import field, frozen

from aiperf_core.devices.nvml import Nvml, NvmlMissingError, session
from aiperf_core.devices.sysfs import integer, text

# The place where the paths of two GPUs meet, by NVML's number, in the words of nvidia-smi.
ANCESTORS = {
    0: "same board",
    10: "PIX: one PCIe switch",
    20: "PXB: several PCIe switches",
    30: "PHB: a PCIe host bridge",
    40: "NODE: host bridges of a NUMA node",
    50: "SYS: between NUMA nodes",
}
SWITCH = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH


@frozen
class Gpu:
    """A GPU and what is near it.

    nvlinks: the number of active links. node: the NUMA node, None where the firmware does not tell it.
    """

    index: int
    name: str
    bus_id: str
    nvlinks: int
    node: int | None
    cpus: str


@frozen
class Pair:
    """How one GPU reaches another.

    nvlinks: direct links, or those to switches that both have. through_switch: whether they go to switches.
    pcie: where their paths meet without NVLink. peer_access: whether one reads the other's memory; None if unknown.
    """

    source: int
    target: int
    nvlinks: int
    through_switch: bool
    pcie: str
    peer_access: bool | None

    @property
    def short(self) -> str:
        """`NV18`, or the PCIe path in the letters of nvidia-smi."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.pcie.partition(":")[0]


@frozen
class Topology:
    """The GPUs and their pairs. missing: what is not there, where there are none or too few."""

    gpus: list[Gpu] = field(factory=list)
    pairs: list[Pair] = field(factory=list)
    missing: str = ""


@frozen
class _Links:
    """The active links of a GPU: how many go to switches, and how many to each PCI address."""

    to_switches: int
    to: dict[str, int]


def topology(root: Path = Path("/"), nvml: Callable[[], AbstractContextManager[Nvml]] = session) -> Topology:
    """What NVML and /sys (under `root`) tell of the GPUs."""
    try:
        with nvml() as asked:
            return _found(asked, root)
    except NvmlMissingError as error:
        remedy = "pip install nvidia-ml-py" if error.library else "install the driver of the GPU"
        return Topology(missing=f"no GPU can be seen: {error}; {remedy}")


def _found(nvml: Nvml, root: Path) -> Topology:
    handles = [nvml.ask("nvmlDeviceGetHandleByIndex", index) for index in range(nvml.ask("nvmlDeviceGetCount") or 0)]
    if not handles:
        return Topology(missing="the driver sees no GPU")
    addresses = [_address(nvml.ask("nvmlDeviceGetPciInfo", handle)) if handle else "" for handle in handles]
    links = [_links(nvml, handle) for handle in handles]
    gpus = [
        _gpu(nvml, index, handle, address, found, root)
        for index, (handle, address, found) in enumerate(zip(handles, addresses, links, strict=True))
    ]
    pairs = [
        _pair(nvml, (source, target), handles, addresses, links)
        for source in range(len(handles))
        for target in range(len(handles))
        if source != target
    ]
    return Topology(gpus, pairs, "" if pairs else "there is one GPU, so there are no links between GPUs")


def _gpu(nvml: Nvml, index: int, handle: Any, address: str, links: _Links, root: Path) -> Gpu:
    # /sys has domains of four digits in lower case, and NVML of eight.
    place = root / "sys/bus/pci/devices" / address[-12:]
    node = integer(place / "numa_node")
    name = str(nvml.ask("nvmlDeviceGetName", handle) or "unknown") if handle else "does not answer"
    known = node if node is not None and node >= 0 else None
    active = links.to_switches + sum(links.to.values())
    return Gpu(index, name, address, active, known, text(place / "local_cpulist"))


def _links(nvml: Nvml, handle: Any) -> _Links:
    to_switches, to = 0, dict[str, int]()
    for link in range(getattr(nvml.module, "NVML_NVLINK_MAX_LINKS", 18) if handle else 0):
        if not nvml.ask("nvmlDeviceGetNvLinkState", handle, link):
            continue
        if nvml.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link) == SWITCH:
            to_switches += 1
        else:
            remote = _address(nvml.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link))
            to[remote] = to.get(remote, 0) + 1
    return _Links(to_switches, to)


def _pair(nvml: Nvml, pair: tuple[int, int], handles: list[Any], addresses: list[str], links: list[_Links]) -> Pair:
    source, target = pair
    ends = handles[source], handles[target]
    direct = links[source].to.get(addresses[target], 0)
    switched = min(links[source].to_switches, links[target].to_switches)
    answering = all(ends)
    level = nvml.ask("nvmlDeviceGetTopologyCommonAncestor", *ends) if answering else None
    read = getattr(nvml.module, "NVML_P2P_CAPS_INDEX_READ", 0)
    status = nvml.ask("nvmlDeviceGetP2PStatus", *ends, read) if answering else None
    return Pair(
        source,
        target,
        direct or switched,
        not direct and switched > 0,
        ANCESTORS.get(-1 if level is None else level, "unknown"),
        None if status is None else status == getattr(nvml.module, "NVML_P2P_STATUS_OK", 0),
    )


def _address(pci: Any) -> str:
    """The PCI address in lower case; empty when it is unknown."""
    address = getattr(pci, "busId", b"")
    return (address.decode() if isinstance(address, bytes) else str(address)).lower()
