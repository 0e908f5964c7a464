"""Every target of the chapter is right, at awkward sizes too, and leaves nothing behind."""

import os
import statistics
import tempfile
from pathlib import Path

import pytest
import torch

from aiperf_ch05 import checkpoint_save, file_read
from aiperf_core.benchmark import bind, call_with
from aiperf_core.errors import BenchmarkError, SkipError
from aiperf_core.harness.run.options import Options
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import SkippedTarget, TargetResult
from aiperf_core.targets import Selection
from aiperf_core.testing import BUDGET_S, OF_TIMES, Measuring, problems

TARGETS = [one for one in load_plugins().targets if one.group == "ch05"]
# Less than a word; around a piece, a request and the queue of them; primes.
SIZES = [1, 7, 4096, 65535, 65537, (1 << 20) - 1, (1 << 20) + 8, 4_200_001]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, TargetResult | SkippedTarget], list[Path]]:
    """The results, and what is left in the temporary folder afterwards."""
    folder = tmp_path_factory.mktemp("disk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        with Measuring() as measuring:
            options = Options(device="cpu", size="smoke", budget_s=BUDGET_S, off=OF_TIMES)
            results = {one.name: measuring.attempt(Selection(one), options) for one in TARGETS}
    return results, list(folder.iterdir())


def result_of(measured: tuple[dict[str, TargetResult | SkippedTarget], list[Path]], name: str) -> TargetResult:
    result = measured[0][name]
    if isinstance(result, SkippedTarget) and "can leave the page cache" in result.reason:
        pytest.skip(result.reason)
    assert isinstance(result, TargetResult), result
    return result


@pytest.mark.parametrize("name", [one.name for one in TARGETS])
def test_measured(measured: tuple[dict[str, TargetResult | SkippedTarget], list[Path]], name: str) -> None:
    assert problems(result_of(measured, name)) == []


def test_a_thread_goes_on_after_the_call(
    measured: tuple[dict[str, TargetResult | SkippedTarget], list[Path]],
) -> None:
    for row in result_of(measured, "ch05.checkpoint_save").rows:
        assert min(row.samples.wall_s, default=0.0) > 0
        held_s = statistics.median(time for time in row.samples.wall_s if time is not None)
        if row.name in ("snapshot", "incremental_snapshot"):
            assert row.beside["until_done_s"] > 1.2 * held_s
        else:
            assert row.beside["until_done_s"] < 1.2 * held_s + 0.001


def test_nothing_is_left(measured: tuple[dict[str, TargetResult | SkippedTarget], list[Path]]) -> None:
    assert measured[1] == []


@pytest.mark.parametrize("n", SIZES)
def test_files_are_read_right(tmp_path: Path, n: int) -> None:
    bench, path = file_read.bench, tmp_path / "file"
    draw = {"n": n, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    for one in bench.on("cpu"):
        instance = one.code()
        for _ in range(2):
            data = call_with(bench.task.inputs, draw)["file"]
            path.write_bytes(data.numpy().tobytes())
            try:
                call_with(instance.prepare, {"n": n, "file": str(path)})
            except SkipError:
                assert isinstance(instance, file_read.Direct)
                continue
            out = bind(instance.run, {"n": n, "file": str(path)})()
            assert torch.equal(out, bench.answer({"n": n}, {"file": data})), one.name


def test_a_file_that_ends_too_early_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(5000))
    reading = file_read.LargeRequests()
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
        file_read.DirectQueue().prepare(str(tmp_path / "file"), 8)
    assert str(caught.value) == "needs a file system with O_DIRECT; opening the file said: Invalid argument"


@pytest.mark.parametrize(
    ("tensors", "trained_tensors", "elements"), [(2, 1, 1), (3, 2, 1009), (11, 1, 37), (23, 19, 8)]
)
def test_checkpoints_are_right_at_awkward_sizes(
    tmp_path: Path, tensors: int, trained_tensors: int, elements: int
) -> None:
    bench = checkpoint_save.bench
    sizes = {"tensors": tensors, "trained_tensors": trained_tensors, "elements": elements}
    draw = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    assert bench.task.static is not None
    frozen = call_with(bench.task.static, draw)["frozen"]
    for one in bench.on("cpu"):
        (tmp_path / one.name).mkdir()
        instance = one.code()
        trained = call_with(bench.task.inputs, draw)["trained"]
        given = {**sizes, "frozen": frozen, "trained": trained, "folder": str(tmp_path / one.name)}
        call_with(instance.prepare, given)
        for _ in range(3):
            for kept, values in zip(trained, call_with(bench.task.inputs, draw)["trained"], strict=True):
                kept.copy_(values)
            right = bench.answer(sizes, {"frozen": frozen, "trained": trained})
            bind(instance.run, given)()
            instance.finish()
            for out, wanted in zip(instance.output(), right, strict=True):
                assert torch.equal(out, wanted), one.name


def test_a_model_without_a_frozen_tensor_is_refused() -> None:
    with pytest.raises(BenchmarkError) as caught:
        checkpoint_save.inputs(3, 3, 8, "cpu", torch.Generator())
    assert str(caught.value) == "trained_tensors=3 of tensors=3; accepted are from 1 to all but one of them"


@pytest.mark.parametrize("name", ["snapshot", "incremental_snapshot"])
def test_a_snapshot_does_not_see_the_steps_that_follow(tmp_path: Path, name: str) -> None:
    (one,) = (one for one in checkpoint_save.bench.on("cpu") if one.name == name)
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


def test_the_readme_lists_every_target() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text()
    rows = [f"| `{one.name}` | {', '.join(one.devices)} | {one.summary} |" for one in TARGETS]
    assert [line for line in text.splitlines() if line.startswith("| `ch05.")] == rows
