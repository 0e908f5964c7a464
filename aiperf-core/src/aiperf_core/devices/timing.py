"""One timed call, as a device saw it."""

from collections.abc import Callable
from typing import Any, Protocol

from attrs import frozen

from aiperf_core.results.models import Memory


@frozen
class Timed:
    """The result of a call and its times in seconds.

    `device_s` is the GPU's own time and `wall_s` what the caller waited for; a call that was timed in one way has no
    figure for the other. `hidden` says whether the launch was hidden from `device_s` behind a blocking kernel.
    """

    result: Any
    device_s: float | None
    wall_s: float | None
    cpu_s: float
    hidden: bool


class TimingDevice(Protocol):
    """What a worker needs of its device."""

    name: str

    def synchronize(self) -> None:
        """Wait for all work of this process on the device."""

    def flush(self) -> None:
        """Evict the last-level cache, so that the next call finds its inputs in memory."""

    def make_ready(self) -> None:
        """Bring the device into the state in which a call is timed, right before it."""

    def time(self, call: Callable[[], Any], clock: str) -> Timed:
        """Time one call by the `device` or the `wall` clock."""

    def reset_memory(self) -> None:
        """Count memory from here."""

    def memory(self) -> Memory:
        """Memory used since the reset."""


def open_device(name: str, working_set_bytes: int) -> TimingDevice:
    """Return the device of that name. `working_set_bytes` is what a call reads and writes at least."""
    if name == "cuda":
        from aiperf_core.devices.cuda import CudaDevice

        return CudaDevice()
    from aiperf_core.devices.cpu import CpuDevice

    return CpuDevice(working_set_bytes)
