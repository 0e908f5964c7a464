"""The format of FlashInfer-Trace: a definition, its workloads and a solution in JSON.

https://github.com/flashinfer-ai/flashinfer-bench describes the format. `--target` names a definition. Its workloads lie
beside it in a file of the same name that ends in `.jsonl`, or in the folder `workloads` of the dataset, at the place
that the definition has in the folder `definitions`. Each workload is a size of the target, by its `uuid`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import frozen

from aiperf_core.benchmark import Benchmark
from aiperf_core.candidate_format import CandidateFormat, Code
from aiperf_core.cost import Cost
from aiperf_core.errors import BenchmarkError, ContractError, UsageError
from aiperf_core.formats.execute import blamed_on
from aiperf_core.names import words
from aiperf_core.tolerance import fp32_reduction

# The static argument of each output, with its dtype and shape, has the name of the output behind this.
OUTPUT = "flashinfer_trace:"
_LANGUAGES = ("python", "pytorch", "triton")
# The names of dtypes; a shape is passed on as [index of the dtype, *sizes], since shared memory holds numbers.
_DTYPES = (
    "float32",
    "float16",
    "bfloat16",
    "float64",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
    "float8_e4m3fn",
    "float8_e5m2",
)
_CHOSEN = "workload"


class FlashInferTrace(CandidateFormat):
    """A solution in JSON. Its function, of a Python file, writes into outputs that are passed behind the inputs."""

    calling = (
        '. Outputs are passed behind the inputs, as the solution has not set "destination_passing_style": false, which '
        "a function that returns its outputs needs"
    )

    def code(self, path: Path, data: bytes) -> Code:
        """The source of a solution's only Python file."""
        return _solution(path, data)

    def benchmark(self, reference: Path) -> Benchmark:
        """Make a benchmark of a definition; its reference is the baseline."""
        return _benchmark(_definition(reference))

    def arguments(self, names: Sequence[str]) -> list[str]:
        """The inputs, and the outputs behind them."""
        return [name.removeprefix(OUTPUT) for name in names]

    def adapt(self, found: Any, input_names: Sequence[str]) -> Any:
        """A class that calls the function with the inputs and new outputs by position."""

        class Solution(_Solution):
            def run(self, **inputs: Any) -> Any:
                outputs = self.empty()
                returned = found(*(inputs[name] for name in input_names), *outputs.values())
                if returned is not None:
                    _check_returned(returned, outputs)
                return outputs

        return Solution


class Returning(FlashInferTrace):
    """A solution whose function returns its outputs."""

    calling = (
        '. The solution has "destination_passing_style": false, so its function returns the outputs; a function that '
        "writes into outputs behind the inputs needs true"
    )

    def arguments(self, names: Sequence[str]) -> list[str]:
        """The inputs alone."""
        return [name for name in names if not name.startswith(OUTPUT)]

    def adapt(self, found: Any, input_names: Sequence[str]) -> Any:
        """A class that calls the function with the inputs by position, and names what it returns."""

        class Solution(_Solution):
            def run(self, **inputs: Any) -> Any:
                return _named(found(*(inputs[name] for name in input_names)), [*self.outputs])

        return Solution


# --- solutions


def _solution(path: Path, data: bytes) -> Code:
    document = _parsed(path, data, UsageError)
    spec, sources = document.get("spec"), document.get("sources")
    if not isinstance(spec, dict) or not isinstance(sources, list):
        raise UsageError(f"'{path}' is no solution: it has no 'spec' and 'sources', as those of FlashInfer-Trace have")
    language, entry = str(spec.get("language", "")).lower(), str(spec.get("entry_point", ""))
    if language not in _LANGUAGES:
        raise UsageError(f"'{path}' is written in {words(language)!r}; accepted are {', '.join(_LANGUAGES)}")
    file, separator, function = entry.partition("::")
    if not separator or not function.isidentifier():
        raise UsageError(f"'{path}' has the entry point {words(entry)!r}; accepted is FILE.py::FUNCTION")
    texts = {str(one.get("path")): one.get("content") for one in sources if isinstance(one, dict)}
    text = texts.get(file)
    if len(texts) != 1 or not isinstance(text, str):
        raise UsageError(
            f"'{path}' has the sources {', '.join(map(words, texts)) or 'none'}; accepted is {words(file)!r} alone, "
            "the file of its entry point"
        )
    if not isinstance(into := spec.get("destination_passing_style", True), bool):
        raise UsageError(
            f"'{path}' has \"destination_passing_style\": {words(json.dumps(into))}; accepted is true or false"
        )
    return Code(text, function, "" if into else f"{__name__}:{Returning.__name__}")


class _Solution:
    """The outputs of a definition, which a solution writes or returns."""

    def prepare(self, **arguments: Any) -> None:
        import torch

        self.outputs = _outputs(arguments)
        inputs = (one for one in arguments.values() if isinstance(one, torch.Tensor))
        self._device = next((one.device for one in inputs), torch.device("cpu"))

    def empty(self) -> dict[str, Any]:
        """New outputs. A call pays for them, as it does where the function returns its own."""
        import torch

        return {
            name: torch.empty(shape, dtype=dtype, device=self._device) for name, (dtype, shape) in self.outputs.items()
        }


