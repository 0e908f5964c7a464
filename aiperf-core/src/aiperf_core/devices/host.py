"""Facts about the host: CPU, memory, compiler and hypervisor. This module never raises."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from aiperf_core.devices.sysfs import text

GIB = 1 << 30
OVERCOMMIT = {"0": "heuristic", "1": "always", "2": "never"}  # values of vm.overcommit_memory
# Vendors and products of virtual machines.
_VIRTUAL = re.compile(
    r"KVM|QEMU|VMware|VirtualBox|Xen|Bochs|Parallels|Amazon EC2(?! .*metal)|Google Compute Engine|Virtual Machine"
)


def operating_system() -> str:
    """The name of the distribution, when it is known, and of the kernel."""
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    kernel = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{name}, {kernel}" if name else kernel


def processor_model() -> str:
    """The model of the CPU, or its architecture when the kernel does not name it (ARM)."""
    match = re.search(r"^model name\s*:\s*(.+)$", text("/proc/cpuinfo"), re.MULTILINE)
    return match[1].strip() if match else platform.machine()


def usable_cpus() -> int:
    """The number of logical CPUs that this process may run on; a container or taskset may limit it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The model of the CPU, and the number of logical CPUs that this process may use."""
    return f"{processor_model()}, {usable_cpus()} of {os.cpu_count()} logical CPUs usable"


def memory() -> str:
    """The memory of the machine and the part that is available, in words."""
    import psutil

    found = psutil.virtual_memory()
    return f"{found.total / GIB:.1f} GiB, {found.available / GIB:.1f} GiB available"


def compiler() -> str:
    """The C compiler for host kernels, with its version; empty when there is none."""
    path = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return f"{done.stdout.splitlines()[0]} ({path})" if done.stdout else path


def hypervisor() -> str:
    """The name of the hypervisor; empty on bare metal, as far as can be told."""
    maker = " ".join(filter(None, (text(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name"))))
    if re.search(r"^flags\s*:.*\bhypervisor\b", text("/proc/cpuinfo"), re.MULTILINE):
        return maker or "unnamed"
    # ARM has no such flag.
    xen = text("/sys/hypervisor/type")
    # A list of names, each ended by a NUL.
    tree = text("/proc/device-tree/hypervisor/compatible").split("\0")[0]
    return xen or tree or (maker if _VIRTUAL.search(maker) else "")


def overcommit() -> str:
    """How far the kernel promises more memory than there is: `heuristic`, `always`, `never` or `unknown`."""
    return OVERCOMMIT.get(text("/proc/sys/vm/overcommit_memory"), "unknown")


def can_write(folder: Path) -> bool:
    """Whether a folder can be written to, or created when it does not exist."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
