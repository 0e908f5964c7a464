"""`aiperf diff`: functions of files by the whole harness, and programs."""

import json
import os
import re
import subprocess
import sys
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
            "--prepare, --parameter and --warm-up go with --command",
        ),
        (["--command", "true", "true", "--inputs", "kernels.py:make"], "--inputs goes with functions"),
        (
            ["--command", "true", "true", "--out", "run", "--tier", "quick", "--label", "a=b"],
            "--tier, --label, --out: not with --command",
        ),
        (["--command", "true", "true", "--parameter", "n"], "--parameter takes NAME=VALUE,VALUE"),
        (["--command", "true", "true", "--parameter", "n=1,,2"], "--parameter takes NAME=VALUE,VALUE"),
        (
            ["--command", "true", "true", "--parameter", "n=1"],
            "no command has {n}, so that --parameter n changes nothing",
        ),
        (
            ["--command", "true {n}", "true", "--parameter", "n=1", "--parameter", "n=2"],
            "--parameter n was given twice; give all its values at once: n=VALUE,VALUE",
        ),
        (
            ["kernels.py:plain", "kernels.py:plain", "--inputs", "kernels.py:make", "--warm-up", "1"],
            "--warm-up go with --command",
        ),
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


def test_programs_are_compared_for_each_value_of_parameters(aiperf, kernels) -> None:
    ended = aiperf(
        "diff", "--command", "echo {n}{sign} {other} >> log", "echo second >> log", "--parameter", "n=1,2",
        "--parameter", "sign=+,-", "--warm-up", "2", "--budget", "0.01", "--json",
    )  # fmt: skip
    assert ended.code in (0, 5)
    found = json.loads(ended.out)
    assert [one["parameters"] for one in found] == [
        {"n": n, "sign": sign} for n, sign in (("1", "+"), ("1", "-"), ("2", "+"), ("2", "-"))
    ]
    lines = (kernels / "log").read_text().splitlines()
    assert lines[:4] == ["1+ {other}", "1+ {other}", "second", "second"]
    first = found[0]
    assert first["first"]["name"] == "echo 1+ {other} >> log"
    sides = [sample["side"] for sample in first["samples"]]
    assert sides.count("echo second >> log") == len(sides) // 3 >= 6


def test_programs_need_no_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise BaseException('torch was imported')")
    command = [sys.executable, "-m", "aiperf_core", "diff", "--command", "true", "true", "--budget", "0.01"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 5), ended.stderr
    assert "control: itself again" in ended.stdout


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
