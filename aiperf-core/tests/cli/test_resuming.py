"""`aiperf run --resume` and `aiperf reproduce`: with recorded results, and once with real ones."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from aiperf_core import atomic
from aiperf_core.cli.main import Shell
from aiperf_core.measurements import Estimate
from aiperf_core.plugins import load_plugins
from aiperf_core.requirements import Hardware
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Verdict
from aiperf_core.stats.recheck import recheck

spec = spec_from_file_location("killed_runs", Path(__file__).parents[1] / "harness" / "killed_runs.py")
killed_runs = module_from_spec(spec)
spec.loader.exec_module(killed_runs)
TARGETS, RecordedPlanner = killed_runs.TARGETS, killed_runs.RecordedPlanner


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder to run in, without a machine to measure."""
    killed_runs.prepare(monkeypatch.setattr)
    monkeypatch.setattr(RecordedPlanner, "cut_short", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def aiperf(*arguments, targets=TARGETS):
    plugins = attrs.evolve(load_plugins([]), targets=killed_runs.plugins(targets).targets)
    return CliRunner().invoke(Shell(plugins), list(map(str, arguments)))


@pytest.fixture
def interrupted(monkeypatch):
    """The folder of a run that Ctrl-C ended in its second target, and what it said."""
    monkeypatch.setattr(RecordedPlanner, "cut_short", "acme.two")
    done = aiperf("run", "acme.*", "--out", "a run", "--size", "smoke", "--quiet", "--budget", "0.5")
    assert done.exit_code == 130
    monkeypatch.setattr(RecordedPlanner, "cut_short", None)
    return done


# --- resume


def test_an_interrupted_run_says_how_to_go_on_and_goes_on(interrupted):
    assert interrupted.stderr.splitlines()[-1] == "resume with: aiperf run --resume 'a run'"
    done = aiperf("run", "--resume", "a run")
    assert done.exit_code == killed_runs.CODE, done.stderr
    assert "[2/3] acme.two" in done.stderr
    assert "[1/3]" not in done.stderr
    assert "resume with" not in done.stderr
    # Tables of what was measured now, and a line for every target.
    assert [name for name in TARGETS if f"{name} - cuda" in done.stdout] == ["acme.two", "acme.three"]
    assert [name for name in TARGETS if f"{name} " in done.stdout] == list(TARGETS)
    assert recheck(Bundle.open(Path("a run"))).holds


def test_the_results_of_all_stretches_are_printed_as_json(interrupted):
    done = aiperf("run", "--resume", "a run", "--json", "--quiet")
    assert [one["target"] for one in json.loads(done.stdout)["targets"]] == list(TARGETS)
    assert done.stderr == ""


def test_a_complete_run_has_nothing_left_to_do(interrupted):
    aiperf("run", "--resume", "a run")
    done = aiperf("run", "--resume", "a run")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "a run is complete; there is nothing to resume.\n"


@pytest.mark.parametrize(
    ("arguments", "what", "given", "recorded"),
    [
        (["--tier", "audit"], "--tier", "audit", "quick"),
        (["--policy", "lenient"], "--policy", "lenient", "standard"),
        (["--budget", "2"], "--budget", "2", "0.5"),
        (["--timeout", "2"], "--timeout", "2", "60"),
        (["--device", "cpu"], "--device", "cpu", "the default"),
        (["--executor", "here"], "--executor", "here", "the default"),
        (["--size", "cuda"], "--size", "cuda", "smoke"),
        (["--set", "n=3"], "--set", "n=3", "none"),
        (["acme.one"], "PATTERN", "acme.one", "acme.one acme.two acme.three"),
        (
            ["--variant", "wide"],
            "--variant",
            "acme.one:wide acme.two:wide acme.three:wide",
            "acme.one acme.two acme.three",
        ),
    ],
)
def test_options_that_differ_are_refused(interrupted, arguments, what, given, recorded):
    done = aiperf("run", "--resume", "a run", *arguments)
    assert done.exit_code == 2
    assert done.stderr == (
        f"aiperf: {what} differs from the run in 'a run': given {given}, recorded {recorded}. --resume uses the "
        "recorded options: omit this option, or start a new run.\n"
    )


def test_another_folder_is_refused(interrupted):
    done = aiperf("run", "--resume", "a run", "--out", "elsewhere")
    assert done.exit_code == 2
    assert done.stderr.startswith("aiperf: --out differs from the run in 'a run': given ")


def test_the_same_options_may_be_given_again(interrupted):
    options = ["--size", "smoke", "--budget", "0.5", "--tier", "quick", "--out", "a run"]
    assert aiperf("run", "acme.*", "--resume", "a run", *options).exit_code == killed_runs.CODE


def test_what_is_no_bundle_cannot_be_resumed():
    done = aiperf("run", "--resume", "nothing")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("aiperf: 'nothing' names no bundle. ")
    done = aiperf("run", "--resume", "./nothing")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "aiperf: 'nothing' does not exist; a result bundle is a folder with a manifest.json in it.\n"


def test_neither_a_pattern_nor_a_bundle():
    done = aiperf("run")
    assert (done.exit_code, done.stderr) == (
        2,
        "aiperf: Missing argument 'PATTERN...': a target, a group, a tag or 'all'. The targets: aiperf list. See: "
        "aiperf run --help\n",
    )


def test_a_full_disk_says_how_to_go_on(monkeypatch):
    real, written = os.replace, []

    def full(source, target):
        written.append(target)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "replace", full)
        done = aiperf("run", "acme.*", "--out", "run", "--quiet")
    assert done.exit_code == 1
    assert done.stderr.endswith(
        "Free some space, or choose another folder with --out; files written before are whole. Then resume with: aiperf "
        "run --resume run\n"
    )
    assert aiperf("run", "--resume", "run", "--quiet").exit_code == killed_runs.CODE


