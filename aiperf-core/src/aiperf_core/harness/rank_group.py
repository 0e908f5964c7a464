"""The supervisor's side of several ranks: asked like one worker, they answer as one.

A request goes to all of them at once, since ranks wait for each other. The time of a sample is that of the slowest rank.
"""

import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field

from aiperf_core.harness import answers
from aiperf_core.harness.channel import Channel, ChannelClosedError, ChannelTimeoutError, Message, ProtocolError
from aiperf_core.harness.processes import Child, ChildError, ForkServer

_START_TIMEOUT_S = 120.0
# So long may the launcher take to say how a rank has ended.
_EPITAPH_S = 10.0
# A rank that fails makes the others fail too; for so long it is seen whether the first one to say so was the first.
_GRACE_S = 0.5


@define(eq=False)
class Rank(Child):
    """One rank, which the launcher has started."""

    number: int = 0
    group: "RankGroup | None" = None

    def _gone(self) -> ChildError:
        assert self.group is not None
        return self.group.how_ended(self)


@define(eq=False)
class RankGroup:
    """The ranks of one implementation, in the place of a `Child`.

    last_s: what each rank took for the last sample by its clock, and of processors, in seconds.
    """

    name: str
    log: Path
    world_size: int
    launcher: Child
    server: ForkServer
    folder: Path
    listening: socket.socket
    guarded: bool = True
    last_s: list[tuple[float, float]] = field(factory=list)
    ended: bool = field(default=False, init=False)
    ranks: list[Rank] = field(factory=list, init=False)
    _asked: str = field(default="", init=False)

    @staticmethod
    def start(server: ForkServer, name: str, log: Path, world_size: int, memory_limit_bytes: int | None) -> "RankGroup":
        """Have the launcher start so many ranks; the first request waits for them."""
        # The address of a Unix socket has room for 107 bytes.
        place = tempfile.gettempdir()
        folder = Path(tempfile.mkdtemp(prefix="aiperf-ranks-", dir=place if len(os.fsencode(place)) < 70 else "/tmp"))
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(folder / "supervisor"))
        listening.listen(world_size)
        launcher = server.spawn("launcher", name, log, memory_limit_bytes=memory_limit_bytes)
        group = RankGroup(name, log, world_size, launcher, server, folder, listening)
        logs = [str(group._log_of(rank)) for rank in range(world_size)]
        launcher.post("launch", count=world_size, address=str(folder / "supervisor"), logs=logs, folder=str(folder))
        return group

    @property
    def pid(self) -> int:
        """The process of the first rank."""
        return self.ranks[0].pid if self.ranks else self.launcher.pid

    @property
    def pids(self) -> list[int]:
        """The processes of all ranks."""
        return [one.pid for one in self.ranks]

    @property
    def paused(self) -> bool:
        """Whether they run only while a request is open."""
        return self.launcher.paused

    @paused.setter
    def paused(self, value: bool) -> None:
        self.launcher.paused = value

    # --- asking

    def ask(
        self,
        do: str,
        *,
        timeout: float,
        fds: tuple[int, ...] = (),
        on_notice: Callable[[str], None] | None = None,
        **arguments: Any,
    ) -> Any:
        """Send a request to all ranks and return what they answer as one. Raises `ChildError` for all else."""
        self.post(do, fds=fds, **arguments)
        return self.collect(timeout=timeout, on_notice=on_notice)

    def post(self, do: str, *, fds: tuple[int, ...] = (), **arguments: Any) -> None:
        """Send a request to all ranks, to each what is its own, whose replies are collected later."""
        if not self.ranks:
            self._meet()
        self._asked = do
        self._signal(signal.SIGCONT)
        half = len(fds) // 2
        for number, one in enumerate(self.ranks):
            own = {key: _of_rank(key, value, number) for key, value in arguments.items()}
            one.guarded = self.guarded
            one.post(do, fds=(fds[number], fds[half + number]) if fds else (), **own)

    def collect(self, *, timeout: float, on_notice: Callable[[str], None] | None = None) -> Any:
        """Return the results as one. `on_notice` hears of a start when the first rank starts, of a stop after the last."""
        try:
            replies = self._replies(time.monotonic() + timeout, on_notice)
        except ChannelTimeoutError:
            raise self._hung(timeout) from None
        finally:
            self._signal(signal.SIGSTOP)
        merged = _MERGED.get(self._asked, _first)([_checked(number, reply) for number, reply in enumerate(replies)])
        if self._asked == "sample":
            self.last_s = merged.pop("each_s")
        return merged

    def _replies(self, deadline: float, on_notice: Callable[[str], None] | None) -> list[Message]:
        replies: dict[int, Message] = {}
        stops = 0
        while len(replies) < self.world_size:
            waiting = [one for one in self.ranks if one.number not in replies]
            ready, _, _ = select.select([one.channel for one in waiting], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ChannelTimeoutError
            for one in (one for one in waiting if one.channel in ready):
                message = one.read(deadline)
                if "notice" not in message:
                    replies[one.number] = message
                    if "error" in message:
                        self._await_others(replies)
                        return [replies.get(number, {}) for number in range(self.world_size)]
                    continue
                stops += message["notice"] == "stop"
                if on_notice is not None and (message["notice"] != "stop" or stops == self.world_size):
                    on_notice(str(message["notice"]))
        return [replies[number] for number in range(self.world_size)]

    def _await_others(self, replies: dict[int, Message]) -> None:
        """After an error, see whether it followed from another rank's end, which then raises."""
        deadline = time.monotonic() + _GRACE_S
        with contextlib.suppress(ChannelTimeoutError):
            for one in self.ranks:
                while one.number not in replies:
                    message = one.read(deadline)
                    if "notice" not in message:
                        replies[one.number] = message

    # --- starting and ending

    def _meet(self) -> None:
        """Wait for all ranks to come. Raises `ChildError` where one does not."""
        found: list[Rank] = []
        until = time.monotonic() + _START_TIMEOUT_S
        try:
            while len(found) < self.world_size:
                places = [self.listening.fileno(), self.launcher.channel.fileno()]
                ready, _, _ = select.select(places, [], [], max(0.0, until - time.monotonic()))
                if self.listening.fileno() in ready:
                    found.append(self._accept())
                elif ready:
                    self._explain_launcher()
                else:
                    raise ChildError(
                        "hung", f"{len(found)} of {self.world_size} ranks started in {_START_TIMEOUT_S:g} s"
                    )
        except (ChildError, ChannelClosedError, ProtocolError, ChannelTimeoutError, KeyError, ValueError) as error:
            self.kill()
            raise (
                error if isinstance(error, ChildError) else ChildError("protocol", f"a rank did not start: {error}")
            ) from None
        self.ranks = sorted(found, key=lambda one: one.number)

    def _accept(self) -> Rank:
        connection, _ = self.listening.accept()
        channel = Channel(connection)
        hello = channel.receive(_START_TIMEOUT_S)
        number, pid = int(hello["rank"]), int(hello["pid"])
        return Rank(
            f"{self.name} rank {number}", pid, channel, self._log_of(number), self.server, number=number, group=self
        )

    def _explain_launcher(self) -> None:
        """Raise what the launcher says: it does so only when it can start no ranks, or they have ended."""
        failures = self.launcher.collect(timeout=_EPITAPH_S).get("failures", {})
        said = "; ".join(f"rank {rank}: {_end(code)}" for rank, code in failures.items()) or "it gave no reason"
        raise ChildError("exited", f"the launcher of the ranks ended: {said}")

    def how_ended(self, rank: Rank) -> ChildError:
        """Why a rank's channel closed, as the launcher tells; this is the end of all ranks."""
        time.sleep(_GRACE_S)  # the launcher shall see this one end first; then it need not wait for the others
        for one in self.ranks:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one.pid, signal.SIGKILL)
        code = None
        with contextlib.suppress(ChildError):
            code = self.launcher.collect(timeout=_EPITAPH_S).get("failures", {}).get(str(rank.number))
        self.kill()
        ended = _end(code) if code is not None else "closed its channel"
        return ChildError(
            "exited" if code is None or code >= 0 else "killed", f"rank {rank.number} {ended} during {self._asked!r}"
        )

    def _hung(self, timeout: float) -> ChildError:
        silent = []
        for one in self.ranks:
            ready, _, _ = select.select([one.channel], [], [], 0)
            if not ready:
                silent.append(str(one.number))
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(one.pid, signal.SIGUSR1)  # its traceback goes to its log
        time.sleep(0.2)
        self.kill()
        which = f"rank{'s' if len(silent) > 1 else ''} {', '.join(silent)}" if silent else "the ranks"
        return ChildError(
            "hung",
            f"{which} gave no answer within {timeout:g} s (during {self._asked!r}) and all were killed; --timeout gives more",
        )

    def kill(self) -> None:
        """End all ranks and their launcher."""
        for one in self.ranks:
            one.channel.close()
        self.listening.close()
        self.launcher.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.ended = True

    def destroy(self) -> None:
        """End the processes, and let whoever asks them next find out; for other threads."""
        self.launcher.destroy()

    def last_lines(self) -> list[str]:
        """The last lines that the ranks wrote, each with its rank."""
        lines = [f"rank {one.number}: {line}" for one in self.ranks for line in one.last_lines()]
        return lines or self.launcher.last_lines()

    def _log_of(self, rank: int) -> Path:
        return self.log.with_name(f"{self.log.stem}-rank{rank}{self.log.suffix}")

    def _signal(self, number: signal.Signals) -> None:
        if self.paused and not self.ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.launcher.pid, number)


