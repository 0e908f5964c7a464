"""A Ray cluster of a head and more nodes on this machine, for tests and to try the engine.

    python local_ray.py FOLDER [NODES]

starts it, prints the variable that its users need, and ends it with Ctrl-C. Everything lies in FOLDER.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from local_cluster import LocalCluster, alive, every_process, free_ports, serve, status_of

_MEMORY = 80_000_000  # the least that Ray takes for objects, and a little
# A node that is killed is seen in seconds, a busy one is not taken for dead.
_HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "2",
}
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_enable_metrics_collection": "0"}


class LocalRay(LocalCluster):
    """The cluster. The first of its nodes is the head."""

    START_S = 120.0

    def __init__(self, folder, nodes=3):
        super().__init__(folder, nodes)
        (self.port,) = free_ports(1)
        self.temporary = self.folder
        self.leaders = []

    @property
    def environment(self):
        return {"RAY_ADDRESS": f"127.0.0.1:{self.port}"}

    def begin(self):
        # Paths of sockets have at most 107 characters.
        self.temporary = Path(tempfile.mkdtemp(prefix="ray-"))
        # One after the other: two that start at once may choose the same port, and one is given up after 30 s.
        for node in self.nodes:
            self.start(node)

    def __exit__(self, *_):
        super().__exit__()
        shutil.rmtree(self.temporary, ignore_errors=True)

    def start(self, name):
        """Start a node, and wait until it is part of the cluster. Ray gives one up after 30 s on a busy machine: it is started again."""
        deadline = time.monotonic() + self.START_S
        self.start_processes(name)
        while "Ray runtime started." not in self.log_of(name).read_text():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the node {name} of Ray does not start\n{self.log_of(name).read_text()[-3000:]}")
            if self.processes[name].poll() is not None:
                self.end(name)
                self.start_processes(name)
            time.sleep(0.1)

    def start_processes(self, name):
        """Start the processes of a node."""
        resources = {"machine": 1, f"class_{self.class_of(name)}": 1}
        line = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--node-name", name]
        line += ["--num-cpus=1", "--num-gpus=0", f"--resources={json.dumps(resources)}"]
        line += [f"--object-store-memory={_MEMORY}", "--disable-usage-stats"]
        if name == self.nodes[0]:
            line += ["--head", f"--port={self.port}", "--include-dashboard=false", f"--temp-dir={self.temporary}"]
        else:
            line.append(f"--address=127.0.0.1:{self.port}")
        environment = {**os.environ, **_HEALTH, **_QUIET, "AIPERF_CI_LOCK": self.lock_of(name)}
        environment.pop("RAY_ADDRESS", None)
        self.launch(name, line, environment)
        self.leaders.append(self.processes[name].pid)

    def of_daemon(self, name, process):
        return session_of(process.pid)

    def restart_controller(self):
        """End the head, with which all nodes end, and start it again alone."""
        for name in reversed(list(self.processes)):
            self.end(name)
        self.start(self.nodes[0])

    def left(self):
        return [pid for leader in self.leaders for pid in session_of(leader) if alive(pid)]


def session_of(leader):
    """The processes of a session. Ray's programs change their names and environments, but not their session."""
    return [pid for pid in every_process() if status_of(pid)[3:4] == [str(leader)]]


if __name__ == "__main__":
    serve(LocalRay)
