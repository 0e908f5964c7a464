"""The node agent: runs on every machine of a run but the first, starts ranks on request and relays their messages.

Each rank serves the agent as it would serve a supervisor on its own machine: through a Unix socket and with memory that
both map. One thread for each rank relays requests and replies. The agent runs no benchmark code. It ends with the
connection to the first machine, and its ranks end with it.
"""

import contextlib
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from aiperf_core.errors import AiperfError
from aiperf_core.executor import WorkerSpec
from aiperf_core.harness.processes.channel import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    Message,
    ProtocolError,
)
from aiperf_core.harness.processes.child import START_TIMEOUT_S, Child, ChildError, ForkServer
from aiperf_core.harness.ranks.rank_launcher import RankLauncher
from aiperf_core.units import plural
from aiperf_fleet.ranks.link import Link, Nodes, connect, interface_of
from aiperf_fleet.ranks.meeting import Meeting

# The keys of a rank's message that are relayed. The agent alone sends others, such as `ended`.
_RELAYED = ("token", "ok", "error", "notice")
_SIGNALS = frozenset({signal.SIGSTOP, signal.SIGCONT})


@define(eq=False)
class NodeAgent:
    """The agent of machine `number`.

    folder: for what ranks print.
    tell: called with each line of progress.
    """

    nodes: Nodes
    number: int
    server: ForkServer
    folder: Path
    tell: Callable[[str], None]
    _link: Link = field(init=False)
    _running: dict[str, RankLauncher] = field(factory=dict, init=False)

    def serve(self) -> None:
        """Join the run and serve it to its end.

        Raises `AiperfError` where the first machine does not come, refuses this one, or is lost.
        """
        self._link = connect(self.nodes, self.nodes.wait_s)
        try:
            self._join()
            while (request := self._link.receive())["do"] != "leave":
                reply = getattr(self, f"_do_{request.pop('do')}")(**request)
                if reply is not None:
                    self._link.send(reply)
        except (ChannelClosedError, ProtocolError) as error:
            raise AiperfError(
                f"The first machine, at {self.nodes.endpoint}, is lost ({error}); the ranks of this one were ended."
            ) from None
        finally:
            for rank_launcher in self._running.values():
                rank_launcher.kill()
            self._link.close()

    def _join(self) -> None:
        self._link.send({"node": self.number, "host": socket.gethostname(), "identity": dict(self.nodes.identity)})
        try:
            refused = self._link.receive(self.nodes.wait_s)["refused"]
        except ChannelTimeoutError:
            raise ChannelClosedError(f"it sent nothing within {self.nodes.wait_s:g} s") from None
        if refused is not None:
            raise AiperfError(str(refused))
        self.tell(f"node {self.number} of {self.nodes.count}: connected to {self.nodes.endpoint}")

    # --- requests

    def _do_start(self, group: str, spec: dict[str, Any], meeting: dict[str, Any]) -> None:
        address, wanted = str(self._link.sock.getsockname()[0]), WorkerSpec(log=self.folder / f"{group}.log", **spec)
        where = evolve(Meeting(**meeting), address=address, interface=interface_of(address))
        started = self._running[group] = where.launch(self.server, wanted)
        self.tell(f"{wanted.name}: {plural('rank', wanted.ranks)}")
        threading.Thread(target=self._gather, args=(group, started, wanted.ranks), daemon=True).start()

    def _do_signal(self, group: str, number: int) -> None:
        if group in self._running and number in _SIGNALS:
            self._running[group].signal(signal.Signals(number))

    def _do_interrupt(self, group: str, rank: int) -> None:
        if group in self._running:
            self._running[group].interrupt(rank)

    def _do_lines(self, group: str) -> Message:
        found = self._running.get(group)
        return {"lines": {str(rank): _last_lines(found, rank) for rank in [*found.pids]} if found else {}}

    def _do_end(self, group: str) -> Message:
        told = self._do_lines(group)
        found = self._running.pop(group, None)
        if found is not None:
            found.kill()
        return told

    # --- threads

    def _gather(self, group: str, rank_launcher: RankLauncher, count: int) -> None:
        """Wait for the ranks, and give each a connection to the first machine."""
        who: Message = {"node": self.number, "group": group}
        try:
            for _ in range(count):
                rank, pid, channel = rank_launcher.next_rank(START_TIMEOUT_S)
                link = connect(self.nodes, START_TIMEOUT_S)
                link.send({**who, "rank": rank, "pid": pid})
                threading.Thread(target=_Relay(rank_launcher, rank, link, channel).serve, daemon=True).start()
        except ChildError as error:
            if group in self._running:  # else the first machine had it killed
                with contextlib.suppress(AiperfError, ChannelClosedError):
                    link = connect(self.nodes)
                    link.send({**who, "failed": str(error)})
                    link.close()
        except (AiperfError, ChannelClosedError, ChannelTimeoutError, ProtocolError, OSError, KeyError, ValueError):
            return  # the first machine's wait for the ranks times out


def serve(nodes: Nodes, number: int, tell: Callable[[str], None]) -> None:
    """Be the agent of a machine until the run ends; see `NodeAgent.serve`."""
    with tempfile.TemporaryDirectory(prefix="aiperf-agent-") as folder, ForkServer() as server:
        NodeAgent(nodes, number, server, Path(folder), tell).serve()


class _RankEndedError(Exception):
    """The rank's channel has closed."""


@define(eq=False)
class _Relay:
    """Relays the first machine's requests to a rank of this one, and its replies."""

    rank_launcher: RankLauncher
    rank: int
    link: Link
    channel: Channel
    _token: str = field(default="", init=False)

    def serve(self) -> None:
        """Relay until either side is gone."""
        try:
            while True:
                self._relay(self.link.receive())
        except _RankEndedError:
            with contextlib.suppress(ChannelClosedError):
                self.link.send({"token": self._token, "closing": True, "notice": ""})
                ended = self.rank_launcher.exit_code(self.rank)
                self.link.send({"token": self._token, "ended": ended, "notice": ""})
        except (ChannelClosedError, ProtocolError, OSError):
            self.rank_launcher.destroy()  # the first machine is lost
        finally:
            self.link.close()
            self.channel.close()

    def _relay(self, request: Message) -> None:
        self._token = str(request.get("token", ""))
        if request.get("do") == "begin" and request["processors"]:
            request["processors"] = sorted(os.sched_getaffinity(0))[-len(request["processors"]) :]
        try:
            self.channel.send(request, self.link.fds if request.get("do") == "open" else ())
        except ChannelClosedError:
            raise _RankEndedError from None
        while "notice" in (reply := self._reply()):
            self.link.send(reply)
        self.link.send(reply)

    def _reply(self) -> Message:
        try:
            told = self.channel.receive()
        except ChannelClosedError:
            raise _RankEndedError from None
        except ProtocolError as error:
            problem = {"kind": "protocol", "message": f"sent a message that no worker sends: {error}"}
            return {"token": self._token, "error": problem}
        return {name: told[name] for name in _RELAYED if name in told}


def _last_lines(found: RankLauncher, rank: int) -> list[str]:
    launcher = found.launcher
    return Child(f"rank {rank}", found.pids[rank], launcher.channel, found.log_of(rank), launcher.server).last_lines()
