"""The CPU as a kind of device."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf_core.devices.device import DeviceKind, Found, Told
from aiperf_core.devices.sysfs import CACHES, largest_cache_bytes

if TYPE_CHECKING:
    import torch

    from aiperf_core.devices.flush_bound import FlushBound
    from aiperf_core.devices.measuring import Page
    from aiperf_core.devices.timing import TimingDevice

# Twice a smaller cache is written within some milliseconds.
_LARGE_CACHE_BYTES = 64 << 20


class CpuKind(DeviceKind):
    """The CPUs of this machine; processes share memory as an anonymous file."""

    torch_device = "cpu"
    on_host = True
    shares_memory = True
    has_ceilings = True
    confines = True
    ranks = True

    def probe(self) -> Found:
        """The CPU, which is always present."""
        from aiperf_core.devices.host import processor

        return Found(name=processor())

    def fill_ceilings(self, page: "Page", whole: bool) -> str:
        """Measure C loops and torch."""
        from aiperf_core.devices.cpu_ceilings import fill

        return fill(page, whole)

    def fill_group(self, page: "Page", group: str) -> None:
        """Measure random and dependent reads."""
        from aiperf_core.devices.cpu_ceilings import fill_group

        fill_group(page, group)

    def needs_flush_bound(self) -> bool:
        """Where the kernel tells of a large cache."""
        return largest_cache_bytes(Path(CACHES)) > _LARGE_CACHE_BYTES

    def bound_flush(self) -> "FlushBound":
        """By reads of memory that flushes of growing size displace."""
        from aiperf_core.devices import cpu

        cpu.keep_freed_memory()
        return cpu.bound_flush()

    def preload(self) -> None:
        """Import the timing module."""
        from aiperf_core.devices import cpu  # noqa: F401

    def open(self, working_set_bytes: int, *, all_streams: bool) -> "TimingDevice":
        """Time by the monotonic clock."""
        from aiperf_core.devices.cpu import CpuDevice

        return CpuDevice(working_set_bytes, self.flush_bound)

    def join_ranks(self, timeout: timedelta) -> list[Callable[[], None]]:
        """Join the other ranks through gloo."""
        import torch.distributed as dist

        dist.init_process_group("gloo", timeout=timeout)
        return []

    def create_memory(self, size: int, rank: int) -> "tuple[torch.Tensor, Told, tuple[int, ...]]":
        """Create an anonymous file in memory."""
        from aiperf_core.devices import host_memory

        tensor, fd = host_memory.create(size)
        return tensor, {"device": "cpu", "size": size}, (fd,)

    def map_memory(self, told: Told, fd: int | None) -> "torch.Tensor":
        """Map the bytes of that file."""
        from aiperf_core.devices import host_memory

        assert fd is not None
        return host_memory.attach(fd, told["size"])
