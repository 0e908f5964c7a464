"""The GPUs of this machine as NVML describes them. Everything is read and nothing is ever set."""

from collections.abc import Callable
from typing import Any

MHZ = 1_000_000  # NVML counts clocks in MHz and power in mW


def gpus() -> tuple[list[dict[str, Any]], str | None]:
    """Every GPU and the driver's version; none and None where there is no driver. What a GPU does not tell is None."""
    try:
        import pynvml
    except ImportError:
        return [], None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return [], None
    try:
        count = _ask(pynvml, pynvml.nvmlDeviceGetCount) or 0
        return [_gpu(pynvml, index) for index in range(count)], _ask(pynvml, pynvml.nvmlSystemGetDriverVersion)
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> dict[str, Any]:
    handle = _ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:  # one that fell off the bus still counts
        return {"index": index}

    def ask(function: str, *arguments: Any) -> Any:
        return _ask(nvml, getattr(nvml, function, None), handle, *arguments)

    memory, capability = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetCudaComputeCapability")
    return {
        "index": index,
        "name": ask("nvmlDeviceGetName"),
        "uuid": ask("nvmlDeviceGetUUID"),
        "memory_bytes": memory.total if memory else None,
        "capability": f"{capability[0]}.{capability[1]}" if capability else None,
        "cores": ask("nvmlDeviceGetNumGpuCores"),
        "power_limit_w": _scaled(ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
        "sm_clock_hz": _scaled(ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM), MHZ),
        "sm_clock_max_hz": _scaled(ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM), MHZ),
        "memory_clock_hz": _scaled(ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM), MHZ),
        "memory_clock_max_hz": _scaled(ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM), MHZ),
        "temperature_c": ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        "mig": _is_on(ask("nvmlDeviceGetMigMode")),
        "persistence": _is_on(ask("nvmlDeviceGetPersistenceMode")),
        "ecc": _is_on(ask("nvmlDeviceGetEccMode")),
    }


def _ask(nvml: Any, function: Callable[..., Any] | None, *arguments: Any) -> Any:
    """One answer, or None: boards and driver versions differ in what they tell."""
    if function is None:
        return None
    try:
        answer = function(*arguments)
    except nvml.NVMLError:
        return None
    return answer.decode() if isinstance(answer, bytes) else answer  # nvidia-ml-py before 11.5 returned bytes


def _scaled(value: int | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _is_on(mode: Any) -> bool | None:
    """Modes come as a number, or as a pair of the current and the pending one."""
    if isinstance(mode, list | tuple):
        mode = mode[0]
    return None if mode is None else bool(mode)
