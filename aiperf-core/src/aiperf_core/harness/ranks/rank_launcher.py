"""The ranks of one implementation on this machine: their launcher process, and its connections to the ranks."""

import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from attrs import define, field

from aiperf_core.executor import WorkerSpec
from aiperf_core.harness.processes.channel import Channel, ChannelClosedError, ChannelTimeoutError
from aiperf_core.harness.processes.child import START_TIMEOUT_S, Child, ChildError, ForkServer, exit_error

# How long the launcher may take to report how a rank ended.
REPORT_S = 10.0
# A failing rank makes the others fail: wait this long before deciding which rank failed first.
GRACE_S = 0.5


@define(eq=False)
class RankLauncher:
    """A launcher process and the ranks that it starts here.

    folder: holds the Unix socket `listening`, to which the ranks connect.
    pids: the process of each rank, by its number.
    """

    launcher: Child
    log: Path
    folder: Path
    listening: socket.socket
    pids: dict[int, int] = field(factory=dict, init=False)
    ended: bool = field(default=False, init=False)
    _failures: dict[str, int] | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @staticmethod
    def start(server: ForkServer, spec: WorkerSpec, role: str = "launcher", **where: Any) -> "RankLauncher":
        """Start a launcher, which starts the ranks; `where` is for `Launcher.do_launch`."""
        # The address of a Unix socket has room for 107 bytes.
        parent = tempfile.gettempdir()
        folder = Path(tempfile.mkdtemp(prefix="aiperf-ranks-", dir=parent if len(os.fsencode(parent)) < 70 else "/tmp"))
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(folder / "supervisor"))
        listening.listen(spec.ranks)
        launcher = server.spawn(role, spec.name, spec.log, memory_limit_bytes=spec.memory_limit_bytes)
        launcher.post("launch", count=spec.ranks, folder=str(folder), log=str(spec.log), **where)
        return RankLauncher(launcher, spec.log, folder, listening)

    # --- the ranks

    def next_rank(self, timeout: float) -> tuple[int, int, Channel]:
        """Wait for a rank to connect: its number, its process and the channel to it.

        Raises `ChildError` where the launcher ended, and `ChannelTimeoutError`.
        """
        sources: list[Any] = [self.listening, self.launcher.channel]
        ready, _, _ = select.select(sources, [], [], timeout)
        if not ready:
            raise ChannelTimeoutError
        if self.listening not in ready:
            raise self._explain()
        channel = Channel(self.listening.accept()[0])
        hello = channel.receive(START_TIMEOUT_S)
        number, pid = int(hello["rank"]), int(hello["pid"])
        self.pids[number] = pid
        return number, pid, channel

    def _explain(self) -> ChildError:
        """The error of a launcher that replies: it could start no ranks, or they have ended."""
        failures = self.launcher.collect(timeout=REPORT_S).get("failures", {})
        reasons = [str(exit_error(f"rank {rank}", code)) for rank, code in failures.items()]
        return ChildError("exited", f"the launcher of the ranks ended: {'; '.join(reasons) or 'it gave no reason'}")

    def exit_code(self, rank: int) -> int | None:
        """The exit code of a rank whose channel closed, None if unknown. Ends all ranks here."""
        with self._lock:  # several ranks may be asked for at the same time
            if self._failures is None and not self.ended:
                time.sleep(GRACE_S)  # the launcher sees this end first, and then need not wait for the other ranks
                for pid in self.pids.values():
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                self._failures = {}
                with contextlib.suppress(ChildError, ChannelClosedError):
                    self._failures = self.launcher.collect(timeout=REPORT_S).get("failures", {})
            return (self._failures or {}).get(str(rank))

    def interrupt(self, rank: int) -> None:
        """Have a rank write its traceback to its log."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pids[rank], signal.SIGUSR1)

    def log_of(self, rank: int) -> Path:
        """The log file of a rank."""
        return rank_log(self.log, rank)

    # --- all of them

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes here."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.launcher.pid, number)

    def kill(self) -> None:
        """Kill the ranks and the launcher."""
        with self._lock:
            self.ended = True
            self.listening.close()
            self.launcher.kill()
            shutil.rmtree(self.folder, ignore_errors=True)

    def destroy(self) -> None:
        """Kill the processes and leave the channels to their thread; for other threads."""
        self.launcher.destroy()


def rank_log(log: Path, rank: int) -> Path:
    """The log file of a rank, beside that of its implementation."""
    return log.with_name(f"{log.stem}-rank{rank}{log.suffix}")
