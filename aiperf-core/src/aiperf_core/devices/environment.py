"""Facts about the machine that its figures depend on: virtualisation, limits, clocks, NUMA nodes and memory.

This module reads only, and never raises.
"""

import ctypes
import os
import platform
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, field

from aiperf_core.devices import host
from aiperf_core.devices.control_groups import cpu_quotas, groups_of
from aiperf_core.devices.gpu_telemetry import find
from aiperf_core.devices.gpus import MHZ, gpus
from aiperf_core.devices.nvml import Nvml, NvmlMissingError, scaled, session
from aiperf_core.devices.sysfs import numbers, text, usable_cpu_folders
from aiperf_core.devices.telemetry import open_telemetry

_CONTAINERS = {".dockerenv": "docker", "run/.containerenv": "podman"}
# Version 1 of control groups shows the largest number of pages for no limit.
_NO_LIMIT_BYTES = 1 << 60
# The number of the system call get_mempolicy, which glibc does not wrap, and the names of its modes by number.
_GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236}
_POLICIES = ("default", "preferred", "bind", "interleave", "local", "preferred many", "weighted interleave")
_MOST_NODES = 1024
# Facts that come from `devices.gpus`, with their names there.
_OF_BOARD = {
    "gpu": "name",
    "gpu_uuid": "uuid",
    "power_limit_w": "power_limit_w",
    "mig": "mig",
    "persistence": "persistence",
}
# Facts that NVML tells: the factor to SI units, the function, and the constants among its arguments.
_OF_NVML: dict[str, tuple[float, str, tuple[str, ...]]] = {
    "power_default_w": (1e-3, "nvmlDeviceGetPowerManagementDefaultLimit", ()),
    **{
        f"{kind}_{clock}_clock_hz": (MHZ, f"nvmlDeviceGet{function}Clock", (constant,))
        for kind, function in (("application", "Applications"), ("default", "DefaultApplications"))
        for clock, constant in (("sm", "NVML_CLOCK_SM"), ("memory", "NVML_CLOCK_MEM"))
    },
}
_GPU_FACTS = (*_OF_BOARD, *_OF_NVML, "driver", "power_limits_w", "clocks_chosen")


@define
class _Facts:
    """The facts that were found, and the reason for each that was not."""

    root: Path
    found: dict[str, Any] = field(factory=dict)
    lacking: dict[str, str] = field(factory=dict)

    def take(self, name: str, read: Callable[[], Any]) -> None:
        """Keep a fact, or the error as the reason for its absence: no fact may stop a run."""
        try:
            self.found[name] = read()
        except OSError as error:
            self.lacking[name] = f"{error.filename or name}: {error.strerror}"
        except Exception as error:
            self.lacking[name] = str(error) or type(error).__name__

    def text(self, path: str) -> str:
        return (self.root / path).read_text(errors="replace").strip()

    def number(self, path: str) -> int:
        return int(self.text(path))


def facts(device: str, root: Path = Path("/")) -> dict[str, Any]:
    """The facts of this machine for a run on `cpu`, `cuda` or `cuda:1`. `root` holds /proc and /sys.

    hypervisor, container: the name; empty when none is seen.
    cpus, usable_cpus, affinity: the logical CPUs of the machine, the number this process may use, and their numbers.
    smt: whether cores run several threads.
    load_average: over 1, 5 and 15 minutes.
    cpu_limit, cpuset_cpus, memory_limit_bytes: limits of the control groups, in CPUs and bytes; None is no limit.
    cpufreq_driver, governors, energy_preferences, cpu_clock_limits_hz: of the usable CPUs.
    turbo: whether turbo clocks are on.
    numa_nodes: the CPUs of each node.
    process_nodes, memory_nodes: the nodes that this process may run on, and may take memory from.
    numa_policy: the memory policy of this thread.
    memory_bytes, committed_bytes, commit_limit_bytes, swap_total_bytes, swap_used_bytes, swappiness: of the kernel.
    overcommit: `heuristic`, `always` or `never`.
    transparent_huge_pages: `always`, `madvise` or `never`.

    Of a GPU also: driver, gpu, gpu_uuid, mig, persistence.
    power_limit_w, power_default_w, power_limits_w: the limit, the default limit, and the limits of all GPUs.
    application_..., default_..._clock_hz: the clocks that applications get, and would get by default.
    clocks_chosen: whether the clocks are held at a chosen setting.

    lacking: the reason for each fact that is absent.
    """
    seen = _Facts(root)
    _processors(seen)
    _limits(seen)
    _clocks(seen)
    _nodes(seen)
    _memory(seen)
    if device.partition(":")[0] == "cuda":
        _gpu(seen, device)
    return {**seen.found, "lacking": seen.lacking}


