"""The executor `torchrun`: ranks that torch's elastic launcher starts on this machine."""

from aiperf_core.executor import ExecutorKind, WorkerHandle, WorkerSpec
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.ranks.rank_group import RankGroup


class Torchrun(ExecutorKind):
    """A launcher for each implementation, which starts its ranks."""

    takes_one = False
    takes_ranks = True

    def start(self, spec: WorkerSpec) -> WorkerHandle:
        """Have the launcher start the ranks."""
        assert isinstance(self.server, ForkServer)  # the parent of the launchers
        return RankGroup.start(self.server, spec)
