"""Common parts of engines: their options, tasks that no machine can take, and the end of processes."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence

from aiperf_core.errors import UsageError
from aiperf_core.fleet import FleetTask, Offer
from aiperf_core.names import words
from aiperf_core.targets import nearest
from aiperf_core.units import plural

TAIL_BYTES = 1 << 16
# How long a file may take to appear in a shared folder after the process that wrote it ended.
SETTLE_S = 30.0


def check_options(engine: str, options: Mapping[str, str], known: Collection[str]) -> None:
    """Raise UsageError for an option that the engine does not have."""
    for name in options:
        if name not in known:
            raise UsageError(
                f"'{words(name)}' is no option of the engine '{engine}'.{nearest(name, known)} "
                f"It has: {', '.join(known) or 'none'}."
            )


def check_possible(task: FleetTask, offers: Sequence[Offer]) -> None:
    """Raise UsageError where no machine can ever take a task."""
    fitting = [
        one
        for one in offers
        if one.machine not in task.avoid and (task.machine_class is None or task.machine_class in one.classes)
    ]
    if not fitting:
        wanted = f"of the class '{words(task.machine_class)}'" if task.machine_class else "of any class"
        raise UsageError(
            f"no machine {wanted} can take the task {task.id}: the engine has {plural('machine', len(offers))}, and "
            f"{len(task.avoid)} are to be avoided."
        )


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process that leads a group, with all its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def tail_of(path: str | os.PathLike[str]) -> str:
    """The end of a text file; empty where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
