"""GPUDirect Storage: whether a read can go from the disk to a GPU's memory without a copy in the host's memory.

The requirements are those of NVIDIA's GPUDirect Storage documentation. Nothing is read or written on the disk.
"""

import ctypes
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from aiperf_ch05.io_audit import Mount, mount_of
from aiperf_core.audit import Setting
from aiperf_core.devices.sysfs import text
from aiperf_core.errors import UsageError

LIBRARY = "libcufile.so.0"
CONFIGURATION = "etc/cufile.json"
FILE_SYSTEMS = ("ext4", "xfs", "lustre", "wekafs", "gpfs", "beegfs", "nfs", "nfs4")


def check(
    path: Path,
    root: Path = Path("/"),
    environment: Mapping[str, str] = os.environ,
    load: Callable[[str], object] = ctypes.CDLL,
) -> list[Setting]:
    """What GPUDirect Storage needs for a path, and what is there. `root` holds /proc, /sys, /dev and /etc.

    The last setting is the mode that cuFile will use: `direct`, `compatible` (through the host's memory) or `none`.
    Raises `UsageError` for a path that is not there.
    """
    if not path.exists():
        raise UsageError(f"'{path}' is not there; name a file or a folder")
    found = [
        _gpu(root),
        _library(load),
        _module(root),
        _file_system(mount_of(path, text(root / "proc/self/mountinfo"))),
        _iommu(root),
        _disks(root),
    ]
    allowed = list(_configuration(root, environment))
    return [*found, *allowed, _mode(found, compatible=not allowed[-1].advice)]


def _gpu(root: Path) -> Setting:
    driver = text(root / "proc/driver/nvidia/version").partition("\n")[0]
    return Setting(
        "NVIDIA driver", driver or "none", "/proc/driver/nvidia/version", "" if driver else "install the driver"
    )


def _library(load: Callable[[str], object]) -> Setting:
    wheels = (path for folder in sys.path for path in Path(folder).glob(f"nvidia/*/lib/{LIBRARY}"))
    try:
        load(str(next(wheels, LIBRARY)))
    except OSError as error:
        return Setting(
            "cuFile", f"missing: {error}", LIBRARY, "install it: pip install nvidia-cufile, or CUDA's gds-tools"
        )
    return Setting("cuFile", "can be loaded", LIBRARY)


def _module(root: Path) -> Setting:
    version = text(root / "proc/driver/nvidia-fs/version")
    return Setting(
        "nvidia-fs",
        version.partition("\n")[0] or "not loaded",
        "/proc/driver/nvidia-fs/version",
        "" if version else "reads go through the host's memory. Load it: modprobe nvidia-fs",
    )


def _file_system(mount: Mount) -> Setting:
    advice = ""
    if mount.kind not in FILE_SYSTEMS:
        advice = f"this type is not supported. Use one of {', '.join(FILE_SYSTEMS)}"
    elif mount.kind == "ext4" and any(option in mount.options for option in ("data=journal", "data=writeback")):
        advice = "ext4 is supported with data=ordered only. Mount it so"
    return Setting("file system", f"{mount.kind} on {mount.source}", "/proc/self/mountinfo", advice)


def _iommu(root: Path) -> Setting:
    groups = len(list((root / "sys/kernel/iommu_groups").glob("*")))
    passing = "iommu=pt" in text(root / "proc/cmdline").split()
    advice = "transfers between devices go through the IOMMU. Boot with iommu=off, or iommu=pt"
    value = f"{groups} groups" if groups else "off"
    return Setting("IOMMU", value, "/sys/kernel/iommu_groups", advice if groups and not passing else "")


def _disks(root: Path) -> Setting:
    disks = sorted(path.name for path in (root / "sys/class/nvme").glob("nvme*"))
    return Setting("NVMe disks", ", ".join(disks) or "none", "/sys/class/nvme")


def _configuration(root: Path, environment: Mapping[str, str]) -> Iterator[Setting]:
    named = environment.get("CUFILE_ENV_PATH_JSON")
    place = Path(named) if named else root / CONFIGURATION
    written = text(place)
    # cufile.json allows comments.
    plain = re.sub(r"^\s*//.*$|(?<=[,{\[\]}\s])//.*$", "", written, flags=re.MULTILINE)
    try:
        options = json.loads(plain) if plain.strip() else {}
    except ValueError as error:
        yield Setting("configuration", f"unreadable: {error}", str(place), "cuFile ignores the file. Mend it")
        options = {}
    else:
        yield Setting("configuration", "read" if written else "none: defaults", str(place))
    properties = options.get("properties", {}) if isinstance(options, dict) else {}
    compatible = bool(properties.get("allow_compat_mode", True))
    yield Setting(
        "compatibility mode",
        "allowed" if compatible else "forbidden",
        str(place),
        "" if compatible else "where a direct read is impossible, cuFile fails. Set properties.allow_compat_mode",
    )


def _mode(found: list[Setting], compatible: bool) -> Setting:
    lacking = [setting.name for setting in found if setting.advice and setting.name != "IOMMU"]
    if not lacking:
        return Setting("mode of cuFile", "direct", "all of the above")
    usable = compatible and not {"NVIDIA driver", "cuFile"} & set(lacking)
    return Setting(
        "mode of cuFile",
        "compatible: through the host's memory" if usable else "none",
        "all of the above",
        f"direct reads lack {', '.join(lacking)}. Time file_read against it before you change anything"
        if usable
        else f"cuFile cannot be used: {', '.join(lacking)}",
    )
