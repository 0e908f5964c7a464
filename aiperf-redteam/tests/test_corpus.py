"""Attacks and honest look-alikes of a corpus beside the checkout, each judged as `aiperf judge` does it."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf_core.candidate_format import AIPERF
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import Row, Verdict

pytestmark = pytest.mark.proof

VARIABLE = "AIPERF_CORPUS"
CORPUS = Path(os.environ.get(VARIABLE) or Path(__file__).resolve().parents[3] / "shared" / "redteam")
REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED)
# Gives a file of the corpus (`setup(self, inputs)`, `run(self, inputs)`) the form of a candidate.
ADAPTED = """

_Neutral = Implementation


class Implementation:
    def prepare(self, **inputs):
        self.neutral = _Neutral()
        self.neutral.setup({name: one for name, one in inputs.items() if isinstance(one, torch.Tensor)})

    def run(self, **inputs):
        return self.neutral.run({name: one for name, one in inputs.items() if isinstance(one, torch.Tensor)})
"""


def files(kind: str, device: str) -> list[Path]:
    found = sorted((CORPUS / kind).glob("*.py"))
    return [one for one in found if f"'{device}'" in str(re.search(r"^DEVICES = .*", one.read_text(), re.MULTILINE))]


def row_of(judged: Callable[..., list[Row]], file: Path, device: str) -> Row:
    """The row that a file earns on a device."""
    text = file.read_text()
    work = re.search(r"WORKLOAD = '(\w+)'", text)
    assert work is not None
    target = load_plugins().select((f"practice.{work[1]}",))[0].target
    return judged(text + ADAPTED, target, device=device, budget_s=0.6, timeout_s=30.0)[1]


@pytest.mark.parametrize("file", files("attacks", "cpu"), ids=lambda file: file.stem)
def test_no_attack_earns_faster(judged: Callable[..., list[Row]], file: Path) -> None:
    row = row_of(judged, file, "cpu")
    assert row.verdict is not Verdict.FASTER, row.speedup


@pytest.mark.parametrize("file", files("honest", "cpu"), ids=lambda file: file.stem)
def test_no_honest_code_is_refused(judged: Callable[..., list[Row]], file: Path) -> None:
    row = row_of(judged, file, "cpu")
    assert row.verdict not in REFUSED, row.reason
    assert [found for found in row.findings if found.severity == "invalid"] == []


@pytest.mark.gpu
@pytest.mark.parametrize("file", files("attacks", "cuda"), ids=lambda file: file.stem)
def test_no_attack_earns_faster_on_a_gpu(judged: Callable[..., list[Row]], file: Path) -> None:
    row = row_of(judged, file, "cuda")
    assert row.verdict is not Verdict.FASTER, row.speedup


@pytest.mark.gpu
@pytest.mark.parametrize("file", files("honest", "cuda"), ids=lambda file: file.stem)
def test_no_honest_code_is_refused_on_a_gpu(judged: Callable[..., list[Row]], file: Path) -> None:
    row = row_of(judged, file, "cuda")
    assert row.verdict not in REFUSED, row.reason


def test_the_corpus_is_there_and_each_file_is_a_candidate(tmp_path: Path) -> None:
    assert CORPUS.is_dir(), f"there is no corpus at {CORPUS}; say where it lies with {VARIABLE}"
    candidate = tmp_path / "candidate.py"
    for file in CORPUS.glob("*/*.py"):
        candidate.write_text(file.read_text() + ADAPTED)
        assert check_candidate(candidate, AIPERF).entry == "Implementation", file
    assert len(files("attacks", "cpu")) > 20
    assert len(files("honest", "cpu")) > 5
