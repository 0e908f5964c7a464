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

from attrs import asdict, define, field, frozen

from aiperf_core.harness.processes.channel import Channel, ChannelClosedError, ChannelTimeoutError
from aiperf_core.harness.processes.child import START_TIMEOUT_S, Child, ChildError, ForkServer, exit_error

# How long the launcher may take to report how a rank ended.
REPORT_S = 10.0
# A failing rank makes the others fail: wait this long before deciding which rank failed first.
GRACE_S = 0.5


@frozen(kw_only=True)
class Meeting:
    """Where the launchers of an implementation's ranks meet; there is one launcher on each machine.

    nodes: the number of machines.
    address: this machine's, by which other machines reach its ranks.
    interface: the network interface with that address; None leaves the choice to the libraries.
    host: the machine of the launchers' store.
    port: the port of the store; 0 has this launcher open it and report the port.
    """

    run_id: str = "aiperf"
    nodes: int = 1
    address: str = "127.0.0.1"
    interface: str | None = "lo"
    host: str = "127.0.0.1"
    port: int = 0


@define(eq=False)
class RankLauncher:
    """A launcher process and the `count` ranks that it starts here.

    folder: holds the Unix socket `listening`, to which the ranks connect.
    pids: the process of each rank, by its number.
    """

    count: int
    launcher: Child
    log: Path
    folder: Path
    listening: socket.socket
    pids: dict[int, int] = field(factory=dict, init=False)
    ended: bool = field(default=False, init=False)
    _failures: dict[str, int] | None = field(default=None, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    @staticmethod
    def start(server: ForkServer, name: str, log: Path, count: int, memory_limit_bytes: int | None) -> "RankLauncher":
        """Start a launcher; `launch` has it start the ranks."""
        # The address of a Unix socket has room for 107 bytes.
        parent = tempfile.gettempdir()
        folder = Path(tempfile.mkdtemp(prefix="aiperf-ranks-", dir=parent if len(os.fsencode(parent)) < 70 else "/tmp"))
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(folder / "supervisor"))
        listening.listen(count)
        launcher = server.spawn("launcher", name, log, memory_limit_bytes=memory_limit_bytes)
        return RankLauncher(count, launcher, log, folder, listening)

    def launch(self, meeting: Meeting) -> None:
        """Have the ranks started."""
        self.launcher.post(
            "launch",
            count=self.count,
            address=str(self.folder / "supervisor"),
            log=str(self.log),
            folder=str(self.folder),
            meeting=asdict(meeting),
        )

    def store_port(self) -> int:
        """The port of the store that the launcher opens for other machines' launchers. Raises `ChildError`."""
        try:
            told = self.launcher.read(time.monotonic() + START_TIMEOUT_S)
        except ChannelTimeoutError:
            raise ChildError("hung", f"the launcher of the ranks opened no store in {START_TIMEOUT_S:g} s") from None
        if "notice" not in told:
            Child.result(told)
        return int(told["notice"])

    # --- the ranks

    def next_rank(self, timeout: float) -> tuple[int, int, Channel]:
        """Wait for a rank to connect; see `accept`. Raises `ChildError` where none does."""
        sources: list[Any] = [self.listening, self.launcher.channel]
        ready, _, _ = select.select(sources, [], [], timeout)
        if self.listening in ready:
            return self.accept()
        raise self.explain() if ready else ChildError("hung", f"a rank did not start in {timeout:g} s")

    def accept(self) -> tuple[int, int, Channel]:
        """Accept a rank that connects: its number, its process and the channel to it."""
        connection, _ = self.listening.accept()
        channel = Channel(connection)
        hello = channel.receive(START_TIMEOUT_S)
        number, pid = int(hello["rank"]), int(hello["pid"])
        self.pids[number] = pid
        return number, pid, channel

    def explain(self) -> ChildError:
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
