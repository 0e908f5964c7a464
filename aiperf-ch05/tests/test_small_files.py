"""Epochs of small files and of shards: the calls that they make, and what a cut or missing file says."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf_ch05 import small_files
from aiperf_core.errors import AiperfError

SAMPLES, WORDS = 320, 8
KEY = torch.tensor([3])
DATA = torch.arange(SAMPLES * WORDS).view(SAMPLES, WORDS)


def prepared(form: type[small_files.Epoch], folder: Path) -> Any:
    epoch = form()
    epoch.prepare(str(folder), DATA, SAMPLES, WORDS)
    return epoch


def reads_of_this_process() -> int:
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["syscr"])


@pytest.mark.parametrize(
    ("form", "reads"),
    [
        (small_files.OneByOne, SAMPLES),
        (small_files.Threads, SAMPLES),
        (small_files.TarShards, small_files.SHARDS),
        (small_files.ReadAhead, small_files.SHARDS),
    ],
)
def test_a_file_is_a_read_and_a_shard_is_one_for_all_its_samples(
    tmp_path: Path, form: type[small_files.Epoch], reads: int
) -> None:
    epoch = prepared(form, tmp_path)
    before = reads_of_this_process()
    sums = epoch.run(key=KEY)
    assert reads <= reads_of_this_process() - before < reads + 8  # and those that read the count
    assert torch.equal(sums, small_files.reference(DATA, KEY))


@pytest.mark.parametrize("form", [small_files.IndexedShards, small_files.ReadAhead])
def test_a_shard_that_was_cut_is_refused(tmp_path: Path, form: type[small_files.Epoch]) -> None:
    epoch = prepared(form, tmp_path)
    os.truncate(tmp_path / "000003.tar", 1000)
    with pytest.raises(AiperfError) as caught:
        epoch.run(key=KEY)
    # 20 samples, each a header and a block.
    assert str(caught.value) == f"'{tmp_path}/000003.tar' has 1,000 bytes; its index needs {19 * 1024 + 512 + 64:,}"


def test_an_archive_that_was_cut_is_refused(tmp_path: Path) -> None:
    epoch = prepared(small_files.TarShards, tmp_path)
    os.truncate(tmp_path / "000003.tar", 1000)
    with pytest.raises(AiperfError) as caught:
        epoch.run(key=KEY)
    assert str(caught.value) == f"'{tmp_path}/000003.tar' is no whole archive: unexpected end of data"


def test_a_sample_that_was_cut_is_refused(tmp_path: Path) -> None:
    epoch = prepared(small_files.Threads, tmp_path)
    os.truncate(tmp_path / "000007", 5)
    with pytest.raises(AiperfError) as caught:
        epoch.run(key=KEY)
    assert str(caught.value) == f"'{tmp_path}/000007' has 5 bytes; a sample has 64"


@pytest.mark.parametrize("form", [small_files.OneByOne, small_files.IndexedShards])
def test_folders_whose_names_are_no_text_are_read(tmp_path: Path, form: type[small_files.Epoch]) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    assert torch.equal(prepared(form, folder).run(key=KEY), small_files.reference(DATA, KEY))
