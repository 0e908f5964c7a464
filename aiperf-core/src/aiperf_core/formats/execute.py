"""Executing a source file as a module of its own name."""

import importlib.util
import sys
from importlib.abc import ExecutionLoader
from types import ModuleType


def execute(name: str, loader: ExecutionLoader) -> ModuleType:
    """Import a module of this name from a loader, and return it."""
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module
