"""The supervisor's side of several ranks: asked like one worker, they answer as one.

A request goes to all of them at once, since ranks wait for each other. The time of a sample is that of the slowest rank.
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

from aiperf_core.harness.processes import answers
from aiperf_core.harness.processes.channel import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    Message,
    ProtocolError,
)
from aiperf_core.harness.processes.child import Child, ChildError, ForkServer
from aiperf_core.harness.ranks.coordinator import Coordinator, RemoteNode
from aiperf_core.harness.ranks.rank_launcher import EPITAPH_S, GRACE_S, START_TIMEOUT_S, Meeting, RankLauncher, ending

# What rows say of guards that see less of ranks on other machines.
_ELSEWHERE = {
    "process_census": "the processes of ranks on other machines are not looked at",
    "fresh_values": "new values reach other machines through an agent there, which is taken at its word",
    "inputs_intact": "what inputs are after a call on other machines is told by an agent there",
    "clocks_agree": "the clock of another machine is its own word: the supervisor's is held against it through the network",
}


@define(eq=False)
class Rank(Child):
    """One rank, which the launcher has started."""

    number: int = 0
    group: "RankGroup | None" = None

    @property
    def label(self) -> str:
        """What it is called in messages: its number, and its machine where there are several."""
        return f"rank {self.number}{self._where}"

    @property
    def _where(self) -> str:
        assert self.group is not None
        return f" on node 0 ({self.group.hub.host})" if self.group.hub else ""

    def interrupt(self) -> None:
        """Have it write to its log where it is."""
        assert self.group is not None
        self.group.node.interrupt(self.number)

    def ending(self) -> tuple[int | None, str]:
        """How it ended once its channel closed: the exit code where it is known, and words."""
        assert self.group is not None
        code = self.group.node.exit_code(self.number)
        return code, ending(code) if code is not None else "closed its channel"

    def _gone(self) -> ChildError:
        assert self.group is not None
        return self.group.how_ended(self)


@define(eq=False)
class RemoteRank(Rank):
    """One rank on another machine, whose agent passes on requests and replies. Its process id is none of this machine."""

    node: RemoteNode = field(kw_only=True)
    _code: int | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)

    @property
    def _where(self) -> str:
        return f" on {self.node.peer.name}"

    def interrupt(self) -> None:
        """Have it write to its log where it is."""
        self.node.interrupt(self.number)

    def ending(self) -> tuple[int | None, str]:
        """How it ended, by the word of the agent; or that this one is gone itself."""
        if not self._ended:
            return None, "is lost: its machine or the agent there closed the connection"
        return self._code, ending(self._code) if self._code is not None else "closed its channel"

    def last_lines(self) -> list[str]:
        """The last lines that the process wrote."""
        return self.node.last_lines(self.number)

    def destroy(self) -> None:
        """End all ranks: this one's process is none of this machine."""
        assert self.group is not None
        self.group.kill()

    def _receive(self, deadline: float) -> Message:
        message = super()._receive(deadline)
        if "closing" in message:  # its machine now finds out how it ended
            message = super()._receive(time.monotonic() + GRACE_S + EPITAPH_S)
        if "ended" in message:
            code = message["ended"]
            self._ended, self._code = True, code if isinstance(code, int) else None
            raise ChannelClosedError("it ended")
        return message


