"""The executor `here`: workers forked on this machine from the fork server."""

from aiperf_core.executor import ExecutorKind, WorkerHandle, WorkerSpec


class Here(ExecutorKind):
    """One process for each implementation."""

    confines = True

    def start(self, spec: WorkerSpec) -> WorkerHandle:
        """Fork a worker."""
        return self.server.spawn("worker", spec.name, spec.log, memory_limit_bytes=spec.memory_limit_bytes)
