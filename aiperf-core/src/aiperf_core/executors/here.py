"""Workers forked on this machine, from the process that has torch imported."""

from aiperf_core.executors.executor import Crew, ExecutorKind, Order


class Here(ExecutorKind):
    """A process for each implementation."""

    confines = True

    def start(self, order: Order) -> Crew:
        """Fork a worker."""
        return self.server.spawn("worker", order.name, order.log, memory_limit_bytes=order.memory_limit_bytes)
