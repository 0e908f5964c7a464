"""The format of KernelBench: `Model`, `get_inputs` and `get_init_inputs` in a trusted file, and candidates `ModelNew`.

https://github.com/ScalingIntelligence/KernelBench describes the format. Calls are as there: without gradients, with the
model in training mode, in full float32. Values of `get_inputs` are drawn anew for every sample.
"""

import contextlib
import inspect
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from aiperf_core.benchmark import Benchmark
from aiperf_core.candidate_format import CandidateFormat, Code
from aiperf_core.cost import Cost
from aiperf_core.errors import BenchmarkError, is_out_of_memory
from aiperf_core.formats.execute import blamed_on, execute
from aiperf_core.text_file import text_of
from aiperf_core.tolerance import fp32_reduction

# The static argument with the seed, the arguments and the weights of a model.
MADE_OF = "kernelbench"
_PARTS = ("Model", "get_inputs", "get_init_inputs")
# Stands for a text among the arguments of a model: shared memory holds tensors and numbers.
_TEXT = "utf-8"


class KernelBench(CandidateFormat):
    """`class ModelNew`, made from `get_init_inputs()` and called with `get_inputs()`."""

    method = "forward"
    hidden = frozenset({MADE_OF})

    def code(self, path: Path, data: bytes) -> Code:
        """The file is the code."""
        return Code(text_of(path, data), "ModelNew")

    def benchmark(self, reference: Path) -> Benchmark:
        """Make a benchmark of a trusted file; its `Model` is the baseline.

        The weights are static: drawn once a process, from a seed that the candidate knows too. A candidate gets the
        weights with the name, shape and dtype of its own; a model with other names must draw them in the same order, as
        KernelBench demands. FLOPs are unknown: only reading the inputs bounds the time.

        Not supported: values of `get_init_inputs` other than numbers, texts, tensors, None, and lists, tuples and dicts
        of them.
        """
        return _benchmark(reference)

    def adapt(self, found: Any, input_names: Sequence[str]) -> Any:
        """A class that makes the model before the timing, and calls it with the inputs by position."""
        return as_implementation(found, input_names)


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
        model = model_class(*_unpacked(made_of["init_inputs"]))
    return model.to(device)


def _device_of(arguments: dict[str, Any]) -> Any:
    import torch

    inputs = (one for one in arguments.values() if isinstance(one, torch.Tensor))
    return next((one.device for one in inputs), torch.device("cpu"))


def _benchmark(path: Path) -> Benchmark:
    from aiperf_core import pytree

    module = _trusted(path)
    examples = _examples(path, module)
    names = _input_names(path, module, len(examples))
    input_bytes = sum(one.nbytes for one in pytree.tensors(examples))

    def inputs(device: str, generator: Any) -> dict[str, Any]:
        with blamed_on(path, "get_inputs"):
            return dict(zip(names, drawn(module.get_inputs, generator.initial_seed(), device), strict=True))

    def static(device: str, generator: Any) -> dict[str, Any]:
        import torch

        seed = int(torch.randint(1 << 31, (), generator=generator, device=device))
        with blamed_on(path, "making Model of get_init_inputs"):
            made_of = {"seed": seed, "init_inputs": _packed(drawn(module.get_init_inputs, seed, device))}
            model = _make(module.Model, made_of, device)
            weights = {name: one.detach().clone() for name, one in model.state_dict().items()}
        return {MADE_OF: {**made_of, "weights": weights}}

    def reference(**arguments: Any) -> Any:
        import torch

        given = [arguments[name] for name in names]
        if any(one.dtype == torch.float64 for one in pytree.tensors(arguments)):
            with blamed_on(path, "Model in float64"):
                try:
                    return _answer(module.Model, arguments, given, torch.float64)
                except RuntimeError as error:  # models that name a dtype run in no other one
                    if is_out_of_memory(error):
                        raise
            given = as_example(given, examples)
        with blamed_on(path, "Model"):
            return _answer(module.Model, arguments, given, torch.get_default_dtype())

    def cost() -> Cost:
        return Cost(bytes_read=input_bytes or 1)

    bench = Benchmark(goal="speed")
    bench.where = str(path)
    bench.workload(smoke={}, cpu={}, cuda={})(inputs)
    bench.static(static)
    bench.reference(tolerance=fp32_reduction)(reference)
    bench.cost(cost)
    bench.baseline(device=("cpu", "cuda"), kind="reasonable", name="model")(as_implementation(module.Model, names))
    bench.check()
    return bench


