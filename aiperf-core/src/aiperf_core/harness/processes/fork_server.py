"""A process with torch imported, from which every other process of a run is forked.

A fresh process then costs milliseconds instead of the seconds that importing torch takes, and the tenth of a second that the
harness's own modules take. The server itself runs no benchmark code, makes no tensor and never touches the GPU, so a child
starts as clean as if it had imported all that itself.

It answers one request, `spawn`, and reports `exited` for each child. Children lead a process group of their own (the
supervisor kills groups), die with the server, and write what they print to a log file. Their orphans are handed to the
server, which kills them when it ends: no process outlives a run.
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
from typing import Any

from aiperf_core.devices import device_lock
from aiperf_core.harness.processes.bytecode import kept_for
from aiperf_core.harness.processes.channel import Channel, ChannelClosedError

PRELOAD = ("torch", "numpy", "psutil")
# Imported when nothing is asked for, as while the first children look at the machine. `FOR_GPUS` where it is installed, and
# where there is a driver, which has one of these files.
WHEN_IDLE = ("judge", "worker")
FOR_GPUS = ("cuda.bindings.driver", "cuda.bindings.runtime")
_DRIVERS = ("/dev/nvidiactl", "/dev/dxg")
ROLES = {
    "describer": "aiperf_core.harness.roles.describer",
    "judge": "aiperf_core.harness.roles.judge",
    "worker": "aiperf_core.harness.roles.worker",
    "launcher": "aiperf_core.harness.ranks.launcher",
    "prober": "aiperf_core.harness.roles.prober",
    "linter": "aiperf_core.harness.roles.linter",
    "one_process": "aiperf_core.selftest.one_process",
}
# Imported with the module of a role, when the first of it is asked for: what each process would import by itself. Benchmarks with
# kernels take a tenth of a second for that, a rank that makes its first `DistributedDataParallel` takes seconds.
LATER = {
    "describer": ("aiperf_core.kernels",),
    "launcher": ("torch._dynamo", "torch.distributed.elastic.agent.server.local_elastic_agent"),
}
# A variable and its value, for those who start a role in another way too.
COMPILE_IN_PROCESS = ("TORCHINDUCTOR_COMPILE_THREADS", "1")
_COUNT_BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def serve(control: Channel) -> None:
    """Import torch, then fork children on request until the supervisor closes the control channel."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # A pool of compiling processes would go on beside the calls; one that compiles in its own process does not.
    os.environ.setdefault(*COMPILE_IN_PROCESS)
    _import(PRELOAD)
    device_lock.open_lock()
    wakeup = _wake_on_sigchld()
    control.send({"ready": True})
    children: set[int] = set()
    later = _for_later()
    try:
        while True:
            # Not before the first child, which somebody waits for.
            readable, _, _ = select.select([control.fileno(), wakeup], [], [], 0 if later and children else None)
            if not readable:
                with contextlib.suppress(Exception):  # whoever needs it says what is wrong with it
                    _import(later.pop(0))
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
    """Have torch count GPUs by NVML: of a process that has asked CUDA, no child can use a GPU."""
    kept = os.environ.get(_COUNT_BY_NVML)
    os.environ[_COUNT_BY_NVML] = "1"
    try:
        yield
    finally:
        os.environ.pop(_COUNT_BY_NVML)
        if kept is not None:
            os.environ[_COUNT_BY_NVML] = kept


def _import(names: Sequence[str]) -> None:
    if all(name in sys.modules for name in names):
        return
    # Modules are made of objects that live on: collections while they are made find little, and take a fifth of the time.
    gc.disable()
    try:
        with gpus_untouched(), kept_for(PRELOAD[0]):
            for name in names:
                importlib.import_module(name)
    finally:
        gc.enable()
    # Frozen objects stay out of collections in the children, whose pages then stay shared. The little garbage among them is
    # not worth the time of finding it.
    gc.freeze()


def _for_later() -> list[Sequence[str]]:
    for_gpus = [FOR_GPUS] if any(map(os.path.exists, _DRIVERS)) else []
    return [*for_gpus, *((ROLES[role],) for role in WHEN_IDLE)]


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
    request = control.receive()
    (fd,) = request.pop("fds")
    role = request["role"]
    _import((*LATER.get(role, ()), ROLES[role]))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            control.close()
            os.close(wakeup)
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            code = be(fd, **request)
        finally:
            os._exit(code)
    os.close(fd)
    control.send({"spawned": pid})
    return pid


def be(fd: int, role: str, log: str, memory_limit_bytes: int | None) -> int:
    """Make this process, which leads its group, one of a role that serves a channel; the exit status when that is over."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _redirect(log)
    # A hanging child is asked where it hangs before it is killed.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    _prefer_as_victim()
    if memory_limit_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_limit_bytes, memory_limit_bytes))
    try:
        module: Any = importlib.import_module(ROLES[role])
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


def _redirect(log: str) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)
    # The server's own streams are those of the pipes that it was started with.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def _prefer_as_victim() -> None:
    """Let the kernel's out-of-memory killer take this process rather than the supervisor."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def _kill_descendants() -> None:
    import psutil

    for process in psutil.Process().children(recursive=True):
        try:
            process.kill()
        except psutil.Error:
            continue


if __name__ == "__main__":
    try:
        serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # Nothing is left to be tidied, and taking torch down takes as long as a part of its import.
    os._exit(0)
