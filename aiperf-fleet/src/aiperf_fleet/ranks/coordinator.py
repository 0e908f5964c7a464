"""The first machine's side of a run on several: it has the other machines' agents start and kill ranks."""

import contextlib
import select
import signal
import socket
import time
from collections.abc import Mapping

from attrs import asdict, define, evolve, field

from aiperf_core.errors import AiperfError
from aiperf_core.executor import WorkerSpec
from aiperf_core.harness.processes.channel import ChannelClosedError, ChannelTimeoutError, Message, ProtocolError
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.ranks.rank_launcher import REPORT_S
from aiperf_fleet.ranks.link import Link, Nodes, RefusedError, interface_of, listen, welcome
from aiperf_fleet.ranks.meeting import Meeting

_HELLO_S = 5.0


@define(eq=False)
class Peer:
    """The node agent of another machine.

    number: the machine's --node-rank.
    lost: its connection has closed.
    """

    number: int
    host: str
    link: Link
    lost: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"node {self.number} ({self.host})"

    def tell(self, do: str, **arguments: object) -> None:
        """Send a request that has no reply; do nothing if the agent is lost."""
        if self.lost:
            return
        try:
            self.link.send({"do": do, **arguments})
        except ChannelClosedError:
            self.lost = True

    def ask(self, do: str, timeout: float, **arguments: object) -> Message:
        """Send a request and return the reply; an empty reply if the agent is lost."""
        self.tell(do, **arguments)
        try:
            return {} if self.lost else self.link.receive(timeout)
        except (ChannelClosedError, ChannelTimeoutError, ProtocolError):
            self.lost = True
            return {}


