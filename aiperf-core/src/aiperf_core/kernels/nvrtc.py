"""Compiles CUDA C++ to machine code with NVRTC, through cuda-core. Needs no GPU and no compiler on the machine."""

import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from aiperf_core.errors import KernelError, SkipError, UsageError
from aiperf_core.kernels.archs import parse_arch
from aiperf_core.kernels.diagnostics import summary
from aiperf_core.kernels.headers import cuda_include_folders

INSTALL = "install it with: pip install 'aiperf-core[cuda]'"
_FLAGS = {
    "use_fast_math": "use_fast_math",
    "lineinfo": "lineinfo",
    "generate-line-info": "lineinfo",
    "extra-device-vectorization": "extra_device_vectorization",
    "restrict": "restrict",
    "device-int128": "device_int128",
}
_SWITCHES = {"ftz": "ftz", "fmad": "fma", "prec-div": "prec_div", "prec-sqrt": "prec_sqrt"}
_LISTS = {"D": "define_macro", "I": "include_path", "ptxas-options": "ptxas_options"}
_OPTION = re.compile(r"-(?P<letter>[DI])(?P<rest>.+)|--?(?P<name>[\w-]+)(?:=(?P<value>.+))?")
ACCEPTED = (
    "-DNAME[=VALUE], -IFOLDER, --use_fast_math, -lineinfo, --maxrregcount=N, --std=c++20, --ptxas-options=OPTION, "
    "--ftz=true, --fmad=false, --prec-div=false, --prec-sqrt=false, --extra-device-vectorization, --restrict, "
    "--device-int128"
)


@cache
def cuda_core() -> ModuleType:
    """Return the module that holds `Program`: `cuda.core`, or `cuda.core.experimental` in its older versions.

    Raises `SkipError` where the package, or the cuda-bindings under it, is missing.
    """
    try:
        module = import_module("cuda.core")
        return module if hasattr(module, "Program") else import_module("cuda.core.experimental")
    except ImportError as error:
        raise SkipError(f"needs the package 'cuda-core' ({error}); {INSTALL}") from None


@cache
def nvrtc_version() -> tuple[int, int]:
    """Return NVRTC's version, which is that of CUDA. Raises `SkipError` where NVRTC is not installed."""
    cuda_core()
    nvrtc = import_module("cuda.bindings.nvrtc")
    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except Exception as error:  # cuda-pathfinder and cuda-bindings each raise errors of their own for a missing library
        reason = str(error).partition("\n")[0]
        raise SkipError(f"needs NVRTC, the package 'nvidia-cuda-nvrtc' ({reason}); {INSTALL}") from None
    return int(major), int(minor)


def compile_cubin(path: Path, source: str, arch: str, options: Sequence[str] = ()) -> bytes:
    """Return the machine code (cubin) of this source for `arch`, such as `sm_90a`.

    `path` is where the source was read: its folder is searched for headers, and error messages name it. Raises
    `KernelError` with the first errors, and `SkipError` where this NVRTC does not know the architecture.
    """
    _check_known(arch)
    core = cuda_core()
    try:
        chosen = core.ProgramOptions(name=str(path), arch=arch, **_program_options(path, options))
        compiled = core.Program(source, "c++", chosen).compile("cubin")
    except TypeError as error:
        raise KernelError(f"{path.name}: this version of cuda-core does not take its options: {error}") from None
    except Exception as error:  # cuda-core keeps its exception types private
        log = str(error).partition("compilation log:")[2] or str(error)
        raise KernelError(f"{path.name} does not compile for {arch}:\n{summary(log)}") from None
    return bytes(compiled.code)


def header_folders(path: Path, options: Sequence[str] = ()) -> list[Path]:
    """Return where a source at `path` may include headers from: its folder, its `-I` folders, CUDA's own."""
    named = [Path(path.parent, option[2:]) for option in options if option.startswith("-I")]
    return [path.parent, *named, *cuda_include_folders(nvrtc_version()[0])]


def _check_known(arch: str) -> None:
    major, minor = nvrtc_version()
    error, known = import_module("cuda.bindings.nvrtc").nvrtcGetSupportedArchs()
    if int(error) == 0 and parse_arch(arch).number not in known:
        raise SkipError(f"NVRTC {major}.{minor} does not know {arch}; it knows sm_{known[0]} to sm_{known[-1]}")


def _program_options(path: Path, options: Sequence[str]) -> dict[str, Any]:
    """Translate NVRTC's options into the fields of `ProgramOptions`, which takes none as text."""
    fields: dict[str, Any] = {"std": "c++17"}
    for option in options:
        match = _OPTION.fullmatch(option)
        name, value = (match["letter"] or match["name"], match["rest"] or match["value"]) if match else ("", None)
        if name in _LISTS and value:
            fields.setdefault(_LISTS[name], []).append(_macro(value) if name == "D" else value)
        elif name in _FLAGS and value is None:
            fields[_FLAGS[name]] = True
        elif name in _SWITCHES and value in ("true", "false"):
            fields[_SWITCHES[name]] = value == "true"
        elif name == "maxrregcount" and value and value.isdigit():
            fields["max_register_count"] = int(value)
        elif name == "std" and value:
            fields["std"] = value
        else:
            raise UsageError(f"{path.name}: {option!r} is not an option that kernels may be compiled with; {ACCEPTED}")
    fields["include_path"] = [str(folder) for folder in header_folders(path, options)]
    return fields


def _macro(text: str) -> str | tuple[str, str]:
    name, equals, value = text.partition("=")
    return (name, value) if equals else name
