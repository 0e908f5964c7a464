"""The supervisor's side of several ranks: a request goes to all of them, and their replies are merged into one.

All ranks get a request at once, since they wait for each other. The time of a sample is that of the slowest rank.
"""

import contextlib
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from attrs import define, field

from aiperf_core.executor import WorkerSpec
from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.channel import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    Message,
    ProtocolError,
)
from aiperf_core.harness.processes.child import (
    START_TIMEOUT_S,
    TRACEBACK_S,
    Asked,
    Child,
    ChildError,
    ForkServer,
    exit_error,
)
from aiperf_core.harness.ranks.rank_launcher import GRACE_S, RankLauncher


@define(eq=False)
class Rank(Child):
    """A rank on this machine, started by the launcher.

    number: its rank.
    group: all ranks of the implementation.
    place: its machine; empty where there is only this one.
    """

    number: int = field(kw_only=True)
    group: "RankGroup" = field(kw_only=True)
    place: str = field(default="", kw_only=True)

    @property
    def label(self) -> str:
        """Its name in messages: its number, and its machine where there are several."""
        return f"rank {self.number}{self.place and f' on {self.place}'}"

    def interrupt(self) -> None:
        """Have it write its traceback to its log."""
        self.group.rank_launcher.interrupt(self.number)

    def end_error(self, during: str) -> ChildError:
        """The error of a rank whose channel closed."""
        return exit_error(self.label, self.group.rank_launcher.exit_code(self.number), during)

    def _gone(self) -> ChildError:
        return self.group.rank_gone(self)


