"""A kernel that launches another one from the GPU, which needs CUDA's device runtime linked to it."""

import ctypes
import glob
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from aiperf_core.errors import SkipError

_FILE = Path(__file__).parent / "kernels" / "child_grids.cu"


def child_grids() -> Callable[..., None]:
    """Return `parent(x, out, steps, last_ns, stream)`: a launch whose child lasts so long at least.

    Raises `SkipError` where the device runtime is not installed, or cannot be linked here.
    """
    try:
        from cuda.bindings import driver
    except ImportError:
        raise SkipError("needs the package 'cuda-bindings' (pip install 'aiperf-core[cuda]')") from None
    library = next(_libraries(), None)
    if library is None:
        raise SkipError("needs libcudadevrt.a, which comes with the CUDA toolkit (looked in $CUDA_HOME and /usr/local)")
    major, minor = torch.cuda.get_device_capability()
    try:
        cubin = _linked(driver, relocatable(f"sm_{major}{minor}"), library)
    except RuntimeError as error:
        raise SkipError(f"needs a driver that links what NVRTC compiled with {library}: {error}") from None
    module = _checked(driver.cuModuleLoadData(cubin))
    kernel = _checked(driver.cuModuleGetFunction(module, b"parent"))

    def parent(x: torch.Tensor, out: torch.Tensor, steps: int, last_ns: int, stream: torch.cuda.Stream) -> None:
        types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int, ctypes.c_ulonglong)
        values = (x.data_ptr(), out.data_ptr(), x.numel(), steps, last_ns)
        _checked(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream.cuda_stream, (values, types), 0))

    return parent


def relocatable(arch: str) -> bytes:
    """Machine code of the two kernels, to be linked with the device runtime. Needs no GPU."""
    from cuda.bindings import nvrtc

    program = _checked(nvrtc.nvrtcCreateProgram(_FILE.read_bytes(), b"child_grids.cu", 0, [], []))
    options = [f"--gpu-architecture={arch}".encode(), b"--relocatable-device-code=true"]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(error) != 0:
        log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise SkipError(f"needs an NVRTC that takes launches on the device: {log.decode(errors='replace').strip()}")
    code = b" " * int(_checked(nvrtc.nvrtcGetCUBINSize(program)))
    _checked(nvrtc.nvrtcGetCUBIN(program, code))
    return code


def _linked(driver: Any, cubin: bytes, library: str) -> bytes:
    state = _checked(driver.cuLinkCreate(0, [], []))
    kinds = driver.CUjitInputType
    _checked(driver.cuLinkAddData(state, kinds.CU_JIT_INPUT_CUBIN, cubin, len(cubin), b"child_grids", 0, [], []))
    _checked(driver.cuLinkAddFile(state, kinds.CU_JIT_INPUT_LIBRARY, library.encode(), 0, [], []))
    pointer, size = _checked(driver.cuLinkComplete(state))
    linked = ctypes.string_at(int(pointer), int(size))
    _checked(driver.cuLinkDestroy(state))
    return linked


def _libraries() -> Iterator[str]:
    homes = filter(
        None, (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), *sorted(glob.glob("/usr/local/cuda*")))
    )
    for home in homes:
        for pattern in ("lib64", "lib", "targets/*/lib"):
            yield from glob.glob(f"{home}/{pattern}/libcudadevrt.a")


def _checked(result: tuple[Any, ...]) -> Any:
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(f"CUDA failed: {error}")
    return values[0] if len(values) == 1 else tuple(values)
