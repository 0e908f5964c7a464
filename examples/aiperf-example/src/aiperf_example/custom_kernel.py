"""A format of candidates: `custom_kernel(data)`, and as reference `generate_input(seed)` and `ref_kernel(data)`.

`data` is a tuple of tensors, or a single one. The form is that of contests in writing kernels.
"""

from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.candidate_format import CandidateFormat, Code
from aiperf_core.errors import BenchmarkError, UsageError


class CustomKernel(CandidateFormat):
    """The candidate is a function; its reference is a trusted file."""

    by_position = None

    def code(self, path: Path, data: bytes) -> Code:
        """The file is the code."""
        try:
            return Code(data.decode(), "custom_kernel")
        except UnicodeDecodeError:
            raise UsageError(f"'{path}' is not UTF-8. Save it as UTF-8.") from None

    def benchmark(self, reference: Path) -> Benchmark:
        """Make a benchmark whose baseline is the reference."""
        module = _imported(reference)

        def inputs(device: str, generator: Any) -> dict[str, Any]:
            data = module.generate_input(generator.initial_seed())
            several = data if isinstance(data, tuple) else (data,)
            return {f"data_{index}": one.to(device) for index, one in enumerate(several)}

        size = sum(one.nbytes for one in inputs("cpu", _Seed()).values())
        bench = Benchmark(goal="speed")
        bench.where = str(reference)
        bench.workload(smoke={}, cpu={}, cuda={})(inputs)
        bench.reference(tolerance=fp32_reduction)(lambda **data: module.ref_kernel(_together(data)))
        bench.cost(lambda: Cost(bytes_read=size))
        bench.baseline(device=("cpu", "cuda"), kind="reasonable", name="ref_kernel")(self.adapt(module.ref_kernel, ()))
        bench.check()
        return bench

    def adapt(self, found: Any, input_names: Sequence[str]) -> Any:
        """A class that calls the function with `data`."""

        class Kernel:
            def run(self, **data: Any) -> Any:
                return found(_together(data))

        return Kernel


class _Seed:
    """Stands for torch's generator, of which only the seed is asked."""

    def initial_seed(self) -> int:
        return 0


def _together(data: dict[str, Any]) -> Any:
    several = tuple(data[name] for name in sorted(data, key=lambda name: int(name.removeprefix("data_"))))
    return several if len(several) > 1 else several[0]


def _imported(path: Path) -> Any:
    spec = spec_from_file_location(f"custom_kernel_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BenchmarkError(f"{path}: importing it raised {type(error).__name__}: {error}") from error
    missing = [name for name in ("generate_input", "ref_kernel") if not callable(getattr(module, name, None))]
    if missing:
        raise BenchmarkError(f"{path}: has no {', no '.join(missing)}.")
    return module
