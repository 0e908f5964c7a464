"""A process that probes a device and measures its ceilings, since the supervisor never imports torch."""

from pathlib import Path
from typing import Any

from attrs import asdict

from aiperf_core.devices import ceilings, links
from aiperf_core.devices.device import Device
from aiperf_core.harness.processes.channel import Message
from aiperf_core.harness.processes.service import Service


class Prober(Service):
    """Answers a prober's requests."""

    def do_probe(self, device: Message) -> Message:
        """The device's `Found` record. Raises `SkipError` with the reason where there is no device."""
        return asdict(Device(**device).resolve().probe())

    def do_confined_cuda(self, scratch: str, without: list[str]) -> str:
        """Confine this process like a candidate's and try the GPU. Return the reason if it does not work, else ''."""
        from aiperf_core.harness.isolation.sandbox import Limits, confine

        confine(Limits(Path(scratch), (self._channel.fileno(),), cuda=True, without=tuple(without)))
        import torch

        try:
            return "" if float(torch.ones(1, device="cuda").sum()) == 1.0 else "its sum of ones is wrong"
        except Exception as error:
            return (str(error).splitlines() or [type(error).__name__])[0]

    def do_ceilings(self, device: Message, whole: bool) -> Message:
        """Measure the device's ceilings; a notice announces each measurement."""
        return ceilings.measure(Device(**device).resolve(), whole, self.notify)

    def do_ceilings_of(self, device: Message, groups: list[str]) -> Message:
        """Measure the figures of groups (`wire`, `disk`); a notice announces each measurement."""
        return ceilings.measure_groups(Device(**device).resolve(), groups, self.notify)

    def do_bound_flush(self, device: Message) -> Message:
        """Measure how much a flush of the caches must write; the fields of a `FlushBound`."""
        return asdict(Device(**device).resolve().bound_flush())

    def do_loopback(self, rank: int, store: str, memory: str) -> list[Any]:
        """Take part in transfers between two processes as one rank; rank 0 returns the best rate and its method."""
        return list(links.loopback(rank, store, memory) or ())

    def do_all_reduce(self, device: str, rank: int, world: int, store: str) -> Message:
        """Take part in all-reduces as one rank; the best bus bandwidth by number of ranks, and its method."""
        return {count: list(best) for count, best in links.all_reduce(device, rank, world, store).items()}


main = Prober.main
