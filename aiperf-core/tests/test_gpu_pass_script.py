"""The pass for a GPU machine: the order of its steps, its budget, and how it resumes."""

import hashlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "gpu_pass.py"
PLUGIN = """
@hookimpl
def aiperf_targets():
    for name in ("fresh", "stale", "older", "sure"):
        yield Target(name, "A copy", "speed", ("cpu", "cuda"))
"""


class Machine:
    """A machine whose steps take the given seconds, and end with the given codes."""

    def __init__(self, seconds=10.0, codes=(), dies_in="", says="the end"):
        self.now, self.seconds, self.codes, self.dies_in, self.ran = 0.0, seconds, dict(codes), dies_in, []
        self.says = says

    def run(self, script):
        def run(step, limit_s):
            self.ran.append((step.name, limit_s))
            if step.name == self.dies_in:
                raise KeyboardInterrupt
            self.now += min(self.seconds, limit_s)
            stopped = self.seconds > limit_s
            code = None if stopped else self.codes.get(step.name, 0)
            return script.Ended(code, min(self.seconds, limit_s), self.says)

        return run

    def make(self, script, out):
        return script.Pass(out, self.run(script), lambda: self.now)


def steps(script, *names, sources="a", **after):
    return [
        script.Step(name=one, command=(), sources=sources, after=after.get(one.partition(":")[0], "")) for one in names
    ]


def go(script, out, machine, found, budget=1000.0):
    going = machine.make(script, out)
    going.go([one for one in found if not going.ended(one)], budget)
    return [name for name, _ in machine.ran], going


def test_steps_run_in_their_order_while_the_budget_lasts(script, tmp_path):
    found = steps(script, "quick:a", "quick:b", "standard:a", "quick:c")
    ran, going = go(script, tmp_path, Machine(30.0), found, 95.0)
    # After two steps 35 s are left: too few for the 60 s of a standard run, enough for the 20 s of a quick one.
    assert ran == ["quick:a", "quick:b", "quick:c"]
    assert going.summary(found).splitlines() == [
        "step          ok  failed  owed",
        "quick          3       0     0",
        "standard       0       0     1",
        "owed: standard:a",
    ]


def test_no_step_runs_longer_than_the_budget_or_its_limit(script, tmp_path):
    machine = Machine(1000.0)
    go(script, tmp_path, machine, steps(script, "quick:a", "standard:a"), 200.0)
    assert machine.ran == [("quick:a", 120), ("standard:a", 80.0)]
    assert [one["outcome"] for one in script.read(tmp_path / "pass.jsonl")] == ["timeout", "timeout"]


def test_durations_of_an_earlier_pass_are_known(script, tmp_path):
    go(script, tmp_path, Machine(70.0), steps(script, "quick:a"))
    changed = steps(script, "quick:a", sources="b")
    assert go(script, tmp_path, Machine(), changed, 60.0)[0] == []
    assert go(script, tmp_path, Machine(), changed, 71.0)[0] == ["quick:a"]


def test_a_killed_pass_loses_one_step(script, tmp_path):
    found = steps(script, "quick:a", "quick:b", "quick:c")
    with pytest.raises(KeyboardInterrupt):
        go(script, tmp_path, Machine(dies_in="quick:b"), found)
    with (tmp_path / "pass.jsonl").open("a") as file:
        file.write('{"step": "quick:b", "out')  # the line that was being written
    assert go(script, tmp_path, Machine(), found)[0] == ["quick:b", "quick:c"]


def test_what_failed_waits_for_other_sources_and_what_was_stopped_does_not(script, tmp_path, capsys):
    found = steps(script, "quick:a", "quick:b")
    go(script, tmp_path, Machine(codes={"quick:a": 3}), found[:1])
    assert "the end" in capsys.readouterr().out
    go(script, tmp_path, Machine(500.0), found[1:])
    assert go(script, tmp_path, Machine(), found)[0] == ["quick:b"]
    assert go(script, tmp_path, Machine(), steps(script, "quick:a", "quick:b", sources="b"))[0] == [
        "quick:a",
        "quick:b",
    ]


