"""Sessions over the targets in `targets/`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiperf_core.harness.options import Options
from aiperf_core.harness.session import Session
from aiperf_core.results.models import SkippedTarget, TargetResult
from aiperf_core.targets import InstalledTarget, Selection

TARGETS = Path(__file__).parent / "targets"

Measure = Callable[..., TargetResult | SkippedTarget]


class SilentReporter:
    """Takes what a run tells, and keeps the phases."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, str | None]] = []

    def phase(self, text: str, implementation: str | None = None) -> None:
        """Keep a phase."""
        self.phases.append((text, implementation))

    def progress(self, block: int, blocks: int | None, seconds_left: float | None) -> None:
        """Nothing to keep."""


def selection(module: str, *implementations: str) -> Selection:
    """A selection of a target of the tests."""
    target = InstalledTarget(
        name=f"tests.{module}",
        module=module,
        summary="A target of the tests",
        goal="speed",
        devices=("cpu",),
        tags=(),
        distribution="tests",
        version="0",
    )
    return Selection(target, frozenset(implementations))


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measure]:
    """Run one target of the tests on the CPU: `measure(module, *implementations, **options)`."""
    monkeypatch.setenv("PYTHONPATH", str(TARGETS))
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))

    def run(module: str, *implementations: str, **options: object) -> TargetResult | SkippedTarget:
        defaults: dict[str, object] = {"device": "cpu", "budget_s": 0.05, "timeout_s": 20.0}
        with Session(Options(**{**defaults, **options}), tmp_path) as session:
            session._ceilings["cpu"] = None  # measured by tests of their own
            plans, skipped = session.plan([selection(module, *implementations)])
            if skipped:
                return skipped[0]
            return session.run(plans[0], lambda _, name: tmp_path / f"{name}.log", SilentReporter())

    yield run
