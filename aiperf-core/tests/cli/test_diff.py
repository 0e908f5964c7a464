"""`aiperf diff`: functions of files by the whole harness, and programs."""

import json
import re
from pathlib import Path

import pytest

from aiperf_core.results.bundle import Bundle

KERNELS = """
import torch

import scales

def make():
    return torch.randn(8, 16), scales.TWO

def plain(x, scale):
    return (x * scale).sum(-1)

def other_order(x, factor):
    return x.sum(-1) * factor

def wrong(x, scale):
    return x.sum(-1)

def changes(x, scale):
    return x.mul_(scale).sum(-1)

def only_float(x, scale):
    return x @ torch.ones(16) * scale

def named():
    return {"x": torch.randn(8, 16), "scale": 3}

number = 7
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch) -> Path:
    """A folder with functions, and with a module that they import."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "scales.py").write_text("TWO = 2\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def diff(aiperf, first, second, inputs="kernels.py:make", *more):
    return aiperf(
        "diff", f"kernels.py:{first}", f"kernels.py:{second}", "--inputs", inputs, "--budget", "0.02", "--device", "cpu",
        "--out", "run", *more,
    )  # fmt: skip


@pytest.mark.parametrize("inputs", ["kernels.py:make", "kernels.py:named"])
def test_functions_are_judged_in_processes_of_their_own(aiperf, kernels, inputs) -> None:
    second = "other_order" if "make" in inputs else "only_float"
    ended = diff(aiperf, "plain", second, inputs)
    assert ended.code in (0, 5), ended.err
    result = Bundle.open(kernels / "run").target(f"diff.{second}")
    rows = {row.name: row for row in result.rows}
    assert [*rows] == ["plain", second]
    assert {row.verdict.value for row in rows.values()} <= {"MEASURED", "SAME", "FASTER", "SLOWER", "INCONCLUSIVE"}
    assert not list(kernels.glob("*.json"))


@pytest.mark.parametrize(("second", "reason"), [("wrong", "relative L2 error"), ("changes", "input_0")])
def test_wrong_functions_are_invalid(aiperf, kernels, second, reason) -> None:
    ended = diff(aiperf, "plain", second)
    assert ended.code == 3
    assert "INVALID" in ended.out
    assert reason in " ".join(ended.out.split())


def test_a_reference_that_has_no_float64_is_its_own(aiperf, kernels) -> None:
    assert diff(aiperf, "only_float", "plain").code in (0, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kernels.py", "kernels.py:plain", "--inputs", "kernels.py:make"], "'kernels.py'; accepted is FILE.py:NAME"),
        (["kernels.py:plain", "no.py:plain", "--inputs", "kernels.py:make"], "in 'no.py', which is not a file"),
        (["kernels.py:plain", "kernels.py:plain"], "Functions need --inputs"),
        (
            ["kernels.py:plain", "kernels.py:plain", "--inputs", "kernels.py:make", "--prepare", "true"],
            "--prepare goes",
        ),
        (["--command", "true", "true", "--inputs", "kernels.py:make"], "--inputs goes with functions"),
    ],
)
def test_mistakes(aiperf, kernels, arguments, message) -> None:
    ended = aiperf("diff", *arguments)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "has no function nothing; it has make, plain, other_order, wrong, changes, only_float, named"),
        ("number", "has no function number"),
    ],
)
def test_what_a_file_lacks(aiperf, kernels, name, message) -> None:
    ended = diff(aiperf, "plain", name)
    assert ended.code == 1
    assert message in " ".join(ended.out.split())


def test_programs_take_turns(aiperf, kernels) -> None:
    ended = aiperf(
        "diff", "--command", "echo first >> log", "echo second >> log", "--prepare", "echo ready >> log",
        "--budget", "0.2",
    )  # fmt: skip
    assert ended.code in (0, 5)
    lines = (kernels / "log").read_text().split()
    assert lines[::2] == ["ready"] * (len(lines) // 2)
    assert {"first", "second"} == set(lines[1::2])
    assert re.search(r"^echo second >> log +[\d.]+ .?s", ended.out, re.MULTILINE)
    assert "Outputs were not compared" in ended.out


def test_a_program_that_fails_is_named(aiperf, kernels) -> None:
    ended = aiperf("diff", "--command", "true", "echo no such thing >&2; exit 7", "--budget", "0.1")
    assert ended.code == 1
    assert "ended with exit code 7: no such thing" in ended.err


def test_the_pair_names_the_files_as_they_were(kernels) -> None:
    from aiperf_core.formats.functions import Pair, Place

    place = Place.of("kernels.py:plain", "the first function")
    pair = Pair(place, place, Place.of("kernels.py:make", "--inputs"))
    reference = pair.write(kernels / "pair.json")
    assert Pair.read(reference.path) == pair
    assert pair.names == ("plain_first", "plain_second")
    assert len(json.loads(reference.path.read_text())["first"]["sha256"]) == 64
