"""What runs on every machine of a run but the first: it starts ranks when the first machine says so, and passes on messages.

Each rank serves the agent as it would serve a supervisor on its own machine, through a Unix socket and with memory that both
map; a thread for each passes on what the first machine asks it, and what it answers. The agent runs no benchmark's code. It
ends with the connection to the first machine, and its ranks with it.
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
from aiperf_core.harness.processes.channel import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    Message,
    ProtocolError,
)
from aiperf_core.harness.processes.child import Child, ChildError, ForkServer
from aiperf_core.harness.ranks.link import Link, Nodes, connect, interface_of
from aiperf_core.harness.ranks.rank_launcher import START_TIMEOUT_S, Meeting, RankLauncher

# What of a rank's message is passed on; all else is this agent's to say.
_PASSED_ON = ("token", "ok", "error", "notice")
_SIGNALS = frozenset({signal.SIGSTOP, signal.SIGCONT})


@define(eq=False)
class NodeAgent:
    """The agent of machine `number`. `tell` is told how it goes on; `folder` takes what ranks print."""

    nodes: Nodes
    number: int
    server: ForkServer
    folder: Path
    tell: Callable[[str], None]
    _link: Link = field(init=False)
    _running: dict[str, RankLauncher] = field(factory=dict, init=False)
    # The fork server answers one request at a time.
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

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
            for node in self._running.values():
                node.kill()
            self._link.close()

    def _join(self) -> None:
        self._link.send({"node": self.number, "host": socket.gethostname(), "identity": dict(self.nodes.identity)})
        try:
            refused = self._link.receive(self.nodes.wait_s)["refused"]
        except ChannelTimeoutError:
            raise ChannelClosedError(f"it said nothing within {self.nodes.wait_s:g} s") from None
        if refused is not None:
            raise AiperfError(str(refused))
        self.tell(f"node {self.number} of {self.nodes.count}: at the service of {self.nodes.endpoint}")

    # --- requests

    def _do_start(
        self, group: str, name: str, count: int, memory_limit_bytes: int | None, meeting: dict[str, Any]
    ) -> None:
        address = str(self._link.sock.getsockname()[0])
        with self._lock:
            node = RankLauncher.start(self.server, name, self.folder / f"{group}.log", count, memory_limit_bytes)
        node.launcher.server = _InTurn(self.server, self._lock)
        self._running[group] = node
        node.launch(evolve(Meeting(**meeting), address=address, interface=interface_of(address)))
        self.tell(f"{name}: {count} rank{'s' if count > 1 else ''}")
        threading.Thread(target=self._gather, args=(group, node), daemon=True).start()

    def _do_signal(self, group: str, number: int) -> None:
        if group in self._running and number in _SIGNALS:
            self._running[group].signal(signal.Signals(number))

    def _do_interrupt(self, group: str, rank: int) -> None:
        if group in self._running:
            self._running[group].interrupt(rank)

    def _do_lines(self, group: str) -> Message:
        node = self._running.get(group)
        return {"lines": {str(rank): _last_lines(node, rank) for rank in [*node.pids]} if node else {}}

    def _do_end(self, group: str) -> Message:
        told = self._do_lines(group)
        node = self._running.pop(group, None)
        if node is not None:
            node.kill()
        return told

    # --- threads

    def _gather(self, group: str, node: RankLauncher) -> None:
        """Take the ranks as they come, and give each a connection to the first machine."""
        who: Message = {"node": self.number, "group": group}
        try:
            for _ in range(node.count):
                rank, pid, channel = node.next_rank(START_TIMEOUT_S)
                link = connect(self.nodes, START_TIMEOUT_S)
                link.send({**who, "rank": rank, "pid": pid})
                threading.Thread(target=_Relay(node, rank, link, channel).serve, daemon=True).start()
        except ChildError as error:
            if group in self._running:  # else it was ended, and the first machine knows
                with contextlib.suppress(AiperfError, ChannelClosedError):
                    link = connect(self.nodes)
                    link.send({**who, "failed": str(error)})
                    link.close()
        except (AiperfError, ChannelClosedError, ChannelTimeoutError, ProtocolError, OSError, KeyError, ValueError):
            return  # whoever waits for the rest sees that they do not come


def serve(nodes: Nodes, number: int, tell: Callable[[str], None]) -> None:
    """Be the agent of a machine until the first one lets it go; see `NodeAgent.serve`."""
    with tempfile.TemporaryDirectory(prefix="aiperf-agent-") as folder, ForkServer() as server:
        NodeAgent(nodes, number, server, Path(folder), tell).serve()


class _RankEndedError(Exception):
    """The rank's channel has closed."""


@define(eq=False)
class _Relay:
    """Passes on what the first machine asks a rank of this one, and what that answers."""

    node: RankLauncher
    rank: int
    link: Link
    channel: Channel
    _token: str = field(default="", init=False)

    def serve(self) -> None:
        """Pass on requests until either side is gone."""
        try:
            while True:
                self._pass_on(self.link.receive())
        except _RankEndedError:
            with contextlib.suppress(ChannelClosedError):
                self.link.send({"token": self._token, "closing": True, "notice": ""})
                self.link.send({"token": self._token, "ended": self.node.exit_code(self.rank), "notice": ""})
        except (ChannelClosedError, ProtocolError, OSError):
            self.node.destroy()  # without the first machine there is nothing to do
        finally:
            self.link.close()
            self.channel.close()

    def _pass_on(self, request: Message) -> None:
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
            return {
                "token": self._token,
                "error": {"kind": "protocol", "message": f"sent what no worker sends: {error}"},
            }
        return {name: told[name] for name in _PASSED_ON if name in told}


@define(eq=False)
class _InTurn:
    """The fork server, asked by one thread at a time."""

    server: ForkServer
    lock: threading.Lock

    def exit_code(self, pid: int, timeout: float = 5.0) -> int | None:
        """The exit code of a process whose channel closed (negative for a signal), or None where it lives on."""
        with self.lock:
            return self.server.exit_code(pid, timeout)


def _last_lines(node: RankLauncher, rank: int) -> list[str]:
    return Child(
        f"rank {rank}", node.pids[rank], node.launcher.channel, node.log_of(rank), node.launcher.server
    ).last_lines()
