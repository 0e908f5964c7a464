"""An observer: a process that times untrusted code from outside, where a processor is free for it."""

import os

from attrs import asdict

from aiperf_core.harness.isolation.observed_page import ObservedPage
from aiperf_core.harness.isolation.observer import observe
from aiperf_core.harness.isolation.process_group import ProcessGroup
from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.processes.fork_server import hide_from_tracers
from aiperf_core.harness.processes.service import Service


class Observer(Service):
    """Answers an observer's requests."""

    def do_observe(self, pid: int, timeout_s: float, free: list[int], fds: tuple[int, ...] = ()) -> Message:
        """Release the sample of a stopped process, time it, and stop the process: the fields of an `Observed`.

        free: the processors to run on, to which no worker is pinned; none for all.
        fds: the descriptor of the page that the process maps.
        """
        if free:
            os.sched_setaffinity(0, free)
        (fd,) = fds
        page, group = ObservedPage(fd), ProcessGroup(pid)
        try:
            return asdict(observe(page, group, timeout_s))
        finally:
            page.close()


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    hide_from_tracers()
    Observer(channel).serve()
