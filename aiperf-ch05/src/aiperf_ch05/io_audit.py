"""Storage under a path: the file system, the disk's queue, the page cache, and what each costs."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from aiperf_core import units
from aiperf_core.audit import Setting, chosen
from aiperf_core.devices.sysfs import integer, text
from aiperf_core.errors import UsageError

IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse")
# Sequential reads of a network disk need more on their way than the kernel's default of 128 KiB.
SMALL_READAHEAD_KIB = 512
LITTLE_SPACE = 0.05
SMALL_NFS_BYTES = 1 << 20


@frozen
class Mount:
    """Where a path is mounted.

    point: the folder of the mount.
    kind: the type of the file system.
    source: what is mounted, such as `/dev/vda`.
    options: of the mount and of the file system, in the kernel's words.
    device: `major:minor`.
    """

    point: str
    kind: str
    source: str
    options: list[str]
    device: str


def audit(path: Path, root: Path = Path("/")) -> list[Setting]:
    """The settings of the storage under a file or folder. `root` holds /proc and /sys.

    Raises `UsageError` for a path that is not there, or whose mount the kernel does not show.
    """
    if not path.exists():
        raise UsageError(f"'{path}' is not there; name a file or a folder")
    mount = mount_of(path, text(root / "proc/self/mountinfo"))
    parts = (_mount(mount, path), _disk(mount, root), _direct(path), _cache(root))
    return [setting for part in parts for setting in part]


def mount_of(path: Path, table: str) -> Mount:
    """The mount of a path, from the text of /proc/self/mountinfo. Raises `UsageError` where none holds the path."""
    real, found = Path(os.path.realpath(path)), None
    for line in table.splitlines():
        # proc(5): "ID PARENT MAJOR:MINOR ROOT MOUNT_POINT OPTIONS [TAG ...] - TYPE SOURCE SUPER_OPTIONS"
        head, _, tail = line.partition(" - ")
        fields, (kind, source, *more) = head.split(), tail.split()
        point = fields[4].replace("\\040", " ")
        # A later mount on the same folder hides an earlier one.
        if real.is_relative_to(point) and (found is None or len(point) >= len(found.point)):
            options = dict.fromkeys([*fields[5].split(","), *(more[0].split(",") if more else [])])
            found = Mount(point, kind, source, list(options), fields[2])
    if found is None:
        raise UsageError(f"the mount of '{path}' is not in /proc/self/mountinfo; name a path on a mounted file system")
    return found


def _mount(mount: Mount, path: Path) -> Iterator[Setting]:
    source = "/proc/self/mountinfo"
    yield Setting(
        "file system",
        f"{mount.kind} on {mount.source}, mounted at {mount.point}",
        source,
        "files are in memory: no disk is measured, and each file takes memory from programs. Name a path on a disk"
        if mount.kind in IN_MEMORY
        else "the first write to a file of a lower layer copies the whole file. Use a volume"
        if mount.kind == "overlay"
        else "",
    )
    yield Setting("mount options", ", ".join(mount.options), source, " ".join(_advice_on(mount)))
    usage = shutil.disk_usage(path)
    few = usage.total and usage.free < LITTLE_SPACE * usage.total
    yield Setting(
        "free space",
        f"{units.size(usage.free)} of {units.size(usage.total)}",
        "statvfs",
        "a nearly full file system allocates in small pieces, and a full disk ends a checkpoint. Free some"
        if few
        else "",
    )
    files = os.statvfs(path)
    scarce = files.f_files and files.f_favail < LITTLE_SPACE * files.f_files
    yield Setting(
        "free files",
        f"{files.f_favail:,} of {files.f_files:,}" if files.f_files else "without limit",
        "statvfs",
        "the file system soon takes no new file. Join small files into shards" if scarce else "",
    )


def _advice_on(mount: Mount) -> Iterator[str]:
    words = dict(option.partition("=")[::2] for option in mount.options)
    if "strictatime" in words or "atime" in words:
        yield "each read writes the time of access. Mount with noatime."
    if "sync" in words:
        yield "each write waits for the disk. Mount without sync, and call fsync where it matters."
    if "discard" in words:
        yield "each deletion tells the disk at once. Mount without discard, and run fstrim at night."
    if words.get("data") == "journal":
        yield "all data are written twice. Mount with data=ordered."
    if "nobarrier" in words or words.get("barrier") == "0":
        yield "fsync does not reach the disk: a checkpoint may be lost when the power fails."
    if mount.kind in ("nfs", "nfs4"):
        small = [name for name in ("rsize", "wsize") if 0 < int(words.get(name) or 0) < SMALL_NFS_BYTES]
        if small:
            yield f"{' and '.join(small)} below {units.size(SMALL_NFS_BYTES)}: more requests for the same bytes."
        if words.get("nconnect", "1") == "1":
            yield "one connection carries all requests. Mount with nconnect=8."


def _disk(mount: Mount, root: Path) -> Iterator[Setting]:
    place = root / "sys/dev/block" / mount.device
    if not (place / "queue").is_dir():
        place = place.resolve().parent if place.exists() else place  # a partition has the queue of its disk
    queue = place / "queue"
    if not queue.is_dir():
        network = mount.kind in NETWORK
        yield Setting("disk", "over the network" if network else "none of its own", f"/sys/dev/block/{mount.device}")
        return
    source = f"/sys/dev/block/{mount.device}/queue"
    rotational, scheduler = text(queue / "rotational") == "1", chosen(text(queue / "scheduler"))
    yield Setting(
        "disk", "rotating, or a virtual disk that claims so" if rotational else "not rotating", f"{source}/rotational"
    )
    yield Setting(
        "scheduler",
        scheduler or "unknown",
        f"{source}/scheduler",
        "sorting requests costs more than it saves on this disk. Use: echo none > /sys/block/DISK/queue/scheduler"
        if scheduler in ("bfq", "cfq") and not rotational
        else "",
    )
    ahead = integer(queue / "read_ahead_kb")
    yield Setting(
        "read-ahead",
        "unknown" if ahead is None else f"{ahead} KiB",
        f"{source}/read_ahead_kb",
        "a sequential read has few bytes on their way. For large files: "
        "blockdev --setra 8192 /dev/DISK (sectors of 512 bytes)"
        if ahead is not None and ahead < SMALL_READAHEAD_KIB
        else "",
    )
    largest, most = integer(queue / "max_sectors_kb"), integer(queue / "nr_requests")
    yield Setting("largest request", "unknown" if largest is None else f"{largest} KiB", f"{source}/max_sectors_kb")
    yield Setting("requests in the queue", "unknown" if most is None else str(most), f"{source}/nr_requests")
    cache = text(queue / "write_cache")
    yield Setting("cache of the disk", cache or "unknown", f"{source}/write_cache")


def _direct(path: Path) -> Iterator[Setting]:
    source = "open with O_DIRECT"
    if not path.is_file():
        yield Setting("direct reads", "unknown: name a file to see", source)
        return
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError as error:
        advice = "all reads go through the page cache, at the cost of a copy" if path.stat().st_size else ""
        yield Setting("direct reads", f"refused: {error.strerror}", source, advice)
        return
    yield Setting("direct reads", "possible", source)


def _cache(root: Path) -> Iterator[Setting]:
    lines = text(root / "proc/meminfo")
    memory = {name: 1024 * int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", lines, re.MULTILINE)}
    shown = ("Cached", "Dirty", "Writeback", "MemAvailable")
    value = ", ".join(f"{name} {units.size(memory[name])}" for name in shown if name in memory)
    yield Setting("page cache", value or "unknown", "/proc/meminfo")
    ratio = integer(root / "proc/sys/vm/dirty_ratio")
    room = (ratio or 0) * memory.get("MemAvailable", 0) // 100
    yield Setting(
        "dirty pages before a writer waits",
        "unknown" if ratio is None else f"{ratio} % of the available memory ({units.size(room)})",
        "/proc/sys/vm/dirty_ratio",
        "a write looks as fast as memory until this is full, and the next fsync of any program pays. Bound it: "
        "sysctl vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824"
        if room > 8 << 30
        else "",
    )
