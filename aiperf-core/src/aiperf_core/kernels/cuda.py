"""CUDA C++ kernels: a source file beside a benchmark, compiled for this GPU at its first launch."""

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from aiperf_core.errors import KernelError, SkipError, UsageError
from aiperf_core.kernels import cache
from aiperf_core.kernels.archs import Arch, arch_for, fits, parse_arch
from aiperf_core.kernels.arguments import Arguments
from aiperf_core.kernels.headers import local_headers
from aiperf_core.kernels.launcher import BoundLaunch, Extent, Launch, LoadedKernel, cuda_driver, launch_of
from aiperf_core.kernels.nvrtc import Compiled, compile_cubin, header_folders, nvrtc_version
from aiperf_core.kernels.parameters import Signature, kernels_in
from aiperf_core.kernels.source_file import find_beside

# Blocks of a kernel that a multiprocessor holds, and multiprocessors: of the kernel's name, the threads of a block and
# its dynamic shared memory.
BlocksAtOnce = Callable[[str, int, int], tuple[int, int]]


@frozen
class RecordedLaunch:
    """A launch that was recorded: the kernel as named in C++, its arguments by the names of parameters, its shape."""

    kernel: str
    arguments: Mapping[str, Any]
    shape: Launch


def cuda_source(
    path: str, *, archs: Sequence[str] = ("sm_80",), options: Sequence[str] = (), instances: Sequence[str] = ()
) -> "CudaSource":
    """Name a CUDA C++ file at the module level of a benchmark. It is compiled and loaded later.

    path: relative to the file of the calling module.
    archs: the architectures: `sm_80` or later, `sm_90a` exactly. A GPU that fits several gets its exact one.
    options: of NVRTC, one a string: `-DTILE=32`, `-IFOLDER` (relative to the file), `--use_fast_math`, `-lineinfo`,
        `--maxrregcount=64`. The default language is C++17; `--std=` changes it.
    instances: of templates, which `aiperf kernels` compiles beside those that ready implementations launch.

    Kernels are `extern "C" __global__` functions, not produced by a macro, or instances of `__global__` templates,
    named as in C++: `by_warp<float, true>`. `#include "x.cuh"` finds files beside the source, and `#include
    "aiperf/bulk.cuh"` that of aiperf. CUDA's own headers come from the installed nvidia wheels, `$CUDA_HOME`,
    `$CUDA_PATH`, `/usr/local/cuda` or triton's package, in this order.

    Raises `KernelError` when the file does not exist.
    """
    return CudaSource(find_beside(path, sys._getframe(1).f_globals), archs, options, instances)


