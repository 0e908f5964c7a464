"""Blocks that a multiprocessor of an H200 holds, from the registers and the shared memory that the compiler reports."""

import math

from aiperf_core.errors import SkipError
from aiperf_core.kernels import CudaSource
from aiperf_core.kernels.archs import arch_for, parse_arch
from aiperf_core.kernels.resources import Resources, resources_of, spills_in

GPU = "NVIDIA H200"
MULTIPROCESSORS = 132
# CUDA C++ Programming Guide, compute capability 9.0. Registers are given to warps in units of 256, by each of the four
# schedulers from its own quarter; shared memory in units of 128 bytes, of which the system takes 1 KiB a block.
ARCH = "sm_90"
_BLOCKS, _WARPS, _LANES, _SCHEDULERS = 32, 64, 32, 4
_REGISTERS, _REGISTER_UNIT = 65_536, 256
_SHARED_BYTES, _SHARED_UNIT, _RESERVED_BYTES = 228 * 1024, 128, 1024


def blocks_of(resources: Resources, threads: int, shared_bytes: int) -> int:
    """Blocks that a multiprocessor holds.

    threads: of a block.
    shared_bytes: dynamic shared memory of a block; the static part is among the resources.
    """
    warps = math.ceil(threads / _LANES)
    of_warp = math.ceil(resources.registers * _LANES / _REGISTER_UNIT) * _REGISTER_UNIT
    by_registers = _REGISTERS // _SCHEDULERS // of_warp * _SCHEDULERS if of_warp else _WARPS
    shared = math.ceil((resources.shared_bytes + shared_bytes) / _SHARED_UNIT) * _SHARED_UNIT + _RESERVED_BYTES
    return min(_BLOCKS, min(_WARPS, by_registers) // warps, _SHARED_BYTES // shared)


def resources(source: CudaSource, kernel: str) -> Resources:
    """Resources of a kernel by the compiler. Raises `SkipError` without NVRTC or for a kernel of other architectures.

    Raises `KernelError` as the compiler.

    kernel: its name, or an instance of a template as in C++.
    """
    arch = arch_for(parse_arch(ARCH), source.archs) or ARCH
    compiled = source.compile_instances(arch, [kernel] if "<" in kernel else [])
    known = resources_of(compiled.code, parse_arch(arch), spills_in(compiled.log.decode(errors="replace")))
    symbol = compiled.symbols.get(kernel, kernel)
    if symbol not in known:
        raise SkipError(f"{source.path.name} has no kernel {kernel!r} for {arch}")
    return known[symbol]


def blocks_at_once(source: CudaSource, kernel: str, threads: int, shared_bytes: int) -> tuple[int, int]:
    """Blocks of a kernel that a multiprocessor of an H200 holds, and the number of its multiprocessors."""
    return blocks_of(resources(source, kernel), threads, shared_bytes), MULTIPROCESSORS
