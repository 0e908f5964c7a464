"""A Slurm cluster of a controller and several nodes on this machine, for tests and to try the engine; needs root.

    python local_slurm.py FOLDER [NODES]

starts it, prints the variables that its users need, and ends it with Ctrl-C. Debian's packages `slurm-wlm` and `munge` are enough:
their slurmd takes a node name (`-N`), so that several run on one host. Everything lies in FOLDER, the key of munge included.
"""

import contextlib
import os
import secrets
import socket
import subprocess
import time

from local_cluster import LocalCluster, every_process, free_ports, serve

_CONF = """\
ClusterName=aiperf
SlurmctldHost={host}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
TaskProlog={folder}/prolog
MpiDefault=none
SwitchType=switch/none
SelectType=select/linear
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,sched_min_interval=0,bf_interval=2
ReturnToService=2
JobRequeue=0
SlurmctldTimeout=10
SlurmdTimeout=6
MessageTimeout=5
KillWait=2
MinJobAge=600
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=1 Feature={feature} State=UNKNOWN"
_PROLOG = '#!/bin/sh\necho "export AIPERF_CI_LOCK={lock}"\n'


class LocalSlurm(LocalCluster):
    """The cluster. The classes of its nodes are features."""

    @property
    def environment(self):
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def begin(self):
        self.configure()
        for daemon in ("munged", "slurmctld", *self.nodes):
            self.start(daemon)
        self.wait_for(self.nodes)

    def configure(self):
        """Write the configuration, with ports that are free now."""
        for name in ("state", *(f"spool-{node}" for node in self.nodes)):
            (self.folder / name).mkdir()
        host = socket.gethostname().partition(".")[0]
        controller, *ports = free_ports(1 + len(self.nodes))
        nodes = [
            _NODE.format(name=name, host=host, port=port, cpus=os.cpu_count(), feature=self.class_of(name))
            for name, port in zip(self.nodes, ports, strict=True)
        ]
        values = {"host": host, "folder": self.folder, "port": controller, "nodes": "\n".join(nodes)}
        (self.folder / "slurm.conf").write_text(_CONF.format(**values))
        prolog = self.folder / "prolog"
        prolog.write_text(_PROLOG.format(lock=self.lock_of("$SLURMD_NODENAME")))
        prolog.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)

    def start(self, name):
        """Start a daemon: munged, slurmctld, or the slurmd of a node."""
        of_munge = [f"--{one}-file={self.folder}/munge.{one}" for one in ("key", "pid", "log", "seed")]
        lines = {
            "munged": ["munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *of_munge],
            "slurmctld": ["slurmctld", "-D"],
        }
        self.launch(name, lines.get(name, ["slurmd", "-D", "-N", name]), {**os.environ, **self.environment})
        if name == "munged":
            self.wait_until((self.folder / "munge.socket").exists, "munged does not start")

    def of_daemon(self, name, process):
        return [*self.steps_of(name), process.pid]

    def restart_controller(self):
        """End the controller at once, and start it again after a while."""
        self.end("slurmctld")
        time.sleep(1.0)
        self.start("slurmctld")

    def left(self):
        return [pid for node in self.nodes for pid in self.steps_of(node)]

    def steps_of(self, node):
        """The processes of jobs on a node. They know it by their environment."""
        wanted = {f"SLURM_CONF={self.folder}/slurm.conf".encode(), f"SLURMD_NODENAME={node}".encode()}
        found = []
        for pid, folder in every_process().items():
            with contextlib.suppress(OSError):
                if wanted <= set((folder / "environ").read_bytes().split(b"\0")):
                    found.append(pid)
        return found

    def wait_for(self, nodes):
        """Wait until nodes take jobs."""

        def ready():
            done = self.command("sinfo", "--Node", "--noheader", "--format=%N %T")
            return {f"{node} idle" for node in nodes} <= set(done.stdout.splitlines())

        self.wait_until(ready, "the nodes do not come up")

    def command(self, *line):
        """Run a command of Slurm."""
        return subprocess.run(line, capture_output=True, text=True, env={**os.environ, **self.environment}, check=False)


if __name__ == "__main__":
    serve(LocalSlurm)
