"""What clusters of daemons on this machine share: how they begin and end, and the script that starts one until Ctrl-C."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from aiperf_core.harness.processes.parent import end_child_with_this


class LocalCluster:
    """A cluster, a context manager. Everything lies in a new folder, which is removed at the end.

    nodes: the names of the nodes; the odd ones have the class `odd`, the others `even`.
    processes: the daemons, by name.
    """

    START_S = 30.0

    def __init__(self, folder, nodes=3):
        self.folder = Path(folder).absolute()
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.processes = {}

    @property
    def environment(self):
        """The variables by which users find the cluster."""
        raise NotImplementedError

    def begin(self):
        """Start all daemons, and wait until the nodes take tasks."""
        raise NotImplementedError

    def of_daemon(self, name, process):
        """The processes that end with a daemon, itself included."""
        raise NotImplementedError

    def left(self):
        """The processes that are there after the end."""
        raise NotImplementedError

    def __enter__(self):
        self.folder.mkdir(parents=True, mode=0o755)
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in reversed(list(self.processes)):
            self.end(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def class_of(self, node):
        """The class of a node."""
        return "odd" if self.nodes.index(node) % 2 == 0 else "even"

    def lock_of(self, node):
        """The lock of a node: each has one of its own, as if it were a machine."""
        return f"{self.folder}/lock-{node}"

    def log_of(self, name):
        """What a daemon prints."""
        return self.folder / f"{name}.out"

    def launch(self, name, line, environment):
        """Start a daemon in the foreground, in a session of its own. It ends with this process."""
        with open(self.log_of(name), "wb") as log:
            self.processes[name] = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
                preexec_fn=end_child_with_this(),
            )

    def end(self, name):
        """Kill a daemon and what it started, as if the machine had failed."""
        process = self.processes.pop(name)
        while found := [pid for pid in self.of_daemon(name, process) if alive(pid)]:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
            process.poll()
        process.wait()

    def wait_until(self, condition, complaint):
        """Wait for a condition. Raises RuntimeError with the ends of all logs."""
        deadline = time.monotonic() + self.START_S
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(f"{path}:\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.out")))
                raise RuntimeError(f"{complaint} within {self.START_S:g} s\n{logs}")
            time.sleep(0.1)


def serve(kind):
    """Start a cluster, print the variables that its users need, and end it with Ctrl-C."""
    with kind(sys.argv[1], *map(int, sys.argv[2:])) as cluster:
        for name, value in cluster.environment.items():
            print(f"export {name}={value}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


def every_process():
    """The folders of all other processes in /proc, by id."""
    return {
        int(one.name): one for one in Path("/proc").iterdir() if one.name.isdigit() and int(one.name) != os.getpid()
    }


def status_of(pid):
    """The fields of a process's status behind its name; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def alive(pid):
    """Whether a process has not ended; one that nobody waited for has."""
    return status_of(pid)[:1] not in ([], ["Z"])


def free_ports(count):
    """Ports that nothing listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]
