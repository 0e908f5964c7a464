"""A process that starts the ranks of one implementation through torch's elastic launcher, and tells how they ended.

It is what `torchrun` is, with one difference: each rank connects to the supervisor by a socket and then serves it as a
worker.
"""

import contextlib
import os
import socket
import sys
import tempfile

import torch

from aiperf_core.harness.channel import Channel, ChannelClosedError, Message
from aiperf_core.harness.service import Service

_MONITOR_S = 0.05


class Launcher(Service):
    """The handler of the one request."""

    def do_launch(self, count: int, address: str, logs: list[str], folder: str) -> Message:
        """Start so many ranks on this machine and wait for their end; how each that failed has ended.

        `address` is that of the supervisor's socket, `logs` are the files that get what the ranks print, `folder` is for what
        the launcher keeps.
        """
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch

        # One machine: no name is looked up and no network is used. No NVLink multicast.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        os.environ["NCCL_NVLS_ENABLE"] = "0"
        # Where the launcher keeps a folder of its own.
        tempfile.tempdir = folder
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id="aiperf",
            rdzv_backend="c10d",
            rdzv_endpoint="127.0.0.1:0",
            local_addr="127.0.0.1",
            max_restarts=0,
            monitor_interval=_MONITOR_S,
            start_method="fork",
        )
        try:
            elastic_launch(config, serve_rank)(address, logs)
        except ChildFailedError as error:
            return {"failures": {str(rank): one.exitcode for rank, one in error.failures.items()}}
        return {"failures": {}}


def serve_rank(address: str, logs: list[str]) -> None:
    """Be a rank: say which, then serve the supervisor as a worker."""
    from aiperf_core.harness import worker

    rank = int(os.environ["RANK"])
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    out = os.open(logs[rank], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    # The processors are shared fairly; ranks that each take all of them keep each other from running.
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // len(logs)))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address)
    channel = Channel(connection)
    channel.send({"rank": rank, "pid": os.getpid()})
    with contextlib.suppress(ChannelClosedError):  # the supervisor has all that it wants
        worker.main(channel)


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Launcher(channel).serve()
