"""Telemetry of an NVIDIA GPU from NVML, beside that of the CPUs."""

import os
import time
from collections.abc import Collection
from typing import Any

from attrs import evolve

from aiperf_core.devices.cpu_telemetry import CpuTelemetry
from aiperf_core.devices.gpus import MHZ
from aiperf_core.devices.nvml import Nvml, NvmlMissingError, scaled
from aiperf_core.measurements import Reading

# The bits of NVML's clocks event reasons, named as in its header. Only newer drivers have the last two.
REASONS = {
    0x001: "idle",
    0x002: "clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
_IDLE = 0x001

_GPU_FIGURES = ("sm_clock_hz", "memory_clock_hz", "temperature_c", "power_w", "energy_j", "throttled", "other_pids")
# NVML renamed functions over time: the first that answers counts.
_FUNCTIONS = {
    "sm_clock_hz": ("nvmlDeviceGetClockInfo",),
    "memory_clock_hz": ("nvmlDeviceGetClockInfo",),
    "temperature_c": ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"),
    "power_w": ("nvmlDeviceGetPowerUsage",),
    "energy_j": ("nvmlDeviceGetTotalEnergyConsumption",),
    "throttled": ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
    "other_pids": ("nvmlDeviceGetComputeRunningProcesses",),
}
_KINDS = ("GPU-", "MIG-")
_WHOLE_BOARD = "MIG splits this GPU, and the driver counts the whole board"


class GpuTelemetry:
    """One GPU and the CPUs.

    gpu: the handle of the board; None when it was not found.
    instance: the handle of the MIG instance on it; None without MIG.
    processor: the telemetry of the CPUs.
    problem: why there is no handle.
    """

    def __init__(self, nvml: Nvml | None, gpu: Any, instance: Any, processor: CpuTelemetry, problem: str = "") -> None:
        self.lacking = {name: why for name, why in processor.lacking.items() if name.startswith(("cpu", "steal"))}
        self._nvml, self._gpu, self._instance, self._processor = nvml, gpu, instance, processor
        if gpu is None:
            self.lacking |= dict.fromkeys(_GPU_FIGURES, problem)
        elif instance is not None:
            self.lacking |= {"power_w": _WHOLE_BOARD, "energy_j": _WHOLE_BOARD}

    @staticmethod
    def open(ordinal: int, uuid: str | None, processor: CpuTelemetry) -> "GpuTelemetry":
        """The GPU with CUDA's number `ordinal` in this environment, or with that UUID. Never raises."""
        try:
            nvml = Nvml.start()
        except NvmlMissingError as missing:
            return GpuTelemetry(None, None, None, processor, f"NVML cannot be asked: {missing}")
        try:
            return GpuTelemetry(nvml, *find(nvml, ordinal, uuid), processor)
        except LookupError as error:
            return GpuTelemetry(nvml, None, None, processor, str(error))

    def read(self, own_pids: Collection[int] = (), *, light: bool = False) -> Reading:
        """Read the machine. A light reading has clocks and throttling of the GPU, and the light figures of the CPUs."""
        at = time.monotonic()
        # First: the traces of finished work in the clocks fade quickly.
        sm, memory = self._ask("sm_clock_hz", "NVML_CLOCK_SM"), self._ask("memory_clock_hz", "NVML_CLOCK_MEM")
        mask = self._ask("throttled")
        processor = self._processor.read(own_pids, light=light)
        return evolve(
            processor,
            at_s=at,
            sm_clock_hz=scaled(sm, MHZ),
            memory_clock_hz=scaled(memory, MHZ),
            throttled=None if mask is None else (*reasons(mask), *(processor.throttled or ())),
            temperature_c=None if light else scaled(self._ask("temperature_c", "NVML_TEMPERATURE_GPU"), 1.0),
            power_w=None if light else self.power_w(),
            energy_j=None if light else self.energy_j(),
            other_pids=None if light else self._others(own_pids),
        )

    @property
    def nvml(self) -> Nvml | None:
        """NVML; None when it does not answer."""
        return self._nvml

    def energy_j(self) -> float | None:
        """The energy of the board in joules since its driver was loaded."""
        return scaled(self._ask("energy_j"), 1e-3)

    def power_w(self) -> float | None:
        """The power of the board in watts; from Ampere on (except the A100) the driver averages over a second."""
        return scaled(self._ask("power_w"), 1e-3)

    def close(self) -> None:
        """Release NVML."""
        if self._nvml is not None:
            self._nvml.stop()
            self._nvml, self._gpu = None, None
        self._processor.close()

    def _ask(self, figure: str, *constants: str, of: Any = None) -> Any:
        if self._nvml is None or self._gpu is None or self.lacking.get(figure) == _WHOLE_BOARD:
            return None
        arguments = [getattr(self._nvml.module, constant) for constant in constants]
        for function in _FUNCTIONS[figure]:
            answer = self._nvml.ask(function, self._gpu if of is None else of, *arguments)
            if answer is not None:
                return answer
        self.lacking.setdefault(figure, f"NVML: {self._nvml.refused[function]}")
        return None

    def _others(self, own_pids: Collection[int]) -> tuple[int, ...] | None:
        """The pids of other processes that compute on the GPU; None when unknown.

        In a container the driver lists pids of the host, or none. The list therefore counts only if it has a pid of
        this run.
        """
        listed = self._ask("other_pids", of=self._instance)
        if listed is None:
            return None
        pids = {int(one.pid) for one in listed}
        if pids.isdisjoint(own_pids):
            self.lacking["other_pids"] = "the driver lists no process of this run: its pids are of another namespace"
            return None
        self.lacking.pop("other_pids", None)
        return tuple(sorted(pids.difference(own_pids)))


def reasons(mask: int) -> tuple[str, ...]:
    """The names of the set bits of NVML's clocks event reasons, without idle. An unknown bit is named by its value."""
    bits = (1 << place for place in range(mask.bit_length()))
    return tuple(REASONS.get(bit, f"reason_{bit:#x}") for bit in bits if mask & bit and bit != _IDLE)


def find(nvml: Nvml, ordinal: int = 0, uuid: str | None = None) -> tuple[Any, Any]:
    """Find the board with CUDA's number `ordinal` or with a UUID, and its MIG instance if it has one.

    Raises `LookupError` when CUDA would see no such device, or its numbering is unknown.
    """
    if uuid is not None:
        return _by_uuid(nvml, uuid)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return _by_index(nvml, ordinal)
    entries = [entry.strip() for entry in visible.split(",")]
    found: tuple[Any, Any] | None = None
    # An invalid entry hides itself and all later entries.
    for entry in entries[: ordinal + 1]:
        if entry.isdecimal():
            found = _by_index(nvml, int(entry))
        elif entry.startswith(_KINDS):
            found = _by_uuid(nvml, entry)
        else:
            found = None
            break
    if found is None or ordinal >= len(entries):
        raise LookupError(f"CUDA_VISIBLE_DEVICES={visible!r} shows no device {ordinal}")
    return found


def _by_index(nvml: Nvml, index: int) -> tuple[Any, Any]:
    """The GPU of CUDA's number. NVML counts along the PCI bus; CUDA starts with the fastest GPU by default."""
    gpus = [nvml.ask("nvmlDeviceGetHandleByIndex", one) for one in range(nvml.ask("nvmlDeviceGetCount") or 0)]
    if index >= len(gpus) or gpus[index] is None:
        raise LookupError(f"there is no GPU {index}; NVML counts {len(gpus)}")
    alike = len({nvml.ask("nvmlDeviceGetName", gpu) for gpu in gpus}) == 1
    if not alike and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise LookupError(
            "this machine has GPUs of several kinds, which CUDA orders by speed and NVML by place; "
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name a GPU by its UUID in CUDA_VISIBLE_DEVICES"
        )
    # CUDA takes the first instance of a GPU that MIG splits.
    return gpus[index], next(iter(_instances(nvml, gpus[index])), None)


def _by_uuid(nvml: Nvml, uuid: str) -> tuple[Any, Any]:
    """The GPU, or the MIG instance and its GPU, of a UUID or of an unambiguous prefix.

    CUDA tells UUIDs without their kind.
    """
    wanted = (uuid,) if uuid.startswith(_KINDS) else tuple(kind + uuid for kind in _KINDS)
    matches: list[tuple[Any, Any]] = []
    for index in range(nvml.ask("nvmlDeviceGetCount") or 0):
        gpu = nvml.ask("nvmlDeviceGetHandleByIndex", index)
        name = nvml.ask("nvmlDeviceGetUUID", gpu) if gpu is not None else None
        if name is None:
            continue
        instances = _instances(nvml, gpu)
        if name.startswith(wanted):
            matches.append((gpu, next(iter(instances), None)))
        matches += [(gpu, one) for one in instances if any(_is_instance(nvml, one, name, text) for text in wanted)]
    if len(matches) != 1:
        raise LookupError(
            f"{'several GPUs have' if matches else 'there is no GPU with'} a UUID that begins with {uuid!r}"
        )
    return matches[0]


def _is_instance(nvml: Nvml, instance: Any, gpu_uuid: str, wanted: str) -> bool:
    if (nvml.ask("nvmlDeviceGetUUID", instance) or "").startswith(wanted):
        return True
    # The older form: the UUID of the board, and the two numbers of the instance.
    parts = (nvml.ask(f"nvmlDeviceGet{part}InstanceId", instance) for part in ("Gpu", "Compute"))
    return wanted == "/".join((f"MIG-{gpu_uuid}", *map(str, parts)))


def _instances(nvml: Nvml, gpu: Any) -> list[Any]:
    mode = nvml.ask("nvmlDeviceGetMigMode", gpu)
    if not mode or not mode[0]:
        return []
    every = (
        nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", gpu, index)
        for index in range(nvml.ask("nvmlDeviceGetMaxMigDeviceCount", gpu) or 0)
    )
    return [one for one in every if one is not None]
