"""Triton kernels: a module beside a benchmark, imported at the first use of a kernel.

`@triton.jit` needs triton when its module is imported, and a benchmark must import on machines without it. The kernels
therefore have a file of their own.
"""

import inspect
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from aiperf_core.errors import CompileError, KernelError, SkipError, UsageError
from aiperf_core.kernels.archs import fits, parse_arch
from aiperf_core.kernels.diagnostics import compile_error
from aiperf_core.kernels.source_file import find_beside
from aiperf_core.kernels.triton_launches import RecordedKernel, TritonAhead

_WARP_SIZE = 32


def triton_ahead(
    kernel: str,
    *,
    signature: Mapping[str, str],
    constants: Mapping[str, Any] | None = None,
    num_warps: int = 4,
    num_stages: int = 3,
) -> TritonAhead:
    """Declare the types and constants for the compilation of a kernel ahead of time, where no launch tells them.

    kernel: its name.
    signature: the types of all parameters but constants, in Triton's form: `*fp32`, `*bf16`, `i32`, `i64`, `fp32`.
        `*fp32:16` and `i32:16` declare the address or value a multiple of 16, as usual in a launch.
    constants: the values of the `tl.constexpr` parameters.
    """
    return TritonAhead(kernel, signature, constants or {}, num_warps, num_stages)


def triton_source(
    path: str, *ahead: TritonAhead, archs: Sequence[str] = ("sm_80",), launched_by: Sequence[str] = ()
) -> "TritonSource":
    """Name a Python file of `@triton.jit` functions at the module level of a benchmark. It is imported later.

    `path` is relative to the file of the calling module; `archs` are the architectures, as in `cuda_source`.

    `aiperf kernels` compiles the kernels for the types and constants of their launches at the preset of their device:
    those of `launch(...)`, and those of the classes and functions that `launched_by` names. They run once for that on
    tensors without values. `ahead` declares the types and constants of a kernel that such a run cannot tell.

    Raises `KernelError` when the file does not exist.
    """
    caller = sys._getframe(1).f_globals
    name = str(caller.get("__name__") or "__main__")
    return TritonSource(find_beside(path, caller), ahead, archs, name, launched_by)


class TritonSource:
    """A file of Triton kernels. `path` is absolute; `ahead`, `archs` and `launched_by` are as declared."""

    kind = "triton"

    def __init__(
        self,
        path: Path,
        ahead: Sequence[TritonAhead] = (),
        archs: Sequence[str] = ("sm_80",),
        caller: str = "__main__",
        launched_by: Sequence[str] = (),
    ) -> None:
        if isinstance(archs, str) or not archs:
            raise UsageError(f"{path.name}: archs takes a tuple, such as ('sm_80',); got {archs!r}")
        if isinstance(launched_by, str):
            raise UsageError(f"{path.name}: launched_by takes a tuple, such as ('fused',); got {launched_by!r}")
        self.path, self.ahead, self.archs, self.launched_by = path, tuple(ahead), tuple(archs), tuple(launched_by)
        for arch in self.archs:
            parse_arch(arch)
        # In the package of the calling module, so that relative imports work; the prefix keeps files of scripts apart.
        self._module_name = f"{caller.rpartition('.')[0] or '_' + caller}.{path.stem}"
        self._recorded: list[TritonAhead] | None = None

    def __repr__(self) -> str:
        return f"<TritonSource {self.path.name} for {', '.join(self.archs)}>"

    def kernel(self, name: str) -> Any:
        """The `@triton.jit` function, for a launch with `[grid](...)`. The first call imports the file.

        Raises `SkipError` when triton is not installed, and `KernelError` for an unknown function.
        """
        found = getattr(self._module(), name, None)
        if not hasattr(found, "arg_names"):
            known = ", ".join(repr(k) for k, v in vars(self._module()).items() if hasattr(v, "arg_names")) or "none"
            raise KernelError(f"no Triton kernel {name!r} in {self.path.name}; it defines: {known}")
        if self._recorded is None:
            return found
        return RecordedKernel(found, name, f"kernel {name!r} in {self.path.name}", self._recorded)

    @contextmanager
    def recording(self) -> Iterator[list[TritonAhead]]:
        """Within, launches of kernels are recorded and not made; the list gets the types and constants of each once.

        Raises `SkipError` when triton is not installed.
        """
        self._module()
        launches: list[TritonAhead] = []
        self._recorded = launches
        try:
            yield launches
        finally:
            self._recorded = None

    def compile(self, ahead: TritonAhead, arch: str) -> bytes:
        """The machine code (cubin) of a kernel for `arch`. Needs no GPU; Triton has a cache of its own.

        Raises as `compile_with_metadata`.
        """
        return self.compile_with_metadata(ahead, arch)[0]

    def compile_with_metadata(self, ahead: TritonAhead, arch: str) -> tuple[bytes, Any]:
        """The machine code of a kernel for `arch`, and Triton's metadata, such as `shared`.

        Raises `CompileError` for a compilation error, and `SkipError` when triton is missing or the file is not for
        this architecture.
        """
        asked = parse_arch(arch)
        if not fits(asked, self.archs):
            raise SkipError(f"{self.path.name} needs {' or '.join(self.archs)}; it is not for {arch}")
        kernel = self.kernel(ahead.kernel)
        while not hasattr(kernel, "cache_key") and hasattr(kernel, "fn"):  # under @autotune and @heuristics
            kernel = kernel.fn
        self._check_names(ahead, list(kernel.arg_names))
        try:
            return _compiled(kernel, ahead, asked.number)
        except Exception as error:  # Triton's compiler, its C++ passes and ptxas have their own errors
            command = [f"triton-{import_module('triton').__version__}", arch, *_options(ahead)]
            subject = f"kernel {ahead.kernel!r} in {self.path.name} for {arch}"
            raise _compile_error(error, kernel, subject=subject, command=command) from None

    def _module(self) -> ModuleType:
        try:
            import_module("triton")
        except ImportError as error:
            raise SkipError(
                f"needs the package 'triton' ({error}); install it with: pip install 'aiperf-core[triton]'"
            ) from None
        if self._module_name in sys.modules:
            return sys.modules[self._module_name]
        spec = spec_from_file_location(self._module_name, self.path)
        if spec is None or spec.loader is None:
            raise KernelError(f"{self.path} is no Python file")
        module = module_from_spec(spec)
        sys.modules[self._module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[self._module_name]
            raise KernelError(f"{self.path} could not be imported: {type(error).__name__}: {error}") from error
        return module

    def _check_names(self, ahead: TritonAhead, names: list[str]) -> None:
        given = [*ahead.signature, *ahead.constants]
        if sorted(given) != sorted(names):
            raise KernelError(
                f"kernel {ahead.kernel!r} in {self.path.name} takes ({', '.join(names)}); "
                f"triton_ahead gives ({', '.join(given)})"
            )


def _compiled(kernel: Any, ahead: TritonAhead, capability: int) -> tuple[bytes, Any]:
    triton = import_module("triton")
    compiler = import_module("triton.compiler")
    target = import_module("triton.backends.compiler").GPUTarget("cuda", capability, _WARP_SIZE)
    names = list(kernel.arg_names)
    signature = {name: ahead.signature.get(name, "constexpr").partition(":")[0] for name in names}
    aligned = [name for name, text in ahead.signature.items() if text.endswith(":16")]
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    source = compiler.ASTSource(kernel, signature, dict(ahead.constants), attributes)
    options = {"num_warps": ahead.num_warps, "num_stages": ahead.num_stages}
    with warnings.catch_warnings():
        # Triton 3.9 announces another default of 3.10, which a user of `aiperf kernels` cannot act on.
        warnings.filterwarnings("ignore", message="TRITON_DEFAULT_FP_FUSION is unset", category=UserWarning)
        compiled = triton.compile(source, target=target, options=options)
    return bytes(compiled.asm["cubin"]), compiled.metadata


def triton_compile_error(error: BaseException) -> CompileError | None:
    """Triton's error of a launched kernel that does not compile, by file and line; None for another error.

    Imports nothing: where triton is not loaded, no error is Triton's.
    """
    errors = sys.modules.get("triton.compiler.errors")
    if errors is None or not isinstance(error, errors.CompilationError):
        return None
    kernel = _function_of(error, *(frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)))
    if kernel is None:
        return None
    subject = f"kernel {kernel.__name__!r} in {Path(kernel.fn.__code__.co_filename).name}"
    command = [f"triton-{sys.modules['triton'].__version__}", "with", "the", "arguments", "of", "the", "launch"]
    return _compile_error(error, kernel, subject=subject, command=command)