class CudaSource:
    """A CUDA C++ file. `path` is absolute; `archs`, `options` and `instances` are as declared."""

    kind = "cuda"

    def __init__(
        self,
        path: Path,
        archs: Sequence[str] = ("sm_80",),
        options: Sequence[str] = (),
        instances: Sequence[str] = (),
    ) -> None:
        if isinstance(archs, str) or isinstance(options, str) or not archs:
            raise UsageError(
                f"{path.name}: archs and options take tuples, such as ('sm_80',); got {archs!r}, {options!r}"
            )
        self.path, self.archs, self.options, self.instances = path, tuple(archs), tuple(options), tuple(instances)
        for arch in self.archs:
            parse_arch(arch)
        self._kernels: dict[str, CudaKernel] = {}
        self._compilations: dict[tuple[str, str], Compiled] = {}
        self._recorded: tuple[list[RecordedLaunch], BlocksAtOnce] | None = None

    def __repr__(self) -> str:
        return f"<CudaSource {self.path.name} for {', '.join(self.archs)}>"

    def launch(
        self, name: str, *args: Any, grid: Extent, block: Extent, shared_bytes: int = 0, cluster: Extent | None = None
    ) -> None:
        """Launch the kernel `name`; see `CudaKernel.__call__`."""
        kernel = self._kernels.get(name) or self._prepared(name)
        kernel(*args, grid=grid, block=block, shared_bytes=shared_bytes, cluster=cluster)

    def kernel(self, name: str) -> "CudaKernel":
        """The kernel as a callable, compiled and loaded for torch's current GPU if there is one.

        Raises `KernelError` for an unknown kernel or a compilation error, and `SkipError` when the file is not for this
        GPU.
        """
        import torch

        kernel = self._kernels.get(name) or self._prepared(name)
        if self._recorded is not None:
            return RecordedKernel(kernel, *self._recorded)
        if torch.cuda.is_available():
            kernel.load(torch.cuda.current_device())
        return kernel

    @contextmanager
    def recording(self, blocks_at_once: BlocksAtOnce) -> Iterator[list[RecordedLaunch]]:
        """Within, launches of kernels are recorded and not made. Needs no GPU.

        blocks_at_once: the answer for grids that fill a GPU, of which there need not be one.
        """
        launches: list[RecordedLaunch] = []
        self._recorded = launches, blocks_at_once
        try:
            yield launches
        finally:
            self._recorded = None

    def names(self) -> tuple[str, ...]:
        """The names of the kernels that are no templates and can be launched, in the order of the file."""
        return tuple(name for name, kernel in kernels_in(self._text()).items() if kernel.extern_c)

    def compile(self, arch: str) -> bytes:
        """The machine code (cubin) for `arch`, such as `sm_90a`, from the cache if possible. Needs no GPU.

        Raises `KernelError` with file and line for a compilation error, and `SkipError` when the file is not for this
        architecture, or NVRTC is missing or does not know it.
        """
        return self._compiled(arch).code

    def compile_instances(self, arch: str, expressions: Sequence[str]) -> Compiled:
        """The machine code as by `compile`, with instances of templates such as `by_warp<float, true>`, and the log.

        The log names the spills of kernels. Raises `KernelError` for an expression that is no kernel of the file, too.
        """
        return self._compiled(arch, expressions, with_log=True)

    def _compiled(self, arch: str, expressions: Sequence[str] = (), with_log: bool = False) -> Compiled:
        if not fits(parse_arch(arch), self.archs):
            raise SkipError(f"{self.path.name} needs {' or '.join(self.archs)}; it is not for {arch}")
        text, folders = self._text(), header_folders(self.path, self.options)
        parts = [text, *(file.read_text(errors="replace") for file in local_headers(self.path, folders))]
        parts += [arch, *self.options, repr(nvrtc_version()), *map(str, folders[1:]), *expressions]
        name = f"{self.path.stem}.{arch}.{cache.key_of(*parts)}"
        code = cache.fetch(f"{name}.cubin")
        log = cache.fetch(f"{name}.log") if with_log else b""
        symbols = cache.fetch(f"{name}.symbols") if expressions else b"{}"
        if code is not None and log is not None and symbols is not None:
            return Compiled(code, log, json.loads(symbols))
        compiled = compile_cubin(self.path, text, arch, self.options, expressions)
        cache.keep(f"{name}.cubin", compiled.code)
        if expressions:
            cache.keep(f"{name}.symbols", json.dumps(compiled.symbols).encode())
        if with_log:
            cache.keep(f"{name}.log", compiled.log)
        return compiled

    def cubin_for(self, device: int) -> bytes:
        """The machine code for a GPU, without templates. Raises `SkipError` when the file is not for it."""
        return self._compiled_for(device).code

    def _compiled_for(self, device: int, expression: str = "") -> Compiled:
        """The machine code for a GPU, with an instance of a template. Raises as `cubin_for`."""
        import torch

        machine = Arch(*torch.cuda.get_device_capability(device))
        arch = arch_for(machine, self.archs)
        if arch is None:
            gpu = f"{machine} ({torch.cuda.get_device_name(device)})"
            raise SkipError(f"{self.path.name} needs {' or '.join(self.archs)}; this GPU is {gpu}")
        if (arch, expression) not in self._compilations:
            self._compilations[arch, expression] = self.compile_instances(arch, [expression] if expression else [])
        return self._compilations[arch, expression]

    def _prepared(self, name: str) -> "CudaKernel":
        kernels = kernels_in(self._text())
        base, is_instance, _ = name.partition("<")
        signature = kernels.get(base.strip())
        if signature is None:
            known = ", ".join(repr(other) for other in kernels) or "none"
            raise KernelError(f"no kernel {name!r} in {self.path.name}; it defines: {known}")
        if bool(is_instance) != bool(signature.template):
            wanted = f"a template of <{', '.join(signature.template)}>" if signature.template else "no template"
            raise KernelError(
                f"kernel {signature.name!r} in {self.path.name} is {wanted}; it was asked for as {name!r}"
            )
        if is_instance:
            return self._kernels.setdefault(name, CudaKernel(self, signature.instance(name), name))
        if not signature.extern_c:
            raise KernelError(f'kernel {name!r} in {self.path.name} must be declared extern "C" to be launched by name')
        return self._kernels.setdefault(name, CudaKernel(self, signature))

    def _text(self) -> str:
        return self.path.read_text()


