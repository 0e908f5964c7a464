"""Finds the NVIDIA GPUs of this machine without torch. This module never raises."""

import ctypes
import os
from pathlib import Path
from typing import Any

from attrs import frozen

from aiperf_core.devices.gpus import capability
from aiperf_core.devices.nvml import NvmlMissingError, session


@frozen
class Gpu:
    """A GPU, from its driver. `capability` is the compute capability, such as '9.0'."""

    name: str
    memory_bytes: int
    capability: str


@frozen
class Nvidia:
    """The NVIDIA driver and its GPUs. `problem` says why there are none; it is empty otherwise."""

    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...] = ()
    problem: str = ""


def has_cuda_device() -> bool:
    """Whether a CUDA program would find a device."""
    # CUDA reads this list up to its first invalid entry: an empty list or a leading -1 hides every device.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and (not visible.strip() or visible.strip().startswith("-1")):
        return False
    found = nvidia()
    # Some embedded boards have CUDA but no NVML.
    return bool(found.gpus) or (not found.driver and _count_through_libcuda() > 0)


def nvidia() -> Nvidia:
    """The driver and the GPUs from NVML, which opens no CUDA context and disturbs no GPU work."""
    try:
        with session() as nvml:
            return _described(nvml.module)
    except NvmlMissingError as missing:
        return Nvidia(problem=str(missing) if missing.library else _why_no_driver())


def _described(nvml: Any) -> Nvidia:
    try:
        cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
        gpus = tuple(_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
        return Nvidia(
            driver=nvml.nvmlSystemGetDriverVersion(),
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
            gpus=gpus,
            problem="" if gpus else "the NVIDIA driver is loaded but reports no GPU",
        )
    except nvml.NVMLError as error:
        return Nvidia(problem=f"the NVIDIA driver answers with an error: {error}")


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    return Gpu(
        nvml.nvmlDeviceGetName(handle),
        nvml.nvmlDeviceGetMemoryInfo(handle).total,
        capability(nvml.nvmlDeviceGetCudaComputeCapability(handle)),
    )


def _why_no_driver() -> str:
    """Why there is no driver: the PCI bus shows whether there is a GPU."""
    nvidia_vendor, display = "0x10de", "0x03"
    for device in Path("/sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == nvidia_vendor and kind.startswith(display):
            return "an NVIDIA GPU is in this machine but its driver is not loaded"
    return "no NVIDIA GPU was found"


def _count_through_libcuda() -> int:
    try:
        libcuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    started = libcuda.cuInit(0) == 0
    return count.value if started and libcuda.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0
