"""The machine itself: its processor, memory, compiler and what it runs under. Nothing here raises."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

GIB = 1 << 30
# A machine of one of these vendors or products is a virtual one.
_VIRTUAL = re.compile(
    r"KVM|QEMU|VMware|VirtualBox|Xen|Bochs|Parallels|Amazon EC2(?! .*metal)|Google Compute Engine|Virtual Machine"
)


def operating_system() -> str:
    """Name the distribution where it says its name, and the kernel."""
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    kernel = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{name}, {kernel}" if name else kernel


def processor_model() -> str:
    """The processor's model, or its architecture where the kernel does not name it (ARM)."""
    match = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def usable_cpus() -> int:
    """The logical CPUs that this process may run on, which are fewer than the machine's in a container or under taskset."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """Name the processor, and count the logical CPUs that this process may use."""
    return f"{processor_model()}, {usable_cpus()} of {os.cpu_count()} logical CPUs usable"


def memory() -> str:
    """Say how much memory there is, and how much of it can be had now."""
    import psutil

    found = psutil.virtual_memory()
    return f"{found.total / GIB:.1f} GiB, {found.available / GIB:.1f} GiB available"


def compiler() -> str:
    """Name the C compiler that host kernels would be built with; empty when there is none."""
    path = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)
    if path is None:
        return ""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"{done.stdout.splitlines()[0]} ({path})" if done.stdout else path


def hypervisor() -> str:
    """Name what this machine runs under; empty on bare metal, as far as can be told."""
    maker = " ".join(
        filter(None, (_read(f"/sys/class/dmi/id/{name}").strip() for name in ("sys_vendor", "product_name")))
    )
    if re.search(r"^flags\s*:.*\bhypervisor\b", _read("/proc/cpuinfo"), re.MULTILINE):
        return maker or "one that does not say its name"
    # ARM has no such flag.
    xen = _read("/sys/hypervisor/type").strip()
    # A list of names, each ended by a NUL.
    tree = _read("/proc/device-tree/hypervisor/compatible").split("\0")[0]
    return xen or tree or (maker if _VIRTUAL.search(maker) else "")


def can_write(folder: Path) -> bool:
    """Whether a folder could be written to, or made where it does not exist yet."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