# --- virtualisation and limits


def _processors(seen: _Facts) -> None:
    seen.take("hypervisor", host.hypervisor)
    seen.take("container", lambda: _container(seen.root))
    seen.take("cpus", os.cpu_count)
    seen.take("usable_cpus", host.usable_cpus)
    seen.take("affinity", lambda: sorted(os.sched_getaffinity(0)))
    seen.take("smt", lambda: seen.text("sys/devices/system/cpu/smt/active") == "1")
    seen.take("load_average", lambda: list(os.getloadavg()))


def _container(root: Path) -> str:
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    return next((name for file, name in _CONTAINERS.items() if (root / file).exists()), "")


def _limits(seen: _Facts) -> None:
    """The limits of this process's control groups, of either version."""
    seen.take("cpu_limit", lambda: min((limit for _, limit in cpu_quotas(seen.root)), default=None))
    seen.take("memory_limit_bytes", lambda: min(_memory_limits(seen), default=None))
    seen.take("cpuset_cpus", lambda: _cpuset(seen))


def _memory_limits(seen: _Facts) -> Iterator[int]:
    groups = groups_of("memory", seen.root)
    for folder in groups.folders:
        limit = text(folder / ("memory.max" if groups.version == 2 else "memory.limit_in_bytes"))
        if limit.isdecimal() and int(limit) < _NO_LIMIT_BYTES:
            yield int(limit)


def _cpuset(seen: _Facts) -> int | None:
    """The number of CPUs of this process's group; None when it names none."""
    groups = groups_of("cpuset", seen.root)
    names = ("cpuset.cpus.effective",) if groups.version == 2 else ("cpuset.effective_cpus", "cpuset.cpus")
    listed = next((found for folder in groups.folders for name in names if (found := text(folder / name))), "")
    return len(numbers(listed)) or None


# --- clocks


def _clocks(seen: _Facts) -> None:
    cpus = seen.root / "sys/devices/system/cpu"

    def distinct(name: str) -> list[str]:
        policies = [path for cpu in usable_cpu_folders(cpus) if (path := cpu / "cpufreq").is_dir()]
        if not policies:
            raise LookupError("this machine does not show how the clocks of its processors are chosen")
        told = sorted({found for policy in policies if (found := text(policy / name))})
        if not told:
            raise LookupError(f"this machine's cpufreq has no {name}")
        return told

    def limits() -> list[float]:
        least, most = map(int, distinct("scaling_min_freq")), map(int, distinct("scaling_max_freq"))
        return [1e3 * min(least), 1e3 * max(most)]

    seen.take("cpufreq_driver", lambda: distinct("scaling_driver")[0])
    seen.take("governors", lambda: distinct("scaling_governor"))
    seen.take("energy_preferences", lambda: distinct("energy_performance_preference"))
    seen.take("cpu_clock_limits_hz", limits)
    seen.take("turbo", lambda: _turbo(seen))


def _turbo(seen: _Facts) -> bool:
    if off := text(seen.root / "sys/devices/system/cpu/intel_pstate/no_turbo"):
        return off == "0"
    if on := text(seen.root / "sys/devices/system/cpu/cpufreq/boost"):
        return on == "1"
    raise LookupError("this machine does not say whether turbo clocks are on")


# --- nodes and memory


def _nodes(seen: _Facts) -> None:
    nodes: dict[str, list[int]] = {}

    def read() -> dict[str, list[int]]:
        for folder in sorted((seen.root / "sys/devices/system/node").glob("node[0-9]*")):
            nodes[folder.name.removeprefix("node")] = numbers((folder / "cpulist").read_text())
        if not nodes:
            raise LookupError("this machine shows no nodes")
        return nodes

    def may_run_on() -> list[int]:
        if not nodes:
            raise LookupError("this machine shows no nodes")
        usable = os.sched_getaffinity(0)
        return [int(node) for node, cpus in nodes.items() if not usable.isdisjoint(cpus)]

    def memory_from() -> list[int]:
        match = re.search(r"^Mems_allowed_list:\s*(\S+)", seen.text("proc/self/status"), re.MULTILINE)
        if match is None:
            raise LookupError("/proc/self/status does not say which nodes memory may come from")
        allowed = numbers(match[1])
        policy, chosen = _memory_policy()
        return chosen if policy == "bind" else allowed

    seen.take("numa_nodes", read)
    seen.take("process_nodes", may_run_on)
    seen.take("numa_policy", lambda: _memory_policy()[0])
    seen.take("memory_nodes", memory_from)


