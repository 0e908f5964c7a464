"""Host C: a source file beside a benchmark, compiled for this CPU at its first call."""

import atexit
import ctypes
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import cache as once
from pathlib import Path
from typing import Any

from aiperf_core.errors import KernelError, UsageError
from aiperf_core.kernels import cache
from aiperf_core.kernels.arguments import Arguments
from aiperf_core.kernels.headers import OWN_HEADERS, local_headers
from aiperf_core.kernels.host_compiler import FLAGS, cpu_model, find_compiler
from aiperf_core.kernels.parameters import Parameter, Signature, functions_in, parameter_of
from aiperf_core.kernels.source_file import find_beside

_RETURNS = {"void": None, "float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool}


def host_source(path: str, *, options: Sequence[str] = ()) -> "HostSource":
    """Name a C file at the module level of a benchmark. It is compiled later.

    `path` is relative to the file of the calling module. The compiler is `$CC`, else cc, gcc or clang, with C11, `-O3
    -march=native`, OpenMP if the compiler has it, then `options`, which may overrule these and name libraries. Every
    function that is not static and not produced by a macro can be called. `#include "x.h"` finds files beside the
    source, and `#include "aiperf/row_products.h"` that of aiperf.

    Raises `KernelError` when the file does not exist.
    """
    return HostSource(find_beside(path, sys._getframe(1).f_globals), options)


class HostSource:
    """A C file. `path` is absolute; `options` are as declared."""

    kind = "host"

    def __init__(self, path: Path, options: Sequence[str] = ()) -> None:
        if isinstance(options, str):
            raise UsageError(f"{path.name}: options takes a tuple, such as ('-ffast-math',); got {options!r}")
        self.path, self.options = path, tuple(options)
        self._functions: dict[str, HostFunction] = {}
        self._library: ctypes.CDLL | None = None

    def __repr__(self) -> str:
        return f"<HostSource {self.path.name}>"

    def call(self, name: str, *args: Any) -> Any:
        """Call the function `name` and return its result. See `HostFunction`."""
        function = self._functions.get(name) or self.function(name)
        return function(*args)

    def function(self, name: str) -> "HostFunction":
        """The function as a callable, compiled and loaded; OpenMP uses torch's number of threads.

        Raises `SkipError` without a C compiler, and `KernelError` for an unknown function, a compilation error, or
        types that cannot be passed.
        """
        import torch

        self.set_threads(torch.get_num_threads())
        function = self._functions.get(name)
        if function is None:
            functions = functions_in(self._text())
            if name not in functions:
                known = ", ".join(repr(other) for other in functions) or "none"
                raise KernelError(f"no function {name!r} in {self.path.name}; it defines: {known}")
            function = self._functions[name] = HostFunction(self.library(), functions[name], self.path.name)
        return function

    def names(self) -> tuple[str, ...]:
        """The names of the functions that can be called, in the order of the file."""
        return tuple(functions_in(self._text()))

    def compile(self) -> bytes:
        """The shared library, from the cache if possible. Raises as `function` does."""
        name = self._name()
        found = cache.fetch(name)
        if found is None:
            with tempfile.TemporaryDirectory() as folder:
                found = find_compiler().build(self.path, self._options(), Path(folder))
            cache.keep(name, found)
        return found

    def library(self) -> ctypes.CDLL:
        """The library, loaded once. Calls through it release the GIL."""
        if self._library is None:
            code, kept = self.compile(), cache.kernels_folder() / self._name()
            path = kept if cache.fetch(self._name()) == code else _written(self._name(), code)
            try:
                self._library = ctypes.CDLL(str(path))
            except OSError as error:
                raise KernelError(f"{self.path.name} was compiled, but could not be loaded: {error}") from None
        return self._library

    @property
    def threads(self) -> int | None:
        """The number of threads of an OpenMP region that this thread enters; None without OpenMP."""
        count = getattr(self.library(), "omp_get_max_threads", None)
        return None if count is None else int(count())

    def set_threads(self, count: int) -> None:
        """Set the number of threads of OpenMP regions that this thread enters; do nothing without OpenMP.

        If the library uses torch's OpenMP runtime, this sets torch's threads too. Another runtime does not know torch's
        setting, so `function` calls this.
        """
        if (choose := getattr(self.library(), "omp_set_num_threads", None)) is not None:
            choose(ctypes.c_int(count))

    def _name(self) -> str:
        compiler = find_compiler()
        headers = [
            file.read_text(errors="replace") for file in local_headers(self.path, [*self._folders(), OWN_HEADERS])
        ]
        built_by = [*compiler.command, compiler.version, *compiler.openmp, *FLAGS, cpu_model()]
        return f"{self.path.stem}.{cache.key_of(self._text(), *headers, *self.options, '', *built_by)}.so"

    def _folders(self) -> list[Path]:
        return [Path(self.path.parent, option[2:]) for option in self.options if option.startswith("-I")]

    def _options(self) -> list[str]:
        """The options, with folders relative to the source, and that of aiperf's headers for names in quotes alone."""
        others = [option for option in self.options if not option.startswith("-I")]
        return [*(f"-I{folder}" for folder in self._folders()), f"-iquote{OWN_HEADERS}", *others]

    def _text(self) -> str:
        return self.path.read_text()


class HostFunction:
    """A loaded function.

    A tensor is passed as its address, whatever its strides; None as a null pointer; a number as the C type of its
    parameter. Wrong arguments raise `KernelError`.
    """

    def __init__(self, library: ctypes.CDLL, signature: Signature, file: str) -> None:
        self._owner, self.signature = f"function '{signature.name}' in {file}", signature
        self._convert = Arguments(signature, self._owner, "cpu").convert
        self._call = library[signature.name]
        self._call.argtypes = [_c_type(parameter) for parameter in signature.parameters]
        self._call.restype = self._returned(signature.returns)

    def __repr__(self) -> str:
        return f"<{self._owner} {self.signature}>"

    @property
    def address(self) -> int:
        """Where the machine code of the function lies."""
        return ctypes.cast(self._call, ctypes.c_void_p).value or 0

    def __call__(self, *args: Any) -> Any:
        """Call the function without the GIL and return its result (None for void)."""
        return self._call(*self._convert(args))

    def _returned(self, returns: str) -> Any:
        if returns in _RETURNS:
            return _RETURNS[returns]
        scalar = parameter_of(returns)
        if scalar.kind != "integer":
            raise KernelError(f"{self._owner} returns a {returns}; void and numbers can be returned")
        return _c_type(scalar)


def _c_type(parameter: Parameter) -> Any:
    if parameter.kind == "pointer":
        return ctypes.c_void_p
    if parameter.kind == "integer":
        return getattr(ctypes, f"c_{'' if parameter.signed else 'u'}int{parameter.bits}")
    if parameter.kind == "float":
        return ctypes.c_float if parameter.bits == 32 else ctypes.c_double
    return ctypes.c_bool


@once
def _private_folder() -> Path:
    """A folder of this process for libraries without a cache: the loader needs a file."""
    folder = Path(tempfile.mkdtemp(prefix="aiperf-kernels-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _written(name: str, code: bytes) -> Path:
    path = _private_folder() / name
    path.write_bytes(code)
    return path
