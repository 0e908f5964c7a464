"""Two functions of files as a benchmark: the first is baseline and reference, the second the variant.

A file of JSON names them, so that every process of a run makes the same benchmark. The files are trusted: they are
imported, with their folders on the path.
"""

import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from aiperf_core import atomic, pytree
from aiperf_core.benchmark import Benchmark
from aiperf_core.candidate_format import CandidateFormat, Reference
from aiperf_core.cost import Cost
from aiperf_core.errors import BenchmarkError, UsageError, is_out_of_memory
from aiperf_core.formats.execute import blamed_on
from aiperf_core.formats.kernelbench import as_example, drawn
from aiperf_core.tolerance import fp32_reduction

# Inputs without a name have this one, and their number.
_NUMBERED = "input_"
_LOAD = "aiperf_core.formats.functions:Functions"


@frozen
class Place:
    """A function in a file, as in `kernels.py:tiled`. `sha256` is that of the file when it was named."""

    file: str
    name: str
    sha256: str

    @staticmethod
    def of(text: str, what: str) -> "Place":
        """The function that a text names. Raises UsageError unless its file exists."""
        file, colon, name = text.rpartition(":")
        if not colon or not name.isidentifier():
            raise UsageError(f"{what} is {text!r}; accepted is FILE.py:NAME, such as kernels.py:tiled.")
        if not Path(file).is_file():
            raise UsageError(f"{what} is in '{file}', which is not a file.")
        path = Path(file).resolve()
        return Place(str(path), name, hashlib.sha256(path.read_bytes()).hexdigest())

    def load(self) -> Callable[..., Any]:
        """Import the file and return the function. Raises BenchmarkError, with the file, where that fails."""
        path = Path(self.file)
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        with blamed_on(path, "importing it"):
            module = sys.modules.get(path.stem)
            if module is None or getattr(module, "__file__", None) != self.file:
                spec = importlib.util.spec_from_file_location(path.stem, path)
                assert spec is not None
                assert spec.loader is not None
                module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
        function = getattr(module, self.name, None)
        if not callable(function):
            known = [name for name, value in vars(module).items() if inspect.isfunction(value)]
            raise BenchmarkError(f"{path}: has no function {self.name}; it has {', '.join(known) or 'none'}.")
        return function  # type: ignore[no-any-return]


@frozen
class Pair:
    """Two functions, and the function that makes their inputs."""

    first: Place
    second: Place
    inputs: Place

    @property
    def names(self) -> tuple[str, str]:
        """The names of the implementations."""
        one, other = self.first.name, self.second.name
        return (one, other) if one != other else (f"{one}_first", f"{other}_second")

    def write(self, file: Path) -> Reference:
        """Write the file of the pair, and return it as the reference of a target."""
        atomic.write(file, json.dumps(asdict(self)).encode())
        return Reference(_LOAD, file)

    @staticmethod
    def read(file: Path) -> "Pair":
        """The pair of a file that `write` wrote."""
        data = json.loads(file.read_text(encoding="utf-8"))
        return Pair(**{name: Place(**place) for name, place in data.items()})


class Functions(CandidateFormat):
    """Two functions, of which no one is a candidate."""

    def benchmark(self, reference: Path) -> Benchmark:
        """Make the benchmark of a pair.

        Work and bytes are unknown: only reading the inputs bounds the time.
        """
        pair = Pair.read(reference)
        first, second, make = pair.first.load(), pair.second.load(), pair.inputs.load()
        file = Path(pair.inputs.file)
        with blamed_on(file, pair.inputs.name):
            example = _by_name(drawn(_listed(make), 0, "cpu")[0])

        def inputs(device: str, generator: Any) -> dict[str, Any]:
            with blamed_on(file, pair.inputs.name):
                (made,) = drawn(_listed(make), generator.initial_seed(), device)
            return pytree.mapped(_by_name(made), lambda tensor: tensor.to(device))  # type: ignore[no-any-return]

        def answer(**arguments: Any) -> Any:
            with blamed_on(Path(pair.first.file), pair.first.name):
                try:
                    return _called(first)(**arguments)
                except (RuntimeError, TypeError) as error:  # a function that names a dtype runs in no other one
                    if is_out_of_memory(error):
                        raise
                    own = {name: as_example(value, example[name]) for name, value in arguments.items()}
                    return _called(first)(**own)

        def cost() -> Cost:
            return Cost(bytes_read=sum(tensor.nbytes for tensor in pytree.tensors(example)) or 1)

        bench = Benchmark(goal="speed")
        bench.where = str(reference)
        bench.workload(smoke={}, cpu={}, cuda={})(inputs)
        bench.reference(tolerance=fp32_reduction)(answer)
        bench.cost(cost)
        both = bench.on(("cpu", "cuda"))
        both.baseline(kind="reasonable", name=pair.names[0])(_called(first))
        both.variant(name=pair.names[1], why=f"the other function, of {Path(pair.second.file).name}")(_called(second))
        bench.check()
        return bench


def _listed(make: Callable[[], Any]) -> Callable[[], list[Any]]:
    """A maker of inputs in the form of `drawn`: all that it returns as one item of a list."""
    return lambda: [make()]


def _by_name(made: Any) -> dict[str, Any]:
    """The inputs by name; of a tuple or a single value, numbered."""
    if isinstance(made, dict):
        return made
    values = made if isinstance(made, tuple) else (made,)
    return {f"{_NUMBERED}{place}": value for place, value in enumerate(values)}


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as an implementation: called without gradients, with numbered inputs by position."""
    import torch

    def call(**arguments: Any) -> Any:
        with torch.no_grad():
            if next(iter(arguments), "").startswith(_NUMBERED):
                return function(*arguments.values())
            return function(**arguments)

    return call