def _memory_policy() -> tuple[str, list[int]]:
    """The memory policy of this thread, and the nodes that it names."""
    number = _GET_MEMPOLICY.get(platform.machine())
    if number is None:
        raise LookupError(f"the number of get_mempolicy on {platform.machine()} is not known here")
    mode = ctypes.c_int()
    mask = (ctypes.c_ulong * (_MOST_NODES // 64))()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, ctypes.byref(mode), mask, ctypes.c_ulong(_MOST_NODES), None, ctypes.c_ulong(0)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "get_mempolicy")
    kind = mode.value & 0xFF  # higher bits are flags
    nodes = [node for node in range(_MOST_NODES) if mask[node // 64] >> node % 64 & 1]
    return _POLICIES[kind] if kind < len(_POLICIES) else f"policy {kind}", nodes


def _memory(seen: _Facts) -> None:
    lines = text(seen.root / "proc/meminfo")
    table = {name: 1024 * int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", lines, re.MULTILINE)}

    def line(name: str) -> int:
        if name not in table:
            raise LookupError(f"/proc/meminfo has no {name}")
        return table[name]

    def huge_pages() -> str:
        choices = seen.text("sys/kernel/mm/transparent_hugepage/enabled")
        return choices.partition("[")[2].partition("]")[0] or choices

    names = {
        "memory": "MemTotal",
        "committed": "Committed_AS",
        "commit_limit": "CommitLimit",
        "swap_total": "SwapTotal",
    }
    for name, key in names.items():
        seen.take(f"{name}_bytes", partial(line, key))
    seen.take("swap_used_bytes", lambda: line("SwapTotal") - line("SwapFree"))
    seen.take("swappiness", lambda: seen.number("proc/sys/vm/swappiness"))
    seen.take("overcommit", lambda: host.OVERCOMMIT[str(seen.number("proc/sys/vm/overcommit_memory"))])
    seen.take("transparent_huge_pages", huge_pages)


# --- the GPU


def _gpu(seen: _Facts, device: str) -> None:
    try:
        with session() as nvml:  # stays open, so that the functions below need not start it again
            _board(seen, nvml, device)
    except Exception as error:
        reason = f"NVML cannot be asked: {error}" if isinstance(error, NvmlMissingError) else str(error)
        seen.lacking = {name: reason for name in _GPU_FACTS if name not in seen.found} | seen.lacking


def _board(seen: _Facts, nvml: Nvml, device: str) -> None:
    boards, driver = gpus()
    seen.take("driver", lambda: _told(driver, "the driver does not tell its version"))
    handle, _ = find(nvml, int(device.partition(":")[2] or 0))
    uuid = nvml.ask("nvmlDeviceGetUUID", handle)
    board = next((board for board in boards if uuid and board.get("uuid") == uuid), {})
    for name, key in _OF_BOARD.items():
        seen.take(name, partial(_told, board.get(key), "the driver does not tell it"))
    seen.take("power_limits_w", lambda: [each.get("power_limit_w") for each in boards])

    def ask(factor: float, function: str, constants: tuple[str, ...]) -> float:
        arguments = (getattr(nvml.module, constant) for constant in constants)
        answer = scaled(nvml.ask(function, handle, *arguments), factor)
        return float(_told(answer, f"NVML: {nvml.refused.get(function)}"))

    for name, asked in _OF_NVML.items():
        seen.take(name, partial(ask, *asked))
    seen.take("clocks_chosen", lambda: _clocks_chosen(device))


def _clocks_chosen(device: str) -> bool:
    telemetry = open_telemetry(device)
    try:
        throttled = telemetry.read(light=True).throttled
        return "clocks_setting" in _told(throttled, telemetry.lacking.get("throttled", "not told"))
    finally:
        telemetry.close()


def _told(answer: Any, reason: str) -> Any:
    if answer is None:
        raise LookupError(reason)
    return answer