@define(eq=False)
class Coordinator:
    """The connections of a run to its other machines.

    host: this machine's name.
    listening: the socket to which agents and remote ranks connect.
    peers: the agents by the number of their machine.
    """

    nodes: Nodes
    host: str
    listening: socket.socket
    peers: dict[int, Peer] = field(factory=dict, init=False)
    _arrived: dict[str, list[tuple[Link, Message]]] = field(factory=dict, init=False)
    _refused: list[str] = field(factory=list, init=False)

    @staticmethod
    def open(nodes: Nodes) -> "Coordinator":
        """Listen, and wait for all other machines.

        Raises `AiperfError` where one does not come in time or differs from this one, and `UsageError` where this
        machine cannot listen.
        """
        coordinator = Coordinator(nodes, socket.gethostname(), listen(nodes.endpoint))
        try:
            coordinator._wait()
        except BaseException:
            coordinator.close()
            raise
        return coordinator

    @property
    def address(self) -> str:
        """The address of this machine that the others use."""
        return str(self.listening.getsockname()[0])

    def meeting(self, run_id: str) -> Meeting:
        """Where the launchers of an implementation's ranks meet: at a store that this machine's launcher opens."""
        address = self.address
        return Meeting(
            run_id=run_id, nodes=self.nodes.count, address=address, interface=interface_of(address), host=address
        )

    def close(self) -> None:
        """End all connections."""
        for peer in self.peers.values():
            peer.tell("leave")
            peer.link.close()
        for waiting in self._arrived.values():
            for link, _ in waiting:
                link.close()
        self.listening.close()

    # --- machines that connect

    def _wait(self) -> None:
        until = time.monotonic() + self.nodes.wait_s
        while missing := sorted({*range(1, self.nodes.count)} - set(self.peers)):
            ready, _, _ = select.select([self.listening], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise AiperfError(self._missing(missing))
            self.admit()

    def _missing(self, missing: list[int]) -> str:
        which = ", ".join(map(str, missing))
        refused = f" Refused: {'; '.join(self._refused)}." if self._refused else ""
        # Many machines resolve their own name to an address that only they can reach.
        where = f", which is {self.address} here," if self.address != self.nodes.endpoint.host else ""
        return (
            f"--nnodes {self.nodes.count} needs {self.nodes.count - 1} more; node {which} did not come to "
            f"{self.nodes.endpoint}{where} within {self.nodes.wait_s:g} s.{refused} Start the same command there with "
            f"--node-rank {missing[0]}."
        )

    def admit(self) -> None:
        """Accept the next connection: a node agent's, or a rank's. Refuse it without the secret.

        Raises `AiperfError` for an agent of a machine that differs from this one.
        """
        connection, (address, *_) = self.listening.accept()
        try:
            link = welcome(connection, self.nodes.secret)
        except RefusedError as error:
            self._refused.append(f"{address}, since {error}")
            return
        try:
            hello = link.receive(_HELLO_S)
            if "group" in hello:
                self._arrived.setdefault(str(hello["group"]), []).append((link, hello))
            else:
                self._admit_agent(link, int(hello["node"]), str(hello["host"]), dict(hello["identity"]))
        except (ChannelClosedError, ChannelTimeoutError, ProtocolError, KeyError, TypeError, ValueError) as error:
            self._refused.append(f"{address}, since it sent no valid greeting ({error!r})")
            link.close()

    def _admit_agent(self, link: Link, number: int, host: str, identity: dict[str, str]) -> None:
        name = f"node {number} ({host})"
        differing = _differences(f"node 0 ({self.host})", self.nodes.identity, name, identity)
        expected = number not in self.peers and 0 < number < self.nodes.count
        reason = None
        if not expected:
            reason = (
                f"There is no place for node {number}: --nnodes is {self.nodes.count}, and each --node-rank comes once."
            )
        elif differing:
            reason = f"The machines of a run must be alike, and two are not: {differing}. Install the same on both."
        with contextlib.suppress(ChannelClosedError):
            link.send({"refused": reason})
        if reason is None:
            self.peers[number] = Peer(number, host, link)
            return
        link.close()
        if expected:
            raise AiperfError(reason)
        self._refused.append(f"{name}, since there is no place for it")

    def arrivals(self, group: str) -> list[tuple[Link, Message]]:
        """The ranks of an implementation that have connected since the last call."""
        return self._arrived.pop(group, [])


@define(eq=False)
class RemoteNode:
    """The ranks of one implementation on another machine, through its agent.

    lines: the last lines that each rank printed, once it ended.
    """

    peer: Peer
    group: str
    lines: dict[int, list[str]] = field(factory=dict, init=False)
    _ended: bool = field(default=False, init=False)

    def start(self, spec: WorkerSpec, meeting: Meeting) -> None:
        """Have the agent start the ranks of `spec`. Raises `ChildError` where the agent is lost."""
        told = asdict(evolve(meeting, address="", interface=None))
        spoken = {"name": spec.name, "ranks": spec.ranks, "memory_limit_bytes": spec.memory_limit_bytes}
        self.peer.tell("start", group=self.group, spec=spoken, meeting=told)
        if self.peer.lost:
            raise ChildError("exited", f"{self.peer.name} is lost: its agent closed the connection")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes there."""
        self.peer.tell("signal", group=self.group, number=int(number))

    def interrupt(self, rank: int) -> None:
        """Have a rank write its traceback to its log."""
        self.peer.tell("interrupt", group=self.group, rank=rank)

    def kill(self) -> None:
        """Kill the ranks and their launcher, and keep their last lines."""
        if not self._ended:
            self._ended = True
            self._keep(self.peer.ask("end", 2 * REPORT_S, group=self.group))

    def last_lines(self, rank: int) -> list[str]:
        """The last lines that a rank printed."""
        if not self._ended:
            self._keep(self.peer.ask("lines", REPORT_S, group=self.group))
        return self.lines.get(rank, [])

    def _keep(self, told: Message) -> None:
        found = told.get("lines", {})
        self.lines.update({int(rank): [str(line) for line in lines] for rank, lines in found.items()})


def _differences(here: str, ours: Mapping[str, str], there: str, theirs: Mapping[str, str]) -> str:
    """Differences between two machines, in words; empty where they are alike."""
    found = []
    for name in sorted({*ours, *theirs}):
        mine, other = ours.get(name, "nothing"), theirs.get(name, "nothing")
        if mine != other:
            found.append(f"{name} is {mine} on {here} and {other} on {there}")
    return "; ".join(found)
