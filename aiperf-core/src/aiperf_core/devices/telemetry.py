"""Telemetry beside the samples: clocks, temperature, power, energy, throttling, and the load by other processes.

The supervisor reads it, without torch or a CUDA context, so that no figure comes from the measured process. A figure
that the machine does not give is None, and `lacking` has the reason.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from aiperf_core.devices.nvml import Nvml
from aiperf_core.measurements import Reading


class Telemetry(Protocol):
    """Reads the machine around one device; not thread-safe."""

    lacking: dict[str, str]
    """The reason for each figure of a reading that the machine does not give."""

    def read(self, own_pids: Collection[int] = (), *, light: bool = False) -> Reading:
        """Read the machine. `own_pids` are the processes of this run; a light reading omits slow figures."""

    def energy_j(self) -> float | None:
        """The running total of energy in joules; None when unknown."""

    def power_w(self) -> float | None:
        """The power in watts; None when unknown."""

    @property
    def nvml(self) -> Nvml | None:
        """NVML for other questions; None when there is none."""

    def close(self) -> None:
        """Release drivers and files."""


def open_telemetry(device: str, uuid: str | None = None) -> Telemetry:
    """Open the telemetry of a device: `cpu`, `cuda` or `cuda:1`.

    A CUDA device is found by `uuid`, or as CUDA finds it, by `CUDA_VISIBLE_DEVICES`. Never raises: when nothing can be
    read, every reading is empty and `lacking` says why.
    """
    from aiperf_core.devices.cpu_telemetry import CpuTelemetry

    processor = CpuTelemetry()
    kind, _, ordinal = device.partition(":")
    if kind != "cuda":
        return processor
    from aiperf_core.devices.gpu_telemetry import GpuTelemetry

    return GpuTelemetry.open(int(ordinal or 0), uuid, processor)


def waiting_s(pid: int, proc: Path = Path("/proc")) -> float | None:
    """Seconds that the living threads of a process have waited for a CPU while ready to run.

    None when there is no such process, or the kernel does not count it.
    """
    tasks = proc / str(pid) / "task"
    try:
        return sum(int((task / "schedstat").read_text().split()[1]) for task in tasks.iterdir()) / 1e9
    except (OSError, ValueError, IndexError):
        return None
