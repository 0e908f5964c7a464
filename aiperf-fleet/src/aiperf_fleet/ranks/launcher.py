"""The process that starts the ranks of one implementation on one of several machines, and meets the other launchers."""

import socket
from typing import Any

import torch.distributed as dist

from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.ranks import launcher
from aiperf_fleet.ranks.link import Endpoint
from aiperf_fleet.ranks.meeting import Meeting

# The store is already open. Launchers are stopped together with their ranks, so a silent launcher must not count as
# dead.
_STORE = {"is_host": False, "keep_alive_interval": 24 * 3600}


class Launcher(launcher.Launcher):
    """Answers the one request."""

    def do_launch(self, count: int, folder: str, log: str, interface: str | None = None, **meeting: Any) -> Message:
        """Start `count` ranks on this machine; `interface` and `meeting` are the fields of a `Meeting`."""
        where = Meeting(interface=interface, **meeting)
        store = None if where.port else self._open_store(where.host)
        port = where.port if store is None else store.port
        return super().do_launch(
            count,
            folder,
            log,
            interface,
            min_nodes=where.nodes,
            max_nodes=where.nodes,
            run_id=where.run_id,
            rdzv_endpoint=str(Endpoint(where.host, port)),
            rdzv_configs=_STORE,
            local_addr=where.address,
        )

    def _open_store(self, host: str) -> Any:
        """Open the store where all launchers meet, on this machine's address only, and report its port."""
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        listening.bind((host, 0))
        listening.listen()
        port = listening.getsockname()[1]
        store = dist.TCPStore(  # type: ignore[attr-defined]
            host, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
        )
        self.notify(str(port))
        return store


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Launcher(channel).serve()
