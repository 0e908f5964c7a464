"""Epochs of tokens: how much they read, how documents are cut and shuffled, and what a bad file says."""

import os
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from aiperf_ch05 import token_dataset
from aiperf_core.errors import AiperfError

TOKENS, VOCABULARY = 3 * token_dataset.BLOCK + token_dataset.LONGEST, 97
TEXT = torch.randint(1, VOCABULARY, (TOKENS,), generator=torch.Generator().manual_seed(1)).to(torch.int32)
VALUES = torch.arange(VOCABULARY) ** 2


def prepared(form: type[token_dataset.Epoch], folder: Path) -> Any:
    epoch = form()
    epoch.prepare(str(folder), TEXT, TOKENS)
    return epoch


def test_documents_cover_the_tokens_and_are_the_same_in_each_run() -> None:
    begins = token_dataset.begins_of(TOKENS)
    lengths = numpy.diff(begins)
    assert (begins[0], begins[-1]) == (0, TOKENS)
    assert 1 <= lengths.min() <= lengths.max() == token_dataset.LONGEST
    assert 400 < lengths.mean() < 480
    assert numpy.array_equal(begins, token_dataset.begins_of(TOKENS))


@pytest.mark.parametrize("form", [token_dataset.Blocks, token_dataset.PackedBatches, token_dataset.ReadAhead])
def test_blocks_read_each_token_once_by_large_requests(tmp_path: Path, form: type[token_dataset.Epoch]) -> None:
    epoch = prepared(form, tmp_path)
    requests, read = [], os.preadv

    def counted(file: int, buffers: list[Any], place: int) -> int:
        requests.append(buffers[0].nbytes)
        return read(file, buffers, place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "preadv", counted)
        sums = epoch.run(values=VALUES)
    assert (len(requests), sum(requests)) == (4, 4 * TOKENS)
    assert torch.equal(sums, token_dataset.reference(TEXT, VALUES))


def test_blocks_and_documents_in_them_are_shuffled(tmp_path: Path) -> None:
    blocks = prepared(token_dataset.ReadAhead, tmp_path).blocks
    in_order = prepared(token_dataset.Sequential, tmp_path).blocks
    documents = numpy.arange(len(token_dataset.begins_of(TOKENS)) - 1)
    assert numpy.array_equal(numpy.concatenate(in_order), documents)
    assert numpy.array_equal(numpy.sort(numpy.concatenate(blocks)), documents)
    assert [block.min() for block in blocks] != [block.min() for block in in_order]
    assert all(len(block) < 9 or (numpy.diff(block) != 1).any() for block in blocks)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (token_dataset.Packed, f"has 400 bytes; its index needs {4 * TOKENS:,}"),
        (token_dataset.Sequential, "ends before token "),
    ],
)
def test_tokens_that_were_cut_are_refused(tmp_path: Path, form: type[token_dataset.Epoch], message: str) -> None:
    epoch = prepared(form, tmp_path)
    os.truncate(tmp_path / "tokens", 400)
    with pytest.raises(AiperfError) as caught:
        epoch.run(values=VALUES)
    assert str(caught.value).startswith(f"'{tmp_path}/tokens' {message}")


@pytest.mark.parametrize("line", ['{"tokens": [1', '{"text": "a"}'])
def test_a_line_without_a_document_is_named(tmp_path: Path, line: str) -> None:
    epoch = prepared(token_dataset.JsonLines, tmp_path)
    lines = (tmp_path / "tokens").read_text().splitlines()
    (tmp_path / "tokens").write_text("\n".join([lines[0], line, *lines[2:]]))
    with pytest.raises(AiperfError, match=r"tokens', line 2 has no document: "):
        epoch.run(values=VALUES)
