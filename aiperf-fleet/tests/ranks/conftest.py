"""The fixtures of the core's own tests: kept ceilings, and sessions over the targets of its tests."""

import importlib.util
from pathlib import Path
from types import ModuleType

CORE_TESTS = Path(__file__).parents[3] / "aiperf-core" / "tests"


def fixtures_of(folder: Path, name: str) -> ModuleType:
    """A `conftest.py` of the core, as a module of that name."""
    specification = importlib.util.spec_from_file_location(name, folder / "conftest.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


core, sessions = fixtures_of(CORE_TESTS, "core_fixtures"), fixtures_of(CORE_TESTS / "harness", "core_sessions")
known_ceilings, new_cache = core.known_ceilings, core.new_cache
shared_planner, measure, shared_measure = sessions.shared_planner, sessions.measure, sessions.shared_measure
