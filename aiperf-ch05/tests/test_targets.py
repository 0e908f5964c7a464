"""Targets leave no file behind, see no later step, and report what a file system refuses. `pytest --aiperf` tests the rest."""

import os
import statistics
import tempfile
from pathlib import Path

import pytest
import torch

from aiperf_ch05 import checkpoint_save, file_read
from aiperf_core.benchmark import bind
from aiperf_core.errors import BenchmarkError, SkipError
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import SkippedTarget, TargetResult
from aiperf_core.targets import Selection
from aiperf_core.testing import Measuring, short_run

TARGETS = [one for one in load_plugins().targets if one.group == "ch05"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, TargetResult | SkippedTarget], list[Path]]:
    """The results, and what is left in the temporary folder afterwards."""
    folder = tmp_path_factory.mktemp("disk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        # torch makes it at its import
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("compiler")))
        patch.setattr(tempfile, "tempdir", None)
        with Measuring() as measuring:
            results = {one.name: measuring.attempt(Selection(one), short_run("cpu")) for one in TARGETS}
    return results, list(folder.iterdir())


def result_of(measured: tuple[dict[str, TargetResult | SkippedTarget], list[Path]], name: str) -> TargetResult:
    result = measured[0][name]
    if isinstance(result, SkippedTarget) and "can leave the page cache" in result.reason:
        pytest.skip(result.reason)
    assert isinstance(result, TargetResult), result
    return result


def of_this_process(counter: str) -> int:
    """The kernel's counter of this process: `syscr`, calls that read, or `wchar`, bytes that were written."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts[counter])


def test_a_thread_goes_on_after_the_call(
    measured: tuple[dict[str, TargetResult | SkippedTarget], list[Path]],
) -> None:
    for row in result_of(measured, "ch05.checkpoint_save").rows:
        assert min(row.samples.wall_s, default=0.0) > 0
        held_s = statistics.median(time for time in row.samples.wall_s if time is not None)
        if row.name in ("snapshot", "incremental_snapshot", "async_save"):
            assert row.beside["until_done_s"] > 1.2 * held_s
        else:
            assert row.beside["until_done_s"] < 1.2 * held_s + 0.001


def test_nothing_is_left(measured: tuple[dict[str, TargetResult | SkippedTarget], list[Path]]) -> None:
    assert measured[1] == []


@pytest.mark.parametrize(
    ("reader", "calls"), [(file_read.SmallRequests, 4096), (file_read.LargeRequests, 2), (file_read.Mapped, 0)]
)
def test_the_calls_of_a_reader_are_those_of_its_requests(
    tmp_path: Path, reader: type[file_read.Reading], calls: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(2 * file_read.LARGE))
    reading = reader()
    reading.prepare(str(path), 2 * file_read.LARGE)
    before = of_this_process("syscr")
    reading.run()
    assert calls <= of_this_process("syscr") - before < calls + 8  # and those that read the count


@pytest.mark.parametrize("reader", [file_read.LargeRequests, file_read.IoUring])
def test_a_file_that_ends_too_early_is_an_error(tmp_path: Path, reader: type[file_read.Reading]) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(5000))
    reading = reader()
    reading.prepare(str(path), 5001)
    with pytest.raises(OSError, match="reading the input's file"):
        reading.run()


def test_a_file_system_without_direct_reads_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refusing(path: str, flags: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return opened(path, flags)

    monkeypatch.setattr(os, "open", refusing)
    (tmp_path / "file").write_bytes(b"12345678")
    with pytest.raises(SkipError) as caught:
        file_read.DirectThreads().prepare(str(tmp_path / "file"), 8)
    assert str(caught.value) == "needs a file system with O_DIRECT; opening the file said: Invalid argument"


def test_a_container_that_forbids_io_uring_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    function = file_read.host_code.function
    refused = {"refused_ring": lambda: 1}
    monkeypatch.setattr(type(file_read.host_code), "function", lambda _, name: refused.get(name) or function(name))
    (tmp_path / "file").write_bytes(b"12345678")
    with pytest.raises(SkipError) as caught:
        file_read.IoUring().prepare(str(tmp_path / "file"), 8)
    assert str(caught.value) == "needs io_uring; io_uring_setup said: Operation not permitted (EPERM)"


@pytest.mark.parametrize("name", ["synchronous", "sharded", "snapshot", "incremental", "incremental_snapshot"])
def test_only_incremental_saves_leave_out_what_is_frozen(tmp_path: Path, name: str) -> None:
    (one,) = (one for one in checkpoint_save.bench.implementations_on("cpu") if one.name == name)
    frozen, trained = list(torch.ones(6, 4 * 16384, dtype=torch.int8)), list(torch.ones(2, 16384))
    given = {"folder": str(tmp_path), "frozen": frozen, "trained": trained}
    instance = one.code()
    instance.prepare(**given)
    before = of_this_process("wchar")
    bind(instance.run, given)()
    instance.finish()
    tensors = 2 if name.startswith("incremental") else 8
    assert 0 <= of_this_process("wchar") - before - tensors * 4 * 16384 < 4096  # the manifest is beside them


def test_a_model_without_a_frozen_tensor_is_refused() -> None:
    with pytest.raises(BenchmarkError) as caught:
        checkpoint_save.inputs(3, 3, 8, "cpu", torch.Generator())
    assert str(caught.value) == "trained_tensors=3 of tensors=3; accepted are from 1 to all but one of them"


@pytest.mark.parametrize("name", ["snapshot", "incremental_snapshot"])
def test_a_snapshot_does_not_see_the_steps_that_follow(tmp_path: Path, name: str) -> None:
    (one,) = (one for one in checkpoint_save.bench.implementations_on("cpu") if one.name == name)
    frozen, trained = [torch.ones(4 * 64, dtype=torch.int8)], [torch.ones(64)]
    given = {"folder": str(tmp_path), "frozen": frozen, "trained": trained}
    instance = one.code()
    instance.prepare(**given)
    right = checkpoint_save.words_of(frozen, [trained[0].clone()])
    bind(instance.run, given)()
    trained[0].fill_(2)
    instance.finish()
    assert torch.equal(instance.output()[0], right[0])


def test_a_thread_that_fails_is_heard_of(tmp_path: Path) -> None:
    snapshot = checkpoint_save.Snapshot()
    frozen, trained = [torch.ones(4, dtype=torch.int8)], [torch.ones(1)]
    snapshot.prepare(str(tmp_path / "missing"), frozen, trained)
    snapshot.run(frozen, trained)
    with pytest.raises(Exception, match="8 bytes could not be saved in .*: No such file or directory"):
        snapshot.finish()


def test_two_mechanisms_are_there_alone_and_together() -> None:
    """`aiperf analyze stacking` measures how they combine."""
    bench, pair = checkpoint_save.bench, ("background write", "changed tensors only")
    variants = [one for one in bench.implementations_on("cpu") if one.role == "variant"]
    combined = {frozenset(bench.mechanisms_of(one)) for one in variants}
    assert {frozenset(pair[:1]), frozenset(pair[1:]), frozenset(pair)} <= combined
