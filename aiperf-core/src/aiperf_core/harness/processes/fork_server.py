"""The fork server: a process with torch imported, from which all other processes of a run are forked.

A fresh process then costs milliseconds, not the seconds that importing torch takes. The server runs no benchmark code,
makes no tensor and never touches the GPU: a child starts as clean as if it had imported all modules itself.

The server answers one request, `spawn`, and reports `exited` for each child. Each child leads its own process group
(the supervisor kills groups), dies with the server, and writes its output to a log file. Orphans of children are
reparented to the server, which kills them when it ends: no process outlives a run.
"""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import io
import os
import resource
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from aiperf_core.devices import device_lock
from aiperf_core.harness.processes.bytecode import kept_for
from aiperf_core.harness.processes.channel import Channel, ChannelClosedError
from aiperf_core.harness.processes.parent import end_with_parent

PRELOAD = ("torch", "numpy", "psutil")
# Imported while no request waits, for instance while the first children probe the machine. `FOR_GPUS` only where it is
# installed and where a driver is, which has one of the files `_DRIVERS`.
WHEN_IDLE = ("judge", "worker")
FOR_GPUS = ("cuda.bindings.driver", "cuda.bindings.runtime")
_DRIVERS = ("/dev/nvidiactl", "/dev/dxg")
# A plugin may spawn a module of its own, by its name.
ROLES = {
    "describer": "aiperf_core.harness.roles.describer",
    "judge": "aiperf_core.harness.roles.judge",
    "worker": "aiperf_core.harness.roles.worker",
    "launcher": "aiperf_core.harness.ranks.launcher",
    "prober": "aiperf_core.harness.roles.prober",
    "linter": "aiperf_core.harness.roles.linter",
    "observer": "aiperf_core.harness.roles.observer",
}
# Imported with a role's module at its first spawn, since each of its processes would import them: benchmarks with
# kernels need 0.1 s for that, a linter half a second to count operations (torch's formulas import triton).
WITH_ROLE = {
    "describer": ("aiperf_core.kernels",),
    "linter": ("torch.utils.flop_counter",),
}
# A variable and its value. A pool of compiler processes would run beside the timed calls.
COMPILE_IN_PROCESS = ("TORCHINDUCTOR_COMPILE_THREADS", "1")
_COUNT_BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def serve(control: Channel, preload: Sequence[str] = ()) -> None:
    """Import torch and `preload`, then fork children on request until the supervisor closes the control channel."""
    end_with_parent()
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    os.environ.setdefault(*COMPILE_IN_PROCESS)
    _import((*PRELOAD, *preload))
    device_lock.create()
    wakeup = _wake_on_sigchld()
    control.send({"ready": True})
    children: set[int] = set()
    for_gpus = [FOR_GPUS] if any(map(os.path.exists, _DRIVERS)) else []
    pending = [*(partial(_import, names) for names in for_gpus), *(partial(_get_ready, role) for role in WHEN_IDLE)]
    try:
        while True:
            # Idle imports start after the first spawn, for which the supervisor waits.
            idle = 0 if pending and children else None
            readable, _, _ = select.select([control.fileno(), wakeup], [], [], idle)
            if not readable:
                with contextlib.suppress(Exception):  # the role that needs the module reports the error
                    pending.pop(0)()
            if wakeup in readable:
                os.read(wakeup, 4096)
                _report_exits(control, children)
            if control.fileno() in readable:
                children.add(_spawn(control, wakeup))
    except ChannelClosedError:
        pass
    finally:
        _kill_descendants()


@contextlib.contextmanager
def gpus_untouched() -> Iterator[None]:
    """Have torch count GPUs by NVML: children of a process that has initialised CUDA cannot use a GPU."""
    before = os.environ.get(_COUNT_BY_NVML)
    os.environ[_COUNT_BY_NVML] = "1"
    try:
        yield
    finally:
        os.environ.pop(_COUNT_BY_NVML)
        if before is not None:
            os.environ[_COUNT_BY_NVML] = before


def _import(names: Sequence[str]) -> None:
    if all(name in sys.modules for name in names):
        return
    # Objects of modules stay alive: collections during an import free little and take a fifth of its time.
    gc.disable()
    try:
        with gpus_untouched(), kept_for(PRELOAD[0]):
            for name in names:
                importlib.import_module(name)
    finally:
        gc.enable()
    # Children's collections skip frozen objects, whose pages then stay shared.
    gc.freeze()


def _get_ready(role: str) -> None:
    """Import a role's module, and do once what its processes would all do: `before_forks`, where it has one."""
    _import((ROLES[role],))
    if before_forks := getattr(sys.modules[ROLES[role]], "before_forks", None):
        before_forks()
        gc.freeze()


def _wake_on_sigchld() -> int:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def _report_exits(control: Channel, children: set[int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in children:
            children.discard(pid)
            control.send({"exited": pid, "code": os.waitstatus_to_exitcode(status)})


def _spawn(control: Channel, wakeup: int) -> int:
    request = control.receive(most_fds=1)
    (fd,) = request.pop("fds")
    role: str = request["role"]
    _import((*WITH_ROLE.get(role, ()), ROLES.get(role, role)))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            control.close()
            os.close(wakeup)
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            code = run_role(fd, **request)
        finally:
            os._exit(code)
    os.close(fd)
    control.send({"spawned": pid})
    return pid


def run_role(fd: int, role: str, log: str, memory_limit_bytes: int | None) -> int:
    """Serve a role on a channel in this process, which leads its process group. Return the exit status."""
    end_with_parent()
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    redirect_output(log)
    # SIGUSR1 writes a traceback to the log before a hanging child is killed.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    # The kernel's out-of-memory killer shall take this process, not the supervisor; and a confined one before that.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("300")
    if memory_limit_bytes is not None:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)  # of the user, which this never raises
        limit = memory_limit_bytes if most == resource.RLIM_INFINITY else min(memory_limit_bytes, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        module: Any = importlib.import_module(ROLES.get(role, role))
        module.main(Channel(socket.socket(fileno=fd)))
    except ChannelClosedError:
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def hide_from_tracers() -> None:
    """Have no process but root's trace this one or read its memory, not even another one of the same user."""
    _libc.prctl(_PR_SET_DUMPABLE, 0)


def redirect_output(log: str | os.PathLike[str]) -> None:
    """Send what this process prints to a log file, line by line, and close its standard input."""
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for fd, standard in ((null, 0), (out, 1), (out, 2)):
        os.dup2(fd, standard)
    os.close(null)
    os.close(out)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # buffered in blocks so far, for the server's pipes
            stream.reconfigure(line_buffering=True)


def _kill_descendants() -> None:
    import psutil

    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.kill()


if __name__ == "__main__":
    try:
        serve(Channel(socket.socket(fileno=int(sys.argv[1]))), sys.argv[2:])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # Without Python's shutdown: tearing torch down takes a noticeable part of its import time.
    os._exit(0)