def test_expectations_are_written_of_good_runs_only(script, tmp_path):
    found = steps(script, "standard:a", "write:a", write="standard:a")
    assert go(script, tmp_path / "..", Machine(codes={"standard:a": 5}), found)[0] == ["standard:a"]
    (tmp_path / "good").mkdir()
    assert go(script, tmp_path / "good", Machine(), found)[0] == ["standard:a", "write:a"]


def test_no_tests_is_no_failure_of_pytest_alone(script, tmp_path):
    found = steps(script, "tests:a", "quick:a")
    go(script, tmp_path, Machine(codes={"tests:a": 5, "quick:a": 5}), found)
    assert [one["outcome"] for one in script.read(tmp_path / "pass.jsonl")] == ["ok", "failed"]


def test_a_target_that_does_not_fit_the_machine_stays_owed(script, tmp_path, capsys):
    found = steps(script, "quick:a", "tests:a")
    says = "acme.a  SKIPPED\nneeds 2 GPUs, one for each rank (1 here)\n"
    going = go(script, tmp_path, Machine(codes={"quick:a": 1, "tests:a": 1}, says=says), found)[1]
    assert "unfit after 10 s\n              needs 2 GPUs, one for each rank (1 here)\n" in capsys.readouterr().out
    assert going.summary(found).splitlines()[-2:] == ["failed: tests:a", "owed: quick:a"]
    assert go(script, tmp_path, Machine(), found)[0] == ["quick:a"]


def measured(package, target, date, text):
    run = {"bundle": "b", "seal": "0", "date": date, "versions": {}, "git": None, "tier": None}
    run["sources"] = {f"acme.{target}": hashlib.sha256(text.encode()).hexdigest()}
    return run


def test_targets_are_owed_that_were_never_measured_or_have_changed(script, site, tmp_path):
    site.install("aiperf-acme", PLUGIN)
    for name in ("fresh", "stale", "older", "sure"):
        site.write(f"aiperf_acme/{name}.py", name)
    runs = [
        measured(site.folder, "stale", "2026-11-20T10:00:00+00:00", "something else"),
        measured(site.folder, "older", "2026-11-19T10:00:00+00:00", "something else"),
        measured(site.folder, "sure", "2026-11-19T10:00:00+00:00", "sure"),
    ]
    page = {"hardware": "nvidia-h200-x1", "format": 1, "runs": runs, "expected": {}}
    site.write("aiperf_acme/expectations/nvidia-h200-x1.json", json.dumps(page))
    found = list(script.measurements(site.load().targets[-4:], "cuda", tmp_path))
    assert [(one.name, one.why) for one in found[:3]] == [
        ("quick:acme.fresh", "never measured"),
        ("quick:acme.older", "older.py changed since 2026-11-19"),
        ("quick:acme.stale", "stale.py changed since 2026-11-20"),
    ]
    names = [f"{kind}:acme.{one}" for one in ("fresh", "older", "stale") for kind in ("standard", "write")]
    assert [one.name for one in found[3:]] == names
    assert [one.after for one in found if one.kind == "write"] == names[::2]
    on_cpu = list(script.measurements(site.load().targets[-4:], "cpu", tmp_path))
    assert {one.why for one in on_cpu} == {"never measured"}


def test_the_plan_begins_with_correctness(script, tmp_path):
    from aiperf_core.plugins import load_plugins

    kinds = [one.kind for one in script.plan(load_plugins(), "cuda", tmp_path)]
    order = ["tests", "lessons", "quick", "standard", "selftest", "record"]
    assert [kind for kind in dict.fromkeys(kinds) if kind != "write"] == [one for one in order if one in kinds]
    assert {"tests", "selftest", "record"} <= set(kinds)


