"""A process that starts the ranks of one implementation by torch's elastic launcher, and reports how they ended.

It does what `torchrun` does, with one difference: each rank connects to the supervisor's socket and then serves it as a
worker.
"""

import contextlib
import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from aiperf_core.harness.processes.channel import Channel, ChannelClosedError, Message
from aiperf_core.harness.processes.fork_server import die_with_parent, gpus_untouched, redirect_output
from aiperf_core.harness.processes.service import Service
from aiperf_core.harness.ranks.rank_launcher import Meeting, rank_log

_MONITOR_S = 0.05
# The store is already open. Launchers are stopped together with their ranks, so a silent launcher must not count as
# dead.
_SEVERAL = {"is_host": False, "keep_alive_interval": 24 * 3600}


class Launcher(Service):
    """Answers the one request."""

    def do_launch(self, count: int, address: str, log: str, folder: str, meeting: Message) -> Message:
        """Start `count` ranks on this machine and wait for their end; return the exit code of each rank that failed.

        address: the supervisor's socket.
        log: the implementation's log file, beside which each rank gets its own.
        folder: for the launcher's own files.
        meeting: the fields of a `Meeting`.
        """
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import elastic_launch

        where = Meeting(**meeting)
        # On one machine (interface `lo`) no name is looked up and no network is used.
        if where.interface is not None:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", where.interface)
            os.environ.setdefault("NCCL_SOCKET_IFNAME", where.interface)
        os.environ["NCCL_NVLS_ENABLE"] = "0"  # no NVLink multicast
        tempfile.tempdir = folder
        store = self._open_store(where) if where.nodes > 1 and not where.port else None
        port = store.port if store is not None else where.port
        try:
            elastic_launch(launch_config(count, where, port), serve_rank)(address, log)
        except ChildFailedError as error:
            return {"failures": {str(rank): one.exitcode for rank, one in error.failures.items()}}
        return {"failures": {}}

    def _open_store(self, where: Meeting) -> Any:
        """Open the store where all launchers meet, on this machine's address only, and report its port."""
        family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.bind((where.host, 0))
        listening.listen()
        port = listening.getsockname()[1]
        store = dist.TCPStore(  # type: ignore[attr-defined]
            where.host, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
        )
        self.notify(str(port))
        return store


def launch_config(count: int, where: Meeting, port: int) -> Any:
    """The `LaunchConfig` of `count` ranks on this machine, whose store has this port."""
    from torch.distributed.launcher.api import LaunchConfig

    with gpus_untouched():  # LaunchConfig asks for the number of GPUs
        config = LaunchConfig(
            min_nodes=where.nodes,
            max_nodes=where.nodes,
            nproc_per_node=count,
            run_id=where.run_id,
            rdzv_backend="c10d",
            rdzv_endpoint=f"[{where.host}]:{port}" if ":" in where.host else f"{where.host}:{port}",
            rdzv_configs=_SEVERAL if where.nodes > 1 else {},
            local_addr=where.address,
            max_restarts=0,
            monitor_interval=_MONITOR_S,
            start_method="fork",
        )
    # To bind ranks to processors near their GPUs, the launcher would initialise CUDA.
    if hasattr(config, "numa_options"):
        config.numa_options = None
    return config


def serve_rank(address: str, log: str) -> None:
    """Connect as a rank to the supervisor, then serve it as a worker."""
    from aiperf_core.harness.roles import worker

    die_with_parent()  # a launcher that is killed has no time to end its ranks
    rank = int(os.environ["RANK"])
    sys.stdout.flush()
    sys.stderr.flush()
    redirect_output(rank_log(Path(log), rank))
    # Ranks that each use all processors would keep each other from running.
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // int(os.environ["LOCAL_WORLD_SIZE"])))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address)
    channel = Channel(connection)
    channel.send({"rank": rank, "pid": os.getpid()})
    with contextlib.suppress(ChannelClosedError):  # the supervisor is done
        worker.main(channel)


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Launcher(channel).serve()
