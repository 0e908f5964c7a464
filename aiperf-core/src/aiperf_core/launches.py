"""Ready implementations: a launch of a kernel, or a call of a loop in C, declared in one line.

    turn = launch(source, out=turned, grid=blocks(columns=32, rows=32), block=(32, 8))
    loop_over = loop(host, out=turned)

    cuda.baseline(turn("direct"), kind="naive")
    cuda.variant(turn("tiled"), why="a tile in shared memory is read by rows and written by rows")
    cuda.variant(turn("padded"), builds_on="tiled", adds="padding", why="...")
    cpu.baseline(loop_over("direct"), kind="naive")

The name of the implementation is the name of its kernel, unless `kernel=` gives another. Arguments go by the names of
the kernel's parameters: a parameter `a`, or `a_ptr`, gets the input, the size, the static argument or the made value of
that name. Everything but the launch itself happens in the untimed `prepare`.
"""

import inspect
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

from attrs import evolve, field, frozen

from aiperf_core.benchmark import Params, bind, call_with
from aiperf_core.errors import BenchmarkError, CompileError, KernelError, SkipError
from aiperf_core.kernels import CudaKernel, CudaSource, HostSource, TritonSource, grid_that_fills
from aiperf_core.names import camel_case

# A value, or a function that takes inputs, sizes and made values by name.
Rule = Any
Made = Callable[..., Any]


