"""The supervisor's side of ranks on several machines: those of this one, and those that node agents start."""

import secrets
import select
import signal
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import define, evolve, field

from aiperf_core.executor import WorkerSpec
from aiperf_core.harness.processes.channel import ChannelClosedError, ChannelTimeoutError, Message
from aiperf_core.harness.processes.child import ChildError, ForkServer, exit_error
from aiperf_core.harness.ranks.rank_group import Rank, RankGroup
from aiperf_core.harness.ranks.rank_launcher import GRACE_S, REPORT_S
from aiperf_fleet.ranks.coordinator import Coordinator, RemoteNode
from aiperf_fleet.ranks.meeting import store_port


@define(eq=False)
class RemoteRank(Rank):
    """A rank on another machine, whose node agent relays requests and replies. `pid` is of that machine."""

    node: RemoteNode = field(kw_only=True)
    _code: int | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)

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
class SpreadRankGroup(RankGroup):
    """The ranks of one implementation on this machine and on others; a `WorkerHandle`.

    coordinator: the connections to other machines.
    identifier: names the group to the agents.
    others: the ranks of other machines, by the machine's number.
    """

    not_observed: ClassVar[Mapping[str, str]] = {
        "process_census": "the processes of ranks on other machines are not observed",
        "fresh_values": "refreshed inputs reach other machines through a node agent, which is trusted",
        "inputs_intact": "a node agent reports what inputs are after a call on another machine",
        "clocks_agree": "the clock of another machine is compared with the supervisor's through the network",
    }

    coordinator: Coordinator
    identifier: str
    others: dict[int, RemoteNode]

    @staticmethod
    def start_on(coordinator: Coordinator, server: ForkServer, spec: WorkerSpec) -> "SpreadRankGroup":
        """Have the launchers of all machines start the ranks. Raises `ChildError`."""
        counts = _shares(spec.ranks, coordinator.nodes.count)
        identifier = secrets.token_hex(8)
        others = {number: RemoteNode(peer, identifier) for number, peer in sorted(coordinator.peers.items())}
        meeting = coordinator.meeting(identifier)
        here = meeting.launch(server, evolve(spec, ranks=counts[0]))
        group = SpreadRankGroup(spec.name, spec.ranks, here, server, coordinator, identifier, others)
        try:
            meeting = evolve(meeting, port=store_port(here.launcher))
            for number, node in others.items():
                node.start(evolve(spec, ranks=counts[number]), meeting)
        except ChildError:
            group.kill()
            raise
        return group

    @property
    def here(self) -> list[Rank]:
        """This machine's ranks."""
        return [rank for rank in self.ranks if not isinstance(rank, RemoteRank)]

    def post(self, do: str, *, fds: tuple[int, ...] = (), **arguments: Any) -> None:
        """Send a request to all ranks. Raises `ChildError` for data that cannot be sent to another machine."""
        if do == "open":
            self._check_transferable(fds, arguments["problem"])
        super().post(do, fds=fds, **arguments)

    def _check_transferable(self, fds: tuple[int, ...], problem: Message) -> None:
        if problem.get("files") or problem.get("folder"):
            reason = "works with files, which other machines do not see"
        elif len(fds) < 2 * self.world_size:
            reason = f"the memory of {problem['device']!r} cannot be sent to another machine"
        else:
            return
        self.kill()
        raise ChildError("skip", f"{reason}: leave out --nnodes")

    def next_ranks(self, timeout: float) -> list[Rank]:
        """Wait for ranks to connect here or from other machines."""
        if arrived := self._arrived():
            return arrived
        local: list[Any] = [self.rank_launcher.listening, self.rank_launcher.launcher.channel]
        peers = [node.peer for node in self.others.values()]
        sources = [*local, self.coordinator.listening, *(peer.link for peer in peers)]
        ready, _, _ = select.select(sources, [], [], timeout)
        if not ready:
            raise ChannelTimeoutError
        if self.coordinator.listening in ready:
            self.coordinator.admit()
            return self._arrived()
        if any(one in ready for one in local):
            number, pid, channel = self.rank_launcher.next_rank(0)
            return [self.connected(number, pid, channel, place=f"node 0 ({self.coordinator.host})")]
        # An agent sends nothing before it is asked, so its connection has closed.
        peer = next(peer for peer in peers if peer.link in ready)
        peer.lost = True
        raise ChildError("exited", f"{peer.name} is lost: its agent closed the connection")

    def _arrived(self) -> list[Rank]:
        """The ranks of other machines that have connected."""
        found = []
        for link, hello in self.coordinator.arrivals(self.identifier):
            node = self.others[int(hello["node"])]
            if "failed" in hello:
                link.close()
                raise ChildError("exited", f"on {node.peer.name} {hello['failed']}")
            number, pid, place = int(hello["rank"]), int(hello["pid"]), node.peer.name
            found.append(self.connected(number, pid, link, RemoteRank, place=place, node=node))
        return found

    def end(self) -> None:
        """End what this group started."""
        for node in self.others.values():
            node.kill()
        super().end()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes."""
        super().send_signal(number)
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