def _check_returned(returned: Any, outputs: Mapping[str, Any]) -> None:
    """Raise `ContractError` for returned tensors that are not those passed: these were left as they were."""
    from aiperf_core import pytree

    passed = {one.untyped_storage().data_ptr() for one in outputs.values()}
    if any(one.untyped_storage().data_ptr() not in passed for one in pytree.tensors(returned)):
        raise ContractError(
            f"the solution returned a tensor of its own; it must write its outputs {', '.join(outputs)} into those "
            'passed behind the inputs, or set "destination_passing_style": false'
        )


def _named(outputs: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return values of a function, by the names of the definition's outputs. Raises `ContractError`."""
    if isinstance(outputs, dict):
        found = outputs
    else:
        several = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        found = dict(zip(names, several, strict=False)) if len(several) == len(names) else {}
    if set(found) != set(names):
        raise ContractError(f"the solution must return the outputs {', '.join(names)}, in this order or by name")
    return {name: found[name] for name in names}


# --- definitions


@frozen
class _Definition:
    """A definition, and what its workloads set."""

    path: Path
    document: dict[str, Any]
    workloads: list[dict[str, Any]]
    module: ModuleType

    def sizes(self, workload: Mapping[str, Any]) -> dict[str, int]:
        """The sizes of all axes in a workload."""
        found = {}
        for name, axis in self.document["axes"].items():
            value = axis.get("value") if axis.get("type") == "const" else workload.get("axes", {}).get(name)
            if not isinstance(value, int) or value < 0:
                raise BenchmarkError(f"{self.path}: the axis {words(name)!r} has no size in its workload.")
            found[name] = value
        return found

    def specs(self, part: str, sizes: Mapping[str, float]) -> dict[str, tuple[str, list[int] | None]]:
        """The dtype and the shape of each input or output; no shape for a scalar."""
        found = {}
        for name, one in self.document[part].items():
            dtype, shape = str(one.get("dtype")), one.get("shape")
            if dtype not in _DTYPES:
                raise BenchmarkError(f"{self.path}: {name!r} has the dtype {words(dtype)!r}; accepted: {_DTYPES}.")
            found[name] = (dtype, None if shape is None else [int(sizes[axis]) for axis in shape])
        return found


def _definition(path: Path) -> _Definition:
    document = _parsed(path, path.read_bytes(), BenchmarkError)
    missing = [part for part in ("axes", "inputs", "outputs") if not isinstance(document.get(part), dict)]
    if missing or not isinstance(document.get("reference"), str):
        lacks = ", ".join([*missing, *([] if isinstance(document.get("reference"), str) else ["reference"])])
        raise BenchmarkError(f"{path}: is no definition: it has no {lacks}.")
    module = ModuleType(f"flashinfer_trace_{path.stem}")
    with blamed_on(path, "importing its reference"):
        exec(compile(document["reference"], str(path), "exec"), vars(module))
    if not callable(getattr(module, "run", None)):
        raise BenchmarkError(f"{path}: its reference defines no function 'run'.")
    workloads = [one["workload"] for one in _lines(path)] or [{"axes": {}, "inputs": {}}]
    found = _Definition(path, document, workloads, module)
    for one in workloads:
        found.specs("inputs", found.sizes(one))
        found.specs("outputs", found.sizes(one))
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of the file of workloads, where there is one."""
    file = next((one for one in _beside(path) if one.is_file()), None)
    for number, line in enumerate(file.read_bytes().splitlines() if file else (), 1):
        if line.strip():
            one = _parsed(Path(f"{file}:{number}"), line, BenchmarkError)
            if not isinstance(one.get("workload"), dict):
                raise BenchmarkError(f"{path}: line {number} of {file} has no 'workload'.")
            yield one


def _beside(path: Path) -> Iterator[Path]:
    """Where the workloads of a definition may lie."""
    yield path.with_suffix(".jsonl")
    parts = list(path.parts)
    if "definitions" in parts:
        place = len(parts) - 1 - parts[::-1].index("definitions")
        parts[place] = "workloads"
        yield Path(*parts).with_suffix(".jsonl")


def _benchmark(definition: _Definition) -> Benchmark:
    run, path = definition.module.run, definition.path
    input_names, output_names = [*definition.document["inputs"]], [*definition.document["outputs"]]

    def workload_of(sizes: Mapping[str, float]) -> dict[str, Any]:
        return definition.workloads[int(sizes[_CHOSEN])]

    def inputs(device: str, generator: Any, **sizes: float) -> dict[str, Any]:
        given, specs = workload_of(sizes).get("inputs", {}), definition.specs("inputs", sizes)
        return {name: _value(path, name, specs[name], given.get(name), device, generator) for name in input_names}

    def static(**sizes: float) -> dict[str, Any]:
        specs = definition.specs("outputs", sizes)
        return {OUTPUT + name: [_DTYPES.index(dtype), *(shape or [])] for name, (dtype, shape) in specs.items()}

    def reference(**arguments: Any) -> Any:
        import torch

        wide = any(isinstance(one, torch.Tensor) and one.dtype == torch.float64 for one in arguments.values())
        with torch.no_grad(), blamed_on(path, "its reference"):
            answer = _named(run(*(arguments[name] for name in input_names)), output_names)
        if wide:
            return answer
        return {name: torch.as_tensor(answer[name]).to(dtype) for name, (dtype, _) in _outputs(arguments).items()}

    def cost(**sizes: float) -> Cost:
        def nbytes(part: str) -> int:
            return sum(_nbytes(*one) for one in definition.specs(part, sizes).values())

        return Cost(bytes_read=max(1, nbytes("inputs")), bytes_written=nbytes("outputs"))

    presets = _presets(definition)
    bench = Benchmark(goal="speed")
    bench.where = str(path)
    bench.workload(**presets)(inputs)
    bench.static(static)
    bench.reference(tolerance=fp32_reduction)(reference)
    bench.cost(cost)
    baseline = Returning().adapt(run, input_names)
    bench.baseline(device=("cpu", "cuda"), kind="reasonable", name="reference")(baseline)
    bench.check()
    return bench


def _presets(definition: _Definition) -> dict[str, dict[str, float]]:
    """The sizes of each workload by its uuid; the first one is that of each device, the smallest that of `smoke`."""
    sizes: list[dict[str, float]] = [
        {**definition.sizes(one), _CHOSEN: index} for index, one in enumerate(definition.workloads)
    ]

    def elements(one: Mapping[str, float]) -> int:
        return sum(_nbytes(*spec) for spec in definition.specs("inputs", one).values())

    by_uuid = {str(one.get("uuid", "")): own for one, own in zip(definition.workloads, sizes, strict=True)}
    by_uuid.pop("", None)
    return {**by_uuid, "smoke": min(sizes, key=elements), "cpu": sizes[0], "cuda": sizes[0]}


def _value(path: Path, name: str, spec: tuple[str, Any], given: Any, device: str, generator: Any) -> Any:
    """The value of an input: drawn, a scalar, or a tensor of a file of the dataset."""
    import torch

    kind = given.get("type", "random") if isinstance(given, dict) else "random"
    dtype, shape = getattr(torch, spec[0]), spec[1]
    if shape is None or kind == "scalar":
        if kind != "scalar" or not isinstance(given.get("value"), int | float):
            raise BenchmarkError(
                f"{path}: the input {name!r} is a scalar, which needs a value in the workload, such as "
                '{"type": "scalar", "value": 1.0}.'
            )
        return given["value"]
    if kind == "safetensors":
        return _stored(path, given, dtype, shape).to(device)
    if kind != "random":
        raise BenchmarkError(
            f"{path}: the input {name!r} is of the kind {words(str(kind))!r}; known are random, safetensors and scalar."
        )
    if dtype is torch.bool:
        return torch.rand(shape, device=device, generator=generator) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0, 100, shape, device=device, generator=generator).to(dtype)
    return torch.randn(shape, device=device, generator=generator).to(dtype)


def _stored(path: Path, given: Mapping[str, Any], dtype: Any, shape: Any) -> Any:
    try:
        from safetensors import safe_open
    except ImportError:
        raise BenchmarkError(f"{path}: its workload is stored as safetensors. pip install safetensors") from None
    root = next((one.parent for one in path.parents if one.name == "definitions"), path.parent)
    file = (root / str(given.get("path"))).resolve()
    if not file.is_relative_to(root.resolve()) or not file.is_file():
        raise BenchmarkError(f"{path}: its workload names '{given.get('path')}', which is no file below {root}.")
    with safe_open(file, framework="pt") as stored:
        found = stored.get_tensor(str(given.get("tensor_key")))
    if [*found.shape] != shape or found.dtype != dtype:
        there = f"{found.dtype} {[*found.shape]}"
        raise BenchmarkError(f"{path}: {file} holds {there}; the definition says {dtype} {shape}.")
    return found


def _outputs(arguments: Mapping[str, Any]) -> dict[str, tuple[Any, list[int]]]:
    """The dtype and the shape of each output, of the arguments of a benchmark."""
    import torch

    return {
        name.removeprefix(OUTPUT): (getattr(torch, _DTYPES[int(one[0])]), [int(size) for size in one[1:]])
        for name, one in arguments.items()
        if name.startswith(OUTPUT)
    }


def _nbytes(dtype: str, shape: Sequence[int] | None) -> int:
    """The bytes of a tensor; 0 of a scalar."""
    import math

    import torch

    return 0 if shape is None else math.prod(shape) * torch.empty(0, dtype=getattr(torch, dtype)).element_size()


def _parsed(path: Path, data: bytes, error: type[Exception]) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise error(f"{path}: is no JSON: {problem}") from None
    if not isinstance(found, dict):
        raise error(f"{path}: is no JSON object")
    return found