@define(eq=False)
class RankGroup:
    """The ranks of one implementation, in the place of a `Child`: those of this machine, and of others where there is a `hub`.

    last_s: what each rank took for the last sample by its clock, and of processors, in seconds.
    """

    name: str
    log: Path
    world_size: int
    node: RankLauncher
    server: ForkServer
    hub: Coordinator | None = None
    identifier: str = ""
    others: dict[int, RemoteNode] = field(factory=dict)
    guarded: bool = True
    paused: bool = False
    last_s: list[tuple[float, float]] = field(factory=list)
    ended: bool = field(default=False, init=False)
    ranks: list[Rank] = field(factory=list, init=False)
    _asked: str = field(default="", init=False)

    @staticmethod
    def start(
        server: ForkServer,
        name: str,
        log: Path,
        world_size: int,
        memory_limit_bytes: int | None,
        hub: Coordinator | None = None,
    ) -> "RankGroup":
        """Have the launchers start so many ranks; the first request waits for them."""
        if hub is None:
            node = RankLauncher.start(server, name, log, world_size, memory_limit_bytes)
            node.launch(Meeting())
            return RankGroup(name, log, world_size, node, server)
        counts = _shares(world_size, hub.nodes.count)
        identifier = secrets.token_hex(8)
        node = RankLauncher.start(server, name, log, counts[0], memory_limit_bytes)
        others = {number: RemoteNode(peer, identifier) for number, peer in sorted(hub.peers.items())}
        group = RankGroup(name, log, world_size, node, server, hub, identifier, others)
        try:
            meeting = hub.meeting(identifier)
            node.launch(meeting)
            port = node.store_port()
            for number, one in others.items():
                one.start(name, counts[number], memory_limit_bytes, evolve(meeting, port=port))
        except ChildError:
            group.kill()
            raise
        return group

    @property
    def idle(self) -> bool:
        """Whether all ranks are there and have answered their last request."""
        return bool(self.ranks) and all(one.idle for one in self.ranks)

    @property
    def pid(self) -> int:
        """The process of the first rank of this machine."""
        return next(iter(self.pids), self.node.launcher.pid)

    @property
    def pids(self) -> list[int]:
        """The processes of all ranks of this machine."""
        return [one.pid for one in self.ranks if not isinstance(one, RemoteRank)]

    @property
    def numbers_here(self) -> list[int]:
        """The numbers of this machine's ranks."""
        return [one.number for one in self.ranks if not isinstance(one, RemoteRank)]

    @property
    def places(self) -> list[str]:
        """The machine of each rank; nothing where there is only this one."""
        return [one.label.partition(" on ")[2] for one in self.ranks] if self.hub else []

    @property
    def not_observed(self) -> dict[str, str]:
        """Guards that see less of ranks on other machines, with the reason."""
        return _ELSEWHERE if self.hub else {}

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
        if do == "open" and self.hub:
            self._refuse_what_ends_here(fds, arguments["problem"])
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
        results = [_checked(one, reply) for one, reply in zip(self.ranks, replies, strict=True)]
        merged = _MERGED.get(self._asked, _first)(results)
        if self._asked == "sample":
            self.last_s = merged.pop("each_s")
        return merged

    def _replies(self, deadline: float, on_notice: Callable[[str], None] | None) -> list[Message]:
        replies: dict[int, Message] = {}
        said: Counter[str] = Counter()
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
                notice = str(message["notice"])
                said[notice] += 1
                if on_notice is not None and said[notice] == (1 if notice == "start" else self.world_size):
                    on_notice(notice)
        return [replies[number] for number in range(self.world_size)]

    def _await_others(self, replies: dict[int, Message]) -> None:
        """After an error, see whether it followed from another rank's end, which then raises."""
        deadline = time.monotonic() + GRACE_S
        with contextlib.suppress(ChannelTimeoutError):
            for one in self.ranks:
                while one.number not in replies:
                    message = one.read(deadline)
                    if "notice" not in message:
                        replies[one.number] = message

    def _refuse_what_ends_here(self, fds: tuple[int, ...], problem: Message) -> None:
        """Raise `ChildError` for data that cannot be handed to another machine; this is the end of all ranks."""
        if problem.get("files") or problem.get("folder"):
            reason = "works with files, which other machines do not see"
        elif len(fds) < 2 * self.world_size:
            reason = f"the memory of {problem['device']!r} cannot be handed to another machine"
        else:
            return
        self.kill()
        raise ChildError("skip", f"{reason}: leave out --nnodes")

    # --- starting and ending

    def _meet(self) -> None:
        """Wait for all ranks to come. Raises `ChildError` where one does not."""
        found: list[Rank] = []
        until = time.monotonic() + START_TIMEOUT_S
        try:
            while len(found) < self.world_size:
                found += self._arrivals()
                if len(found) < self.world_size:
                    found += self._wait_for_one(until, len(found))
        except (ChildError, ChannelClosedError, ProtocolError, ChannelTimeoutError, KeyError, ValueError) as error:
            self.kill()
            raise (
                error if isinstance(error, ChildError) else ChildError("protocol", f"a rank did not start: {error}")
            ) from None
        self.ranks = sorted(found, key=lambda one: one.number)

    def _wait_for_one(self, until: float, found: int) -> list[Rank]:
        """The rank that comes to this machine's node, or none where something else has happened."""
        listening, launcher = self.node.listening, self.node.launcher.channel
        places: list[Any] = [listening, launcher]
        if self.hub:
            places += [self.hub.listening, *(one.peer.link for one in self.others.values())]
        ready, _, _ = select.select(places, [], [], max(0.0, until - time.monotonic()))
        if listening in ready:
            number, pid, channel = self.node.accept()
            return [self._rank(Rank, number, pid, channel)]
        if self.hub and self.hub.listening in ready:
            self.hub.admit()
        elif launcher in ready:
            raise self.node.explain()
        elif ready:
            raise ChildError("exited", f"{self._lost(ready)} is gone: its agent closed the connection")
        else:
            raise ChildError("hung", f"{found} of {self.world_size} ranks started in {START_TIMEOUT_S:g} s")
        return []

    def _lost(self, ready: list[Any]) -> str:
        """Which machine's agent speaks before it is asked: its connection has closed."""
        peer = next(one.peer for one in self.others.values() if one.peer.link in ready)
        peer.lost = True
        return peer.name

    def _arrivals(self) -> list[Rank]:
        """The ranks of other machines that have come."""
        found = []
        for link, hello in self.hub.arrivals(self.identifier) if self.hub else ():
            node = self.others[int(hello["node"])]
            if "failed" in hello:
                link.close()
                raise ChildError("exited", f"on {node.peer.name} {hello['failed']}")
            number = int(hello["rank"])
            found.append(self._rank(RemoteRank, number, int(hello["pid"]), link, node=node))
        return found

    def _rank(self, kind: Callable[..., Rank], number: int, pid: int, channel: Channel, **more: Any) -> Rank:
        log, name = self.node.log_of(number), f"{self.name} rank {number}"
        return kind(name, pid, channel, log, self.server, number=number, group=self, **more)

    def how_ended(self, rank: Rank) -> ChildError:
        """Why a rank's channel closed, as its launcher tells; this is the end of all ranks."""
        code, how = rank.ending()
        self.kill()
        kind = "exited" if code is None or code >= 0 else "killed"
        return ChildError(kind, f"{rank.label} {how} during {self._asked!r}")

    def _hung(self, timeout: float) -> ChildError:
        silent = []
        for one in self.ranks:
            ready, _, _ = select.select([one.channel], [], [], 0)
            if not ready:
                silent.append(one)
                one.interrupt()  # its traceback goes to its log
        time.sleep(0.2)
        self.kill()
        names = [one.label.removeprefix("rank ") for one in silent]
        which = f"rank{'s' if len(silent) > 1 else ''} {', '.join(names)}" if silent else "the ranks"
        return ChildError(
            "hung",
            f"{which} gave no answer within {timeout:g} s (during {self._asked!r}) and all were killed; --timeout gives more",
        )

    def kill(self) -> None:
        """End all ranks and their launchers."""
        if self.ended:
            return
        self.ended = True
        for other in self.others.values():
            other.kill()
        for one in self.ranks:
            one.channel.close()
        self.node.kill()

    def destroy(self) -> None:
        """End the processes, and let whoever asks them next find out; for other threads."""
        self.node.destroy()

    def last_lines(self) -> list[str]:
        """The last lines that the ranks wrote, each with its rank."""
        lines = [f"rank {one.number}: {line}" for one in self.ranks for line in one.last_lines()]
        return lines or self.node.launcher.last_lines()

    def _signal(self, number: signal.Signals) -> None:
        if self.paused and not self.ended:
            self.node.signal(number)
            for one in self.others.values():
                one.signal(number)


def _shares(world_size: int, nodes: int) -> list[int]:
    """How many ranks each machine has. Raises `ChildError` where one would have none."""
    if world_size < nodes:
        raise ChildError(
            "skip",
            f"is a workload of {world_size} ranks, too few for --nnodes {nodes}; --set world_size={nodes} asks for more",
        )
    return [world_size // nodes + (number < world_size % nodes) for number in range(nodes)]


def _checked(rank: Rank, reply: Message) -> Any:
    """The result of a rank's reply. Raises `ChildError` that names the rank."""
    if not reply:
        return None
    try:
        return Child.result(reply)
    except ChildError as error:
        raise error if error.kind == "skip" else ChildError(error.kind, f"{rank.label} {error}") from None


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
    "audit": _all,
}
