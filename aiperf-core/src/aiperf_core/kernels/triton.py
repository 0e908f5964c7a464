"""Triton kernels: a module beside a benchmark, imported at the first use of a kernel.

`@triton.jit` needs triton when its module is imported, and a benchmark must import on machines without it. The kernels
therefore have a file of their own.
"""

import inspect
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import field, frozen

from aiperf_core.errors import KernelError, SkipError, UsageError
from aiperf_core.kernels.archs import fits, parse_arch
from aiperf_core.kernels.source_file import find_beside

_WARP_SIZE = 32


@frozen
class TritonAhead:
    """The types and constants of a kernel for compilation ahead of time. See `triton_ahead`."""

    kernel: str
    signature: Mapping[str, str]
    constants: Mapping[str, Any] = field(factory=dict)
    num_warps: int = 4
    num_stages: int = 3


def triton_ahead(
    kernel: str,
    *,
    signature: Mapping[str, str],
    constants: Mapping[str, Any] | None = None,
    num_warps: int = 4,
    num_stages: int = 3,
) -> TritonAhead:
    """Declare the types and constants for the compilation of a kernel ahead of time.

    kernel: its name.
    signature: the types of all parameters but constants, in Triton's form: `*fp32`, `*bf16`, `i32`, `i64`, `fp32`.
        `*fp32:16` and `i32:16` declare the address or value a multiple of 16, as usual in a launch.
    constants: the values of the `tl.constexpr` parameters.
    """
    return TritonAhead(kernel, signature, constants or {}, num_warps, num_stages)


def triton_source(path: str, *ahead: TritonAhead, archs: Sequence[str] = ("sm_80",)) -> "TritonSource":
    """Name a Python file of `@triton.jit` functions at the module level of a benchmark. It is imported later.

    `path` is relative to the file of the calling module; `archs` are the architectures, as in `cuda_source`. Raises
    `KernelError` when the file does not exist.
    """
    caller = sys._getframe(1).f_globals
    return TritonSource(find_beside(path, caller), ahead, archs, str(caller.get("__name__") or "__main__"))


class TritonSource:
    """A file of Triton kernels. `path` is absolute; `ahead` and `archs` are as declared."""

    kind = "triton"

    def __init__(
        self, path: Path, ahead: Sequence[TritonAhead] = (), archs: Sequence[str] = ("sm_80",), caller: str = "__main__"
    ) -> None:
        if isinstance(archs, str) or not archs:
            raise UsageError(f"{path.name}: archs takes a tuple, such as ('sm_80',); got {archs!r}")
        self.path, self.ahead, self.archs = path, tuple(ahead), tuple(archs)
        for arch in self.archs:
            parse_arch(arch)
        # In the package of the calling module, so that relative imports work; the prefix keeps files of scripts apart.
        self._module_name = f"{caller.rpartition('.')[0] or '_' + caller}.{path.stem}"

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
        return found

    def compile(self, ahead: TritonAhead, arch: str) -> bytes:
        """The machine code (cubin) of a kernel for `arch`. Needs no GPU; Triton has a cache of its own.

        Raises as `compile_with_metadata`.
        """
        return self.compile_with_metadata(ahead, arch)[0]

    def compile_with_metadata(self, ahead: TritonAhead, arch: str) -> tuple[bytes, Any]:
        """The machine code of a kernel for `arch`, and Triton's metadata, such as `shared`.

        Raises `KernelError` for a compilation error, and `SkipError` when triton is missing or the file is not for this
        architecture.
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
            where = f"{self.path}:{_line_of(kernel, error)}"
            reason = str(error).strip() or type(error).__name__
            raise KernelError(f"{ahead.kernel!r} does not compile for {arch}:\n  {where}: error: {reason}") from None

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


def _line_of(kernel: Any, error: BaseException) -> int:
    """The line in the file of a Triton error, or the first line of the kernel."""
    lines, first = inspect.getsourcelines(kernel.fn)
    decorators = next((at for at, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    node = getattr(error, "node", None)  # its lines count from the `def`
    return first + decorators + (int(node.lineno) - 1 if node is not None else 0)
