"""Whether this machine is fit to measure now: the lock of the host, its kind, and what else keeps it busy."""

import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import frozen

from aiperf_core import units
from aiperf_core.devices.nvml import NvmlMissingError, session
from aiperf_core.errors import AiperfError
from aiperf_core.names import words

# As of BSD's sysexits: a failure that passes, so that a scheduler may try again.
TRY_LATER = 75
LOCK_VARIABLE = "AIPERF_CI_LOCK"
_SHARED = Path("/run/lock")
_LOCK = "aiperf-ci.lock"
POLL_S = 0.5
_WATCH_S = 1.0
# Processes that a refusal names, and the least processor time of each within _WATCH_S.
_NAMED, _LEAST_USED_S = 3, 0.02


class NotFitError(AiperfError):
    """The machine cannot measure now. Another try later may."""

    exit_code = TRY_LATER  # type: ignore[assignment]  # 75 is of schedulers, not of aiperf's own list


def lock_path() -> Path:
    """The lock: `$AIPERF_CI_LOCK`, or `aiperf-ci.lock` in /run/lock, or in the folder of temporary files."""
    if given := os.environ.get(LOCK_VARIABLE):
        return Path(given)
    shared = _SHARED if os.access(_SHARED, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    return shared / _LOCK


@frozen
class Busy:
    """When the machine is too busy to measure.

    processors: the largest share of the processors that other processes may keep busy.
    gpu_processes: the largest number of processes on the GPUs.
    wait_s: how long a run waits for a quiet machine, and for the lock.
    """

    processors: float = 0.1
    gpu_processes: int = 0
    wait_s: float = 60.0


@contextmanager
def lock(wait_s: float) -> Iterator[Path]:
    """Hold the lock of the host within the block. Raises NotFitError where another run keeps it for longer.

    Suites and tasks of fleets share it, so that two of them never measure on one machine at once.

    The kernel releases it when this process has ended, however it ends, and with it all that inherited the lock: a
    process that measures is started with `close_fds=False`. The file stays.
    """
    path = lock_path()
    with _usable("open", path):
        # Other users must be able to take it, whatever the umask. A link is not followed in a folder of all users.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK, 0o666)
    try:
        with _usable("open", path):
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "Not a regular file")
        with suppress(OSError):
            os.fchmod(descriptor, 0o666)
        with _usable("take", path):
            _take(descriptor, path, wait_s)
        with _usable("write", path):
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        os.set_inheritable(descriptor, True)
        yield path
    finally:
        os.close(descriptor)


@contextmanager
def _usable(verb: str, path: Path) -> Iterator[None]:
    """Turn a failure of the system in the block into a NotFitError."""
    try:
        yield
    except OSError as error:
        raise NotFitError(
            f"cannot {verb} the lock '{words(str(path))}': {error.strerror}. Remove it if no run goes on, or name "
            f"another place for all users of this machine: {LOCK_VARIABLE}=PATH"
        ) from error


def _take(descriptor: int, path: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise NotFitError(
                    f"another run measures on this machine ({_holder(descriptor)}, lock '{words(str(path))}'); waited "
                    f"{wait_s:g} s. Try again later, or raise busy.wait_s."
                ) from None
            time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))


def _holder(descriptor: int) -> str:
    """The process that took the lock; where it has ended, one that it started measures still."""
    import psutil

    text = words(os.pread(descriptor, 32, 0).decode("ascii", "replace"))
    ended = text.isdecimal() and not psutil.pid_exists(int(text))
    return f"process {text or 'unknown'}{', which has ended: what it started has not' if ended else ''}"


def busy(limits: Busy) -> list[str]:
    """Reasons why the machine is too busy, with the processes behind them; empty where it is not. Takes a second."""
    import psutil

    reasons = []
    before = _processor_times()
    share = psutil.cpu_percent(_WATCH_S) / 100
    if share > limits.processors:
        reasons.append(
            f"{units.percent(share)} of the processors are busy (at most {units.percent(limits.processors)})"
            f"{_busiest(before, _processor_times())}"
        )
    processes = gpu_processes()
    if processes is not None and len(processes) > limits.gpu_processes:
        named = ", ".join(map(_process_name, processes[:_NAMED]))
        reasons.append(f"{len(processes)} processes use a GPU (at most {limits.gpu_processes}): {named}")
    return reasons


def _processor_times() -> dict[tuple[int, float], float]:
    """The processor time in s of each other process that can be read, by its id and the moment when it began."""
    import psutil

    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            times = process.cpu_times()
            found[process.pid, process.create_time()] = times.user + times.system
    return {key: seconds for key, seconds in found.items() if key[0] != os.getpid()}


def _busiest(before: dict[tuple[int, float], float], after: dict[tuple[int, float], float]) -> str:
    """The processes that used the most processor time between two readings, as the end of a sentence."""
    used = {key[0]: seconds - before.get(key, 0.0) for key, seconds in after.items()}
    most = sorted((pid for pid in used if used[pid] > _LEAST_USED_S), key=lambda pid: -used[pid])[:_NAMED]
    named = ", ".join(f"{_process_name(pid)} for {units.seconds(used[pid], 2)}" for pid in most)
    return f", in {_WATCH_S:g} s by {named}" if named else ""


def _process_name(pid: int) -> str:
    import psutil

    try:
        return f"'{words(psutil.Process(pid).name())}' (process {pid})"
    except psutil.Error:
        return f"process {pid}"


def gpu_processes() -> list[int] | None:
    """The ids of the processes that compute on each GPU; None where no driver tells."""
    try:
        with session() as nvml:
            count = nvml.ask("nvmlDeviceGetCount") or 0
            handles = [nvml.ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
            listed = [nvml.ask("nvmlDeviceGetComputeRunningProcesses", handle) for handle in handles if handle]
    except NvmlMissingError:
        return None
    return [process.pid for processes in listed for process in processes or ()]
