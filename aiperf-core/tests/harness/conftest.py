"""Sessions over the targets in `targets/`."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.results.models import SkippedTarget, TargetResult
from aiperf_core.targets import InstalledTarget, Selection

TARGETS = Path(__file__).parent / "targets"

Measure = Callable[..., TargetResult | SkippedTarget]


@pytest.fixture(scope="session")
def shared_planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    """One planner for all tests: its fork server imports torch once."""
    folder = tmp_path_factory.mktemp("session")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
        patch.setenv("AIPERF_CACHE_DIR", str(folder / "cache"))
        with Planner(Options(), folder) as planner:
            # Both are tested apart from this; and the tests must not depend on what the machine has.
            planner._probed["cuda"] = "the tests hide it"
            planner._ceilings["cpu"] = None
            yield planner


@pytest.fixture
def measure(shared_planner: Planner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Run one target of the tests on the CPU: `measure(module, *implementations, **options)`."""
    monkeypatch.setattr(Planner, "ceilings", lambda *_, **__: None)

    return partial(run_target, shared_planner, tmp_path)


@pytest.fixture(scope="module")
def shared_measure(shared_planner: Planner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measure]:
    """The same, for a result that the tests of a module share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Planner, "ceilings", lambda *_, **__: None)
        yield partial(run_target, shared_planner, tmp_path_factory.mktemp("shared"))


def run_target(
    planner: Planner, logs: Path, module: str, *implementations: str, **options: object
) -> TargetResult | SkippedTarget:
    """Run one target of the tests on the CPU."""
    defaults: dict[str, object] = {"device": "cpu", "budget_s": 0.05, "timeout_s": 20.0}
    planner.options = Options(**{**defaults, **options})
    target = InstalledTarget(f"tests.{module}", module)
    plans, skipped = planner.plan([Selection(target, frozenset(implementations))])
    if skipped:
        return skipped[0]
    return planner.run(plans[0], lambda _, name: logs / f"{name}.log", Silent())
