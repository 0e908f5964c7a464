"""Executing trusted files of users: as modules of their own name, and with errors that name the file."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import ExecutionLoader
from pathlib import Path
from types import ModuleType

from aiperf_core.errors import AiperfError, BenchmarkError, is_out_of_memory


def execute(name: str, loader: ExecutionLoader) -> ModuleType:
    """Import a module of this name from a loader, and return it."""
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


@contextmanager
def blamed_on(path: Path, what: str) -> Iterator[None]:
    """Make `BenchmarkError`s, with the file and what was called, of what a user's code raises."""
    try:
        yield
    except AiperfError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise BenchmarkError(
                f"{path}: {what} needs more memory than a process of this run may take: {first}. "
                "Use smaller sizes, or a machine with more memory."
            ) from error
        raise BenchmarkError(f"{path}: {what} raised {type(error).__name__}: {error}") from error
