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
import torch._dynamo  # a rank that makes its first `DistributedDataParallel` would need seconds for it
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import dynamic_rendezvous
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from aiperf_core.harness.processes.channel import Channel, ChannelClosedError, Message
from aiperf_core.harness.processes.fork_server import gpus_untouched, redirect_output
from aiperf_core.harness.processes.parent import end_with_parent
from aiperf_core.harness.processes.service import Service
from aiperf_core.harness.ranks.rank_launcher import rank_log

_MONITOR_S = 0.05


class Launcher(Service):
    """Answers the one request."""

    def do_launch(self, count: int, folder: str, log: str, interface: str | None = "lo", **config: Any) -> Message:
        """Start `count` ranks on this machine and wait for their end; return the exit code of each rank that failed.

        folder: holds the supervisor's socket and the launcher's own files.
        log: the implementation's log file, beside which each rank gets its own.
        interface: the network interface of the ranks; None leaves the choice to the libraries.
        config: see `launch_config`.
        """
        # On one machine (interface `lo`) no name is looked up and no network is used.
        if interface is not None:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
            os.environ.setdefault("NCCL_SOCKET_IFNAME", interface)
        os.environ["NCCL_NVLS_ENABLE"] = "0"  # no NVLink multicast
        tempfile.tempdir = folder
        name_steps_alike()
        try:
            elastic_launch(launch_config(count, **config), serve_rank)(f"{folder}/supervisor", log)
        except ChildFailedError as error:
            return {"failures": {str(rank): one.exitcode for rank, one in error.failures.items()}}
        return {"failures": {}}


def name_steps_alike() -> None:
    """Keep a rendezvous from inspecting the whole stack at each step for a name in a log, a second at each start."""
    if hasattr(dynamic_rendezvous, "get_method_name"):
        dynamic_rendezvous.get_method_name = lambda depth=2: "step"


def launch_config(count: int, **others: Any) -> LaunchConfig:
    """The configuration of `count` ranks on this machine alone. `others` are fields that shall differ from it."""
    fields = {
        "min_nodes": 1,
        "max_nodes": 1,
        "run_id": "aiperf",
        "rdzv_backend": "c10d",
        "rdzv_endpoint": "127.0.0.1:0",
        "local_addr": "127.0.0.1",
        "max_restarts": 0,
        "monitor_interval": _MONITOR_S,
        "start_method": "fork",
    }
    with gpus_untouched():  # LaunchConfig asks for the number of GPUs
        config = LaunchConfig(**{**fields, "nproc_per_node": count, **others})
    # To bind ranks to processors near their GPUs, the launcher would initialise CUDA.
    if hasattr(config, "numa_options"):
        config.numa_options = None
    return config


def serve_rank(address: str, log: str) -> None:
    """Connect as a rank to the supervisor, then serve it as a worker."""
    from aiperf_core.harness.roles import worker

    end_with_parent()  # a launcher that is killed has no time to end its ranks
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


main = Launcher.main
