"""The supervisor's side of several ranks: a request goes to all of them, and their replies are merged into one.

All ranks get a request at once, since they wait for each other. The time of a sample is that of the slowest rank.
"""

import contextlib
import secrets
import select
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

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
from aiperf_core.harness.ranks.rank_launcher import GRACE_S, REPORT_S, Meeting, RankLauncher
from aiperf_fleet.ranks.coordinator import Coordinator, RemoteNode

# Guards that see less of ranks on other machines, with the reason that rows show.
_LESS_OBSERVED = {
    "process_census": "the processes of ranks on other machines are not observed",
    "fresh_values": "refreshed inputs reach other machines through a node agent, which is trusted",
    "inputs_intact": "a node agent reports what inputs are after a call on another machine",
    "clocks_agree": "the clock of another machine is compared with the supervisor's through the network",
}


@define(eq=False)
class Rank(Child):
    """A rank on this machine, started by the launcher.

    number: its rank.
    group: all ranks of the implementation.
    """

    number: int = field(kw_only=True)
    group: "RankGroup" = field(kw_only=True)

    @property
    def label(self) -> str:
        """Its name in messages: its number, and its machine where there are several."""
        return f"rank {self.number}{self._where}"

    @property
    def _where(self) -> str:
        coordinator = self.group.coordinator
        return f" on node 0 ({coordinator.host})" if coordinator else ""

    def interrupt(self) -> None:
        """Have it write its traceback to its log."""
        self.group.rank_launcher.interrupt(self.number)

    def end_error(self, during: str) -> ChildError:
        """The error of a rank whose channel closed."""
        return exit_error(self.label, self.group.rank_launcher.exit_code(self.number), during)

    def _gone(self) -> ChildError:
        return self.group.rank_gone(self)


@define(eq=False)
class RemoteRank(Rank):
    """A rank on another machine, whose node agent relays requests and replies. `pid` is of that machine."""

    node: RemoteNode = field(kw_only=True)
    _code: int | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)

    @property
    def _where(self) -> str:
        return f" on {self.node.peer.name}"

    def interrupt(self) -> None:
        """Have it write its traceback to its log."""
        self.node.interrupt(self.number)

    def end_error(self, during: str) -> ChildError:
        """The error of a rank that ended, as the agent reports it, or whose agent is lost."""
        if self._ended:
            return exit_error(self.label, self._code, during)
        return ChildError(
            "exited", f"{self.label} is lost: its machine or the agent there closed the connection{during}"
        )

    def last_lines(self) -> list[str]:
        """The last lines that the rank printed."""
        return self.node.last_lines(self.number)

    def destroy(self) -> None:
        """Kill all ranks: this one's process is not on this machine."""
        self.group.kill()

    def _receive(self, deadline: float) -> Message:
        message = super()._receive(deadline)
        if "closing" in message:  # the agent is finding out how it ended
            message = super()._receive(time.monotonic() + GRACE_S + REPORT_S)
        if "ended" in message:
            code = message["ended"]
            self._ended, self._code = True, code if isinstance(code, int) else None
            raise ChannelClosedError("it ended")
        return message


