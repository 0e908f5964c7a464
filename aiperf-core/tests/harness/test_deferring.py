"""Work that leaves the timed call is timed in full, or found."""

import os
from pathlib import Path

import pytest

from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.results.models import Row, TargetResult
from aiperf_core.targets import InstalledTarget, Selection

TARGETS = Path(__file__).parent / "targets"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    folder = tmp_path_factory.mktemp("deferring")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
        options = Options(device="cuda", tier="standard", budget_s=3.0)
        with Planner(options, folder) as planner:
            plans, _ = planner.plan([Selection(InstalledTarget("tests.deferring", "deferring"))])
            result = planner.run(plans[0], lambda _, name: folder / f"{name}.log", Silent())
    assert isinstance(result, TargetResult), result
    return {row.name: row for row in result.rows}


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["joined", "unjoined", "foreign", "waits"])
def test_work_on_other_streams_is_timed_in_full(rows: dict[str, Row], name: str) -> None:
    row, honest = rows[name], rows["here"]
    assert row.verdict not in ("INVALID", "FAILED", "UNTRUSTED"), row.reason
    assert row.time_s is not None
    assert honest.time_s is not None
    assert row.time_s.value > 0.9 * honest.time_s.value


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["late_thread", "lazy", "stale_graph"])
def test_work_that_comes_late_or_not_at_all_is_found(rows: dict[str, Row], name: str) -> None:
    assert rows[name].verdict == "INVALID", rows[name].reason
    assert rows[name].speedup is None


@pytest.mark.gpu
def test_the_clocks_agree_and_the_ledger_names_the_work(rows: dict[str, Row]) -> None:
    audit = rows["here"].audit
    assert audit is not None
    assert sum(piece.count for piece in audit.work) == 8
    assert audit.stray == 0
    side = rows["unjoined"].audit
    assert side is not None
    assert sum(piece.count for piece in side.work) == 8
    assert rows["here again"].role == "control"
