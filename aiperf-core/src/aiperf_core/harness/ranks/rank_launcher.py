"""The ranks of one implementation on this machine: their launcher, and what is asked of both from outside."""

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
from aiperf_core.harness.processes.child import Child, ChildError, ForkServer

START_TIMEOUT_S = 120.0
# So long may the launcher take to say how a rank has ended.
EPITAPH_S = 10.0
# A rank that fails makes the others fail too; for so long it is seen whether the first one to say so was the first.
GRACE_S = 0.5


@frozen(kw_only=True)
class Meeting:
    """Where the launchers of an implementation's ranks meet, one on each of so many machines.

    address: this machine's, by which the others reach its ranks. interface: the network interface that has it, None for the
    libraries' own choice. port: where the launchers' store listens; 0 has this launcher open it and tell the port.
    """

    run_id: str = "aiperf"
    nodes: int = 1
    address: str = "127.0.0.1"
    interface: str | None = "lo"
    host: str = "127.0.0.1"
    port: int = 0


@define(eq=False)
class RankLauncher:
    """So many ranks that a launcher starts here, with the folder where they are met."""

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
        """Start a launcher, which waits for `launch`."""
        # The address of a Unix socket has room for 107 bytes.
        place = tempfile.gettempdir()
        folder = Path(tempfile.mkdtemp(prefix="aiperf-ranks-", dir=place if len(os.fsencode(place)) < 70 else "/tmp"))
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
        """The port of the store that the launcher opens for those of other machines. Raises `ChildError`."""
        try:
            told = self.launcher.read(time.monotonic() + START_TIMEOUT_S)
        except ChannelTimeoutError:
            raise ChildError("hung", f"the launcher of the ranks opened no store in {START_TIMEOUT_S:g} s") from None
        if "notice" not in told:
            Child.result(told)
        return int(told["notice"])

    # --- the ranks

    def next_rank(self, timeout: float) -> tuple[int, int, Channel]:
        """Wait for a rank to come, see `accept`. Raises `ChildError` where none does."""
        places: list[Any] = [self.listening, self.launcher.channel]
        ready, _, _ = select.select(places, [], [], timeout)
        if self.listening in ready:
            return self.accept()
        raise self.explain() if ready else ChildError("hung", f"a rank did not start in {timeout:g} s")

    def accept(self) -> tuple[int, int, Channel]:
        """A rank that has come: its number, its process and the channel to it."""
        connection, _ = self.listening.accept()
        channel = Channel(connection)
        hello = channel.receive(START_TIMEOUT_S)
        number, pid = int(hello["rank"]), int(hello["pid"])
        self.pids[number] = pid
        return number, pid, channel

    def explain(self) -> ChildError:
        """Why the launcher speaks before it is asked: it does so only when it can start no ranks, or they have ended."""
        failures = self.launcher.collect(timeout=EPITAPH_S).get("failures", {})
        said = "; ".join(f"rank {rank}: {ending(code)}" for rank, code in failures.items()) or "it gave no reason"
        return ChildError("exited", f"the launcher of the ranks ended: {said}")

    def exit_code(self, rank: int) -> int | None:
        """How a rank ended whose channel closed, None where the launcher does not know; this is the end of all ranks here."""
        with self._lock:  # several ranks may be asked for at the same time
            if self._failures is None and not self.ended:
                time.sleep(GRACE_S)  # the launcher shall see this one end first; then it need not wait for the others
                for pid in self.pids.values():
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                self._failures = {}
                with contextlib.suppress(ChildError, ChannelClosedError):
                    self._failures = self.launcher.collect(timeout=EPITAPH_S).get("failures", {})
            return (self._failures or {}).get(str(rank))

    def interrupt(self, rank: int) -> None:
        """Have a rank write to its log where it is."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pids[rank], signal.SIGUSR1)

    def log_of(self, rank: int) -> Path:
        """The file that gets what a rank prints."""
        return rank_log(self.log, rank)

    # --- all of them

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes here."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.launcher.pid, number)

    def kill(self) -> None:
        """End the ranks and the launcher."""
        with self._lock:
            self.ended = True
            self.listening.close()
            self.launcher.kill()
            shutil.rmtree(self.folder, ignore_errors=True)

    def destroy(self) -> None:
        """End the processes, and let whoever asks them next find out; for other threads."""
        self.launcher.destroy()


def rank_log(log: Path, rank: int) -> Path:
    """The file of a rank beside the one of its implementation."""
    return log.with_name(f"{log.stem}-rank{rank}{log.suffix}")


def ending(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        name = signal.Signals(-code).name
        return f"was killed by {name}" + ("; the kernel does so when memory runs out" if name == "SIGKILL" else "")
    return f"exited with status {code}, without a result"
