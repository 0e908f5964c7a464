"""Where the launchers of an implementation's ranks meet; there is one launcher on each machine."""

import time

from attrs import asdict, frozen

from aiperf_core.executor import WorkerSpec
from aiperf_core.harness.processes.channel import ChannelTimeoutError
from aiperf_core.harness.processes.child import START_TIMEOUT_S, Child, ChildError, ForkServer
from aiperf_core.harness.ranks.rank_launcher import RankLauncher

_LAUNCHER = "aiperf_fleet.ranks.launcher"


@frozen(kw_only=True)
class Meeting:
    """The launchers' store, and this machine's place among them.

    nodes: the number of machines.
    address: this machine's, by which other machines reach its ranks.
    interface: the network interface with that address; None leaves the choice to the libraries.
    host: the machine of the launchers' store.
    port: the port of the store; 0 has this launcher open it and report the port.
    """

    run_id: str
    nodes: int
    address: str
    interface: str | None
    host: str
    port: int = 0

    def launch(self, server: ForkServer, spec: WorkerSpec) -> RankLauncher:
        """Start this machine's launcher and the ranks of `spec`."""
        return RankLauncher.start(server, spec, _LAUNCHER, **asdict(self))


def store_port(launcher: Child) -> int:
    """The port of the store that a launcher opens for other machines' launchers. Raises `ChildError`."""
    try:
        told = launcher.read(time.monotonic() + START_TIMEOUT_S)
    except ChannelTimeoutError:
        raise ChildError("hung", f"the launcher of the ranks opened no store in {START_TIMEOUT_S:g} s") from None
    if "notice" not in told:
        Child.result(told)
    return int(told["notice"])