def blocks(**per: int) -> Callable[..., tuple[int, ...]]:
    """A rule for a grid that covers sizes: `blocks(columns=32, rows=8)` is (columns / 32, rows / 8), rounded up."""
    names = list(per)

    def grid(**available: Any) -> tuple[int, ...]:
        missing = [name for name in names if name not in available]
        if missing:
            raise KernelError(
                f"blocks({', '.join(f'{name}={size}' for name, size in per.items())}) has no size "
                f"{', '.join(map(repr, missing))}; there are {', '.join(sorted(available))}"
            )
        return tuple(-(-int(available[name]) // size) for name, size in per.items())

    return grid


@frozen(kw_only=True)
class Filling:
    """A rule for a grid that fills the GPU; see `filling`."""

    per_sm: int | None
    at_most: Rule


def filling(*, per_sm: int | None = None, at_most: Rule = None) -> Filling:
    """A rule for the grid of a CUDA C++ kernel whose blocks take work until there is none left.

    The grid has the blocks that the GPU holds at once with the launch's `block` and `shared_bytes`.

    per_sm: the most blocks that count on an SM; None for all that it holds.
    at_most: the most blocks that have work, a grid rule such as `blocks(n=1024)`; None for no bound.
    """
    return Filling(per_sm=per_sm, at_most=at_most)


@frozen(kw_only=True)
class Ready:
    """Common part of all implementations of a file. Called with a name, it makes an implementation.

    source: the file of kernels.
    out: makes the output: the name of an input of its shape, dtype and device; `("a", shape)` for the dtype and device
        of the input `a` and a shape of its own, where each size is a number, the name of a size, or a function; or a
        function of inputs and sizes. None where the function's result is the output.
    make: further values by name, each made in `prepare`, in order: a function of inputs, sizes and values before it.
    zero: the names of made tensors that are set to zero before every call.
    kernel: the kernel's name, in which `{name}` is the implementation's, and sizes and made values may stand:
        `"{name}{word_bytes}"`, or `"{name}<{word}, true>"` for an instance of a template in CUDA C++.
    args: the names of the arguments, in order; None takes the names of the kernel's parameters.
    returns: the name of what the implementation returns, or a function of made values.
    grid, block, shared_bytes, cluster: of a launch; numbers, tuples, or functions of inputs, sizes and made values. A
        grid may also be `filling()`.
    options: further arguments of a Triton kernel's launch, such as `num_warps`, each as a grid.
    """

    source: CudaSource | HostSource | TritonSource
    out: str | tuple[str, Rule] | Made | None = None
    make: Mapping[str, Made] = field(factory=dict)
    zero: tuple[str, ...] = ()
    kernel: Rule = "{name}"
    args: Sequence[str] | None = None
    returns: str | Made = "out"
    grid: Rule = None
    block: Rule = 256
    shared_bytes: Rule = 0
    cluster: Rule = None
    options: Mapping[str, Any] = field(factory=dict)

    def __call__(self, name: str, **changes: Any) -> type:
        """The implementation of that name, with some fields changed; values in `make` are added to the common ones."""
        if "make" in changes:
            changes["make"] = {**self.make, **changes["make"]}
        caller = sys._getframe(1)
        facts = {
            "ready": evolve(self, **changes),
            "declared_name": name,
            "__module__": caller.f_globals.get("__name__", "?"),
            "declared_at": f"{caller.f_code.co_filename}:{caller.f_lineno}",
        }
        return type(camel_case(name), (ReadyImplementation,), facts)


def _fields(pattern: str) -> list[str]:
    """The names in the braces of a pattern."""
    return [name for _, name, _, _ in Formatter().parse(pattern) if name]


def launch(source: CudaSource | TritonSource, **common: Any) -> Ready:
    """Launches of the kernels of a CUDA or Triton file; see `Ready` for the arguments, of which `grid` is required.

    Raises `KernelError` for a launch without a grid.
    """
    if "grid" not in common:
        raise KernelError(
            f"launch({source.path.name}) has no grid; give a number, a tuple, blocks(n=1024) or filling()"
        )
    return Ready(source=source, **common)


def loop(source: HostSource, **common: Any) -> Ready:
    """Calls of the functions of a C file; see `Ready` for the arguments."""
    return Ready(source=source, **common)


class ReadyImplementation:
    """Makes outputs and arguments once, then launches.

    Raises `KernelError` for a parameter that nothing is named after.
    """

    ready: Ready
    declared_name = ""
    declared_at = "?"

    @classmethod
    def kernel_at(cls, sizes: Params) -> str:
        """The name of the kernel at these sizes; empty where it depends on more than sizes."""
        try:
            pattern = str(call_with(cls.ready.kernel, sizes) if callable(cls.ready.kernel) else cls.ready.kernel)
            made = {name: cls.ready.make[name] for name in _fields(pattern) if name in cls.ready.make}
            known = {name: call_with(make, sizes) if callable(make) else make for name, make in made.items()}
            return pattern.format(**{**sizes, **known, "name": cls.declared_name})
        except (BenchmarkError, KeyError):
            return ""

    def prepare(self, **available: Any) -> None:
        """Make what a call needs, and find the kernel; `run` gets a signature with the inputs that it passes on."""
        try:
            self._prepare(available)
        except CompileError as error:
            raise CompileError(f"{error}\n  implementation: {self.declared_name!r} at {self.declared_at}") from None
        except KernelError as error:
            raise KernelError(f"{self.declared_at} ({self.declared_name}): {error}") from None

    def _prepare(self, available: dict[str, Any]) -> None:
        ready = self.ready
        values: dict[str, Any] = {}
        if isinstance(ready.out, str):
            values["out"] = self._like(ready.out, available)
        elif isinstance(ready.out, tuple):
            values["out"] = self._shaped(*ready.out, available)
        elif ready.out is not None:
            values["out"] = call_with(ready.out, available)
        for name, make in ready.make.items():
            values[name] = self._rule(make, {**available, **values})
        known = {**available, **values}
        kernel = self._kernel(known)
        call, names = self._found(kernel, known)
        plan = [self._place(name, known, kernel) for name in (ready.args if ready.args is not None else names)]
        inputs = [name for name in dict.fromkeys(plan) if name not in values]
        zeroed = [values[name] for name in ready.zero]
        take_result, result = ready.out is None and ready.returns == "out", ready.returns

        def run(**given: Any) -> Any:
            for tensor in zeroed:
                tensor.zero_()
            returned = call([given[name] if name in given else values[name] for name in plan])
            if take_result:
                return returned
            return values[result] if isinstance(result, str) else call_with(result, values)

        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in inputs]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        self.run = run  # type: ignore[method-assign]

    def run(self) -> Any:
        """Launch; `prepare` puts the function with the inputs in this one's place."""
        raise KernelError(f"{self.declared_at} ({self.declared_name}): run before prepare")

    def _kernel(self, known: Params) -> str:
        """The name of the kernel. Raises `SkipError` where the file has none for these sizes."""
        pattern = str(self._rule(self.ready.kernel, known))
        sizes = {name: known.get(name) for name in _fields(pattern) if name != "name"}
        kernel = pattern.format(name=self.declared_name, **sizes)
        source = self.ready.source
        if sizes and "<" not in kernel and not isinstance(source, TritonSource) and kernel not in source.names():
            said = ", ".join(f"{name}={value}" for name, value in sizes.items())
            raise SkipError(f"is not written for {said}: {source.path.name} has no {kernel!r}")
        return kernel

    def _found(self, kernel: str, known: Params) -> tuple[Callable[[list[Any]], Any], list[str]]:
        """The kernel as a function of its arguments, and the names of its parameters."""
        ready, source = self.ready, self.ready.source
        if isinstance(source, HostSource):
            function = source.function(kernel)
            return lambda values: function(*values), list(function.signature.names)
        if isinstance(source, TritonSource):
            if isinstance(ready.grid, Filling):
                raise KernelError(f"filling() counts the blocks of CUDA C++ kernels; {source.path.name} is Triton")
            grid, jit = self._rule(ready.grid, known), source.kernel(kernel)
            options = {name: self._rule(option, known) for name, option in ready.options.items()}
            launcher = jit[grid if isinstance(grid, tuple) else (grid,)]
            return lambda values: launcher(*values, **options), list(jit.arg_names)
        loaded = source.kernel(kernel)
        rules = {"block": ready.block, "shared_bytes": ready.shared_bytes, "cluster": ready.cluster}
        shape: dict[str, Any] = {name: self._rule(rule, known) for name, rule in rules.items()}
        shape["grid"] = self._grid(loaded, shape, known)
        return lambda values: loaded(*values, **shape), list(loaded.signature.names)

    def _grid(self, kernel: CudaKernel, shape: Mapping[str, Any], known: Params) -> Any:
        grid = self.ready.grid
        if not isinstance(grid, Filling):
            return self._rule(grid, known)
        if shape["cluster"] is not None:
            raise KernelError("filling() counts blocks without clusters; give the grid of a launch with clusters")
        fit = grid_that_fills(kernel, shape["block"], shape["shared_bytes"], per_multiprocessor=grid.per_sm)
        most = self._rule(grid.at_most, known)
        return fit if most is None else min(fit, math.prod(most) if isinstance(most, tuple) else most)

    def _rule(self, rule: Rule, known: Params) -> Any:
        return bind(rule, known)() if callable(rule) else rule

    def _like(self, name: str, available: Mapping[str, Any]) -> Any:
        """Memory of the shape, dtype and device of an input."""
        import torch

        return torch.empty_like(self._tensor(name, available))

    def _shaped(self, name: str, shape: Rule, available: Mapping[str, Any]) -> Any:
        """Memory of the dtype and device of an input."""
        import torch

        sizes = shape if isinstance(shape, tuple) else (shape,)
        like = self._tensor(name, available)
        return torch.empty([self._size(size, available) for size in sizes], dtype=like.dtype, device=like.device)

    def _tensor(self, name: str, available: Mapping[str, Any]) -> Any:
        import torch

        if not isinstance(available.get(name), torch.Tensor):
            tensors = [key for key, value in available.items() if isinstance(value, torch.Tensor)]
            raise KernelError(f"out={self.ready.out!r}: {name!r} is no input; there are {', '.join(tensors)}")
        return available[name]

    def _size(self, size: Rule, available: Mapping[str, Any]) -> int:
        found: Any = available.get(size) if isinstance(size, str) else self._rule(size, dict(available))
        try:
            return operator.index(found)
        except TypeError:
            sizes = sorted(key for key, value in available.items() if isinstance(value, int))
            raise KernelError(
                f"out={self.ready.out!r}: {size!r} is no whole number; the sizes are {', '.join(sizes)}"
            ) from None

    def _place(self, name: str, known: Params, kernel: str) -> str:
        """The name of the value for a parameter: its own, or its own without `_ptr`."""
        plain = name.removesuffix("_ptr")
        for candidate in (name, plain):
            if candidate in known:
                return candidate
        raise KernelError(
            f"the kernel {kernel!r} has a parameter {name!r}, and nothing has that name; there are "
            f"{', '.join(sorted(known))}. Rename the parameter, make the value (make=...), or name the arguments in "
            f"order (args=...)"
        )
