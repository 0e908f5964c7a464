"""Benchmarks from KernelBench references: trusted files with `Model`, `get_inputs` and `get_init_inputs`."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.abc import ExecutionLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from aiperf_core.benchmark import Benchmark
from aiperf_core.cost import Cost
from aiperf_core.errors import BenchmarkError
from aiperf_core.tolerance import Tolerance, fp32_reduction

# Precedes the path of a reference file in place of the module of a target.
KERNELBENCH = "kernelbench:"
# The static argument with the seed, the arguments and the weights of a model.
MADE_OF = "kernelbench"
_PARTS = ("Model", "get_inputs", "get_init_inputs")


def execute(name: str, loader: ExecutionLoader) -> ModuleType:
    """Import a module of this name from a loader, and return it."""
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def as_implementation(model_class: Callable[..., Any], input_names: Sequence[str]) -> type:
    """A model as an implementation: created before the timing, called with the inputs by position."""
    import torch

    class Model:
        """Runs the model with the weights of the reference."""

        def prepare(self, **arguments: Any) -> None:
            made_of = arguments[MADE_OF]
            self._model = _make(model_class, made_of, _device_of(arguments))
            own = self._model.state_dict()
            shared = {
                name: weight
                for name, weight in made_of["weights"].items()
                if name in own and own[name].shape == weight.shape and own[name].dtype == weight.dtype
            }
            self._model.load_state_dict(shared, strict=False)

        def run(self, **inputs: Any) -> Any:
            with torch.no_grad():
                return self._model(*(inputs[name] for name in input_names))

    return Model


def _make(model_class: Callable[..., Any], made_of: dict[str, Any], device: Any) -> Any:
    """A model on a device, created from the seed of the reference, so that equal constructors draw equal weights."""
    import torch

    torch.manual_seed(made_of["seed"])
    with torch.device(device):
        model = model_class(*made_of["init_inputs"])
    return model.to(device)


def _device_of(arguments: dict[str, Any]) -> Any:
    import torch

    inputs = (one for one in arguments.values() if isinstance(one, torch.Tensor))
    return next((one.device for one in inputs), torch.device("cpu"))


def benchmark_from_kernelbench(path: Path, tolerance: Tolerance = fp32_reduction) -> Benchmark:
    """Make a benchmark of a trusted file; its `Model` is the baseline.

    The values of `get_inputs` are new in every sample. The weights are static: drawn once a process, from a seed that
    the candidate knows too. A candidate gets the weights with the name, shape and dtype of its own; a model with other
    names must draw them in the same order, as KernelBench demands. Calls are as in KernelBench: without gradients, with
    the model in training mode, in full float32.

    Not supported: models with random numbers in a call (dropout), and values of `get_init_inputs` other than numbers,
    tensors, None, and lists and tuples of them. FLOPs are unknown: only reading the inputs bounds the time.

    Raises `BenchmarkError` with the file for what it lacks.
    """
    from aiperf_core import pytree

    module = _trusted(path)
    examples = _examples(path, module)
    names = _input_names(path, module, len(examples))
    input_bytes = sum(one.nbytes for one in pytree.tensors(examples))

    def inputs(device: str, generator: Any) -> dict[str, Any]:
        return dict(zip(names, _drawn(module.get_inputs, generator.initial_seed(), device), strict=True))

    def static(device: str, generator: Any) -> dict[str, Any]:
        import torch

        seed = int(torch.randint(1 << 31, (), generator=generator, device=device))
        made_of = {"seed": seed, "init_inputs": _drawn(module.get_init_inputs, seed, device)}
        model = _make(module.Model, made_of, device)
        _check_not_random(path, model)
        weights = {name: one.detach().clone() for name, one in model.state_dict().items()}
        return {MADE_OF: {**made_of, "weights": weights}}

    def reference(**arguments: Any) -> Any:
        import torch

        made_of = arguments[MADE_OF]
        wide = any(one.dtype == torch.float64 for one in pytree.tensors(arguments))
        standard = torch.get_default_dtype()
        model = _make(module.Model, made_of, _device_of(arguments))
        model = model.double() if wide else model
        model.load_state_dict(made_of["weights"])
        torch.set_default_dtype(torch.float64 if wide else standard)
        try:
            with torch.no_grad():
                return model(*(arguments[name] for name in names))
        finally:
            torch.set_default_dtype(standard)

    def cost() -> Cost:
        return Cost(bytes_read=input_bytes or 1)

    bench = Benchmark(goal="speed")
    bench.where = str(path)
    bench.workload(smoke={}, cpu={}, cuda={})(inputs)
    bench.static(static)
    bench.reference(tolerance=tolerance)(reference)
    bench.cost(cost)
    bench.baseline(device=("cpu", "cuda"), kind="reasonable", name="model")(as_implementation(module.Model, names))
    bench.check()
    return bench


def _trusted(path: Path) -> ModuleType:
    from importlib.machinery import SourceFileLoader

    try:
        module = execute(f"kernelbench_{path.stem}", SourceFileLoader(f"kernelbench_{path.stem}", str(path)))
    except Exception as error:
        raise BenchmarkError(f"{path}: cannot be used: importing it raised {type(error).__name__}: {error}") from error
    missing = [name for name in _PARTS if not callable(getattr(module, name, None))]
    if missing:
        raise BenchmarkError(f"{path}: has no {', no '.join(missing)}; a reference needs {', '.join(_PARTS)}.")
    return module


def _examples(path: Path, module: ModuleType) -> list[Any]:
    """Inputs without values or memory."""
    try:
        return _drawn(module.get_inputs, 0, "meta")
    except Exception as error:
        raise BenchmarkError(
            f"{path}: get_inputs raised {type(error).__name__} on torch's device 'meta': {error}. It may neither name "
            "a device nor depend on the values that it draws."
        ) from error


def _input_names(path: Path, module: ModuleType, count: int) -> list[str]:
    """The names of the inputs: the parameters of `forward`, or numbers if it takes `*args`."""
    parameters = [*inspect.signature(module.Model.forward).parameters.values()][1:]
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return [f"input_{index}" for index in range(count)]
    if count > len(parameters):
        raise BenchmarkError(f"{path}: get_inputs returns {count} inputs; Model.forward takes {len(parameters)}.")
    return [one.name for one in parameters[:count]]


def _drawn(function: Callable[[], Sequence[Any]], seed: int, device: str) -> list[Any]:
    """The results of a function that draws random numbers of torch, from a seed, on a device."""
    import torch

    torch.manual_seed(seed)
    with torch.device(device):
        return [one.to(device) if isinstance(one, torch.Tensor) else one for one in function()]


def _check_not_random(path: Path, model: Any) -> None:
    from torch.nn.modules.dropout import _DropoutNd

    random = [name for name, one in model.named_modules() if isinstance(one, _DropoutNd) and one.p > 0]
    if random:
        raise BenchmarkError(
            f"{path}: Model draws random numbers in {random[0]!r}, so that its output has no reference."
        )


def kernelbench_file(module: str) -> Path | None:
    """The reference file in place of the module of a target; None for a module."""
    return Path(module.removeprefix(KERNELBENCH)) if module.startswith(KERNELBENCH) else None