@define(eq=False)
class RankGroup(Asked):
    """The ranks of one implementation on this machine and on others; a `WorkerHandle`.

    rank_launcher: those of this machine.
    coordinator: the connections to other machines; None where there are none.
    identifier: names the group to the agents.
    others: the ranks of other machines, by the machine's number.
    ranks: all ranks by number, once they have connected.
    guarded, paused, last_s, ended: see `WorkerHandle`.
    """

    name: str
    log: Path
    world_size: int
    rank_launcher: RankLauncher
    server: ForkServer
    coordinator: Coordinator | None = None
    identifier: str = ""
    others: dict[int, RemoteNode] = field(factory=dict)
    guarded: bool = True
    paused: bool = False
    last_s: list[tuple[float, float]] = field(factory=list)
    ended: bool = field(default=False, init=False)
    ranks: list[Rank] = field(factory=list, init=False)
    _request: str = field(default="", init=False)

    @staticmethod
    def start(server: ForkServer, spec: WorkerSpec, coordinator: Coordinator | None = None) -> "RankGroup":
        """Have the launchers start the ranks; the first request waits for them. Raises `ChildError`."""
        name, log, limit = spec.name, spec.log, spec.memory_limit_bytes
        counts = _shares(spec.ranks, coordinator.nodes.count if coordinator else 1)
        here = RankLauncher.start(server, name, log, counts[0], limit)
        if coordinator is None:
            here.launch(Meeting())
            return RankGroup(name, log, spec.ranks, here, server)
        identifier = secrets.token_hex(8)
        others = {number: RemoteNode(peer, identifier) for number, peer in sorted(coordinator.peers.items())}
        group = RankGroup(name, log, spec.ranks, here, server, coordinator, identifier, others)
        try:
            meeting = coordinator.meeting(identifier)
            here.launch(meeting)
            port = here.store_port()
            for number, node in others.items():
                node.start(name, counts[number], limit, evolve(meeting, port=port))
        except ChildError:
            group.kill()
            raise
        return group

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
        return [rank.pid for rank in self._local]

    @property
    def numbers_here(self) -> list[int]:
        """The numbers of this machine's ranks."""
        return [rank.number for rank in self._local]

    @property
    def _local(self) -> list[Rank]:
        return [rank for rank in self.ranks if not isinstance(rank, RemoteRank)]

    @property
    def places(self) -> list[str]:
        """The machine of each rank; empty where there is only this one."""
        return [rank.label.partition(" on ")[2] for rank in self.ranks] if self.coordinator else []

    @property
    def not_observed(self) -> dict[str, str]:
        """Guards that see less of ranks on other machines, with the reason."""
        return _LESS_OBSERVED if self.coordinator else {}

    # --- requests

    def post(self, do: str, *, fds: tuple[int, ...] = (), **arguments: Any) -> None:
        """Send a request to all ranks, to each its own part; `collect` returns the merged result."""
        if not self.ranks:
            self._wait_for_ranks()
        self._request = do
        self._signal(signal.SIGCONT)
        half = len(fds) // 2
        if do == "open" and self.coordinator:
            self._check_transferable(fds, arguments["problem"])
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

    def _check_transferable(self, fds: tuple[int, ...], problem: Message) -> None:
        """Kill all ranks and raise `ChildError` for data that cannot be sent to another machine."""
        if problem.get("files") or problem.get("folder"):
            reason = "works with files, which other machines do not see"
        elif len(fds) < 2 * self.world_size:
            reason = f"the memory of {problem['device']!r} cannot be sent to another machine"
        else:
            return
        self.kill()
        raise ChildError("skip", f"{reason}: leave out --nnodes")

    # --- starting and ending

    def _wait_for_ranks(self) -> None:
        """Wait for all ranks to connect. Raises `ChildError` where one does not."""
        found: list[Rank] = []
        until = time.monotonic() + START_TIMEOUT_S
        try:
            while len(found) < self.world_size:
                found += self._remote_arrivals()
                if len(found) < self.world_size:
                    found += self._next_event(until, len(found))
        except ChildError:
            self.kill()
            raise
        except (ChannelClosedError, ProtocolError, ChannelTimeoutError, KeyError, ValueError) as error:
            self.kill()
            raise ChildError("protocol", f"a rank did not start: {error}") from None
        self.ranks = sorted(found, key=lambda rank: rank.number)

    def _next_event(self, until: float, found: int) -> list[Rank]:
        """Wait for a connection: the local rank that connects, or nothing for a remote one (see `_remote_arrivals`)."""
        here, coordinator = self.rank_launcher, self.coordinator
        sources: list[Any] = [here.listening, here.launcher.channel]
        if coordinator:
            sources += [coordinator.listening, *(node.peer.link for node in self.others.values())]
        ready, _, _ = select.select(sources, [], [], max(0.0, until - time.monotonic()))
        if here.listening in ready:
            return [self._rank(Rank, *here.accept())]
        if coordinator and coordinator.listening in ready:
            coordinator.admit()
            return []
        if here.launcher.channel in ready:
            raise here.explain()
        if not ready:
            raise ChildError("hung", f"{found} of {self.world_size} ranks started in {START_TIMEOUT_S:g} s")
        # An agent sends nothing before it is asked, so its connection has closed.
        peer = next(node.peer for node in self.others.values() if node.peer.link in ready)
        peer.lost = True
        raise ChildError("exited", f"{peer.name} is lost: its agent closed the connection")

    def _remote_arrivals(self) -> list[Rank]:
        """The ranks of other machines that have connected."""
        found = []
        for link, hello in self.coordinator.arrivals(self.identifier) if self.coordinator else ():
            node = self.others[int(hello["node"])]
            if "failed" in hello:
                link.close()
                raise ChildError("exited", f"on {node.peer.name} {hello['failed']}")
            found.append(self._rank(RemoteRank, int(hello["rank"]), int(hello["pid"]), link, node=node))
        return found

    def _rank(self, kind: Callable[..., Rank], number: int, pid: int, channel: Channel, **more: Any) -> Rank:
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
        """Kill all ranks and their launchers."""
        if self.ended:
            return
        self.ended = True
        for node in self.others.values():
            node.kill()
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

    def _signal(self, number: signal.Signals) -> None:
        if self.paused and not self.ended:
            self.rank_launcher.signal(number)
            for node in self.others.values():
                node.signal(number)


def _shares(world_size: int, nodes: int) -> list[int]:
    """The number of ranks of each machine. Raises `ChildError` where one would have none."""
    if nodes > max(1, world_size):
        raise ChildError(
            "skip",
            f"is a workload of {world_size} ranks, too few for --nnodes {nodes}; --set world_size={nodes} asks for "
            "more",
        )
    return [world_size // nodes + (number < world_size % nodes) for number in range(nodes)]


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
    times = {clock: [one[clock] for one in each] for clock in ("device_s", "wall_s")}
    slowest = {clock: max(found) if None not in found else None for clock, found in times.items()}
    totals = {name: sum(one[name] for one in each) for name in ("cpu_s", "voluntary_switches", "involuntary_switches")}
    by_clock = times["wall_s"] if None in times["device_s"] else times["device_s"]
    return {
        **slowest,
        **totals,
        "hidden": all(one["hidden"] for one in each),
        "each_s": list(zip(by_clock, (one["cpu_s"] for one in each), strict=True)),
    }


def _output(results: list[Any]) -> Message:
    """All ranks' outputs, named as the judge names them."""
    each = [answers.output(one) for one in results]
    return {
        "numbers": {_path(rank, path): one for rank, told in enumerate(each) for path, one in told["numbers"].items()},
        "late": any(told["late"] for told in each),
        "aliases": [_path(rank, path) for rank, told in enumerate(each) for path in told["aliases"]],
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