@define(eq=False)
class RankGroup(Asked):
    """The ranks of one implementation; a `WorkerHandle`.

    rank_launcher: those of this machine.
    ranks: all ranks by number, once they have connected.
    guarded, paused, last_s, ended: see `WorkerHandle`.
    not_observed: guards that see less of ranks on other machines, with the reason that rows show.
    """

    not_observed: ClassVar[Mapping[str, str]] = {}

    name: str
    world_size: int
    rank_launcher: RankLauncher
    server: ForkServer
    guarded: bool = field(default=True, init=False)
    paused: bool = field(default=False, init=False)
    last_s: list[tuple[float, float]] = field(factory=list, init=False)
    ended: bool = field(default=False, init=False)
    ranks: list[Rank] = field(factory=list, init=False)
    _request: str = field(default="", init=False)

    @staticmethod
    def start(server: ForkServer, spec: WorkerSpec) -> "RankGroup":
        """Have the launcher start the ranks; the first request waits for them."""
        return RankGroup(spec.name, spec.ranks, RankLauncher.start(server, spec), server)

    @property
    def idle(self) -> bool:
        """Whether all ranks have connected and answered their last request."""
        return bool(self.ranks) and all(rank.idle for rank in self.ranks)

    @property
    def pid(self) -> int:
        """The process of the first rank of this machine."""
        return next(iter(self.pids), self.rank_launcher.launcher.pid)

    @property
    def pids(self) -> list[int]:
        """The processes of this machine's ranks."""
        return [rank.pid for rank in self.here]

    @property
    def numbers_here(self) -> list[int]:
        """The numbers of this machine's ranks."""
        return [rank.number for rank in self.here]

    @property
    def here(self) -> list[Rank]:
        """This machine's ranks."""
        return self.ranks

    @property
    def places(self) -> list[str]:
        """The machine of each rank; empty where there is only this one."""
        return [rank.place for rank in self.ranks if rank.place]

    # --- requests

    def post(self, do: str, *, fds: tuple[int, ...] = (), **arguments: Any) -> None:
        """Send a request to all ranks, to each its own part; `collect` returns the merged result."""
        if not self.ranks:
            self._wait_for_ranks()
        self._request = do
        self._signal(signal.SIGCONT)
        half = len(fds) // 2
        for number, rank in enumerate(self.ranks):
            own = {key: _part_of(key, value, number) for key, value in arguments.items()}
            rank.guarded = self.guarded
            rank.post(do, fds=(fds[number], fds[half + number]) if fds else (), **own)

    def collect(self, *, timeout: float, on_notice: Callable[[str], None] | None = None) -> Any:
        """Return the merged result. `on_notice` gets the first rank's `start`, and the last rank's other notices."""
        try:
            replies = self._replies(time.monotonic() + timeout, on_notice)
        except ChannelTimeoutError:
            raise self._hung(timeout) from None
        finally:
            self._signal(signal.SIGSTOP)
        results = [_checked(rank, reply) for rank, reply in zip(self.ranks, replies, strict=True)]
        merge = _MERGERS.get(self._request)
        merged = merge(results) if merge else results[0]
        if self._request == "sample":
            self.last_s = merged.pop("each_s")
        return merged

    def _replies(self, deadline: float, on_notice: Callable[[str], None] | None) -> list[Message]:
        replies: dict[int, Message] = {}
        notices: Counter[str] = Counter()
        while len(replies) < self.world_size:
            waiting = [rank for rank in self.ranks if rank.number not in replies]
            channels = [rank.channel for rank in waiting]
            ready, _, _ = select.select(channels, [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ChannelTimeoutError
            for rank in (rank for rank in waiting if rank.channel in ready):
                message = rank.read(deadline)
                if "notice" not in message:
                    replies[rank.number] = message
                    if "error" in message:
                        self._await_others(replies)
                        return [replies.get(number, {}) for number in range(self.world_size)]
                    continue
                notice = str(message["notice"])
                notices[notice] += 1
                if on_notice is not None and notices[notice] == (1 if notice == "start" else self.world_size):
                    on_notice(notice)
        return [replies[number] for number in range(self.world_size)]

    def _await_others(self, replies: dict[int, Message]) -> None:
        """After an error, read on for a while: raises if another rank ended, which may be its cause."""
        deadline = time.monotonic() + GRACE_S
        with contextlib.suppress(ChannelTimeoutError):
            for rank in self.ranks:
                while rank.number not in replies:
                    message = rank.read(deadline)
                    if "notice" not in message:
                        replies[rank.number] = message

    # --- starting and ending

    def _wait_for_ranks(self) -> None:
        """Wait for all ranks to connect. Raises `ChildError` where one does not."""
        found: list[Rank] = []
        until = time.monotonic() + START_TIMEOUT_S
        try:
            while len(found) < self.world_size:
                found += self.next_ranks(max(0.0, until - time.monotonic()))
        except ChildError:
            self.kill()
            raise
        except ChannelTimeoutError:
            self.kill()
            raise ChildError(
                "hung", f"{len(found)} of {self.world_size} ranks started in {START_TIMEOUT_S:g} s"
            ) from None
        except (ChannelClosedError, ProtocolError, KeyError, ValueError) as error:
            self.kill()
            raise ChildError("protocol", f"a rank did not start: {error}") from None
        self.ranks = sorted(found, key=lambda rank: rank.number)

    def next_ranks(self, timeout: float) -> list[Rank]:
        """Wait for ranks to connect. Raises `ChildError` where their launcher ended, and `ChannelTimeoutError`."""
        return [self.connected(*self.rank_launcher.next_rank(timeout))]

    def connected(self, number: int, pid: int, channel: Channel, kind: Callable[..., Rank] = Rank, **more: Any) -> Rank:
        """The rank that has connected. `more` are fields of its `kind`."""
        log, name = self.rank_launcher.log_of(number), f"{self.name} rank {number}"
        return kind(name, pid, channel, log, self.server, number=number, group=self, **more)

    def rank_gone(self, rank: Rank) -> ChildError:
        """The error of a rank whose channel closed. Kills all ranks."""
        error = rank.end_error(f" during {self._request!r}")
        self.kill()
        return error

    def _hung(self, timeout: float) -> ChildError:
        silent = []
        for rank in self.ranks:
            ready, _, _ = select.select([rank.channel], [], [], 0)
            if not ready:
                silent.append(rank)
                rank.interrupt()
        time.sleep(TRACEBACK_S)
        self.kill()
        names = [rank.label.removeprefix("rank ") for rank in silent]
        which = f"rank{'s' if len(silent) > 1 else ''} {', '.join(names)}" if silent else "the ranks"
        return ChildError(
            "hung",
            f"{which} gave no answer within {timeout:g} s (during {self._request!r}) and all were killed; "
            "--timeout gives more",
        )

    def kill(self) -> None:
        """Kill all ranks and their launcher."""
        if not self.ended:
            self.ended = True
            self.end()

    def end(self) -> None:
        """End what this group started; called once."""
        for rank in self.ranks:
            rank.channel.close()
        self.rank_launcher.kill()

    def destroy(self) -> None:
        """Kill the processes and leave the channels to their thread; for other threads."""
        self.rank_launcher.destroy()

    def last_lines(self) -> list[str]:
        """The last lines that the ranks printed, each with its rank."""
        lines = [f"rank {rank.number}: {line}" for rank in self.ranks for line in rank.last_lines()]
        return lines or self.rank_launcher.launcher.last_lines()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes."""
        self.rank_launcher.signal(number)

    def _signal(self, number: signal.Signals) -> None:
        if self.paused and not self.ended:
            self.send_signal(number)


def _checked(rank: Rank, reply: Message) -> Any:
    """The result in a rank's reply. Raises `ChildError` that names the rank."""
    if not reply:
        return None
    try:
        return Child.result(reply)
    except ChildError as error:
        raise error if error.kind == "skip" else ChildError(error.kind, f"{rank.label} {error}") from None


def _part_of(key: str, value: Any, number: int) -> Any:
    """The part of a request's argument that is for one rank."""
    name = f"rank{number}"
    if key == "numbers":
        return value.get(name, {})
    if key != "problem":
        return value
    own = {
        part: value[part]["items"].get(name, {"type": "dict", "items": {}}) for part in ("inputs", "static", "output")
    }
    buffers = {part: [value[part][number]] for part in ("inputs_buffers", "outputs_buffers")}
    return {**value, **own, **buffers, "params": {**value["params"], "rank": number}}


# --- merging the ranks' replies


def _sample(results: list[Any]) -> Message:
    """The slowest rank's times, and the sum of what the ranks used."""
    each = [answers.sample(one) for one in results]
    times = {clock: [getattr(one, clock) for one in each] for clock in ("device_s", "wall_s")}
    slowest = {clock: max(seconds) if None not in seconds else None for clock, seconds in times.items()}
    totals = ("cpu_s", "voluntary_switches", "involuntary_switches")
    by_clock = times["wall_s"] if None in times["device_s"] else times["device_s"]
    return {
        **slowest,
        **{name: sum(getattr(one, name) for one in each) for name in totals},
        "hidden": all(one.hidden for one in each),
        "each_s": list(zip(by_clock, (one.cpu_s for one in each), strict=True)),
    }


def _output(results: list[Any]) -> Message:
    """All ranks' outputs, named as the judge names them."""
    each = [answers.output(one) for one in results]
    return {
        "numbers": {_path(rank, path): value for rank, one in enumerate(each) for path, value in one.numbers.items()},
        "late": any(one.late for one in each),
        "aliases": [_path(rank, path) for rank, one in enumerate(each) for path in one.aliases],
    }


def _path(rank: int, path: str) -> str:
    """The path of a rank's leaf in the output of all ranks."""
    return f"rank{rank}{'.' if path and not path.startswith('[') else ''}{path}"


def _memory(results: list[Any]) -> Message:
    """The largest of each figure."""
    each = [answers.memory(one) for one in results]
    names = ("peak_bytes", "allocated_bytes", "reserved_bytes", "host_peak_bytes")
    return {name: max((got for one in each if (got := getattr(one, name)) is not None), default=None) for name in names}


_MERGERS: dict[str, Callable[[list[Any]], Any]] = {
    "sample": _sample,
    "output": _output,
    "prepare": lambda results: {"prepare_s": max(answers.prepared(one) for one in results)},
    "memory": _memory,
    "collectives": list,
    "audit": list,
}
