"""Workloads of several ranks: real processes that torch's launcher starts, talking through gloo."""

import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import psutil
import pytest

from aiperf_core.harness.run.planner import Planner
from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Row, TargetResult, Verdict

pytestmark = pytest.mark.quiet

Measure = Callable[..., object]


def rows_of(result: object) -> dict[str, Row]:
    assert isinstance(result, TargetResult), result
    return {row.name: row for row in result.rows}


@pytest.fixture(scope="module")
def rows(shared_measure: Measure) -> dict[str, Row]:
    return rows_of(shared_measure("several_ranks", "gathered", "slow_rank", "wrong_rank", "silent"))


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process and no folder stays behind."""
    here = psutil.Process()
    before = {one.pid for one in here.children(recursive=True)}
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        after = [one for one in here.children(recursive=True) if one.pid not in before]
        _, alive = psutil.wait_procs(after, timeout=5)
        assert [(one, one.cmdline()) for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []
        assert os.listdir(folder) == []


def test_a_long_path_of_temporary_files_does_not_matter(
    measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert rows_of(measure("several_ranks", "gathered"))["library"].verdict is Verdict.MEASURED


def test_ranks_are_measured_and_every_rank_is_judged(rows: dict[str, Row]) -> None:
    assert rows["library"].verdict is Verdict.MEASURED, rows["library"].reason
    assert rows["gathered"].speedup is not None, rows["gathered"].reason
    assert rows["gathered"].judgement is not None
    assert rows["wrong_rank"].verdict is Verdict.INVALID
    assert rows["wrong_rank"].reason is not None
    assert "rank1.sum" in rows["wrong_rank"].reason


def test_ranks_that_do_not_talk_give_themselves_away(rows: dict[str, Row]) -> None:
    assert rows["silent"].verdict is Verdict.INVALID


def test_the_slowest_rank_counts(rows: dict[str, Row]) -> None:
    row = rows["slow_rank"]
    assert row.wall_s is not None
    assert row.wall_s.value >= 0.2


def test_each_rank_is_in_the_result(rows: dict[str, Row]) -> None:
    ranks = rows["library"].ranks
    assert [one.rank for one in ranks] == [0, 1]
    assert all(one.time_s > 0 for one in ranks)
    assert [one.collectives for one in ranks] == [{"allreduce": 1}] * 2
    assert [one.wire_bytes for one in ranks] == [4 << 16] * 2
    assert set(rows["gathered"].ranks[0].collectives) == {"allgather"}


@pytest.mark.parametrize(("loopback_bytes_per_s", "verdict"), [(1e10, Verdict.MEASURED), (1e4, Verdict.INVALID)])
def test_what_ranks_must_send_bounds_their_time(
    measure: Measure, monkeypatch: pytest.MonkeyPatch, loopback_bytes_per_s: float, verdict: Verdict
) -> None:
    asked: list[list[str]] = []
    ceilings = Ceilings("a CPU", "today", 1e15, 1e15, 1e15, {}, loopback_bytes_per_s=loopback_bytes_per_s)

    def measured(planner: Planner, device: str, again: bool = False, groups: Collection[str] = ()) -> Ceilings:
        asked.append([*groups])
        return ceilings

    monkeypatch.setattr(Planner, "ceilings", measured)
    row = rows_of(measure("several_ranks", "library"))["library"]
    assert asked[-1] == ["wire"]
    assert row.verdict is verdict, row.reason
    if verdict is Verdict.INVALID:
        assert row.reason is not None
        assert "times as fast as this machine's wire allows (26.2 s)" in row.reason
    else:
        assert row.speed_of_light is not None
        assert (row.speed_of_light.bound, row.speed_of_light.time_s) == ("wire", 4 * (1 << 16) / loopback_bytes_per_s)
        assert row.time_s is not None
        assert row.wire_bytes_per_s is not None


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dies", "rank 1 was killed by SIGKILL"),
        ("exits", "rank 0 exited with status 7 during 'sample', without a result"),
        ("raises", "rank 1 raised ValueError: not today"),
        ("hangs", "ranks 0, 1 gave no answer within 5 s (during 'sample')"),
    ],
)
def test_a_rank_that_fails_ends_its_row_with_its_name(measure: Measure, name: str, reason: str) -> None:
    rows = rows_of(measure("several_ranks", name, timeout_s=5.0))
    assert rows["library"].verdict is Verdict.MEASURED, rows["library"].reason
    row = rows[name]
    assert row.verdict is Verdict.FAILED
    assert row.reason is not None
    assert row.reason.startswith(reason)
    if name == "dies":
        assert "rank 1: my last words" in row.log


def test_more_ranks_than_the_default(measure: Measure) -> None:
    rows = rows_of(measure("several_ranks", "gathered", params={"world_size": 3}))
    assert rows["gathered"].speedup is not None, rows["gathered"].reason
    assert len(rows["library"].ranks) == 3


def test_one_rank(measure: Measure) -> None:
    rows = rows_of(measure("several_ranks", "gathered", params={"world_size": 1}))
    assert rows["gathered"].speedup is not None, rows["gathered"].reason
