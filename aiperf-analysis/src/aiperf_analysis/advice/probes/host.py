"""Probes of the processor, the memory, the limits of the process, disks and networks."""

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

from aiperf_analysis.advice.probes.seen import Answer, Seen, absent, decided, unknown
from aiperf_core import units
from aiperf_core.devices import host
from aiperf_core.devices.sysfs import integer, text
from aiperf_core.profiling import programs

_OPEN_FILES = 65_536
_SHARED_BYTES = 1 << 30
_SOCKET_BYTES = 16 << 20
_JUMBO = 9000
_SWAPPINESS = 10
_BUSY = 0.05
# Clocks that are read without a system call.
_FAST_CLOCKS = ("tsc", "arch_sys_counter", "timebase")
_MATRIX_FLAGS = ("avx512f", "amx_tile", "sve", "asimddp")
_INTERFACES = "sys/class/net"
# Interfaces without a cable: loopback, containers, bridges, tunnels.
_VIRTUAL = ("lo", "docker", "veth", "br-", "virbr", "tun", "tap", "cni", "flannel", "cali", "bond", "dummy")


def _governor(seen: Seen) -> Answer:
    found = seen.fact("governors")
    return decided(set(found) == {"performance"}, f"governor {', '.join(found)}")


def _turbo(seen: Seen) -> Answer:
    found = seen.fact("turbo")
    return decided(found, "turbo clocks are on" if found else "turbo clocks are off")


def _quota(seen: Seen) -> Answer:
    found = seen.fact("cpu_limit")
    return decided(found is None, "no CPU quota" if found is None else f"the CPU quota is {found:g} processors")


def _memory_limit(seen: Seen) -> Answer:
    found, whole = seen.fact("memory_limit_bytes"), seen.fact("memory_bytes")
    good = found is None or found >= whole
    return decided(good, "no memory limit" if good else f"the limit is {units.size(found)} of {units.size(whole)}")


def _swap(seen: Seen) -> Answer:
    total = seen.fact("swap_total_bytes")
    if not total:
        return absent("no swap space")
    used = seen.fact("swap_used_bytes")
    return decided(used == 0, f"{units.size(used)} of {units.size(total)} swap are used")


def _swappiness(seen: Seen) -> Answer:
    if not seen.fact("swap_total_bytes"):
        return absent("no swap space")
    found = seen.fact("swappiness")
    return decided(found <= _SWAPPINESS, f"vm.swappiness is {found}")


def _huge_pages(seen: Seen) -> Answer:
    found = seen.fact("transparent_huge_pages")
    return decided(found in ("always", "madvise"), f"transparent huge pages: {found}")


def _numa_balancing(seen: Seen) -> Answer:
    if len(seen.fact("numa_nodes")) < 2:
        return absent("a single NUMA node")
    found = seen.read("proc/sys/kernel/numa_balancing")
    return decided(found == "0", f"kernel.numa_balancing is {found}") if found else unknown("the kernel does not tell")


def _numa_binding(seen: Seen) -> Answer:
    if len(seen.fact("numa_nodes")) < 2:
        return absent("a single NUMA node")
    run, memory = seen.fact("process_nodes"), seen.fact("memory_nodes")
    told = f"processors of nodes {_listed(run)}, memory of nodes {_listed(memory)}"
    return decided(run == memory and len(run) == 1, told)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


def _locked_memory(_: Seen) -> Answer:
    soft, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    free = soft == resource.RLIM_INFINITY
    return decided(free, f"ulimit -l is {'unlimited' if free else units.size(soft)}")


def _open_files(_: Seen) -> Answer:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return decided(soft >= _OPEN_FILES or soft == resource.RLIM_INFINITY, f"ulimit -n is {soft:,}")


def _shared_memory(seen: Seen) -> Answer:
    folder = seen.root / "dev/shm"
    if not folder.is_dir():
        return unknown("this machine has no /dev/shm")
    total = shutil.disk_usage(folder).total
    return decided(total >= _SHARED_BYTES, f"/dev/shm has {units.size(total)}")


def _clock_source(seen: Seen) -> Answer:
    found = seen.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
    return decided(found in _FAST_CLOCKS, f"clock source {found}") if found else unknown("the kernel does not tell")


def _iommu(seen: Seen) -> Answer:
    if seen.facts.get("hypervisor"):
        return absent("the hypervisor decides")
    if not any(_entries(seen.root / "sys/class/iommu")):
        return absent("no active IOMMU")
    line = seen.read("proc/cmdline").split()
    good = "iommu=pt" in line or "iommu.passthrough=1" in line
    return decided(good, "an IOMMU is active, " + ("passed through" if good else "and translates for the host"))


def _aspm(seen: Seen) -> Answer:
    found = seen.read("sys/module/pcie_aspm/parameters/policy").partition("[")[2].partition("]")[0]
    if not found:
        return unknown("the kernel does not tell its policy of PCIe power saving")
    return decided(found == "performance", f"PCIe power saving: {found}")


def _disk_scheduler(seen: Seen) -> Answer:
    disks = [path for path in _entries(seen.root / "sys/block") if path.name.startswith("nvme")]
    if not disks:
        return absent("no NVMe disk")
    other = {}
    for disk in disks:
        chosen = text(disk / "queue/scheduler").partition("[")[2].partition("]")[0]
        if chosen not in ("none", ""):
            other[disk.name] = chosen
    told = ", ".join(f"{name}: {chosen}" for name, chosen in other.items())
    return decided(not other, told or f"no scheduler on {len(disks)} NVMe disks")


def _hypervisor(seen: Seen) -> Answer:
    found = seen.fact("hypervisor")
    return decided(not found, f"hypervisor {found}" if found else "no hypervisor seen")


