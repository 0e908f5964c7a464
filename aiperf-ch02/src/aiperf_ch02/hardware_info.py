"""Hardware: what this machine is made of, as far as it decides how fast programs are. This module reads only."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from aiperf_core import units
from aiperf_core.audit import Setting, chosen
from aiperf_core.devices import host
from aiperf_core.devices.nvml import Nvml, NvmlMissingError, session
from aiperf_core.devices.sysfs import size_bytes, text

CPU0 = "sys/devices/system/cpu/cpu0/cache"
THP = "sys/kernel/mm/transparent_hugepage/enabled"
# What the CUDA driver knows of a GPU and NVML does not: the name of its attribute, and whether it counts bytes.
ATTRIBUTES = {
    "multiprocessors": ("MULTIPROCESSOR_COUNT", False),
    "L2 cache": ("L2_CACHE_SIZE", True),
    "shared memory of a multiprocessor": ("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", True),
    "shared memory of a block, at most": ("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", True),
    "registers of a multiprocessor": ("MAX_REGISTERS_PER_MULTIPROCESSOR", False),
    "threads of a multiprocessor, at most": ("MAX_THREADS_PER_MULTIPROCESSOR", False),
    "copy engines": ("ASYNC_ENGINE_COUNT", False),
}
Attributes = Callable[[str], Mapping[str, int]]


def attributes(bus_id: str) -> Mapping[str, int]:
    """The driver's attributes of the GPU at a PCI address, without a context on it; none without driver or bindings."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return {}
    try:
        if int(driver.cuInit(0)[0]):
            return {}
        failed, device = driver.cuDeviceGetByPCIBusId(bus_id.encode())
    except Exception:  # the bindings raise errors of several types where there is no driver
        return {}
    if int(failed):
        return {}
    found = {}
    for name, (attribute, _) in ATTRIBUTES.items():
        key = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute}")
        failed, value = driver.cuDeviceGetAttribute(key, device)
        if not int(failed):
            found[name] = int(value)
    return found


def report(
    root: Path = Path("/"),
    nvml: Callable[[], AbstractContextManager[Nvml]] = session,
    ask_driver: Attributes = attributes,
) -> list[Setting]:
    """The processors, the memory and the GPUs of this machine. `root` holds /proc and /sys."""
    return [*_host(root), *_gpus(nvml, ask_driver)]


def _host(root: Path) -> Iterator[Setting]:
    yield Setting("processor", host.processor(), "/proc/cpuinfo")
    caches = []
    for place in sorted((root / CPU0).glob("index*")):
        size = size_bytes(text(place / "size"))
        shared = text(place / "shared_cpu_list")
        caches.append(f"L{text(place / 'level')} {text(place / 'type').lower()} {units.size(size)} (CPUs {shared})")
    yield Setting("caches of CPU 0", ", ".join(caches) or "unknown", f"/{CPU0}")
    memory = dict(re.findall(r"^(\w+):\s+(\d+)", text(root / "proc/meminfo"), re.MULTILINE))
    total, free = (
        units.size(1024 * int(memory[name])) if name in memory else "unknown" for name in ("MemTotal", "MemAvailable")
    )
    yield Setting("memory", f"{total}, {free} available", "/proc/meminfo")
    nodes = list((root / "sys/devices/system/node").glob("node[0-9]*"))
    yield Setting("NUMA nodes", str(len(nodes)) if nodes else "none shown", "/sys/devices/system/node")
    yield Setting("transparent huge pages", chosen(text(root / THP)) or "unknown", f"/{THP}")
    reserved = memory.get("HugePages_Total", "0")
    page = units.size(1024 * int(memory.get("Hugepagesize", 0)))
    yield Setting("reserved huge pages", f"{reserved} of {page}" if int(reserved) else "none", "/proc/meminfo")
    yield Setting("hypervisor", host.hypervisor() or "none seen", "/proc/cpuinfo")


def _gpus(nvml: Callable[[], AbstractContextManager[Nvml]], ask_driver: Attributes) -> Iterator[Setting]:
    try:
        with nvml() as asked:
            count = asked.ask("nvmlDeviceGetCount") or 0
            driver = asked.ask("nvmlSystemGetDriverVersion") or "unknown"
            yield Setting("NVIDIA driver", driver, "NVML")
            yield Setting("GPUs", str(count), "NVML")
            for index in range(count):
                for one in _gpu(asked, index, ask_driver):
                    yield Setting(f"GPU {index}: {one.name}", one.value, one.source, one.advice)
    except NvmlMissingError as error:
        advice = "install the package: pip install nvidia-ml-py" if error.library else "for a GPU, install its driver"
        yield Setting("GPUs", f"none: {error}", "NVML", advice)


def _gpu(nvml: Nvml, index: int, ask_driver: Attributes) -> Iterator[Setting]:
    handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        yield Setting("state", "does not answer", "NVML", "see the state of the GPU with: nvidia-smi")
        return

    def ask(function: str, *arguments: Any) -> Any:
        return nvml.ask(function, handle, *arguments)

    pair, memory, pci = (ask(f"nvmlDeviceGet{one}") for one in ("CudaComputeCapability", "MemoryInfo", "PciInfo"))
    yield Setting("name", str(ask("nvmlDeviceGetName") or "unknown"), "NVML")
    yield Setting("architecture", f"sm_{pair[0]}{pair[1]}" if pair else "unknown", "NVML")
    yield Setting("memory", units.size(memory.total) if memory else "unknown", "NVML")
    known = ask_driver(_text(pci.busId)) if pci else {}
    for name, (_, in_bytes) in ATTRIBUTES.items():
        value = known.get(name)
        shown = "unknown" if value is None else units.size(value) if in_bytes else f"{value:,}"
        yield Setting(name, shown, "CUDA driver")
    clocks = [ask("nvmlDeviceGetMaxClockInfo", getattr(nvml.module, f"NVML_CLOCK_{one}")) for one in ("SM", "MEM")]
    for name, clock in zip(("clock of multiprocessors, at most", "clock of memory, at most"), clocks, strict=True):
        yield Setting(name, f"{clock:,} MHz" if clock else "unknown", "NVML")
    ecc = ask("nvmlDeviceGetEccMode")
    mode = ecc[0] if isinstance(ecc, list | tuple) else ecc
    yield Setting("ECC", "unknown" if mode is None else "on" if mode else "off", "NVML")
    yield _bus(ask)


def _bus(ask: Callable[..., Any]) -> Setting:
    """The PCI Express link as it is and as it could be. Idle GPUs lower its generation, and never its width."""
    generation, width = ask("nvmlDeviceGetCurrPcieLinkGeneration"), ask("nvmlDeviceGetCurrPcieLinkWidth")
    best, widest = ask("nvmlDeviceGetMaxPcieLinkGeneration"), ask("nvmlDeviceGetMaxPcieLinkWidth")
    if not (generation and width and best and widest):
        return Setting("PCI Express", "unknown", "NVML")
    advice = ""
    if width < widest:
        advice = "it has fewer lanes than the GPU and its place allow. Reseat the board, or look at risers and the BIOS"
    return Setting("PCI Express", f"generation {generation} of {best}, {width} of {widest} lanes", "NVML", advice)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
