"""Limits of a container that programs do not see by themselves: CPU time, memory, shared memory, calls and GPUs."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aiperf_core import units
from aiperf_core.audit import Setting
from aiperf_core.devices.environment import facts
from aiperf_core.devices.sysfs import size_bytes, text

# A data loader's worker passes each batch through /dev/shm. Docker's default is 64 MiB.
SMALL_SHM_BYTES = 1 << 30
THROTTLED = 0.01
FEW_PROCESSES = 4096
CAPABILITIES = {"CAP_IPC_LOCK": 14, "CAP_SYS_NICE": 23}


def audit(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> list[Setting]:
    """The limits of the container, or of the control group, of this process. `root` holds /proc, /sys and /dev."""
    found = facts("cpu", root)
    mounts = read_mounts(text(root / "proc/self/mountinfo"))
    parts = (_cpu(root, found), _memory(root, found), _mounts(mounts), _calls(root), _gpus(root, mounts, environment))
    return [
        Setting("container", found.get("container") or "none seen", "/.dockerenv, /run/.containerenv"),
        *(s for part in parts for s in part),
    ]


def read_mounts(table: str) -> dict[str, tuple[str, str]]:
    """The type of the file system and its options by mount point, from the text of /proc/self/mountinfo."""
    found = {}
    for line in table.splitlines():
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split()
        if len(fields) > 5 and len(kind) > 2:
            found[fields[4]] = (kind[0], f"{fields[5]},{kind[2]}")
    return found


def _group(root: Path, name: str) -> str:
    """A file of this process's control group (version 2), or of the highest group that is visible."""
    place = next((line[3:] for line in text(root / "proc/self/cgroup").splitlines() if line.startswith("0::")), "/")
    top = root / "sys/fs/cgroup"
    return text(top / place.lstrip("/") / name) or text(top / name)


def _cpu(root: Path, found: dict[str, Any]) -> Iterator[Setting]:
    cpus, limit, seen = found.get("usable_cpus"), found.get("cpu_limit"), found.get("cpus")
    threads = max(1, int(limit)) if limit else cpus
    yield Setting(
        "CPU limit",
        f"{limit:g} CPUs" if limit else "none",
        "/sys/fs/cgroup/cpu.max",
        f"programs see {seen} CPUs and start as many threads, which are then stopped. Set "
        f"OMP_NUM_THREADS={threads}, and ask for whole CPUs"
        if limit and seen and limit < seen
        else "",
    )
    yield Setting("CPUs of this process", str(cpus), "sched_getaffinity")
    stat = dict(re.findall(r"^(\w+) (\d+)$", _group(root, "cpu.stat"), re.MULTILINE))
    periods, throttled = (int(stat.get(name, 0)) for name in ("nr_periods", "nr_throttled"))
    if periods:
        share = throttled / periods
        yield Setting(
            "periods that were throttled",
            f"{throttled:,} of {periods:,} ({units.percent(share).strip()})",
            "/sys/fs/cgroup/cpu.stat",
            "all threads stood still until the end of these periods. Start fewer threads, or raise the limit"
            if share > THROTTLED
            else "",
        )


def _memory(root: Path, found: dict[str, Any]) -> Iterator[Setting]:
    limit, used = found.get("memory_limit_bytes"), _group(root, "memory.current")
    value = "none" if not limit else units.size(limit)
    value += f"; {units.size(int(used))} in use, page cache included" if used.isdigit() else ""
    yield Setting("memory limit", value, "/sys/fs/cgroup/memory.max")
    events = dict(re.findall(r"^(\w+) (\d+)$", _group(root, "memory.events"), re.MULTILINE))
    killed = int(events.get("oom_kill", 0))
    yield Setting(
        "processes killed for memory",
        str(killed) if events else "unknown",
        "/sys/fs/cgroup/memory.events",
        "a worker was killed. Raise the limit, or hold fewer batches" if killed else "",
    )
    most = _group(root, "pids.max")
    yield Setting(
        "process limit",
        {"": "unknown", "max": "none"}.get(most, most),
        "/sys/fs/cgroup/pids.max",
        "threads count as processes: ranks with loaders start thousands. Raise it: docker run --pids-limit -1"
        if most.isdigit() and int(most) < FEW_PROCESSES
        else "",
    )


def _mounts(mounts: dict[str, tuple[str, str]]) -> Iterator[Setting]:
    kind, options = mounts.get("/dev/shm", ("", ""))
    size = next((one.removeprefix("size=") for one in options.split(",") if one.startswith("size=")), "")
    room = size_bytes(size.upper())
    value = units.size(room) if room else ("half of the memory" if kind == "tmpfs" else kind or "not mounted")
    yield Setting(
        "/dev/shm",
        value,
        "/proc/self/mountinfo",
        "loaders pass batches through it, and die with a bus error when it is full. Use: docker run --shm-size=16g, or "
        "an emptyDir with medium: Memory"
        if not kind or 0 < room < SMALL_SHM_BYTES
        else "",
    )
    root_kind = mounts.get("/", ("unknown", ""))[0]
    yield Setting(
        "root file system",
        root_kind,
        "/proc/self/mountinfo",
        "the first write to a file of the image copies the whole file. Keep data and checkpoints in a volume"
        if root_kind in ("overlay", "aufs", "fuse-overlayfs")
        else "",
    )


def _calls(root: Path) -> Iterator[Setting]:
    status = dict(re.findall(r"^(Seccomp|CapEff):\s+(\w+)$", text(root / "proc/self/status"), re.MULTILINE))
    filters, allowed = status.get("Seccomp"), int(status.get("CapEff", "0"), 16)
    lacking = [name for name, bit in CAPABILITIES.items() if not allowed >> bit & 1]
    yield Setting(
        "filter of system calls",
        {"0": "off", "1": "strict", "2": "on"}.get(filters or "", "unknown"),
        "/proc/self/status",
        "a container's usual filter refuses mbind, set_mempolicy and io_uring. Add --cap-add SYS_NICE for the first "
        "two, and a profile of your own for the last"
        if filters == "2"
        else "",
    )
    yield Setting(
        "capabilities lacking", ", ".join(lacking) or "none of " + ", ".join(CAPABILITIES), "/proc/self/status"
    )


def _gpus(root: Path, mounts: dict[str, tuple[str, str]], environment: Mapping[str, str]) -> Iterator[Setting]:
    nodes = len([path for path in (root / "dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdigit()])
    there = len(list((root / "proc/driver/nvidia/gpus").glob("*")))
    yield Setting(
        "GPUs",
        f"{nodes} of {there}",
        "/dev/nvidia*",
        "the machine has more GPUs than the container shows. If it should have them: docker run --gpus all"
        if there and nodes < there
        else "",
    )
    for name in ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        if name in environment:
            yield Setting(name, environment[name] or "(empty: no GPU)", "environment")
    libraries = [point for point in mounts if "libcuda.so" in point]
    if libraries:
        yield Setting("driver library", libraries[0], "/proc/self/mountinfo")
    elif nodes and not any(path for where in ("usr/lib*", "usr/lib*/*") for path in root.glob(f"{where}/libcuda.so.1")):
        yield Setting(
            "driver library",
            "missing",
            "/usr/lib*",
            "CUDA cannot start. Install nvidia-container-toolkit on the host, and set "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )
