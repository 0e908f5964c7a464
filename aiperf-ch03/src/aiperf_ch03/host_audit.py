"""Settings of the operating system that change the time of programs: clocks, pages, swap, interrupts and limits."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiperf_core import units
from aiperf_core.audit import Setting, chosen
from aiperf_core.devices.environment import facts
from aiperf_core.devices.sysfs import integer, text

UNKNOWN = "unknown"
UNLIMITED = "unlimited"
# Data loaders hold a descriptor for each file, pipe and socket.
FEW_FILES = 65_536
MUCH_SWAPPINESS = 10
# A share of all interrupts on one CPU above which other CPUs could take some.
UNEVEN = 0.5
FEW_INTERRUPTS = 100_000
CHEAP_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")


def audit(root: Path = Path("/")) -> list[Setting]:
    """The settings of this host. `root` holds /proc and /sys."""
    found = facts("cuda" if (root / "proc/driver/nvidia/version").exists() else "cpu", root)
    parts = (_clocks(root, found), _pages(root, found), _interrupts(root), _limits(root), _gpu(found))
    return [setting for part in parts for setting in part]


def _clocks(root: Path, found: dict[str, Any]) -> Iterator[Setting]:
    governors = found.get("governors", [])
    slow = [name for name in governors if name not in ("performance", "schedutil")]
    yield Setting(
        "CPU governor",
        ", ".join(governors) or f"{UNKNOWN}: {found['lacking'].get('governors', '')}",
        "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        "the clock rises only after load has begun. Set it: cpupower frequency-set -g performance" if slow else "",
    )
    turbo = found.get("turbo")
    yield Setting("turbo", UNKNOWN if turbo is None else _on(turbo), "/sys/devices/system/cpu/cpufreq/boost")
    source = "sys/devices/system/clocksource/clocksource0/current_clocksource"
    clock = text(root / source)
    yield Setting(
        "clock source",
        clock or UNKNOWN,
        f"/{source}",
        "a system call for each look at the clock. Boot with clocksource=tsc where the TSC is stable"
        if clock and clock not in CHEAP_CLOCKS
        else "",
    )
    isolated = text(root / "sys/devices/system/cpu/isolated")
    yield Setting("isolated CPUs", isolated or "none", "/sys/devices/system/cpu/isolated")
    yield Setting("SMT", _on(found["smt"]) if "smt" in found else UNKNOWN, "/sys/devices/system/cpu/smt/active")


def _pages(root: Path, found: dict[str, Any]) -> Iterator[Setting]:
    folder = "sys/kernel/mm/transparent_hugepage"
    enabled, defrag = (chosen(text(root / folder / name)) for name in ("enabled", "defrag"))
    yield Setting(
        "transparent huge pages",
        enabled or UNKNOWN,
        f"/{folder}/enabled",
        f"random access to large tables misses the TLB. Allow them on request: echo madvise > /{folder}/enabled"
        if enabled == "never"
        else "",
    )
    yield Setting(
        "defragmentation for huge pages",
        defrag or UNKNOWN,
        f"/{folder}/defrag",
        f"any page fault may wait while the kernel moves memory. Use: echo defer+madvise > /{folder}/defrag"
        if defrag == "always"
        else "",
    )
    swap, used, swappiness = (found.get(name) for name in ("swap_total_bytes", "swap_used_bytes", "swappiness"))
    yield Setting(
        "swap in use",
        UNKNOWN if used is None else f"{units.size(used)} of {units.size(swap or 0)}",
        "/proc/meminfo",
        "pages of some process come back from the disk. Free memory, then: swapoff -a && swapon -a" if used else "",
    )
    yield Setting(
        "swappiness",
        UNKNOWN if swappiness is None else str(swappiness),
        "/proc/sys/vm/swappiness",
        f"the kernel swaps out memory of programs to cache files. Use: sysctl vm.swappiness={MUCH_SWAPPINESS}"
        if swap and swappiness is not None and swappiness > MUCH_SWAPPINESS
        else "",
    )
    nodes = len(found.get("numa_nodes", {}))
    balancing, reclaim = (
        integer(root / "proc/sys" / name) for name in ("kernel/numa_balancing", "vm/zone_reclaim_mode")
    )
    yield Setting(
        "NUMA balancing",
        UNKNOWN if balancing is None else _on(bool(balancing)),
        "/proc/sys/kernel/numa_balancing",
        "the kernel unmaps pages to see who uses them, and moves them. For bound "
        "programs: sysctl kernel.numa_balancing=0"
        if balancing and nodes > 1
        else "",
    )
    yield Setting(
        "zone reclaim",
        UNKNOWN if reclaim is None else _on(bool(reclaim)),
        "/proc/sys/vm/zone_reclaim_mode",
        "a full node drops its page cache before it uses another node. Use: sysctl vm.zone_reclaim_mode=0"
        if reclaim and nodes > 1
        else "",
    )


def _interrupts(root: Path) -> Iterator[Setting]:
    by_cpu = interrupts_by_cpu(text(root / "proc/interrupts"))
    total = sum(by_cpu.values())
    source = "/proc/interrupts"
    if not total:
        yield Setting("interrupts of devices", UNKNOWN, source)
        return
    cpu = max(by_cpu, key=lambda number: by_cpu[number])
    uneven = len(by_cpu) > 2 and total > FEW_INTERRUPTS and by_cpu[cpu] > UNEVEN * total
    yield Setting(
        "interrupts of devices",
        f"{total:,}; CPU {cpu} took {units.percent(by_cpu[cpu] / total).strip()}",
        source,
        f"one CPU serves most devices, and delays the program that runs there. Start irqbalance, or keep programs off "
        f"CPU {cpu}"
        if uneven
        else "",
    )


def interrupts_by_cpu(table: str) -> dict[int, int]:
    """The interrupts of devices that each CPU took, from the text of /proc/interrupts."""
    lines = table.splitlines()
    cpus = [int(name.removeprefix("CPU")) for name in lines[0].split()] if lines else []
    found = dict.fromkeys(cpus, 0)
    for line in lines[1:]:
        label, _, rest = line.strip().partition(":")
        if label.isdigit():  # the others are timers and calls between CPUs
            for cpu, count in zip(cpus, rest.split(), strict=False):
                found[cpu] += int(count)
    return found


def _limits(root: Path) -> Iterator[Setting]:
    limits = soft_limits(text(root / "proc/self/limits"))
    locked, files = limits.get("Max locked memory", UNKNOWN), limits.get("Max open files", UNKNOWN)
    yield Setting(
        "locked memory",
        units.size(int(locked)) if locked.isdigit() else locked,
        "/proc/self/limits",
        "RDMA, mlock and io_uring buffers fail above it. Raise it: ulimit -l unlimited, or "
        "docker run --ulimit memlock=-1"
        if locked not in (UNLIMITED, UNKNOWN)
        else "",
    )
    yield Setting(
        "open files",
        files,
        "/proc/self/limits",
        f"data loaders and ranks need more. Raise it: ulimit -n {FEW_FILES}"
        if files.isdigit() and int(files) < FEW_FILES
        else "",
    )
    paranoid = integer(root / "proc/sys/kernel/perf_event_paranoid")
    yield Setting(
        "performance counters",
        UNKNOWN if paranoid is None else str(paranoid),
        "/proc/sys/kernel/perf_event_paranoid",
        "perf shows nothing to users. Allow it: sysctl kernel.perf_event_paranoid=2" if (paranoid or 0) > 2 else "",
    )


def soft_limits(table: str) -> dict[str, str]:
    """The soft limits by name, from the text of /proc/PID/limits."""
    rows = (re.split(r"\s{2,}", line.strip()) for line in table.splitlines()[1:])
    return {row[0]: row[1] for row in rows if len(row) > 2}


def _gpu(found: dict[str, Any]) -> Iterator[Setting]:
    if "persistence" in found:
        yield Setting(
            "GPU persistence mode",
            _on(found["persistence"]),
            "NVML",
            "" if found["persistence"] else "the driver loads for each first program. Set it: nvidia-smi -pm 1",
        )


def _on(value: bool) -> str:
    return "on" if value else "off"