def _answer(model_class: Callable[..., Any], arguments: dict[str, Any], given: list[Any], dtype: Any) -> Any:
    """The answer of a model that computes in a dtype, for inputs that have it."""
    import torch

    made_of, standard = arguments[MADE_OF], torch.get_default_dtype()
    model = _make(model_class, made_of, _device_of(arguments))
    model = model.double() if dtype is torch.float64 else model
    model.load_state_dict(made_of["weights"])
    torch.seed()  # random numbers of a call must not follow from the seed of the weights
    torch.set_default_dtype(dtype)
    try:
        with torch.no_grad():
            return model(*given)
    finally:
        torch.set_default_dtype(standard)


def as_example(value: Any, example: Any) -> Any:
    """A value whose tensors have the dtypes of an example of the same structure."""
    import torch

    if isinstance(value, dict):
        return {name: as_example(inner, example[name]) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(as_example(inner, other) for inner, other in zip(value, example, strict=True))
    return value.to(example.dtype) if isinstance(example, torch.Tensor) else value


def _trusted(path: Path) -> ModuleType:
    from importlib.machinery import SourceFileLoader

    with blamed_on(path, "importing it"):
        module = execute(f"kernelbench_{path.stem}", SourceFileLoader(f"kernelbench_{path.stem}", str(path)))
    missing = [name for name in _PARTS if not callable(getattr(module, name, None))]
    if missing:
        raise BenchmarkError(f"{path}: has no {', no '.join(missing)}; a reference needs {', '.join(_PARTS)}.")
    return module


def _examples(path: Path, module: ModuleType) -> list[Any]:
    """Inputs whose number and sizes count: without values or memory, unless `get_inputs` needs the values."""
    # A size may depend on values, or a device may be named: the second try tells.
    with contextlib.suppress(Exception):
        return drawn(module.get_inputs, 0, "meta")
    try:
        return drawn(module.get_inputs, 0, "cpu")
    except Exception as error:
        raise BenchmarkError(
            f"{path}: get_inputs raised {type(error).__name__}: {error}. It must work without a GPU: let it create "
            "tensors without naming a device; they are created on the device of the run."
        ) from error


def _input_names(path: Path, module: ModuleType, count: int) -> list[str]:
    """The names of the inputs: the parameters of `forward`, or numbers if it takes `*args`."""
    parameters = [*inspect.signature(module.Model.forward).parameters.values()][1:]
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return [f"input_{index}" for index in range(count)]
    if count > len(parameters):
        raise BenchmarkError(f"{path}: get_inputs returns {count} inputs; Model.forward takes {len(parameters)}.")
    return [one.name for one in parameters[:count]]


def drawn(function: Callable[[], Sequence[Any]], seed: int, device: str) -> list[Any]:
    """The results of a function that draws random numbers, from a seed, on a device."""
    import numpy as np
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    with torch.device(device):
        return [one.to(device) if isinstance(one, torch.Tensor) else one for one in function()]


def _packed(value: Any) -> Any:
    """A value whose texts are tensors of their bytes, as shared memory holds them."""
    import torch

    if isinstance(value, str):
        return {_TEXT: torch.tensor(list(value.encode()), dtype=torch.uint8, device="cpu")}
    if isinstance(value, dict):
        return {key: _packed(one) for key, one in value.items()}
    return type(value)(map(_packed, value)) if type(value) in (list, tuple) else value


def _unpacked(value: Any) -> Any:
    """The value that `_packed` had."""
    if isinstance(value, dict) and [*value] == [_TEXT]:
        return bytes(value[_TEXT].tolist()).decode()
    if isinstance(value, dict):
        return {key: _unpacked(one) for key, one in value.items()}
    return type(value)(map(_unpacked, value)) if type(value) in (list, tuple) else value
