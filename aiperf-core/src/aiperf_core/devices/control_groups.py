"""The control groups of this process, of either version: who limits its processors and its memory."""

from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from aiperf_core.devices.sysfs import text


@frozen
class Groups:
    """The groups of this process by a controller.

    version: of control groups, 1 or 2.
    folders: from the process's own group up to the highest that can be seen.
    """

    version: int
    folders: tuple[Path, ...]


def groups_of(controller: str, root: Path = Path("/")) -> Groups:
    """The groups that `cpu`, `memory` or another controller puts this process into. `root` holds /proc and /sys.

    In a container without a namespace of groups the path exists only outside; the top folder is then its own group.
    Raises `LookupError` where their folder cannot be read, and `OSError` where the kernel does not list them.
    """
    listed = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text(errors="replace").splitlines()]
    mount = root / "sys/fs/cgroup"
    version, top, path = 0, mount, ""
    for _, controllers, place in listed:
        if controller in controllers.split(","):
            # Controllers of one hierarchy share a folder, usually with a link for each controller.
            version, top, path = 1, next(filter(Path.is_dir, (mount / controller, mount / controllers)), mount), place
            break
        if not controllers:
            version, top, path = 2, mount, place
    if not version or not top.is_dir():
        raise LookupError(f"no control group of this process can be read under {mount}")
    own = top / path.lstrip("/")
    found = (folder for folder in (own, *own.parents) if folder.is_relative_to(top) and folder.is_dir())
    return Groups(version, tuple(found))


def cpu_quotas(root: Path = Path("/")) -> Iterator[tuple[Path, float]]:
    """The groups of this process whose processor time is limited, and the limits in CPUs. Raises as `groups_of`."""
    groups = groups_of("cpu", root)
    for folder in groups.folders:
        if groups.version == 2:
            quota, _, period = (text(folder / "cpu.max") or "max").partition(" ")
        else:
            quota, period = text(folder / "cpu.cfs_quota_us") or "-1", text(folder / "cpu.cfs_period_us")
        if quota.isdecimal():
            yield folder, int(quota) / int(period or 100_000)
