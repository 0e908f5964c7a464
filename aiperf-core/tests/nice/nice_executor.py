"""Workers as plain subprocesses that yield to everything else on the machine."""

import subprocess

from aiperf_core.executor import ExecutorKind, WorkerHandle, WorkerSpec
from aiperf_core.harness.processes.channel import Channel
from aiperf_core.harness.processes.child import Child


class Nice(ExecutorKind):
    """A subprocess for each implementation, under `nice`."""

    def start(self, spec: WorkerSpec) -> WorkerHandle:
        """Start one, with its end of the channel inherited."""
        ours, theirs = Channel.pair()
        command = ["nice", "-n", "5", *spec.command(theirs.fileno())]
        process = subprocess.Popen(
            command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self.__dict__.setdefault("started", []).append(process)
        return Child(spec.name, process.pid, ours, spec.log, _Ends(process))

    def close(self) -> None:
        """Wait for all, whom the harness has killed, or kill them."""
        for process in self.__dict__.get("started", ()):
            process.kill()
            process.wait()


class Refusing(Nice):
    """One that starts nothing."""

    def start(self, spec: WorkerSpec) -> WorkerHandle:
        """Raise, as a plugin may."""
        raise OSError("the cluster is full")


class _Ends:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def exit_code(self, pid: int, timeout: float = 5.0) -> int | None:
        """How the subprocess ended."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