def _quiet(seen: Seen) -> Answer:
    one, usable = seen.fact("load_average")[0], seen.fact("usable_cpus")
    others = max(0.0, one - 1)  # this command is a processor's work itself
    return decided(others <= _BUSY * usable, f"load {one:.2f} over a minute on {usable} processors")


def _compiler(_: Seen) -> Answer:
    found = host.compiler()
    return decided(bool(found), found or "no C compiler found")


def _rapl(seen: Seen) -> Answer:
    domains = sorted((seen.root / "sys/class/powercap").glob("*-rapl:*/energy_uj"))
    if not domains:
        return absent("no RAPL counter")
    readable = [path for path in domains if os.access(path, os.R_OK)]
    return decided(len(readable) == len(domains), f"{len(readable)} of {len(domains)} RAPL counters are readable")


def _perf_rights(seen: Seen) -> Answer:
    found = seen.read("proc/sys/kernel/perf_event_paranoid")
    return decided(int(found) <= 1, f"kernel.perf_event_paranoid is {found}") if found else unknown("no perf here")


def _matrix_units(seen: Seen) -> Answer:
    lines = seen.read("proc/cpuinfo").splitlines()
    flags = next((line.split(":")[1].split() for line in lines if line.lower().startswith(("flags", "features"))), [])
    if not flags:
        return unknown("/proc/cpuinfo lists no features")
    found = [flag for flag in _MATRIX_FLAGS if flag in flags]
    return decided(bool(found), ", ".join(found) or "neither AVX-512 nor AMX nor SVE")


def _memory_ratio(seen: Seen) -> Answer:
    sizes = [board["memory_bytes"] for board in seen.boards if board.get("memory_bytes")]
    if not sizes:
        return absent("no GPU")
    memory = seen.fact("memory_bytes")
    return decided(memory >= sum(sizes), f"{units.size(memory)} host memory, {units.size(sum(sizes))} of all GPUs")


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def interfaces(seen: Seen) -> list[Path]:
    """The network interfaces that are up and have a cable."""
    found = [path for path in _entries(seen.root / _INTERFACES) if not path.name.startswith(_VIRTUAL)]
    return [path for path in found if text(path / "operstate") in ("up", "unknown")]


def _mtu(seen: Seen) -> Answer:
    sizes = {path.name: integer(path / "mtu") or 0 for path in interfaces(seen) if not path.name.startswith("ib")}
    if not sizes:
        return absent("no Ethernet interface is up")
    told = ", ".join(f"{name} {size}" for name, size in sizes.items())
    return decided(max(sizes.values()) >= _JUMBO, f"MTU: {told}")


def _socket_buffers(seen: Seen) -> Answer:
    found = {name: integer(seen.root / f"proc/sys/net/core/{name}_max") for name in ("rmem", "wmem")}
    if None in found.values():
        return unknown("the network settings are not visible here, as in many containers")
    told = ", ".join(f"{name}_max {units.size(size or 0)}" for name, size in found.items())
    return decided(min(size or 0 for size in found.values()) >= _SOCKET_BYTES, told)


def _infiniband(seen: Seen) -> Answer:
    ports = sorted((seen.root / "sys/class/infiniband").glob("*/ports/*"))
    if not ports:
        return absent("no InfiniBand or RoCE adapter")
    down = [f"{port.parts[-3]}/{port.name}" for port in ports if "ACTIVE" not in text(port / "state")]
    rates = sorted({text(port / "rate") for port in ports})
    told = f"not active: {', '.join(down)}" if down else f"{len(ports)} ports active at {', '.join(rates)}"
    return decided(not down, told)


def _gpudirect(seen: Seen) -> Answer:
    if not seen.boards:
        return absent("no GPU")
    if not any(_entries(seen.root / "sys/class/infiniband")):
        return absent("no InfiniBand or RoCE adapter")
    loaded = (seen.root / "sys/module/nvidia_peermem").is_dir()
    return decided(loaded, f"nvidia_peermem is {'' if loaded else 'not '}loaded")


def _program(name: str, needs_gpu: bool = False) -> Callable[[Seen], Answer]:
    def probe(seen: Seen) -> Answer:
        if needs_gpu and not seen.boards:
            return absent("no GPU")
        path = programs.find(name)
        return decided(path is not None, path or f"{name} is not installed")

    return probe


PROBES: dict[str, Callable[[Seen], Answer]] = {
    "cpu.governor": _governor,
    "cpu.turbo": _turbo,
    "cpu.quota": _quota,
    "cpu.matrix_units": _matrix_units,
    "memory.limit": _memory_limit,
    "memory.swap": _swap,
    "memory.swappiness": _swappiness,
    "memory.huge_pages": _huge_pages,
    "memory.numa_balancing": _numa_balancing,
    "memory.numa_binding": _numa_binding,
    "process.locked_memory": _locked_memory,
    "process.open_files": _open_files,
    "container.shared_memory": _shared_memory,
    "host.clock_source": _clock_source,
    "host.hypervisor": _hypervisor,
    "host.quiet": _quiet,
    "host.compiler": _compiler,
    "host.rapl": _rapl,
    "host.perf_rights": _perf_rights,
    "host.memory_ratio": _memory_ratio,
    "pcie.iommu": _iommu,
    "pcie.aspm": _aspm,
    "disk.scheduler": _disk_scheduler,
    "net.mtu": _mtu,
    "net.buffers": _socket_buffers,
    "net.infiniband": _infiniband,
    "net.gpudirect": _gpudirect,
    "tool.nsys": _program("nsys", needs_gpu=True),
    "tool.ncu": _program("ncu", needs_gpu=True),
    "tool.perf": _program("perf"),
}
