"""Loads of a checkpoint read what is asked for, and refuse a file that is too short."""

import os
from pathlib import Path

import pytest
import torch

from aiperf_ch05 import checkpoint, checkpoint_load
from aiperf_ch05.checkpoint import CheckpointError
from aiperf_core.errors import BenchmarkError

TENSORS, ELEMENTS = 8, 16384


def prepared(form: type[checkpoint_load.Loading], folder: Path, state: torch.Tensor) -> checkpoint_load.Loading:
    loading = form()
    loading.prepare(str(folder), state, 2, ELEMENTS)
    return loading


def read_by_this_process() -> int:
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


@pytest.mark.parametrize(
    ("form", "tensors"), [(checkpoint_load.LoadAll, TENSORS), (checkpoint_load.Reads, 2), (checkpoint_load.Threads, 2)]
)
def test_only_lazy_loads_leave_out_what_is_not_asked_for(
    tmp_path: Path, form: type[checkpoint_load.Loading], tensors: int
) -> None:
    state = torch.randn(TENSORS, ELEMENTS)
    loading = prepared(form, tmp_path, state)
    before = read_by_this_process()
    parameters = loading.run(names=torch.tensor([1, 6]))  # type: ignore[attr-defined]
    assert 0 <= read_by_this_process() - before - tensors * 4 * ELEMENTS < 4 * ELEMENTS
    assert torch.equal(parameters, state[[1, 6]])


def test_a_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    loading = prepared(checkpoint_load.Threads, tmp_path, torch.zeros(TENSORS, ELEMENTS))
    (part,) = tmp_path.glob("*.part")
    os.truncate(part, 4 * ELEMENTS + 5)
    with pytest.raises(CheckpointError) as caught:
        loading.run(names=torch.tensor([0, 1]))  # type: ignore[attr-defined]
    assert str(caught.value) == f"'{part}' ends after 65,541 bytes; its manifest needs 131,072"


def test_places_are_those_of_the_parts(tmp_path: Path) -> None:
    first = checkpoint.write_part(tmp_path, [torch.zeros(3), torch.zeros(5, dtype=torch.int8)], 0)
    second = checkpoint.write_part(tmp_path, [torch.zeros(2, 2)], 2)
    checkpoint.commit(tmp_path, [second, first])
    paths = [tmp_path / part["file"] for part in (first, second)]
    assert checkpoint.places_in(tmp_path) == [(paths[0], 0, 12), (paths[0], 12, 5), (paths[1], 0, 16)]
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        checkpoint.places_in(tmp_path / "none")


def test_more_tensors_than_there_are_cannot_be_asked_for() -> None:
    with pytest.raises(BenchmarkError) as caught:
        checkpoint_load.inputs(3, 4, "cpu", torch.Generator())
    assert str(caught.value) == "wanted=4 of tensors=3; accepted are up to as many as there are"