# --- reproduce


@pytest.fixture
def before():
    assert aiperf("run", "acme.one", "--out", "before", "--quiet").exit_code == killed_runs.CODE
    return Bundle.open(Path("before"))


def row_of(done, name):
    return next(line for line in done.stdout.splitlines() if f" {name} " in line)


def change(monkeypatch, **changes):
    """Have the second run find something else of `coalesced`."""
    result = killed_runs.RECORDED["acme.one"]
    rows = [attrs.evolve(row, **changes) if row.name == "coalesced" else row for row in result.rows]
    monkeypatch.setitem(killed_runs.RECORDED, "acme.one", attrs.evolve(result, rows=rows))


def test_the_same_again(before):
    done = aiperf("reproduce", "before", "--out", "after", "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "before (then) and after (now)",
        "3 holds",
        "machine, software, sources and options are the same",
        "",
        "Verdicts",
        "target    implementation      then   95 % interval       now   95 % interval   ratio   95 % interval  "
        "verdict then   verdict now    outcome  why",
        "acme.one  strided          4.00 ms    [3.95, 4.05]   4.00 ms    [3.95, 4.05]  1.000x  [0.982, 1.018]  "
        "MEASURED       MEASURED       holds    -",
        "acme.one  coalesced       2.000 ms  [1.973, 2.011]  2.000 ms  [1.973, 2.011]  1.000x  [0.986, 1.015]  "
        "FASTER 1.999x  FASTER 1.999x  holds    -",
        "acme.one  remembered             -                         -                       -                  "
        "INVALID        INVALID        holds    the output is that of sample 16",
    ]
    manifest = Bundle.open(Path("after")).manifest
    assert manifest.reproduces.path == str(before.path.resolve())
    assert manifest.reproduces.seal == before.manifest.hashes["manifest.json"]


def test_a_speedup_that_differs_is_said_and_fails_where_strict(before, monkeypatch):
    change(monkeypatch, speedup=Estimate(4.0, 3.9, 4.1))
    assert "speedup differs" in row_of(done := aiperf("reproduce", "before", "--quiet"), "coalesced")
    assert done.exit_code == 0
    strict = aiperf("reproduce", "before", "--quiet", "--strict")
    assert strict.exit_code == 4
    assert strict.stdout.splitlines()[1] == "2 holds, 1 speedup differs (--strict)"


def test_a_verdict_that_does_not_hold_is_4(before, monkeypatch):
    change(monkeypatch, verdict=Verdict.SAME, speedup=Estimate(1.0, 0.999, 1.001))
    done = aiperf("reproduce", "before:acme.one", "--quiet")
    assert done.exit_code == 4
    assert row_of(done, "coalesced").endswith("  FASTER 1.999x  SAME 1.0000x  does not hold  -")


def test_what_stays_open_is_5(before, monkeypatch):
    change(monkeypatch, verdict=Verdict.INCONCLUSIVE, speedup=Estimate(1.5, 0.9, 2.1), reason="too few")
    done = aiperf("reproduce", "before", "--quiet", "--json")
    assert done.exit_code == 5
    document = json.loads(done.stdout)
    assert (document["then"], document["exit_code"], document["differences"]) == ("before", 5, [])
    (row,) = [one for one in document["rows"] if one["implementation"] == "coalesced"]
    assert (row["outcome"], row["then"]["verdict"], row["now"]["verdict"]) == ("open", "FASTER", "INCONCLUSIVE")
    assert row["now"]["speedup"] == {"value": 1.5, "low": 0.9, "high": 2.1}


def test_what_is_not_installed_is_1(interrupted):
    done = aiperf("reproduce", "a run", "--quiet", targets=TARGETS[:1])
    assert done.exit_code == 1
    assert done.stderr == (
        "note   'acme.two' came with 'aiperf-acme' 0.3, which is not installed here. Install it first.\n"
    )
    assert "not run" in done.stdout