TESTS = """
import os, time
def test_good(): pass
def test_bad(): assert 1 == 2
def test_hangs():
    if os.environ.get("HANGS"): time.sleep(60)
def test_last(): pass
"""


def test_tests_are_recorded_at_once_and_resumed(script, tmp_path, monkeypatch):
    (tmp_path / "test_it.py").write_text(TESTS)
    command = (sys.executable, "-m", "pytest", str(tmp_path), "-p", "gpu_pass_items", "-p", "no:cacheprovider")
    step = script.Step(name="tests:it", command=command, sources="a")
    run = script.process(tmp_path / "out")

    def items():
        found = [json.loads(line) for line in (tmp_path / "out" / "items.jsonl").read_text().splitlines()]
        return [
            (one["item"].rpartition("::")[2], one["outcome"]) for one in found if one["outcome"] != "started"
        ], found

    monkeypatch.setenv("HANGS", "1")
    assert run(step, 15.0).code is None
    ended, found = items()
    assert ended == [("test_good", "passed"), ("test_bad", "failed")]
    assert "assert 1 == 2" in next(one["text"] for one in found if one["outcome"] == "failed")
    monkeypatch.delenv("HANGS")
    assert run(step, 60.0).code == 0
    # What hung comes last.
    assert items()[0][2:] == [("test_last", "passed"), ("test_hangs", "passed")]
    assert run(step, 60.0).code == script.NO_TESTS


@pytest.fixture
def call(script, monkeypatch, capsys):
    """Calls the script in this process; its exit code, output and errors."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["gpu_pass.py", *map(str, arguments)])
        return script.main(), *capsys.readouterr()

    return call


def test_real_steps_on_the_cpu(call, tmp_path):
    asked = ("--device", "cpu", "--budget", "100", "--out", tmp_path, "--only", "selftest:timing.incomplete_async")
    code, plan, errors = call(*asked, "--dry-run")
    assert (code, errors) == (0, "")
    assert plan.endswith("1 steps, of which 1 fit into 100 s\n")
    assert not (tmp_path / "pass.jsonl").exists()
    done = subprocess.run([sys.executable, SCRIPT, *map(str, asked)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    (record,) = [json.loads(line) for line in (tmp_path / "pass.jsonl").read_text().splitlines()]
    assert (record["step"], record["outcome"]) == ("selftest:timing.incomplete_async", "ok")
    with tarfile.open(tmp_path / "pass.tar.gz") as packed:
        assert {"pass.jsonl", "summary.txt", "logs/selftest-timing.incomplete_async.log"} <= set(packed.getnames())
    assert call(*asked) == (2, "", f"error: '{tmp_path}' has a pass already. Add --resume, or name another --out\n")
    code, resumed, errors = call(*asked[:-3], tmp_path / "next", *asked[-2:], "--resume", tmp_path)
    assert (code, errors) == (0, "")
    assert "s left]" not in resumed


def test_a_machine_without_a_gpu_is_refused(call, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    message = "error: there is no CUDA device here. See the plan with --dry-run, or try the steps with --device cpu\n"
    assert call("--budget", "10") == (2, "", message)


def test_the_help_is_the_page_of_the_script(script, capsys):
    with pytest.raises(SystemExit, match="0"):
        script.arguments(["--help"])
    assert script.__doc__.splitlines()[0] in capsys.readouterr().out


def test_expectations_are_packed_from_where_they_were_written(script, tmp_path):
    folder = tmp_path / "site" / "aiperf_acme" / "expectations"
    folder.mkdir(parents=True)
    (folder / "nvidia-h200-x1.json").write_text("{}")
    out = tmp_path / "out"
    out.mkdir()
    with tarfile.open(script.pack(out, [folder])) as packed:
        assert packed.getnames() == ["expectations/aiperf_acme/nvidia-h200-x1.json"]
