"""Ranks that torch's elastic launcher starts on this machine."""

from aiperf_core.executors.executor import Crew, ExecutorKind, Order
from aiperf_core.harness.rank_group import RankGroup


class Torchrun(ExecutorKind):
    """A launcher for each implementation, which starts its ranks."""

    takes_one = False
    takes_ranks = True

    def start(self, order: Order) -> Crew:
        """Have a launcher start so many ranks."""
        return RankGroup.start(self.server, order.name, order.log, order.ranks, order.memory_limit_bytes)