def _compile_error(error: BaseException, kernel: Any, *, subject: str, command: Sequence[str]) -> CompileError:
    """The error of a kernel. An error in a function that the kernel calls has the line in that function first."""
    chain = [error]
    while getattr(cause := chain[-1].__cause__, "src", None) is not None:
        chain.append(cause)  # type: ignore[arg-type]
    inner = chain[-1]
    text = getattr(inner, "error_message", None) or str(inner.__cause__ or inner) or type(inner).__name__
    first, *rest = [line.strip() for line in text.splitlines() if line.strip()]
    places = [_place(one, _function_of(one, kernel.fn.__globals__) or kernel) for one in chain]
    lines = [f"{places[-1]}: error: {first}", *rest, *(f"{place}: called from here" for place in places[-2::-1])]
    file = Path(kernel.fn.__code__.co_filename)
    return compile_error(file, "\n".join(map(str, chain)), subject=subject, command=command, errors=lines)


def _function_of(error: BaseException, *near: Mapping[str, Any]) -> Any:
    """The `@triton.jit` function with the source of an error: first among the names of `near`, then of all modules.

    Triton removes the frames of its compiler from its errors, which leaves the source alone.
    """
    source = getattr(error, "src", None)
    loaded = (vars(module) for module in list(sys.modules.values()) if isinstance(module, ModuleType))
    for names in (*near, *loaded) if source else ():
        for value in list(names.values()):
            while type(value).__name__ in ("Autotuner", "Heuristics"):
                value = value.fn
            if type(value).__name__ == "JITFunction" and value.src == source:
                return value
    return None


def _place(error: BaseException, function: Any) -> str:
    """File and line of a Triton error in a function; without a line, the first line of the function."""
    lines, first = inspect.getsourcelines(function.fn)
    decorators = next((at for at, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    node = getattr(error, "node", None)  # its lines count from the `def`
    line = first + decorators + (int(getattr(node, "lineno", 1)) - 1)
    return f"{function.fn.__code__.co_filename}:{line}"


def _options(ahead: TritonAhead) -> list[str]:
    given = [*ahead.signature.items(), *ahead.constants.items()]
    given += [("num_warps", ahead.num_warps), ("num_stages", ahead.num_stages)]
    return [f"{name}={value}" for name, value in given]
