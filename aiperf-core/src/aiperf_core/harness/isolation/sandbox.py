"""Confinement of a process that is about to run untrusted code.

`confine` is called once, in the forked worker, before it reads the candidate. It removes, in this order: environment
and descriptors, access to files and devices that the work does not need (Landlock), the user's identity and
capabilities, and the system calls that reach the network or other processes (seccomp). What a machine cannot do is
reported: see `Confined`.

No namespaces: a network namespace denies less than the filter, which allows no network socket, and a user namespace
changes the identity by which NVIDIA's driver decides who may map the harness's memory.

The filter is classic BPF through ctypes, because the bindings on PyPI need libseccomp, which slim containers lack.
"""

import contextlib
import ctypes
import errno
import fcntl
import glob
import itertools
import os
import platform
import random
import resource
import shutil
import signal
import site
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from aiperf_core.kernels.cache import REMOVED
from aiperf_core.results.models import Confined
from aiperf_core.version import SOURCES

# --- what a candidate keeps

# Environment: paths of programs and libraries, numbers of threads, GPUs, the language. No secrets.
_KEPT_NAMES = {"PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "CC", "CXX", "TORCH_CUDA_ARCH_LIST"}
_KEPT_NAMES |= {"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "PYTORCH_CUDA_ALLOC_CONF"}
_KEPT_NAMES |= {"TRITON_PTXAS_PATH", "TRITON_LIBCUDA_PATH", "OPENBLAS_NUM_THREADS"}
_KEPT_PREFIXES = ("LC_", "CUDA_", "OMP_", "MKL_", "KMP_", "GOMP_")
# Variables that name a folder for a program's files; each becomes a folder in the scratch folder.
_CACHE_FOLDERS = {
    "AIPERF_CACHE_DIR": "aiperf",
    "CUDA_CACHE_PATH": "cuda",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "TRITON_CACHE_DIR": "triton",
    "XDG_CACHE_HOME": "cache",
}

_SYSTEM_CODE = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin")
# In /sys, what describes processors and memory. In /etc, which holds secrets too, what loaders and C libraries read.
_SYSTEM_DATA: tuple[str, ...] = ("/sys/devices", "/sys/bus", "/sys/class", "/sys/module", "/sys/fs/cgroup")
_SYSTEM_DATA += ("/sys/kernel/mm", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/passwd")
_SYSTEM_DATA += ("/etc/group", "/etc/OpenCL", "/etc/nsswitch.conf", "/etc/localtime", "/etc/locale.alias")
_SYSTEM_DATA += ("/etc/os-release", "/etc/nvidia")
# All of /proc: the kernel loses rules for single files in it when it drops them from its cache. Landlock still denies
# memory, environment and descriptors of other processes, since reading them counts as tracing.
_PROC = "/proc"
_READ_DEVICES = ("/dev/zero", "/dev/random", "/dev/urandom")
_WRITE_DEVICES = ("/dev/null", "/dev/full")
_NVIDIA_DEVICES = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm*", "/dev/nvidia-caps")

# The range of user ids that systemd reserves for temporary users of services.
_SPARE_USERS = range(61184, 65520)


@frozen
class Limits:
    """Limits of a confined process.

    scratch: the only folder in which it may write; it becomes HOME, TMPDIR and the working directory.
    keep_fds: descriptors that stay open, besides 0 to 2.
    cuda: whether it uses a GPU.
    read: files and folders that it may read beyond Python, installed packages and the system's libraries.
    processes: the maximum number of processes and threads.
    file_bytes: the maximum size of a file that it writes; see `Scratch` for their number and the sum of their sizes.
    open_files: the maximum number of descriptors.
    without: protections (of `OPTIONAL`) to leave out because a device does not start under them here.
    """

    scratch: Path
    keep_fds: tuple[int, ...] = ()
    cuda: bool = False
    read: tuple[Path, ...] = ()
    processes: int = 1024
    file_bytes: int = 1 << 30
    open_files: int = 1024
    without: tuple[str, ...] = ()


PROTECTIONS = {
    "environment": "has only the environment variables on a list",
    "descriptors": "inherits only the descriptors that it needs",
    "limits": "has limited file sizes and numbers of descriptors",
    "privileges": "has no capabilities, and gains none by starting a program",
    "files": "reads only code and libraries, writes only in its folder, reads nothing of other processes",
    "truncation": "cannot truncate files that it may not write",
    "device_commands": "sends commands (ioctl) only to the devices that it needs",
    "signals": "signals only its own processes",
    "user": "has its own user id, not the harness's",
    "processes": "has a limited number of processes and threads",
    "system_calls": "has no network, tracing, mounts, namespaces or kernel interfaces; changes no setting of other "
    "processes, neither its own priority nor its processors, and no mode, owner, time or attribute of a file; stays in "
    "its process group, with all that it starts",
}

# Protections under which a device's driver may not start, in the order in which they are left out.
OPTIONAL = ("system_calls", "files", "privileges")
_NOT_STARTING = "the device does not start under it on this machine"


def relaxations() -> Iterator[tuple[str, ...]]:
    """The sets of optional protections to leave out, the smallest sets first."""
    for count in range(len(OPTIONAL) + 1):
        yield from itertools.combinations(OPTIONAL, count)


def confine(limits: Limits) -> Confined:
    """Confine this process and all that it starts, for good, as strictly as the machine allows.

    Return the protections that hold, and those that are lacking with the reason: keys of `PROTECTIONS`. Raises
    `RuntimeError` where other threads run already: some rules would not apply to them.
    """
    if not sys.platform.startswith("linux"):
        return Confined([], dict.fromkeys(PROTECTIONS, f"needs Linux; this is {sys.platform}"))
    if (count := len(os.listdir("/proc/self/task"))) != 1:
        raise RuntimeError(f"a process must be confined before it starts threads; this one has {count}")
    scratch = limits.scratch.resolve()
    lacking: dict[str, str] = {}
    _scrub_environment(clean_environment(os.environ, scratch))
    _close_descriptors({0, 1, 2, *limits.keep_fds})
    os.chdir(scratch)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    with contextlib.suppress(OSError):  # where memory runs out, it goes before the judge and the baseline
        Path("/proc/self/oom_score_adj").write_text("1000")
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    landlock, user = 0, None
    if "files" in limits.without:
        lacking.update(dict.fromkeys(("files", *_LATER), _NOT_STARTING))
    else:
        landlock = _restrict_files(limits, scratch, lacking)
    if "privileges" in limits.without:
        lacking.update(privileges=_NOT_STARTING, user=_NOT_STARTING)
    else:
        user = _take_identity(limits, scratch, lacking)
    _limit_processes(limits, user, lacking)
    if "system_calls" in limits.without:
        lacking["system_calls"] = _NOT_STARTING
    else:
        _filter_system_calls(limits, user, landlock, lacking)
    return Confined([name for name in PROTECTIONS if name not in lacking], lacking)


# --- environment and descriptors


def clean_environment(environ: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return the part of an environment that a candidate gets; folders that programs write to are in `scratch`."""
    kept = {name: value for name, value in environ.items() if name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES)}
    return {
        **kept,
        **{name: str(scratch / folder) for name, folder in _CACHE_FOLDERS.items()},
        REMOVED: "1",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "USER": "candidate",
        "LOGNAME": "candidate",
        # A pool of compiler processes needs /dev/shm, which holds memory of other processes too.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }


def _scrub_environment(environ: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    tempfile.tempdir = None
    sys.dont_write_bytecode = True
    # The original environment is also on the process's stack, and thus in /proc/self/environ.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    address, end = int(fields[47]), int(fields[48])
    for entry in ctypes.string_at(address, end - address).split(b"\0"):
        name, _, value = entry.partition(b"=")
        if os.environb.get(name) != value:
            ctypes.memset(address, 0, len(entry))
        address += len(entry) + 1


def _close_descriptors(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself is closed already
                os.close(int(name))


# --- files: Landlock, https://docs.kernel.org/userspace-api/landlock.html

# The same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = (1 << bit for bit in (0, 1, 2, 3, 14, 15))
_MAKE_DEVICES = 1 << 6 | 1 << 11
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # of each version
_TCP_BIND_AND_CONNECT = 0b11  # from version 4
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11  # from version 6
_LATER = {"truncation": (3, "6.2"), "device_commands": (5, "6.10"), "signals": (6, "6.12")}


def _restrict_files(limits: Limits, scratch: Path, lacking: dict[str, str]) -> int:
    """Apply Landlock and return its version, 0 where there is none."""
    version = _system_call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    if version < 1:
        reason = f"needs Landlock (Linux 5.13, enabled at boot): {os.strerror(ctypes.get_errno())}"
        lacking.update(dict.fromkeys(("files", *_LATER), reason))
        return 0
    for name, (since, linux) in _LATER.items():
        if version < since:
            lacking[name] = f"needs Linux {linux} (Landlock {since}); this kernel has Landlock {version}"
    rights = _FILE_RIGHTS[max(one for one in _FILE_RIGHTS if one <= version)]
    tcp = _TCP_BIND_AND_CONNECT if version >= 4 else 0
    scoped = _ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    attributes = struct.pack("=QQQ", rights, tcp, scoped)
    ruleset = _checked(_system_call(_CREATE_RULESET, attributes, len(attributes), 0))
    read = _READ_FILE | _READ_DIR
    write = rights & ~(_EXECUTE | _IOCTL_DEV | _MAKE_DEVICES)
    _allow(ruleset, rights & (read | _EXECUTE), (*_SYSTEM_CODE, *_code_folders()))
    _allow(ruleset, rights & read, (*_SYSTEM_DATA, _PROC, *_READ_DEVICES, *map(str, limits.read)))
    _allow(ruleset, rights & (read | _WRITE_FILE), _WRITE_DEVICES)
    _allow(ruleset, write, (str(scratch),))
    if limits.cuda:
        devices = [path for pattern in _NVIDIA_DEVICES for path in glob.glob(pattern)]
        _allow(ruleset, rights & (read | _WRITE_FILE | _IOCTL_DEV), devices)
        _allow_own_process(ruleset, rights & (read | _WRITE_FILE | _TRUNCATE))
    _checked(_system_call(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)
    return version


def _allow_own_process(ruleset: int, rights: int) -> None:
    """Allow CUDA's driver to write to its process's own folder in /proc; it does not start otherwise.

    The descriptor stays open: otherwise the kernel could drop the folder from its cache, and the rule with it.
    """
    descriptor = os.open(f"/proc/{os.getpid()}", os.O_PATH | os.O_CLOEXEC)
    _add_rule(ruleset, rights, descriptor)


def _code_folders() -> Iterator[str]:
    """The folders of Python, packages and CUDA."""
    yield from (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    yield from site.getsitepackages()
    # Folders of packages that a `.pth` file adds, as of the environment that another one is based on.
    yield from (folder for folder in sys.path if os.path.basename(folder) in ("site-packages", "dist-packages"))
    if site.ENABLE_USER_SITE:
        yield site.getusersitepackages()
    yield str(SOURCES)
    for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"):
        yield from filter(os.path.isabs, os.environ.get(name, "").split(os.pathsep))
    # Triton and torch.compile start the C compiler. Elsewhere than below /opt it might lie among a user's files.
    for compiler in filter(None, map(shutil.which, (os.environ.get("CC", ""), "gcc", "clang"))):
        prefix = Path(compiler).resolve().parents[1]
        if prefix.is_relative_to("/opt") and prefix != Path("/opt"):
            yield str(prefix)


def _allow(ruleset: int, rights: int, paths: Iterable[str]) -> None:
    for path in paths:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:  # not on this machine
            continue
        allowed = rights if os.path.isdir(path) else rights & _OF_FILES
        _add_rule(ruleset, allowed, descriptor)
        os.close(descriptor)


def _add_rule(ruleset: int, rights: int, descriptor: int) -> None:
    _checked(_system_call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0))


# --- identity, capabilities, limits

_CAP_DAC_READ_SEARCH = 2
_CAPABILITY_VERSION = 0x20080522
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECUREBITS = 1, 4, 28
_NO_SETUID_FIXUP = 1 << 2
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 24, 38, 47
_AMBIENT_RAISE, _AMBIENT_CLEAR_ALL = 2, 4


def _take_identity(limits: Limits, scratch: Path, lacking: dict[str, str]) -> int | None:
    """Drop all capabilities and, where possible, take an unused user id. Return that id."""
    parent = os.getppid()
    user, keep = None, 0
    if limits.cuda:
        lacking["user"] = "NVIDIA's driver shares memory only between processes of the same user"
    elif os.geteuid() != 0:
        lacking["user"] = "only root can give a process another user id"
    else:
        try:
            user, keep = _become_another(scratch, only_if_reached="files" in lacking)
        except OSError as error:
            lacking["user"] = f"this root cannot take another user id: {error.strerror}"
    _drop_capabilities(keep)
    # A change of user resets both: access to the process's own entries in /proc, and its death with the parent.
    _prctl(_PR_SET_DUMPABLE, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return user


def _become_another(scratch: Path, *, only_if_reached: bool) -> tuple[int, int]:
    """Take an unused user id; return it and the mask of capabilities that it needs. Raises `OSError`."""
    taken = {owner for owner, _ in _processes()}
    user = random.SystemRandom().choice([one for one in _SPARE_USERS if one not in taken])
    # An environment may lie in a private folder of root's where Python itself does not.
    code = [os.__file__, __file__, *filter(os.path.exists, _code_folders())]
    os.seteuid(user)
    reaches = all(os.access(path, os.R_OK, effective_ids=True) for path in code)
    reaches = reaches and os.access(scratch.parent, os.X_OK, effective_ids=True)
    os.seteuid(0)
    if only_if_reached and not reaches:
        raise PermissionError(errno.EACCES, "only root may read Python's folder, and there is no Landlock")
    os.chown(scratch, user, user)
    try:
        # Capabilities then survive the change, also for access(2), which gcc uses; most are dropped afterwards.
        _prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError:
        os.chown(scratch, 0, 0)
        raise
    # The capability is for reading Python and packages in a private folder of root's; Landlock denies other files.
    return user, 0 if reaches else 1 << _CAP_DAC_READ_SEARCH


def _drop_capabilities(keep: int) -> None:
    """Keep only the capabilities of a mask, also in programs that are started."""
    # Results of prctl are not checked: where it fails there is nothing to drop, or no_new_privs must suffice.
    _libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    _set_capabilities(effective=_permitted_capabilities(), inheritable=0)
    for number in range(64):
        if not keep & 1 << number:
            _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    _set_capabilities(effective=keep, inheritable=keep)
    for number in range(64):
        if keep & 1 << number:
            _prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, number)


def _set_capabilities(*, effective: int, inheritable: int) -> None:
    sets = (effective, effective, inheritable)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    halves = [one & 0xFFFFFFFF for one in sets] + [one >> 32 for one in sets]
    _checked(_libc.capset(header, struct.pack("=6I", *halves)))


def _permitted_capabilities() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("CapPrm:")).split()[1], 16)


def _limit(what: int, value: int) -> None:
    _, most = resource.getrlimit(what)
    value = value if most == resource.RLIM_INFINITY else min(value, most)
    resource.setrlimit(what, (value, value))


def _limit_processes(limits: Limits, user: int | None, lacking: dict[str, str]) -> None:
    me = os.geteuid()
    if me == 0:
        lacking["processes"] = "Linux does not limit the processes of root"
        return
    # The kernel counts by user: other processes of the same user come on top.
    others = sum(threads for owner, threads in _processes() if owner == me) if user is None else 0
    _limit(resource.RLIMIT_NPROC, others + limits.processes)


def _processes() -> Iterator[tuple[int, int]]:
    """The user id and number of threads of every process."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            yield os.stat(f"/proc/{name}").st_uid, len(os.listdir(f"/proc/{name}/task"))
        except OSError:  # it ended
            continue


# --- system calls: seccomp, https://docs.kernel.org/userspace-api/seccomp_filter.html

# Name, number on x86_64, number on aarch64 (a dash where the call does not exist).
_TABLE = """
socket 41 198, connect 42 203, sendmsg 46 211, sendmmsg 307 269, clone 56 220, clone3 435 435,
kill 62 129, tkill 200 130, tgkill 234 131, pidfd_send_signal 424 424,
rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
sched_setparam 142 118, sched_setscheduler 144 119, sched_setattr 314 274,
sched_setaffinity 203 122, prlimit64 302 261, move_pages 279 239,
setpriority 141 140, ioprio_set 251 30, setsid 112 157, setpgid 109 154, migrate_pages 256 238,
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272,
process_madvise 440 440, process_mrelease 448 448, pidfd_getfd 438 438,
bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, syslog 103 116,
io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427,
keyctl 250 219, add_key 248 217, request_key 249 218,
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51,
move_mount 429 429, open_tree 428 428, mount_setattr 442 442, open_tree_attr 467 467,
fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433,
unshare 272 97, setns 308 268, fanotify_init 300 262,
open_by_handle_at 304 265, name_to_handle_at 303 264,
timer_create 222 107, fcntl 72 25, prctl 157 167,
init_module 175 105, finit_module 313 273, delete_module 176 106,
kexec_load 246 104, kexec_file_load 320 294, reboot 169 142, acct 163 89,
swapon 167 224, swapoff 168 225, quotactl 179 60, quotactl_fd 443 443,
sethostname 170 161, setdomainname 171 162, vhangup 153 58,
settimeofday 164 170, clock_settime 227 112, adjtimex 159 171, clock_adjtime 305 266,
shmget 29 194, shmat 30 196, semget 64 190, msgget 68 186, mq_open 240 180,
chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452,
chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54,
utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463,
removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, removexattrat 466 466, file_setattr 469 469,
ioctl 16 29,
iopl 172 -, ioperm 173 -, modify_ldt 154 -
"""
# Allowed in some forms; all others in the table are denied in every form.
_SIGNALS = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
_SETTERS = ("prlimit64", "move_pages")
_BUT_FOR_CUDA = ("timer_create", "sendmsg", "sendmmsg")
_IN_SOME_FORMS = {"socket", "clone", "clone3", "fcntl", "prctl", "ioctl", *_BUT_FOR_CUDA, *_SIGNALS, *_SETTERS}
# Error numbers of denied calls, where it is not EPERM; 0 is reported as success. OpenMP binds its threads, and ends the
# process if that fails; ninja starts every program in a new process group. Landlock does not guard modes, times and
# other attributes of files. Linkers and copies set them, also where nothing depends on them: no file in the scratch
# folder can be started. They cope with a file system that has no extended attributes.
_ANSWERS = dict.fromkeys(("sched_setaffinity", "setpgid", "chmod", "fchmod", "fchmodat", "fchmodat2"), 0)
_ANSWERS |= dict.fromkeys(("utime", "utimes", "futimesat", "utimensat"), 0)
_ANSWERS |= dict.fromkeys(("setxattr", "lsetxattr", "fsetxattr", "setxattrat"), errno.ENOTSUP)
_ANSWERS |= dict.fromkeys(("removexattr", "lremovexattr", "fremovexattr", "removexattrat"), errno.ENOTSUP)
# The kinds of commands (ioctl) that set attributes of files, by their second byte.
_OF_ATTRIBUTES = b"fvX"
# FIOSETOWN and SIOCSPGRP, as F_SETOWN, have the kernel send signals to any process, which Landlock denies only from
# version 6. TIOCSTI, TIOCSPGRP, TIOCSCTTY and TIOCSIG reach the processes at a terminal.
_SIGNALLING = (0x8901, 0x8902, 0x5412, 0x5410, 0x540E, 0x40045436)
_F_SETOWN_EX = 15
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the table, AUDIT_ARCH
_X32 = 0x40000000  # the bit of x86_64's second set of numbers
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _TSYNC = 1, 1
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38

_Instruction = tuple[int, int, int, int]
_Code = list[_Instruction]


def _filter_system_calls(limits: Limits, user: int | None, landlock: int, lacking: dict[str, str]) -> None:
    machine = platform.machine()
    if machine not in _MACHINES or struct.calcsize("P") != 8:
        lacking["system_calls"] = f"the filter is written for {' and '.join(_MACHINES)}; this is {machine}"
        return
    # Where the kernel separates this domain or user from others, the process may signal all of its own processes.
    signals = () if user is not None or landlock >= 6 else _SIGNALS
    setters = () if user is not None else _SETTERS
    code = _program(machine, cuda=limits.cuda, only_self=(*signals, *setters))
    text = b"".join(struct.pack("=HBBI", *one) for one in code)
    buffer = ctypes.create_string_buffer(text, len(text))
    program = struct.pack("@HP", len(code), ctypes.addressof(buffer))
    if _system_call(_SECCOMP[machine], _SET_MODE_FILTER, _TSYNC, program) != 0:
        lacking["system_calls"] = f"the kernel took no seccomp filter: {os.strerror(ctypes.get_errno())}"
        return
    if signals or user is not None:
        lacking.pop("signals", None)


def _program(machine: str, *, cuda: bool, only_self: tuple[str, ...]) -> _Code:
    """The filter. Calls without a rule cost nothing: the kernel caches that they are allowed."""
    column, architecture = _MACHINES[machine]
    rows = [row.split() for row in _TABLE.split(",")]
    numbers = {name: int(both[column]) for name, *both in rows if both[column] != "-"}
    code = [_load(4), _jump(_EQUAL, architecture, 1, 0), _give(_ERRNO | _ENOSYS), _load(0)]
    code += [_jump(_AT_LEAST, _X32, 0, 1), _give(_ERRNO | _ENOSYS)]
    # Without clone3, glibc uses clone. A filter can read clone's flags, but not those of clone3, which are behind a
    # pointer.
    code += _on(numbers["clone3"], [_give(_ERRNO | _ENOSYS)])
    # The lowest byte of the flags is the signal to the parent when the child ends.
    wakes = [(_AND, 0, 0, 0xFF), _jump(_EQUAL, signal.SIGCONT, 0, 1)]
    code += _on(numbers["clone"], [_argument(0), _jump(_ANY_BIT, _NEW_NAMESPACES, 2, 0), *wakes, *_verdicts()])
    code += _on(numbers["socket"], _sockets() if cuda else [_give(_ERRNO | _EPERM)])
    for name in only_self:
        is_self = [_jump(_EQUAL, 0, 2, 0), _jump(_EQUAL, os.getpid(), 1, 0)]
        code += _on(numbers[name], [_argument(0), *is_self, *_verdicts()])
    kinds = [(_AND, 0, 0, 0xFF00), *_among([kind << 8 for kind in _OF_ATTRIBUTES])]
    code += _on(numbers["ioctl"], [_argument(1), *_among(_SIGNALLING), *kinds, _give(_ALLOW)])
    # The harness stops a process by a signal while others are timed. SIGCONT from the kernel would continue it. What a
    # process has open is read from outside, unless it hides that.
    for name, place, command, denied in (
        ("fcntl", 2, fcntl.F_SETSIG, (fcntl.F_SETOWN, _F_SETOWN_EX)),
        ("prctl", 1, _PR_SET_PDEATHSIG, (_PR_SET_DUMPABLE,)),
    ):
        wakes = [_jump(_EQUAL, command, 0, 3), _argument(place), _jump(_EQUAL, signal.SIGCONT, 0, 1), *_verdicts()]
        code += _on(numbers[name], [_argument(place - 1), *_among(denied), *wakes])
    # CUDA's driver may need them. Behind a pointer are a timer's signal, and descriptors that a message carries: these
    # could be hidden in a socket, with their memory and disk.
    for name in () if cuda else _BUT_FOR_CUDA:
        code += _on(numbers[name], [_give(_ERRNO | _EPERM)])
    for name, number in numbers.items():
        if name not in _IN_SOME_FORMS:
            code += _on(number, [_give(_ERRNO | _ANSWERS.get(name, _EPERM))])
    return [*code, _give(_ALLOW)]


def _sockets() -> _Code:
    """Allow Unix sockets, on which CUDA's driver listens, but no datagrams: they reach others without `connect`."""
    is_unix = [_argument(0), _jump(_EQUAL, 1, 0, 3)]
    is_datagram = [_argument(1), (_AND, 0, 0, 0xF), _jump(_EQUAL, 2, 0, 1)]
    return [*is_unix, *is_datagram, *_verdicts()]


_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45


def _load(offset: int) -> _Instruction:
    return _LOAD, 0, 0, offset


def _argument(index: int) -> _Instruction:
    return _load(16 + 8 * index)  # the lower half: both machines are little-endian


def _jump(test: int, value: int, then: int, otherwise: int) -> _Instruction:
    return test, then, otherwise, value


def _give(verdict: int) -> _Instruction:
    return _RETURN, 0, 0, verdict


def _verdicts(error: int = _EPERM) -> _Code:
    """An instruction that denies, followed by one that allows."""
    return [_give(_ERRNO | error), _give(_ALLOW)]


def _among(values: Sequence[int]) -> _Code:
    """Deny where the value that was loaded is among these."""
    return [one for value in values for one in (_jump(_EQUAL, value, 0, 1), _give(_ERRNO | _EPERM))]


def _on(number: int, code: _Code) -> _Code:
    return [_jump(_EQUAL, number, 0, len(code)), *code]


# --- the C library

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def _system_call(number: int, *arguments: int | bytes | None) -> int:
    """The call's result; negative for an error, with its number in `ctypes.get_errno()`."""
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *wide))


def _prctl(option: int, first: int, second: int = 0) -> None:
    _checked(_libc.prctl(option, first, second, 0, 0))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
