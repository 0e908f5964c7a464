"""The supervisor's side of the fork server: it starts children, sends requests, and sees how they end."""

import contextlib
import importlib.util
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

from attrs import define, field

from aiperf_core.errors import AiperfError, TorchMissingError
from aiperf_core.executor import WorkerHandle
from aiperf_core.harness.processes.channel import (
    MAX_FDS,
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    Message,
    ProtocolError,
)

START_TIMEOUT_S = 120.0
# For `faulthandler` to write a traceback to the log.
TRACEBACK_S = 0.2
_LAST_LINES = 12
# How the message of a `ChildError` of the kind "memory" begins.
RAN_OUT_OF_MEMORY = "ran out of memory"
# How `faulthandler` begins the traceback of the thread that a signal interrupted.
_TRACEBACK_START = "Current thread "
_OURS = str(Path(__file__).parents[1])


class ChildError(Exception):
    """A child could not answer: it raised, hung, exited, was killed or ran out of memory.

    `kind` is one of `skip`, `contract`, `compile`, `memory`, `mistake`, `raised`, `hung`, `exited`, `killed`,
    `protocol`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Reaper(Protocol):
    """Knows how processes ended."""

    def exit_code(self, pid: int, timeout: float = 5.0) -> int | None:
        """The exit code of a process whose channel closed (negative for a signal), or None while it is alive."""


class Asked:
    """Request and reply in one call, for a child and for a group of ranks."""

    def ask(
        self: WorkerHandle,
        do: str,
        *,
        timeout: float,
        fds: tuple[int, ...] = (),
        on_notice: Callable[[str], None] | None = None,
        **arguments: Any,
    ) -> Any:
        """Send a request and return the reply's result; `timeout` in seconds. Raises `ChildError` for all else."""
        self.post(do, fds=fds, **arguments)
        return self.collect(timeout=timeout, on_notice=on_notice)


@define(eq=False)
class Child(Asked):
    """A process forked for this run: the judge, a worker, a describer.

    guarded: replies that carry another request's token are refused.
    paused: the process is stopped except while a request is open, so that it cannot work outside the clock.
    last_s: see `WorkerHandle`.
    most_fds: how many descriptors a reply may carry.
    ended: it was killed.
    idle: it has answered its last request.
    """

    name: str
    pid: int
    channel: Channel
    log: Path
    server: Reaper
    guarded: bool = True
    paused: bool = False
    last_s: list[tuple[float, float]] = field(factory=list)
    most_fds: int = 0
    ended: bool = field(default=False, init=False)
    idle: bool = field(default=False, init=False)
    _request: str = field(default="", init=False)
    _token: str = field(default="", init=False)

    @property
    def pids(self) -> list[int]:
        """Its process, as a list."""
        return [self.pid]

    def post(self, do: str, *, fds: tuple[int, ...] = (), **arguments: Any) -> None:
        """Send a request; `collect` returns its result."""
        self.idle, self._request, self._token = False, do, secrets.token_hex(8)
        self._signal(signal.SIGCONT)
        try:
            self.channel.send({"do": do, "token": self._token, **arguments}, fds)
        except ChannelClosedError:
            raise self._gone() from None

    def collect(self, *, timeout: float, on_notice: Callable[[str], None] | None = None) -> Any:
        """Return the result of the request that was posted. Raises `ChildError` where there is none."""
        deadline = time.monotonic() + timeout
        try:
            while "notice" in (reply := self.read(deadline)):
                if on_notice is not None:
                    on_notice(str(reply["notice"]))
                if time.monotonic() > deadline:  # `read` does not time out while notices keep coming
                    raise ChannelTimeoutError
        except ChannelTimeoutError:
            raise self.give_up(timeout) from None
        finally:
            self._signal(signal.SIGSTOP)
        return self.result(reply)

    def stop_at(self, notice: str, *, timeout: float) -> None:
        """Stop the process at a notice of the request that was posted. Raises `ChildError` where another comes."""
        try:
            reply = self.read(time.monotonic() + timeout)
        except ChannelTimeoutError:
            raise self.give_up(timeout) from None
        finally:
            self._signal(signal.SIGSTOP)
        if "notice" not in reply:
            self.result(reply)
        if reply.get("notice") != notice:
            raise ChildError("protocol", f"sent {str(reply.get('notice', 'its answer'))[:50]!r} in place of {notice!r}")

    def has_message(self, timeout: float) -> bool:
        """Wait for a message, or for the end of the process. Whether one came."""
        return self.channel.is_readable(timeout)

    def resume(self) -> None:
        """Continue the process, which was stopped while a request was open."""
        self._signal(signal.SIGCONT)

    def read(self, deadline: float) -> Message:
        """The next notice or reply. Raises `ChildError`, and `ChannelTimeoutError` after the deadline."""
        try:
            return self._receive(deadline)
        except ChannelClosedError:
            raise self._gone() from None
        except ProtocolError as error:
            self.kill()
            raise ChildError("protocol", f"sent a message that no worker sends: {error}") from None

    @staticmethod
    def result(reply: Message) -> Any:
        """The result in a reply. Raises `ChildError` for a reply that reports an error."""
        if "error" in reply:
            raise _child_error(reply["error"])
        result = reply.get("ok")
        if "fds" in reply and isinstance(result, dict):
            result["fds"] = reply["fds"]
        return result

    def _signal(self, number: signal.Signals) -> None:
        """Stop or continue a paused child with all processes of its group."""
        if self.paused and not self.ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _receive(self, deadline: float) -> Message:
        message = self.channel.receive(deadline - time.monotonic(), most_fds=self.most_fds)
        # Code in a worker can write to every descriptor of its process, but does not know the token.
        if message.get("token") != self._token and self.guarded:
            raise ProtocolError("a message that answers no request")
        self.idle = "notice" not in message
        return message

    def last_lines(self) -> list[str]:
        """The last lines that the process printed; of a process that hung, where it was."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 16384))
                text = file.read().decode(errors="replace")
        except OSError:
            return []
        lines = [line[:500] for line in text.splitlines() if line.strip()]
        starts = [index for index, line in enumerate(lines) if line.startswith(_TRACEBACK_START)]
        if not starts:
            return lines[-_LAST_LINES:]
        # The innermost calls come first, the harness's own last.
        return list(takewhile(lambda line: _OURS not in line, lines[starts[-1] :]))[:_LAST_LINES]

    def kill(self) -> None:
        """Kill the process and its process group."""
        self.channel.close()
        self.destroy()
        self.ended = True

    def destroy(self) -> None:
        """Kill the processes and leave the channel to its thread; for other threads."""
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    def give_up(self, timeout: float) -> ChildError:
        """Kill a process that gives no answer; the error that says so."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
            time.sleep(TRACEBACK_S)
        self.kill()
        return ChildError(
            "hung",
            f"gave no answer within {timeout:g} s (during {self._request!r}) and was killed; --timeout gives more",
        )

    def _gone(self) -> ChildError:
        code = self.server.exit_code(self.pid)
        self.kill()
        return exit_error("its process", code, f" during {self._request!r}")


