"""Memory that the judge owns and the workers map: the inputs at fixed addresses, and the place where outputs go.

On the CPU an arena is an anonymous file in memory, passed on as a descriptor; on a GPU it is a plain allocation, passed
on as an IPC handle. Either way the judge writes new values straight into the memory that a worker's code reads, and the
worker's process knows neither the seed nor how the values are made.
"""

import fcntl
import mmap
import os
from typing import Any

import torch

from aiperf_core.errors import AiperfError, SkipError
from aiperf_core.harness.channel import Message

_LAZY_PEER_ACCESS = 1


class _CudaMemory:
    """Device memory in the form in which torch adopts foreign allocations."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
            "strides": None,
        }


def create(size: int, device: str) -> tuple[torch.Tensor, Message, tuple[int, ...]]:
    """Allocate an arena. Return its bytes as a uint8 tensor, and the message and descriptors that let others map it."""
    size = max(size, 1)
    if device == "cpu":
        fd = os.memfd_create("aiperf-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        # A worker that shrank it would kill the judge at its next access, by SIGBUS.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        return _map(fd, size), {"device": device, "size": size}, (fd,)
    runtime = _cuda_runtime()
    torch.cuda.init()
    torch.zeros(1, device=device)  # makes the context current on this thread
    pointer = int(_checked(runtime.cudaMalloc(size), f"allocating {size:,} bytes for inputs and outputs"))
    handle = _checked(runtime.cudaIpcGetMemHandle(pointer), "sharing memory between processes")
    tensor = torch.as_tensor(_CudaMemory(pointer, size), device=device)
    return tensor, {"device": device, "size": size, "handle": bytes(handle.reserved).hex()}, ()


def attach(message: Message, fd: int | None) -> torch.Tensor:
    """Map an arena that another process created; its bytes as a uint8 tensor. `fd` is its descriptor on the CPU."""
    if fd is not None:
        return _map(fd, message["size"])
    runtime = _cuda_runtime()
    torch.zeros(1, device=message["device"])
    handle = runtime.cudaIpcMemHandle_t()
    handle.reserved = bytes.fromhex(message["handle"])
    pointer = int(_checked(runtime.cudaIpcOpenMemHandle(handle, _LAZY_PEER_ACCESS), "mapping the harness's memory"))
    return torch.as_tensor(_CudaMemory(pointer, message["size"]), device=message["device"])


def _map(fd: int, size: int) -> torch.Tensor:
    # Populated at once, so that no timed call pays for the first touch of a page of its inputs.
    memory = mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
    return torch.frombuffer(memory, dtype=torch.uint8)


def _cuda_runtime() -> Any:
    try:
        from cuda.bindings import runtime
    except ImportError:
        raise SkipError("needs the package 'cuda-bindings' (pip install 'aiperf-core[cuda]')") from None
    return runtime


def _checked(result: tuple[Any, ...], doing: str) -> Any:
    if int(result[0]) != 0:
        raise AiperfError(f"CUDA failed while {doing}: {result[0]}. See the state of the GPU with: nvidia-smi")
    return result[1] if len(result) > 1 else None
