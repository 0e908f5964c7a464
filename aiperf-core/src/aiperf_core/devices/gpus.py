"""The GPUs of this machine from NVML. This module reads only."""

from typing import Any

from aiperf_core.devices.nvml import Nvml, NvmlMissingError, scaled, session

MHZ = 1_000_000


def gpus() -> tuple[list[dict[str, Any]], str | None]:
    """All GPUs and the version of the driver; none and None without a driver. Unknown facts of a GPU are None."""
    try:
        with session() as nvml:
            count = nvml.ask("nvmlDeviceGetCount") or 0
            return [_gpu(nvml, index) for index in range(count)], nvml.ask("nvmlSystemGetDriverVersion")
    except NvmlMissingError:
        return [], None


def capability(pair: tuple[int, int]) -> str:
    """The compute capability in print: '9.0'."""
    return f"{pair[0]}.{pair[1]}"


def _gpu(nvml: Nvml, index: int) -> dict[str, Any]:
    handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
    if handle is None:  # a GPU that fell off the bus still counts
        return {"index": index}

    def ask(function: str, *arguments: Any) -> Any:
        return nvml.ask(function, handle, *arguments)

    memory, pair = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetCudaComputeCapability")
    sm, mem = nvml.module.NVML_CLOCK_SM, nvml.module.NVML_CLOCK_MEM
    return {
        "index": index,
        "name": ask("nvmlDeviceGetName"),
        "uuid": ask("nvmlDeviceGetUUID"),
        "memory_bytes": memory.total if memory else None,
        "capability": capability(pair) if pair else None,
        "cores": ask("nvmlDeviceGetNumGpuCores"),
        "power_limit_w": scaled(ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
        "sm_clock_hz": scaled(ask("nvmlDeviceGetClockInfo", sm), MHZ),
        "sm_clock_max_hz": scaled(ask("nvmlDeviceGetMaxClockInfo", sm), MHZ),
        "memory_clock_hz": scaled(ask("nvmlDeviceGetClockInfo", mem), MHZ),
        "memory_clock_max_hz": scaled(ask("nvmlDeviceGetMaxClockInfo", mem), MHZ),
        "temperature_c": ask("nvmlDeviceGetTemperature", nvml.module.NVML_TEMPERATURE_GPU),
        "mig": _is_on(ask("nvmlDeviceGetMigMode")),
        "persistence": _is_on(ask("nvmlDeviceGetPersistenceMode")),
        "ecc": _is_on(ask("nvmlDeviceGetEccMode")),
    }


def _is_on(mode: Any) -> bool | None:
    """Whether a mode is on: NVML returns a number, or a pair of the current and the pending mode."""
    if isinstance(mode, list | tuple):
        mode = mode[0]
    return None if mode is None else bool(mode)
