"""Compiles CUDA C++ to machine code with NVRTC. It needs no GPU, no CUDA driver and no compiler on the machine.

It does not use `cuda.core.Program`, which up to version 0.5 needs a CUDA driver and accepts only options with a field.
"""

import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import frozen

from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels.diagnostics import compile_error
from aiperf_core.kernels.headers import cuda_include_folders

# The lines of the log about a name expression: NVRTC puts each into a file of this name.
_OF_EXPRESSION = re.compile(r"^__nv_name_map\(\d+\): error: (.*)\n.*nv_mangled_name (.*)$", re.MULTILINE)
INSTALL = "install it with: pip install 'aiperf-core[cuda]'"


@cache
def nvrtc_version() -> tuple[int, int]:
    """The version of NVRTC, which is that of CUDA. Raises `SkipError` when it is not installed."""
    nvrtc = _nvrtc()
    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except Exception as error:  # cuda-pathfinder and cuda-bindings have their own errors for a missing library
        reason = str(error).partition("\n")[0]
        raise SkipError(f"needs NVRTC, the package 'nvidia-cuda-nvrtc' ({reason}); {INSTALL}") from None
    return int(major), int(minor)


@frozen
class Compiled:
    """Machine code (cubin), the log with the resources of kernels, and the symbols of kernels by name expression."""

    code: bytes
    log: bytes
    symbols: dict[str, str]


def compile_cubin(
    path: Path, source: str, arch: str, options: Sequence[str] = (), expressions: Sequence[str] = ()
) -> Compiled:
    """Compile a source for `arch`, such as `sm_90a`, with the instances of templates that `expressions` name.

    `path` is the file of the source; its folder is searched for headers. Raises `CompileError` with the first errors,
    `KernelError` for a name expression that is no kernel, and `SkipError` when NVRTC does not know the architecture.
    """
    _check_known(arch)
    nvrtc, flags = _nvrtc(), _flags(path, arch, options)
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), str(path).encode(), 0, [], [])
    if int(status):
        raise KernelError(f"{path.name}: NVRTC refuses it: {nvrtc.nvrtcGetErrorString(status)[1].decode()}")
    try:
        for expression in expressions:
            nvrtc.nvrtcAddNameExpression(program, expression.encode())
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0")
        if int(status):
            command = ["nvrtc", *flags, str(path)]
            text = log.decode(errors="replace")
            if wrong := _OF_EXPRESSION.search(text):
                raise KernelError(f"kernel '{wrong[2]}' in {path.name} cannot be made for {arch}: {wrong[1]}")
            raise compile_error(path, text, subject=f"{path.name} for {arch}", command=command)
        symbols = {name: nvrtc.nvrtcGetLoweredName(program, name.encode())[1].decode() for name in expressions}
        return Compiled(_read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), log, symbols)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def header_folders(path: Path, options: Sequence[str] = ()) -> list[Path]:
    """The folders of headers for a source at `path`: its own, those of `-I` options, and CUDA's."""
    named = [Path(path.parent, option[2:]) for option in options if option.startswith("-I")]
    return [path.parent, *named, *cuda_include_folders(nvrtc_version()[0])]


def _nvrtc() -> ModuleType:
    try:
        return import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise SkipError(f"needs the package 'cuda-bindings' ({error}); {INSTALL}") from None


def known_archs() -> tuple[str, ...]:
    """The architectures that NVRTC compiles for, exact ones included. Raises `SkipError` when it is not installed."""
    nvrtc_version()
    status, numbers = _nvrtc().nvrtcGetSupportedArchs()
    # `a` came with compute capability 9.0, `f` with 10.0.
    suffixes = [(number, ["", *("a" * (number >= 90)), *("f" * (number >= 100))]) for number in numbers]
    return tuple(f"sm_{number}{suffix}" for number, each in suffixes for suffix in each) if int(status) == 0 else ()


def _check_known(arch: str) -> None:
    major, minor = nvrtc_version()
    known = known_archs()
    if known and arch not in known:
        raise SkipError(f"NVRTC {major}.{minor} does not know {arch}; it knows {known[0]} to {known[-1]}")


def _flags(path: Path, arch: str, options: Sequence[str]) -> list[str]:
    language = [] if any("-std=" in option for option in options) else ["--std=c++17"]
    others = [option for option in options if not option.startswith("-I")]
    folders = [f"--include-path={folder}" for folder in header_folders(path, options)]
    # Only the assembler knows the spills, and `-v` makes it tell them in the log.
    return [f"--gpu-architecture={arch}", "--ptxas-options=-v", *language, *others, *folders]


def _read(size_of: Any, read_into: Any, program: Any) -> bytes:
    _, size = size_of(program)
    # NVRTC writes into these bytes. One extra byte, because Python shares objects of one byte.
    data = bytes(size + 1)
    read_into(program, data)
    return data[:size]