def exit_error(who: str, code: int | None, during: str = "") -> ChildError:
    """The error of a process that ended, or closed its channel where `code` is None, before its reply."""
    if code is None:
        return ChildError("exited", f"{who} closed its channel{during}, without a result")
    if code >= 0:
        return ChildError("exited", f"{who} exited with status {code}{during}, without a result")
    name = signal.Signals(-code).name
    hint = "; the kernel does so when memory runs out" if name == "SIGKILL" else ""
    return ChildError("killed", f"{who} was killed by {name}{during}{hint}")


def _child_error(error: Any) -> ChildError:
    if not isinstance(error, dict):
        return ChildError("protocol", "sent an error that is not a record")
    kind, type_name = str(error.get("kind", "raised")), str(error.get("type", "Exception"))
    message = str(error.get("message", ""))
    if kind == "raised":
        message = f"raised {type_name}: {message}" if message else f"raised {type_name}"
    elif kind == "memory":
        message = f"{RAN_OUT_OF_MEMORY}: {message}"
    return ChildError(kind, message)


class ForkServer:
    """A running fork server. Use as a context manager: leaving it ends the server and every process under it.

    The server imports torch in the background; the first `spawn` waits for it.

    preload: modules that it imports too, so that no child has to.

    Raises TorchMissingError where torch is not installed.
    """

    def __init__(self, preload: Sequence[str] = ()) -> None:
        if importlib.util.find_spec("torch") is None:
            raise TorchMissingError
        self._control, theirs = Channel.pair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the server
        command = [sys.executable, "-P", "-m", "aiperf_core.harness.processes.fork_server", str(theirs.fileno())]
        command += preload
        # Its own session: Ctrl-C in the terminal reaches the supervisor alone, which ends the run in order.
        self._process = subprocess.Popen(
            command,
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            start_new_session=True,
        )
        theirs.close()
        self._ready = False
        self._lock = threading.Lock()  # the server answers one request at a time
        self._exits: dict[int, int] = {}
        self._children: list[Child] = []

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def __enter__(self) -> "ForkServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def spawn(self, role: str, name: str, log: Path, *, memory_limit_bytes: int | None = None) -> Child:
        """Fork a child of a role; its output goes to `log`."""
        request = {"role": role, "log": str(log), "memory_limit_bytes": memory_limit_bytes}
        with self._lock:
            self._wait_ready()
            ours, theirs = Channel.pair()
            self._control.send(request, (theirs.fileno(),))
            while "spawned" not in (reply := self._control.receive(START_TIMEOUT_S)):
                self._note_exit(reply)
        theirs.close()
        # A judge sends the memory that it made, and a linter judges. Of no other process is a descriptor accepted.
        most_fds = MAX_FDS if role in ("judge", "linter") else 0
        child = Child(name, int(reply["spawned"]), ours, log, self, most_fds=most_fds)
        self._children = [one for one in self._children if not one.ended] + [child]
        return child

    def exit_code(self, pid: int, timeout: float = 5.0) -> int | None:
        """The exit code of a child whose channel closed (negative for a signal), or None while it is alive."""
        with self._lock, contextlib.suppress(ChannelTimeoutError, ChannelClosedError):
            deadline = time.monotonic() + timeout
            while pid not in self._exits:
                self._note_exit(self._control.receive(deadline - time.monotonic()))
        return self._exits.get(pid)

    def close(self) -> None:
        """End every child and the server."""
        for child in self._children:
            if not child.ended:
                child.kill()
        self._control.close()
        if not self._ready:
            # It may still import, and has no children to end.
            self._process.kill()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()

    def _wait_ready(self) -> None:
        if self._ready:
            return
        try:
            self._control.receive(START_TIMEOUT_S)
        except (ChannelClosedError, ChannelTimeoutError):
            self._process.kill()
            self._process.wait()
            self._stderr.seek(0)
            last = self._stderr.read().decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise AiperfError(
                f"the process that imports torch did not start: {last[0]}. See what is missing with: aiperf doctor"
            ) from None
        self._ready = True

    def _note_exit(self, message: Message) -> None:
        if "exited" in message:
            self._exits[int(message["exited"])] = int(message["code"])
