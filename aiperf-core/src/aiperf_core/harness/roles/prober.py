"""A process that looks at a device and measures its ceilings; the supervisor itself never touches torch."""

from pathlib import Path

from attrs import asdict

from aiperf_core.devices import ceilings, links
from aiperf_core.devices.device import Device
from aiperf_core.harness.processes.channel import Channel, Message
from aiperf_core.harness.processes.service import Service


class Prober(Service):
    """The handler of a prober's requests."""

    def do_probe(self, device: Message) -> Message:
        """What is here of a device; raises `SkipError` with the reason where nothing is."""
        return asdict(Device(**device).resolve().probe())

    def do_confined_cuda(self, scratch: str, without: list[str]) -> str:
        """Confine this process as a candidate's would be and see whether the GPU works then; the reason where not, or ''."""
        from aiperf_core.harness.isolation.sandbox import Limits, confine

        confine(Limits(Path(scratch), (self._channel.fileno(),), cuda=True, without=tuple(without)))
        import torch

        try:
            return "" if float(torch.ones(1, device="cuda").sum()) == 1.0 else "it computes wrongly"
        except Exception as error:
            return (str(error).splitlines() or [type(error).__name__])[0]

    def do_ceilings(self, device: Message, whole: bool) -> Message:
        """Measure what the device reaches; a notice says what comes next."""
        return ceilings.measure(Device(**device).resolve(), whole, self.notify)

    def do_all_reduce(self, device: str, rank: int, world: int, store: str) -> Message:
        """Take part in all-reduces as one rank of several; bus bandwidth by number of ranks, and how."""
        return {count: list(best) for count, best in links.all_reduce(device, rank, world, store).items()}


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Prober(channel).serve()