def _end(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        return f"was killed by {name}" + ("; the kernel does so when memory runs out" if name == "SIGKILL" else "")
    return f"exited with status {code}, without a result"


def _checked(number: int, reply: Message) -> Any:
    """The result of a rank's reply. Raises `ChildError` that names the rank."""
    if not reply:
        return None
    try:
        return Child.result(reply)
    except ChildError as error:
        raise error if error.kind == "skip" else ChildError(error.kind, f"rank {number} {error}") from None


def _of_rank(key: str, value: Any, number: int) -> Any:
    """What of a request's argument is for one rank."""
    name = f"rank{number}"
    if key == "numbers":
        return value.get(name, {})
    if key != "problem":
        return value
    own = {
        part: value[part]["items"].get(name, {"type": "dict", "items": {}}) for part in ("inputs", "static", "output")
    }
    arenas = {part: [value[part][number]] for part in ("inputs_arenas", "outputs_arenas")}
    return {**value, **own, **arenas, "params": {**value["params"], "rank": number}}


# --- what ranks answer, as one


def _sample(results: list[Any]) -> Message:
    """The slowest rank's times."""
    each = [answers.sample(one) for one in results]
    times = {clock: [one[clock] for one in each] for clock in ("device_s", "wall_s")}
    slowest = {clock: max(found) if None not in found else None for clock, found in times.items()}
    totals = {name: sum(one[name] for one in each) for name in ("cpu_s", "voluntary_switches", "involuntary_switches")}
    by_clock = times["wall_s"] if None in times["device_s"] else times["device_s"]
    delivered = [one["output"] for one in each]
    return {
        **slowest,
        **totals,
        "hidden": all(one["hidden"] for one in each),
        "output": _output(delivered) if None not in delivered else None,
        "each_s": list(zip(by_clock, (one["cpu_s"] for one in each), strict=True)),
    }


def _output(results: list[Any]) -> Message:
    """All ranks' outputs, as the judge names them."""
    each = [answers.output(one) for one in results]
    return {
        "numbers": {_path(rank, path): one for rank, told in enumerate(each) for path, one in told["numbers"].items()},
        "late": any(told["late"] for told in each),
        "aliases": [_path(rank, path) for rank, told in enumerate(each) for path in told["aliases"]],
    }


def _path(rank: int, path: str) -> str:
    """Where a rank's leaf lies in the output of all."""
    return f"rank{rank}{'.' if path and not path.startswith('[') else ''}{path}"


def _prepared(results: list[Any]) -> Message:
    return {"prepare_s": max(answers.prepared(one) for one in results)}


def _memory(results: list[Any]) -> Message:
    """The largest of each figure."""
    each = [answers.memory(one) for one in results]
    names = ("peak_bytes", "allocated_bytes", "reserved_bytes", "host_peak_bytes")
    return {name: max((got for one in each if (got := getattr(one, name)) is not None), default=None) for name in names}


def _first(results: list[Any]) -> Any:
    return results[0]


def _all(results: list[Any]) -> list[Any]:
    return results


_MERGED: dict[str, Callable[[list[Any]], Any]] = {
    "sample": _sample,
    "output": _output,
    "prepare": _prepared,
    "memory": _memory,
    "collectives": _all,
}
