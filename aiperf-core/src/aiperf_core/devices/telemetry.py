"""The state of the machine beside the samples: clocks, temperature, power, energy, throttling, and who else is busy.

It is read in the supervisor's process, which imports no torch and opens no CUDA context, so that what it says does not come
from the process that is measured. A figure that the machine refuses is None, and the reason stands in `lacking`.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from aiperf_core.devices.nvml import Nvml
from aiperf_core.measurements import Reading


class Telemetry(Protocol):
    """Reads the machine around one device. Not for several threads at once."""

    lacking: dict[str, str]
    """For each figure of a reading that the machine does not give, the reason."""

    def read(self, own_pids: Collection[int] = (), *, light: bool = False) -> Reading:
        """The machine now. `own_pids` are the processes of this run; a light reading leaves out what is slow to ask."""

    def energy_j(self) -> float | None:
        """The running total of energy alone, for those who watch it closely."""

    def power_w(self) -> float | None:
        """The power alone."""

    @property
    def nvml(self) -> Nvml | None:
        """NVML, for what only the one who asks can put together; None where there is none."""

    def close(self) -> None:
        """Let go of the drivers and files."""


def open_telemetry(device: str, uuid: str | None = None) -> Telemetry:
    """Open what reads the machine around a device: `cpu`, `cuda` or `cuda:1`.

    A CUDA device is found as CUDA itself would, by `CUDA_VISIBLE_DEVICES`, or by the UUID that a process which has it open
    tells. Never raises: where nothing can be read, every reading is empty and `lacking` says why.
    """
    from aiperf_core.devices.cpu_telemetry import CpuTelemetry

    processor = CpuTelemetry()
    kind, _, ordinal = device.partition(":")
    if kind != "cuda":
        return processor
    from aiperf_core.devices.gpu_telemetry import GpuTelemetry

    return GpuTelemetry.open(int(ordinal or 0), uuid, processor)


def waiting_s(pid: int, proc: Path = Path("/proc")) -> float | None:
    """How long the living threads of a process were ready to run and had no processor so far, in seconds.

    None where there is no such process, or the kernel does not count it.
    """
    total = 0
    try:
        for task in (proc / str(pid) / "task").iterdir():
            total += int((task / "schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return total / 1e9
