"""Ranks that torch's elastic launcher starts, on this machine or on several."""

from attrs import field, frozen

from aiperf_core.executors.executor import TORCHRUN, Crew, Executor, ExecutorKind, Order
from aiperf_core.harness.hub import Hub
from aiperf_core.harness.link import Nodes
from aiperf_core.harness.processes import ForkServer
from aiperf_core.harness.rank_group import RankGroup


class Torchrun(ExecutorKind):
    """A launcher for each implementation and machine, which starts its ranks.

    With `nodes` it waits for the agents of the other machines when it is made, and lets them go when the run ends.
    """

    takes_one = False
    takes_ranks = True

    def __init__(self, server: ForkServer, nodes: Nodes | None = None) -> None:
        super().__init__(server)
        self._hub = Hub.open(nodes) if nodes is not None else None

    def start(self, order: Order) -> Crew:
        """Have launchers start so many ranks."""
        return RankGroup.start(self.server, order.name, order.log, order.ranks, order.memory_limit_bytes, self._hub)

    def close(self) -> None:
        """Let the other machines go."""
        if self._hub is not None:
            self._hub.close()


@frozen(kw_only=True)
class SeveralMachines(Executor):
    """`torchrun` on the machines of one run."""

    name: str = TORCHRUN.name
    summary: str = TORCHRUN.summary
    load: str = TORCHRUN.load
    nodes: Nodes = field()

    def resolve(self, server: ForkServer) -> ExecutorKind:
        """Wait for the other machines. Raises `AiperfError` where one does not come."""
        return Torchrun(server, self.nodes)
