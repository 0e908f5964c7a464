"""Imports the benchmark of a target, with a message for every mistake of its author."""

import importlib
import traceback
from pathlib import Path
from typing import Any

from aiperf_core import benchmark
from aiperf_core.benchmark import Benchmark
from aiperf_core.candidate_format import adapter, reference_of
from aiperf_core.errors import BenchmarkError, TorchMissingError, is_torch_missing

# Files with the frames between `load_benchmark` and the module that it imports.
_IMPORTERS = (__file__, str(benchmark.__file__), str(Path(importlib.__file__).parent), "<frozen importlib")


def _raised_at(error: BaseException) -> str:
    """File and line of a failed import in the requested module; empty when it did not start."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [one for one in frames if not one.filename.startswith(_IMPORTERS)]
    return f"{theirs[0].filename}:{theirs[0].lineno}" if theirs else ""


def load_benchmark(target: Any) -> Benchmark:
    """Import the module of a target (a record with `name` and `module`) and return its checked `Benchmark`.

    Raises `BenchmarkError`, with the target and the file, for every mistake of the author, including a failed import.
    """
    reference = reference_of(target.module)
    if reference is not None:
        return adapter(reference.load).benchmark(reference.path)
    try:
        module = importlib.import_module(target.module)
    except BenchmarkError as error:
        # Some errors, such as those of a tolerance, have no place.
        place = _raised_at(error)
        where = "" if place.rpartition(":")[0] in str(error) else f"{place}: "
        raise BenchmarkError(f"{target.name!r} cannot be used. {where}{error}") from None
    except Exception as error:
        if is_torch_missing(error):
            raise TorchMissingError from error
        place = _raised_at(error)
        raised = f"raised {type(error).__name__}{place and f' at {place}'}: {error}"
        raise BenchmarkError(f"{target.name!r} cannot be used: importing {target.module!r} {raised}") from error
    found = [value for value in vars(module).values() if isinstance(value, Benchmark)]
    if len(found) != 1:
        raise BenchmarkError(
            f"{target.name!r} cannot be used: {module.__file__} has {len(found)} Benchmark objects at module level; "
            "accepted is one, as in: bench = Benchmark(goal='speed')"
        )
    try:
        found[0].check()
    except BenchmarkError as error:
        raise BenchmarkError(f"{target.name!r} cannot be used. {error}") from None
    return found[0]
