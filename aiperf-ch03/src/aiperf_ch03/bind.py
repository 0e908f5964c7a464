"""Starts a command on chosen CPUs, with its memory from chosen nodes."""

import ctypes
import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from attrs import frozen

from aiperf_ch03.numa_audit import node_cpus
from aiperf_core.devices.sysfs import numbers
from aiperf_core.errors import AiperfError, UsageError

# The number of the system call set_mempolicy, which glibc does not wrap, and the modes of linux/mempolicy.h.
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
MODES = {"preferred": 1, "bind": 2, "interleave": 3, "local": 4}
_MOST_NODES = 1024


@frozen
class Placement:
    """Where a command runs.

    cpus: the CPUs.
    policy: a name of `MODES`.
    nodes: the nodes of its memory; empty for `local`.
    """

    cpus: list[int]
    policy: str
    nodes: list[int]

    def __str__(self) -> str:
        memory = self.policy + (f" nodes {', '.join(map(str, self.nodes))}" if self.nodes else "")
        return f"CPUs {', '.join(map(str, self.cpus))}; memory: {memory}"


def placement(node: int | None, cpus: str | None, policy: str | None, root: Path = Path("/")) -> Placement:
    """The placement that options ask for: CPUs of a node, a list of CPUs, or both.

    Raises `UsageError` for a node or a CPU that is not there, and for memory of unknown nodes.
    """
    usable, there = os.sched_getaffinity(0), node_cpus(root)
    if node is None and cpus is None:
        raise UsageError("'bind' was not told where to run; give --node N, --cpus LIST, or both")
    if node is not None and node not in there:
        raise UsageError(f"--node {node} is not a node of this machine; accepted are {_listed(there)}")
    wanted = _parsed(cpus) if cpus is not None else there[node or 0]
    if cpus is None:
        wanted = [cpu for cpu in wanted if cpu in usable]
    if lost := sorted({*wanted} - usable):
        raise UsageError(f"CPUs {_listed(lost)} cannot be used by this process; accepted are {_listed(sorted(usable))}")
    if not wanted:
        raise UsageError(f"no CPU of node {node} can be used by this process; accepted are {_listed(sorted(usable))}")
    chosen = policy or ("bind" if node is not None else "local")
    if chosen == "local":
        return Placement(wanted, chosen, [])
    if chosen == "interleave":
        return Placement(wanted, chosen, sorted(there))
    if node is None:
        raise UsageError(f"--memory {chosen} needs a node; add --node N, one of {_listed(there)}")
    return Placement(wanted, chosen, [node])


def run(command: Sequence[str], where: Placement) -> NoReturn:
    """Replace this process by the command, which inherits the placement.

    Raises `AiperfError` where the kernel refuses the placement, and `UsageError` for a command that is not found.
    """
    if shutil.which(command[0]) is None:
        raise UsageError(f"'{command[0]}' is not a command that can be run; give a program in PATH or a path to one")
    os.sched_setaffinity(0, where.cpus)
    _set_memory_policy(where)
    os.execvp(command[0], list(command))


def _set_memory_policy(where: Placement) -> None:
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None:
        raise AiperfError(
            f"memory policies on {platform.machine()} are not known here; known are {_listed(SET_MEMPOLICY)}"
        )
    mask = (ctypes.c_ulong * (_MOST_NODES // 64))()
    for node in where.nodes:
        mask[node // 64] |= 1 << node % 64
    # The kernel reads one bit less than it is told; `local` takes no nodes.
    given = (mask, ctypes.c_ulong(_MOST_NODES + 1)) if where.nodes else (None, ctypes.c_ulong(0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, MODES[where.policy], *given) != 0:
        raise AiperfError(
            f"the kernel refused memory policy '{where.policy}': {os.strerror(ctypes.get_errno())}. In a container, "
            "add the capability SYS_NICE, or use --memory local"
        )


def _parsed(cpus: str) -> list[int]:
    try:
        found = sorted(set(numbers(cpus)))
    except ValueError:
        found = []
    if not found:
        raise UsageError(f"--cpus {cpus!r} is not a list of CPUs; accepted is a form such as 0-3,8")
    return found


def _listed(values: object) -> str:
    return ", ".join(map(str, values)) if values else "none"  # type: ignore[call-overload]
