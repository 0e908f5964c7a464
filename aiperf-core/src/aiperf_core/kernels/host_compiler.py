"""The C compiler of the system: its command, OpenMP support, and the inputs of its output."""

import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from attrs import frozen

from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import cache as kernel_cache
from aiperf_core.kernels.diagnostics import compile_error

FLAGS = ("-O3", "-march=native", "-std=c11", "-shared", "-fPIC")
_TIMEOUT_S = 300


@frozen
class Compiler:
    """A C compiler: its command, and the first line of its version."""

    command: tuple[str, ...]
    version: str

    def build(self, path: Path, options: Sequence[str], folder: Path) -> bytes:
        """The shared library compiled from a source. Raises `CompileError` with the first errors."""
        output = folder / f"{path.stem}.so"
        # Options come last: they may overrule the flags, and name libraries that the source needs.
        command = [*self.command, *FLAGS, *self.openmp, str(path), "-lm", *options]
        run = _run([*command, "-o", str(output)])
        if run.returncode:
            raise compile_error(path, run.stderr, subject=path.name, command=command)
        return output.read_bytes()

    @property
    def openmp(self) -> tuple[str, ...]:
        """`-fopenmp` if this compiler accepts and links it; else empty."""
        return ("-fopenmp",) if _has_openmp(self) else ()


def find_compiler() -> Compiler:
    """`$CC`, else the first of cc, gcc and clang on the path. Raises `SkipError` when there is none."""
    chosen = tuple(shlex.split(os.environ.get("CC", "")))
    for command in (chosen, ("cc",), ("gcc",), ("clang",)):
        if command and (found := shutil.which(command[0])):
            return _compiler((found, *command[1:]))
    raise SkipError("needs a C compiler (looked for $CC, cc, gcc, clang)")


@cache
def cpu_model() -> str:
    """The inputs of `-march=native`: the model and the instruction sets of the CPU."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    first = text.partition("\n\n")[0]
    lines = re.findall(
        r"^(?:vendor_id|cpu family|model|model name|stepping|flags|Features|CPU part)\s*:.*$", first, re.M
    )
    return "\n".join([platform.machine(), *lines])


@cache
def _compiler(command: tuple[str, ...]) -> Compiler:
    run = _run([*command, "--version"])
    return Compiler(command, run.stdout.partition("\n")[0])


@cache
def _has_openmp(compiler: Compiler) -> bool:
    """Try to link a library with OpenMP. A success is kept on disk; a failure may end at any time, and is not."""
    name = f"openmp.{kernel_cache.key_of(*compiler.command, compiler.version)}"
    if kernel_cache.fetch(name) is not None:
        return True
    links = _links_openmp(compiler)
    if links:
        kernel_cache.keep(name, b"links")
    return links


def _links_openmp(compiler: Compiler) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, "probe.c")
        probe.write_text("#include <omp.h>\nint threads(void) { return omp_get_max_threads(); }\n")
        run = _run([*compiler.command, "-fopenmp", "-shared", "-fPIC", str(probe), "-o", str(probe.with_suffix(".so"))])
    return run.returncode == 0


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    # English messages: they are searched for the word 'error'.
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelError(f"could not run the C compiler {command[0]!r}: {error}") from None