class CudaKernel:
    """A kernel, loaded once on each device that it is launched on. `expression` names an instance of a template."""

    def __init__(self, source: CudaSource, signature: Signature, expression: str = "") -> None:
        self._source, self.signature, self._expression = source, signature, expression
        self._owner = f"kernel '{signature.name}' in {source.path.name}"
        self._arguments = Arguments(signature, self._owner, "cuda")
        self._pointers = [at for at, parameter in enumerate(signature.parameters) if parameter.kind == "pointer"]
        self._loaded: dict[int, LoadedKernel] = {}

    def __repr__(self) -> str:
        return f"<{self._owner} {self.signature}>"

    def __call__(
        self, *args: Any, grid: Extent, block: Extent, shared_bytes: int = 0, cluster: Extent | None = None
    ) -> None:
        """Launch on torch's current stream of the device of the first tensor, or of the current device without one.

        Returns when the launch is queued.

        args: a tensor is passed as its address, whatever its strides; None as a null pointer; a number as the C type of
            its parameter; a struct as bytes.
        grid, block: numbers of blocks and threads, each an int or a tuple of up to three.
        shared_bytes: dynamic shared memory.
        cluster: blocks of a cluster, as `grid`; None for no clusters.

        Raises `KernelError` for wrong arguments or a launch that CUDA refuses, and `SkipError` without a GPU that the
        file is for.
        """
        values = self._arguments.convert(args)
        launch = launch_of(grid, block, shared_bytes, cluster)
        device = self._device(args)
        loaded = self._loaded.get(device) or self.load(device)
        loaded.launch(values, launch)

    def bound(self, args: Sequence[Any], grid: Extent, block: Extent, shared_bytes: int = 0) -> BoundLaunch:
        """A launch with its arguments in memory, for `aiperf_core.recorded`. Takes and raises what a call does."""
        values = self._arguments.convert(args)
        launch = launch_of(grid, block, shared_bytes, None)
        device = self._device(args)
        return (self._loaded.get(device) or self.load(device)).bound(values, launch)

    def load(self, device: int) -> LoadedKernel:
        """Compile and load for a device, unless that has been done."""
        loaded = self._loaded.get(device)
        if loaded is None:
            compiled = self._source._compiled_for(device, self._expression)
            symbol = evolve(self.signature, name=compiled.symbols.get(self._expression, self.signature.name))
            loaded = LoadedKernel(compiled.code, symbol, self._owner, device)
            self._loaded[device] = loaded
        return loaded

    def blocks_at_once(self, threads: int, shared_bytes: int, device: int | None = None) -> tuple[int, int]:
        """Blocks that a multiprocessor holds, and the number of multiprocessors; see `grid_that_fills`."""
        current = _current_device()
        return self.load(current if device is None else device).blocks_at_once(threads, shared_bytes)

    def _device(self, args: Sequence[Any]) -> int:
        for at in self._pointers:
            if args[at] is not None:
                return int(args[at].get_device())
        return _current_device()


class RecordedKernel(CudaKernel):
    """A kernel whose launches are recorded; see `CudaSource.recording`."""

    def __init__(self, kernel: CudaKernel, launches: list[RecordedLaunch], blocks_at_once: BlocksAtOnce) -> None:
        super().__init__(kernel._source, kernel.signature, kernel._expression)
        self._launches, self._blocks_at_once = launches, blocks_at_once

    def __call__(
        self, *args: Any, grid: Extent, block: Extent, shared_bytes: int = 0, cluster: Extent | None = None
    ) -> None:
        """Record a launch. Raises `KernelError` for a wrong shape or number of arguments."""
        if len(args) != len(self.signature.names):
            raise KernelError(f"{self._owner} takes {len(self.signature.names)} arguments; got {len(args)}")
        arguments = dict(zip(self.signature.names, args, strict=True))
        shape = launch_of(grid, block, shared_bytes, cluster)
        self._launches.append(RecordedLaunch(self.signature.name, arguments, shape))

    def blocks_at_once(self, threads: int, shared_bytes: int, _: int | None = None) -> tuple[int, int]:
        """The answer of the recording."""
        return self._blocks_at_once(self.signature.name, threads, shared_bytes)


def grid_that_fills(
    kernel: CudaKernel,
    block: Extent,
    shared_bytes: int = 0,
    device: int | None = None,
    *,
    per_multiprocessor: int | None = None,
) -> int:
    """How many blocks of a kernel a GPU holds at once: its occupancy times the number of multiprocessors.

    block: threads of a block, an int or a tuple of up to three.
    shared_bytes: dynamic shared memory of a block.
    device: the number of the GPU; None for torch's current one.
    per_multiprocessor: count at most this many blocks on each multiprocessor.

    Blocks of a persistent kernel take work until there is none left, so take the smaller of this and the number of
    pieces of work as the grid. Raises `KernelError` for a block that does not fit, and `SkipError` without a GPU that
    the kernel is for.
    """
    threads = math.prod(launch_of(1, block, shared_bytes, None).block)
    each, multiprocessors = kernel.blocks_at_once(threads, shared_bytes, device)
    if not each:
        raise KernelError(
            f"{kernel._owner}: a multiprocessor holds no block of {threads} threads with {shared_bytes} bytes of "
            "dynamic shared memory"
        )
    return multiprocessors * min(each, per_multiprocessor or each)


def clusters_that_fill(
    kernel: CudaKernel, cluster: Extent, block: Extent, shared_bytes: int = 0, device: int | None = None
) -> int:
    """How many clusters of a kernel a GPU holds at once.

    The blocks of a cluster are on one cluster of multiprocessors (GPC), so that multiprocessors may be left without a
    block.

    cluster: blocks of a cluster, an int or a tuple of up to three.
    block, shared_bytes, device: as for `grid_that_fills`, and so are the errors.
    """
    current = _current_device()
    loaded = kernel.load(current if device is None else device)
    count = loaded.clusters_at_once(launch_of(cluster, block, shared_bytes, cluster))
    if not count:
        raise KernelError(
            f"{kernel._owner}: the GPU holds no cluster of {cluster} blocks of {block} threads with {shared_bytes} "
            "bytes of dynamic shared memory"
        )
    return count


def _current_device() -> int:
    import torch

    cuda_driver()
    if not torch.cuda.is_available():
        raise SkipError("needs a CUDA GPU; torch finds none")
    return torch.cuda.current_device()
