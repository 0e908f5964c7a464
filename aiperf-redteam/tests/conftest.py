"""What tests of several modules use: a planner, and the rows of untrusted code."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiperf_core.candidate_format import AIPERF, Format
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.observing import STARVED_REASON
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.targets import InstalledTarget, Selection

# A file is judged at most this often, as long as other work on the machine keeps its observer from looking.
JUDGED_AT_MOST = 4


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIPERF_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        # The speed of light is no matter of these, and measuring it takes seconds.
        patch.setattr(Planner, "ceilings", lambda *_, **__: None)
        with Planner(Options(), tmp_path_factory.mktemp("logs")) as planner:
            yield planner


@pytest.fixture
def judged(planner: Planner, tmp_path: Path) -> Callable[..., list[Row]]:
    """The rows of the baseline and of a candidate with this text."""

    def judge_once(target: InstalledTarget) -> list[Row]:
        plans, skipped = planner.plan([Selection(target)])
        assert not skipped
        result = planner.run_whole(plans[0], lambda _, log: tmp_path / f"{log}.log", Silent())
        assert isinstance(result, TargetResult), result
        baseline, row = result.rows
        assert baseline.verdict is Verdict.MEASURED, baseline.reason
        assert row.name == "candidate"
        return result.rows

    def judge(
        text: str, target: InstalledTarget, form: Format = AIPERF, *, device: str = "cpu", **options: Any
    ) -> list[Row]:
        file = tmp_path / "candidate.py"
        file.write_text(text)
        planner.options = Options(device=device, candidate=check_candidate(file, form), **options)
        for _ in range(JUDGED_AT_MOST):
            rows = judge_once(target)
            if rows[1].reason != STARVED_REASON:
                break
        return rows

    return judge