def test_another_machine_is_said_at_the_top(before, monkeypatch):
    monkeypatch.setattr(killed_runs, "MACHINE", attrs.evolve(killed_runs.MACHINE, gpus=[{"name": "NVIDIA B300"}]))
    done = aiperf("reproduce", "before", "--quiet")
    assert done.stdout.splitlines()[2] == "ANOTHER KIND OF MACHINE: times will differ, and verdicts need not hold"
    assert "NVIDIA H200" in done.stdout
    assert "NVIDIA B300" in done.stdout


def test_without_the_device_nothing_is_run(before, monkeypatch):
    monkeypatch.setattr(RecordedPlanner, "hardware", Hardware())
    done = aiperf("reproduce", "before", "--quiet", "--out", "after")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "aiperf: 'acme.one' was measured on a GPU, and this machine has none. Use a machine with a GPU, or name a target that "
        "was measured on a processor. See what is missing with: aiperf doctor\n"
    )
    assert not Path("after").exists()


def test_a_bundle_that_was_changed_is_said(before):
    file = before.target_path("acme.one")
    file.write_bytes(file.read_bytes().replace(b"FASTER", b"SLOWER"))
    done = aiperf("reproduce", "before", "--quiet", "--out", "after")
    assert done.exit_code == 3
    assert done.stderr == (
        "aiperf: 'before' was changed after its run ended: targets/acme.one.json has other content. What is read from "
        "it is no evidence. All differences: aiperf recheck before. To read it without this check: --no-verify\n"
    )
    done = aiperf("reproduce", "before", "--quiet", "--out", "unchecked", "--no-verify")
    assert done.exit_code == 4
    assert done.stderr == "note: not verified (--no-verify), and perhaps changed: before\n"


def test_a_reproduction_that_is_interrupted_can_be_gone_on_with(before, monkeypatch):
    monkeypatch.setattr(RecordedPlanner, "cut_short", "acme.one")
    done = aiperf("reproduce", "before", "--quiet", "--out", "after")
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr == "resume with: aiperf run --resume after\n"
    monkeypatch.setattr(RecordedPlanner, "cut_short", None)
    assert aiperf("run", "--resume", "after", "--quiet").exit_code == killed_runs.CODE
    assert Bundle.open(Path("after")).manifest.reproduces is not None


# --- for real


@pytest.mark.quiet
@pytest.mark.parametrize(("ended_by", "ending"), [(signal.SIGINT, "interrupted"), (signal.SIGKILL, "cut off")])
def test_the_life_of_a_real_run(here, new_cache, ended_by, ending):
    """Ended after the first of two targets; the second stretch measures the other one, and a new run that one again."""
    env = {**os.environ, "AIPERF_CACHE_DIR": str(new_cache())}

    def start(*arguments):
        command = [sys.executable, "-m", "aiperf_core", *arguments, "--quiet"]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    options = ["--device", "cpu", "--size", "smoke", "--budget", "0.05", "--out", "run"]
    process = start("run", "practice.sum_rows", "practice.matmul", *options)
    first, deadline = here / "run" / "targets" / "practice.sum_rows.json", time.monotonic() + 60
    while not first.exists():
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(ended_by)
    process.communicate()
    kept = first.read_bytes()
    process = start("run", "--resume", "run")
    assert process.communicate(timeout=120)[1] == ""
    assert first.read_bytes() == kept
    bundle = Bundle.open(here / "run")
    stretches = [(one.ending, one.targets) for one in bundle.manifest.stretches]
    assert stretches == [(ending, ["practice.sum_rows"]), ("finished", ["practice.matmul"])]
    assert recheck(bundle).holds
    process = start("reproduce", "run:practice.matmul", "--out", "again", "--json")
    document = json.loads(process.communicate(timeout=120)[0])
    assert process.returncode == document["exit_code"]
    names = {(one["target"], one["implementation"]) for one in document["rows"]}
    assert names == {("practice.matmul", row.name) for row in bundle.outline("practice.matmul").rows}
    again = Bundle.open(here / "again").outline("practice.matmul")
    assert again.problem == bundle.outline("practice.matmul").problem
    compared = aiperf("compare", "run:practice.matmul", "again")
    assert compared.exit_code in (0, 4), compared.output  # a few samples on a busy machine may differ by chance
    assert "practice.matmul" in compared.output
    assert_told_in_every_format("run")


def assert_told_in_every_format(run):
    for kind in ("csv", "markdown", "html", "json", "parquet"):
        if kind == "parquet":
            pytest.importorskip("pyarrow")
        assert aiperf("export", run, "--format", kind, "--out", f"table.{kind}").exit_code == 0
        assert Path(f"table.{kind}").stat().st_size > 1000
    for kind in ("html", "markdown"):
        assert aiperf("report", run, "--format", kind, "--out", f"page.{kind}").exit_code == 0
        assert "practice.matmul" in Path(f"page.{kind}").read_text()
