"""For the tests of a package of benchmarks: measure a target as `aiperf run` does, without a bundle."""

import tempfile
from pathlib import Path

from aiperf_core.harness.options import Options
from aiperf_core.harness.session import Session
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import SkippedTarget, TargetResult

BUDGET_S = 0.02


class Measuring:
    """Measures installed targets, one call each; a context manager, since its fork server imports torch only once.

    The budget is short: the verdicts of such runs say nothing about speed, and everything about right and wrong.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="aiperf-test-")
        self._session = Session(Options(), Path(self._folder.name))

    def __enter__(self) -> "Measuring":
        return self

    def __exit__(self, *_: object) -> None:
        self._session.__exit__()
        self._folder.cleanup()

    def measure(self, target: str, *, device: str = "cpu", size: str = "smoke", **params: float) -> TargetResult:
        """Measure a target (or one implementation of it) at a size; `params` override single sizes.

        Raises `UsageError` for what is not there, and `AssertionError` with the reason where it could not be run.
        """
        self._session.options = Options(device=device, size=size, params=params, budget_s=BUDGET_S)
        plans, skipped = self._session.plan(load_plugins().select([target]))
        result = skipped[0] if skipped else self._session.run(plans[0], self._log_path, _Silent())
        if isinstance(result, SkippedTarget):
            raise AssertionError(f"{result.verdict}: {result.reason}")
        return result

    def _log_path(self, target: str, name: str) -> Path:
        return Path(self._folder.name) / f"{target}.{name}.log"


class _Silent:
    def phase(self, text: str, implementation: str | None = None) -> None:
        """Tell nobody."""

    def progress(self, block: int, blocks: int | None, seconds_left: float | None) -> None:
        """Tell nobody."""


def problems(result: TargetResult) -> list[str]:
    """What is wrong with a result: implementations that are not right, did not run, or were never compared."""
    wrong = [f"{row.name}: {row.verdict}: {row.reason}" for row in result.rows if row.verdict in ("INVALID", "FAILED")]
    unjudged = [f"{row.name}: never judged" for row in result.rows if row.verdict != "SKIPPED" and not row.judgement]
    return wrong + unjudged
