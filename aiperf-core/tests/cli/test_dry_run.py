"""`aiperf run --dry-run`: what would be measured, and nothing is."""

import json

import pytest
from attrs import evolve
from click.testing import CliRunner

from aiperf_core.cli.dry_run import dry_run
from aiperf_core.cli.main import Shell
from aiperf_core.described import Described
from aiperf_core.harness.run.bundle_run import Preview
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

KNOWN = Preview(
    target="ch07.memory_access",
    device="cpu",
    size="smoke",
    params={"n": 4096},
    tier="quick",
    implementations=["strided", "wide"],
    skipped={"tma": "needs sm_90"},
    budget_s=3.0,
    seconds=7.4,
    known=True,
    described=Described("speed", "device", "cold", None, {}, {}, "aiperf_ch07.memory_access", "", []),
)
UNKNOWN = evolve(KNOWN, target="ch01.batch_size", skipped={}, seconds=3.0, known=False)
SKIPPED = example.manifest().skipped[0]


def command(*arguments):
    return CliRunner().invoke(Shell(load_plugins()), arguments)


class Run:
    """A run that only says what it would do."""

    def __init__(self, *previews):
        self.previews = previews

    def preview(self):
        return [*self.previews], [SKIPPED]


def test_each_target_has_a_line_with_its_time(capsys):
    assert dry_run(Run(KNOWN, UNKNOWN), as_json=False) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "target device size tier time implementations",
        "ch07.memory_access cpu smoke quick about 7 s strided, wide; skipped: tma (needs sm_90)",
        "ch01.batch_size cpu smoke quick at least 3 s strided, wide",
        "ch10.warp_specialized_gemm SKIPPED needs sm_90a (this machine has no CUDA GPU)",
        "",
        "2 targets: at least 10 s, plus setup, warm-up and checks of 1 (not measured here before). "
        "Nothing was measured.",
    ]


def test_json_has_the_same(capsys):
    assert dry_run(Run(KNOWN, UNKNOWN), as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["target"] for one in found["targets"]] == ["ch07.memory_access", "ch01.batch_size"]
    assert found["targets"][0]["skipped"] == {"tma": "needs sm_90"}
    assert found["skipped"] == [
        {
            "target": "ch10.warp_specialized_gemm",
            "verdict": "SKIPPED",
            "reason": "needs sm_90a (this machine has no CUDA GPU)",
        }
    ]
    assert (found["seconds"], found["unknown"]) == (10.4, 1)


@pytest.mark.parametrize("more", [["--resume", "BUNDLE"], ["--nnodes", "2"]])
def test_it_does_not_go_with_what_measures_elsewhere(more, tmp_path):
    Bundle.create_at(tmp_path / "run").write_manifest(example.manifest())
    result = command(
        "run", "practice.softmax", "--dry-run", *(one.replace("BUNDLE", str(tmp_path / "run")) for one in more)
    )
    assert result.exit_code == 2
    assert "--dry-run cannot be combined with --resume, nor with runs on several machines." in result.output


@pytest.mark.quiet
def test_nothing_is_measured_or_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))
    result = command("run", "practice.softmax", "--size", "smoke", "--device", "cpu", "--budget", "2", "--dry-run")
    assert result.exit_code == 0
    assert [*tmp_path.iterdir()] == []
    assert "practice.softmax cpu smoke quick at least 2 s library, kept_output" in " ".join(result.stdout.split())
