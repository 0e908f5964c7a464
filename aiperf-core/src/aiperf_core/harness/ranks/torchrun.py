"""The executor `torchrun`: ranks that torch's elastic launcher starts, on this machine or on several."""

from attrs import field, frozen

from aiperf_core.executor import TORCHRUN, Executor, ExecutorKind, ProcessServer, WorkerHandle, WorkerSpec
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.ranks.rank_group import RankGroup
from aiperf_fleet.ranks.coordinator import Coordinator
from aiperf_fleet.ranks.link import Nodes


class Torchrun(ExecutorKind):
    """A launcher for each implementation and machine, which starts its ranks.

    With `nodes` the constructor waits for the agents of the other machines; `close` ends the connections.
    """

    takes_one = False
    takes_ranks = True

    def __init__(self, server: ProcessServer, nodes: Nodes | None = None) -> None:
        super().__init__(server)
        assert isinstance(server, ForkServer)  # the parent of the launchers
        self._forks = server
        self._coordinator = Coordinator.open(nodes) if nodes is not None else None

    def start(self, spec: WorkerSpec) -> WorkerHandle:
        """Have the launchers start the ranks."""
        return RankGroup.start(self._forks, spec, self._coordinator)

    def close(self) -> None:
        """End the connections to other machines."""
        if self._coordinator is not None:
            self._coordinator.close()


@frozen(kw_only=True)
class SeveralMachines(Executor):
    """`torchrun` on the machines of one run."""

    name: str = TORCHRUN.name
    summary: str = TORCHRUN.summary
    load: str = TORCHRUN.load
    nodes: Nodes = field()

    def resolve(self, server: ProcessServer) -> ExecutorKind:
        """Wait for the other machines. Raises `AiperfError` where one does not come."""
        return Torchrun(server, self.nodes)
