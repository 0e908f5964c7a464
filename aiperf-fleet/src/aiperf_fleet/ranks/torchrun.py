"""The executor `torchrun` of a run on several machines."""

from attrs import field, frozen

from aiperf_core.executor import TORCHRUN, Executor, ExecutorKind, ProcessServer, WorkerHandle, WorkerSpec
from aiperf_core.harness.processes.child import ForkServer
from aiperf_fleet.ranks.coordinator import Coordinator
from aiperf_fleet.ranks.link import Nodes
from aiperf_fleet.ranks.rank_group import SpreadRankGroup


class Torchrun(ExecutorKind):
    """A launcher for each implementation and machine, which starts its ranks.

    The constructor waits for the agents of the other machines; `close` ends the connections.
    """

    takes_one = False
    takes_ranks = True

    def __init__(self, server: ProcessServer, nodes: Nodes) -> None:
        super().__init__(server)
        self._coordinator = Coordinator.open(nodes)

    def start(self, spec: WorkerSpec) -> WorkerHandle:
        """Have the launchers start the ranks."""
        assert isinstance(self.server, ForkServer)  # the parent of the launchers
        return SpreadRankGroup.start_on(self._coordinator, self.server, spec)

    def close(self) -> None:
        """End the connections to other machines."""
        self._coordinator.close()


@frozen(kw_only=True)
class SeveralMachines(Executor):
    """`torchrun` on the machines of one run."""

    name: str = TORCHRUN.name
    summary: str = TORCHRUN.summary
    load: str = "aiperf_fleet.ranks.torchrun:Torchrun"
    nodes: Nodes = field()

    def resolve(self, server: ProcessServer) -> ExecutorKind:
        """Wait for the other machines. Raises `AiperfError` where one does not come."""
        return Torchrun(server, self.nodes)
