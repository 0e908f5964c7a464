"""Inputs in files, folders of implementations, and work that goes on after a call."""

import os
import tempfile
from pathlib import Path

import pytest
import torch

from aiperf_core.candidate_format import AIPERF
from aiperf_core.described import DescribedImplementation
from aiperf_core.devices.input_file import InputFile
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.formats.candidate import CandidateSource
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.recorder import Recorder
from aiperf_core.measurements import Answer
from aiperf_core.results.models import Row, SkippedTarget, TargetResult, Verdict
from aiperf_core.stats.observations import answers_of
from aiperf_core.targets import InstalledTarget, Selection

pytestmark = pytest.mark.quiet

TARGETS = Path(__file__).parent / "targets"
TARGET = InstalledTarget("tests.on_disk", "on_disk")


def run_with_files_in(folder: Path, logs: Path) -> TargetResult | SkippedTarget:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        with Planner(Options(device="cpu", size="smoke", budget_s=0.05), logs) as planner:
            plans, _ = planner.plan([Selection(TARGET)])
            return planner.run(plans[0], lambda _, name: logs / f"{name}.log", Silent())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Row], list[Path]]:
    """The rows, and what is left in the temporary folder."""
    folder = tmp_path_factory.mktemp("disk")
    result = run_with_files_in(folder, tmp_path_factory.mktemp("logs"))
    if isinstance(result, SkippedTarget) and "can leave the page cache" in result.reason:
        pytest.skip(result.reason)
    assert isinstance(result, TargetResult), result
    return {row.name: row for row in result.rows}, list(folder.iterdir())


def test_until_done_is_recorded_beside_what_is_timed(run: tuple[dict[str, Row], list[Path]]) -> None:
    rows, _ = run
    for name in ("at_once", "later"):
        assert rows[name].verdict not in (Verdict.INVALID, Verdict.FAILED, Verdict.UNTRUSTED), rows[name].reason
        assert rows[name].judgement is not None
    held_s = min(time for time in rows["later"].samples.wall_s if time is not None)
    assert held_s < 0.02 <= rows["later"].beside["until_done_s"]
    assert rows["at_once"].beside["minor_faults"] >= 0


def test_what_is_not_waited_for_is_not_there(run: tuple[dict[str, Row], list[Path]]) -> None:
    row = run[0]["never_joined"]
    assert row.verdict in (Verdict.INVALID, Verdict.FAILED)


def test_a_file_that_a_call_changed_is_found(run: tuple[dict[str, Row], list[Path]]) -> None:
    row = run[0]["spoils"]
    assert row.verdict is Verdict.INVALID
    assert row.findings[0].issue == "memory.input_mutation"
    assert row.reason == "the call changed its inputs: data; a workload names what may change as state"


def test_the_file_is_not_in_the_page_cache_when_a_call_begins(run: tuple[dict[str, Row], list[Path]]) -> None:
    row = run[0]["finds_it_cold"]
    assert row.verdict not in (Verdict.INVALID, Verdict.FAILED), row.reason


def test_an_evicted_folder_is_not_in_the_page_cache_when_a_call_begins(run: tuple[dict[str, Row], list[Path]]) -> None:
    row = run[0]["finds_its_folder_cold"]
    assert row.verdict not in (Verdict.INVALID, Verdict.FAILED, Verdict.SKIPPED), row.reason


def test_a_file_that_a_call_keeps_mapped_is_a_reason_to_skip(run: tuple[dict[str, Row], list[Path]]) -> None:
    row = run[0]["keeps_it_mapped"]
    assert row.verdict is Verdict.SKIPPED
    assert "3 pages of a file in" in row.reason


def test_nothing_is_left_of_a_worker_that_was_killed(run: tuple[dict[str, Row], list[Path]]) -> None:
    rows, left = run
    assert rows["killed"].verdict is Verdict.FAILED
    assert left == []


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no file system in memory here")
def test_where_files_lie_in_memory_the_target_is_skipped(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        result = run_with_files_in(Path(folder), tmp_path)
    assert isinstance(result, SkippedTarget), result
    assert result.verdict is Verdict.SKIPPED
    assert result.reason == (
        f"needs files that can leave the page cache; 3 pages of a file in {folder!r} stay in memory, as on tmpfs. "
        "Name a folder on a disk in TMPDIR"
    )


def test_only_who_is_deferred_may_go_on_after_the_call() -> None:
    sample = Sample(wall_s=1.0, bracket_s=1.0, answered_s=3.0, begun_s=0.0, until_done_s=2.9)
    for deferred, held_s in ((True, 2.9), (False, 1.0)):
        declared = DescribedImplementation("one", "variant", "cpu", "here")
        one = Recorder.of(declared)
        one.deferred = deferred
        one.record((0, 0, 0), sample, calls=1, judged=False)
        assert answers_of(one.facts.samples) == [Answer(held_s, 0.0, 3.0)]


def test_a_candidate_is_given_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
    text = "class Implementation:\n    def run(self, data, one):\n        return data\n"
    source = CandidateSource(tmp_path / "candidate.py", text, "0", AIPERF)
    with (
        Planner(Options(device="cpu", size="smoke", candidate=source), tmp_path) as planner,
        pytest.raises(UsageError) as caught,
    ):
        planner.plan([Selection(TARGET)])
    assert str(caught.value).startswith(
        "'tests.on_disk' uses files, or continues after the call returns; candidates support neither"
    )


def test_a_file_holds_what_was_written_and_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file, data = InputFile(), torch.arange(5000, dtype=torch.int32)
    file.write(data)
    assert Path(file.path).read_bytes() == data.numpy().tobytes()
    assert list(tmp_path.iterdir()) == []
    assert not file.changed(data, thorough=True)
    file.write(data[:100])
    assert Path(file.path).read_bytes() == data[:100].numpy().tobytes()
    assert not file.changed(data[:100], thorough=True)
    assert file.changed(data[1:101], thorough=True)
    assert not file.changed(data[1:101], thorough=False)
    with open(file.path, "r+b") as other:
        other.write(b"1")
    assert file.changed(data[:100], thorough=False)
    file.close()


def test_a_full_disk_is_a_reason_to_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    file = InputFile()
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(SkipError) as caught:
        file.write(torch.zeros(10, dtype=torch.uint8))
    file.close()
    assert str(caught.value) == (
        f"needs 10 bytes of disk in {tempfile.gettempdir()!r}: No space left on device; name a folder with more space in TMPDIR"
    )
