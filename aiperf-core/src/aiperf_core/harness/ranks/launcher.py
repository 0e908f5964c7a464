"""A process that starts the ranks of one implementation through torch's elastic launcher, and tells how they ended.

It is what `torchrun` is, with one difference: each rank connects to the supervisor by a socket and then serves it as a
worker.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from aiperf_core.harness.processes.channel import Channel, ChannelClosedError, Message
from aiperf_core.harness.processes.fork_server import gpus_untouched
from aiperf_core.harness.processes.service import Service
from aiperf_core.harness.ranks.rank_launcher import Meeting, rank_log

_MONITOR_S = 0.05
# The store is open already. Launchers stop and go on with their ranks, so that none may be held for dead by its silence.
_SEVERAL = {"is_host": False, "keep_alive_interval": 24 * 3600}
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Launcher(Service):
    """The handler of the one request."""

    def do_launch(self, count: int, address: str, log: str, folder: str, meeting: Message) -> Message:
        """Start so many ranks on this machine and wait for their end; how each that failed has ended.

        `address` is that of the supervisor's socket, `log` the implementation's file, beside which each rank gets one for what
        it prints, `folder` is for what the launcher keeps. `meeting` has the fields of a `Meeting`.
        """
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import elastic_launch

        where = Meeting(**meeting)
        # Of one machine: no name is looked up and no network is used. No NVLink multicast.
        if where.interface is not None:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", where.interface)
            os.environ.setdefault("NCCL_SOCKET_IFNAME", where.interface)
        os.environ["NCCL_NVLS_ENABLE"] = "0"
        # Where the launcher keeps a folder of its own.
        tempfile.tempdir = folder
        store = self._open_store(where) if where.nodes > 1 and not where.port else None
        port = store.port if store is not None else where.port
        try:
            elastic_launch(launch_config(count, where, port), serve_rank)(address, log)
        except ChildFailedError as error:
            return {"failures": {str(rank): one.exitcode for rank, one in error.failures.items()}}
        return {"failures": {}}

    def _open_store(self, where: Meeting) -> Any:
        """Open the store at which the launchers of all machines meet, on this machine's address alone, and tell its port."""
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
    """The `LaunchConfig` of so many ranks on this machine, which meet at a port.

    To make one asks for the number of GPUs.
    """
    from torch.distributed.launcher.api import LaunchConfig

    with gpus_untouched():
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
    # A rank for each GPU would be bound to processors near it, for which the launcher would look at the GPU.
    if hasattr(config, "numa_options"):
        config.numa_options = None
    return config


def serve_rank(address: str, log: str) -> None:
    """Be a rank: say which, then serve the supervisor as a worker."""
    from aiperf_core.harness.roles import worker

    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # the launcher may be killed and have no time to end its ranks
    rank = int(os.environ["RANK"])
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    out = os.open(rank_log(Path(log), rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    # The processors are shared fairly; ranks that each take all of them keep each other from running.
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // int(os.environ["LOCAL_WORLD_SIZE"])))
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address)
    channel = Channel(connection)
    channel.send({"rank": rank, "pid": os.getpid()})
    with contextlib.suppress(ChannelClosedError):  # the supervisor has all that it wants
        worker.main(channel)


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Launcher(channel).serve()
