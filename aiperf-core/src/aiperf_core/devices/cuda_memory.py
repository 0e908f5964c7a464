"""GPU memory that several processes map: an allocation, passed on as an IPC handle."""

from typing import Any

import torch

from aiperf_core.errors import AiperfError, SkipError

_LAZY_PEER_ACCESS = 1
# Of a page of a large allocation. An allocation that is no multiple of it may be mapped by another process in small
# pages, and reads there then wait for translations of addresses (CUDA 13.0, driver 580).
PAGE_BYTES = 2 << 20


class _CudaMemory:
    """Device memory in the form that torch adopts: the CUDA array interface."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
            "strides": None,
        }


def create(size: int, device: str) -> tuple[torch.Tensor, str]:
    """`size` bytes as a uint8 tensor, and the handle by which other processes map them. Whole pages are allocated."""
    runtime, _ = cuda_bindings()
    torch.cuda.init()
    torch.zeros(1, device=device)  # makes the context current on this thread
    whole = -(-size // PAGE_BYTES) * PAGE_BYTES
    pointer = int(checked(runtime.cudaMalloc(whole), f"allocating {whole:,} bytes for inputs and outputs"))
    handle = checked(runtime.cudaIpcGetMemHandle(pointer), "sharing memory between processes")
    return torch.as_tensor(_CudaMemory(pointer, size), device=device), bytes(handle.reserved).hex()


def attach(handle: str, size: int, device: str) -> torch.Tensor:
    """Map `size` bytes that another process created, as a uint8 tensor."""
    runtime, _ = cuda_bindings()
    torch.zeros(1, device=device)
    theirs = runtime.cudaIpcMemHandle_t()
    theirs.reserved = bytes.fromhex(handle)
    pointer = int(checked(runtime.cudaIpcOpenMemHandle(theirs, _LAZY_PEER_ACCESS), "mapping the harness's memory"))
    return torch.as_tensor(_CudaMemory(pointer, size), device=device)


def cuda_bindings() -> tuple[Any, Any]:
    """The modules `runtime` and `driver` of cuda-bindings. Raises `SkipError` when the package is missing."""
    try:
        from cuda.bindings import driver, runtime
    except ImportError:
        raise SkipError("needs the package 'cuda-bindings' (pip install 'aiperf-core[cuda]')") from None
    return runtime, driver


def checked(result: tuple[Any, ...], doing: str) -> Any:
    """The value of a CUDA call's result. Raises `AiperfError` for an error status."""
    if int(result[0]) != 0:
        raise AiperfError(f"CUDA failed while {doing}: {result[0]}. See the state of the GPU with: nvidia-smi")
    return result[1] if len(result) > 1 else None
