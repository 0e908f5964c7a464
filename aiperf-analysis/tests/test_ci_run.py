"""`aiperf ci run` and `check`: the lock, an unfit machine, confirmation, exit codes and reports. No target is measured."""

import fcntl
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest
from attrs import evolve
from click.testing import CliRunner

from aiperf_analysis.ci import fit, running
from aiperf_analysis.ci.suite import Gate, Suite
from aiperf_analysis.cli.ci import ci
from aiperf_core.devices import fitness
from aiperf_core.devices.fitness import Busy
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.harness.processes.parent import end_with_parent

spec = importlib.util.spec_from_file_location("history_bundles_ci", Path(__file__).with_name("history_bundles.py"))
assert spec is not None and spec.loader is not None  # noqa: PT018
made = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = made
spec.loader.exec_module(made)

SUITE = 'name = "n"\ntargets = ["ch07.*"]\nbusy.wait_s = 0\n[[gates]]\nmetric = "time"\nfloor = 0.01\nrows = ["coalesced"]\n'
LEVEL = [1.000, 1.002, 0.998, 1.001, 0.999, 1.003, 0.997, 1.001, 1.000, 0.999]


@pytest.fixture(scope="module")
def level(tmp_path_factory):
    """Ten runs. To be read only."""
    runs = tmp_path_factory.mktemp("level") / "runs"
    for number, factor in enumerate(LEVEL):
        made.run(runs, number, 1e-3 * factor)
    return runs


@pytest.fixture
def place(level, tmp_path, monkeypatch):
    """A folder with a suite and ten runs, on a machine that is quiet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(fitness.LOCK_VARIABLE, str(tmp_path / "lock"))
    monkeypatch.setattr(fit, "busy", lambda limits: [])
    for name in ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "suite.toml").write_text(SUITE)
    return shutil.copytree(level, tmp_path / "artifacts" / "ci" / "n" / "runs")


class Measures:
    """Stands for `aiperf run`: makes a bundle for each call, with the next of the factors; a number ends as that code."""

    def __init__(self, runs, *factors, **more):
        self.runs, self.factors, self.more, self.targets = runs, list(factors), more, []

    def __call__(self, suite, targets):
        self.targets.append(list(targets))
        factor = self.factors.pop(0)
        number = 100 + len(self.targets)
        if isinstance(factor, int):
            return running.Ran(self.runs / f"run-{number:03d}", factor)
        bundle = made.run(self.runs, number, 1e-3 * factor, **self.more)
        return running.Ran(bundle.path, 3 if self.more.get("verdict") else 0)


def called(*arguments):
    return CliRunner().invoke(ci, list(arguments), standalone_mode=False)


def run(monkeypatch, measures, *arguments):
    monkeypatch.setattr(running, "_run", measures)
    return called("run", "suite.toml", *arguments)


def test_an_unchanged_run_ends_with_0(place, monkeypatch):
    done = run(monkeypatch, Measures(place, 1.001), "--json")
    assert done.return_value == 0, done.output
    report = json.loads(done.stdout)
    assert (report["status"], report["runs_before"]) == ("no change", 10)
    assert [(one["row"], one["metric"], one["word"]) for one in report["decisions"]] == [("coalesced", "time", "FINE")]


def test_a_suspect_is_confirmed_once_and_is_then_a_regression(place, monkeypatch):
    measures = Measures(place, 1.05, 1.052)
    done = run(monkeypatch, measures, "--json")
    assert done.return_value == 4, done.output
    assert measures.targets == [["ch07.*"], ["ch07.memory_access"]]
    report = json.loads(done.stdout)
    assert (report["status"], report["exit_code"], len(report["bundles"])) == ("regression", 4, 2)
    (decision,) = report["decisions"]
    assert decision["change_percent"] == pytest.approx(5.2, abs=0.2)
    assert (decision["now"], decision["course"][-1]) == (1.052e-3, 1.052e-3)
    assert (decision["before"], len(decision["course"])) == (pytest.approx(1e-3, rel=1e-3), 12)
    assert (decision["agree"], decision["reason"]) == (2, "2 runs in a row agree")


def test_a_suspect_that_is_refuted_ends_with_0(place, monkeypatch):
    done = run(monkeypatch, Measures(place, 1.05, 1.0), "--json")
    assert done.return_value == 0, done.output
    assert json.loads(done.stdout)["status"] == "no change"


def test_a_faster_run_is_not_confirmed(place, monkeypatch):
    measures = Measures(place, 0.95)
    assert run(monkeypatch, measures).return_value == 0
    assert len(measures.targets) == 1


def test_a_distrusted_row_ends_with_3(place, monkeypatch):
    done = run(monkeypatch, Measures(place, 1.0, verdict=made.UNTRUSTED), "--json")
    assert done.return_value == 3, done.output
    decisions = json.loads(done.stdout)["decisions"]
    assert [(one["row"], one["word"], one["reason"]) for one in decisions] == [
        ("coalesced", "DISTRUSTED", "UNTRUSTED: clocks disagree")
    ]


def test_a_changed_run_ends_with_3(place, monkeypatch):
    first = min(place.iterdir())
    file = first / "targets" / "ch07.memory_access.json"
    file.write_bytes(file.read_bytes().replace(b'"speed"', b'"latency"'))
    done = run(monkeypatch, Measures(place, 1.05, 1.0), "--json")
    assert done.return_value == 3, done.output
    words = [(one["target"], one["word"]) for one in json.loads(done.stdout)["decisions"]]
    assert words == [(first.name, "DISTRUSTED"), ("ch07.memory_access", "FINE")]
    for command in ("check", "history"):
        assert called(command, "suite.toml").return_value == 3
    for one in place.iterdir():
        if one != first:
            shutil.rmtree(one)
    done = called("check", "suite.toml", "--json")
    assert done.return_value == 3
    assert "was changed after its run ended" in json.loads(done.stdout)["decisions"][0]["reason"]


def test_a_run_that_fails_is_repeated_and_then_an_error(place, monkeypatch):
    measures = Measures(place, 1, 1)
    done = run(monkeypatch, measures)
    assert isinstance(done.exception, AiperfError)
    assert done.exception.exit_code == 1
    assert str(done.exception).startswith("aiperf run ended with 1 and left no bundle. Its output: ")
    assert len(measures.targets) == 2
    assert run(monkeypatch, Measures(place, 1, 1.0)).return_value == 0


def test_few_runs_are_new(place, monkeypatch):
    for path in sorted(place.iterdir())[3:]:
        path.rename(place.parent / path.name)
    done = run(monkeypatch, Measures(place, 1.5), "--json", "--require-conclusive")
    assert done.return_value == 0
    assert json.loads(done.stdout)["status"] == "new"


def test_the_report_has_four_files(place, monkeypatch):
    run(monkeypatch, Measures(place, 1.05, 1.052))
    report = Path("artifacts/ci/n/report")
    assert sorted(one.name for one in report.iterdir()) == ["badge.svg", "junit.xml", "report.json", "summary.md"]
    summary = (report / "summary.md").read_text()
    assert summary.startswith("### n: 1 regression, after 11 earlier runs\n")
    assert "| ch07.memory\\_access" not in summary
    lines = summary.splitlines()
    assert lines[2] == (
        "Repeat: `aiperf run ch07.memory_access --quiet --tier quick --policy standard --timeout 60.0 --label suite=n`"
    )
    assert lines[4] == (
        "- **ch07.memory_access:coalesced** regressed: time 1.0000 ms → 1.0520 ms, 1.052x \\[1.043, 1.061\\]"
    )
    assert lines[6] == "| row | metric | word | before | now | now / before | runs | history | why |"
    assert lines[8] == (
        "| ch07.memory_access:coalesced | time | REGRESSION | 1.0000 ms | 1.0520 ms | 1.052x \\[1.043, 1.061\\] | 10 "
        "| ▁▂▁▂▁▂▁▂▁▁██ | 2 runs in a row agree; "
        "code: 000000000009 to 000000000066, with the same software and machine |"
    )
    tree = ElementTree.parse(report / "junit.xml")
    assert [one.get("type") for one in tree.iter("failure")] == ["REGRESSION"]
    assert "n: regression" in (report / "badge.svg").read_text()
    ElementTree.parse(report / "badge.svg")


def test_names_of_bundles_cannot_write_markup():
    from aiperf_analysis.ci.report import _cell

    assert _cell("a|b <img> [x](y) `c` @you") == "a\\|b &lt;img&gt; \\[x\\](y) 'c' @\u200byou"


def test_notify_gets_the_report(place, monkeypatch, tmp_path):
    script = [sys.executable, "-c", "import sys; open('told.json', 'w').write(sys.stdin.read())"]
    (tmp_path / "suite.toml").write_text(f"notify = {json.dumps(script)}\n{SUITE}")
    assert run(monkeypatch, Measures(place, 1.0)).return_value == 0
    assert json.loads((tmp_path / "told.json").read_text())["suite"] == "n"


@pytest.mark.parametrize(
    ("command", "why"),
    [(["./none"], "[Errno 2]"), (["sh", "-c", "printf '\\377'; exit 3"], "'sh' ended with 3")],
)
def test_a_command_of_notify_that_fails_is_told(place, monkeypatch, tmp_path, command, why):
    (tmp_path / "suite.toml").write_text(f"notify = {json.dumps(command)}\n{SUITE}")
    done = run(monkeypatch, Measures(place, 1.0))
    assert (done.return_value, f"notify: {why}" in done.output) == (0, True)


def test_a_row_with_few_runs_has_its_times(place, monkeypatch):
    for path in sorted(place.iterdir())[3:]:
        path.rename(place.parent / path.name)
    done = run(monkeypatch, Measures(place, 1.5))
    assert " 1.0000 ms  1.5000 ms       1.5000x  3 runs before it" in done.output
    summary = Path("artifacts/ci/n/report/summary.md").read_text()
    assert "| NEW | 1.0000 ms | 1.5000 ms | 1.5000x | 3 | ▁▁▁█ | 3 runs before it;" in summary


# --- accepted regressions


ROW = "ch07.memory_access:coalesced"


def test_an_accepted_regression_is_not_flagged_again(place, monkeypatch):
    run(monkeypatch, Measures(place, 1.05, 1.052))
    done = called("accept", "suite.toml", ROW, "--because", "more exact")
    assert done.exit_code == 0, done.output
    assert re.fullmatch(rf"{ROW}, time: accepted by .+ on \d{{4}}-\d\d-\d\d: more exact\n", done.stderr)
    done = called("check", "suite.toml", "--json")
    assert done.return_value == 0
    (decision,) = json.loads(done.stdout)["decisions"]
    assert (decision["word"], decision["reason"][-10:]) == ("ACCEPTED", "more exact")
    made.run(place, 300, 1.051e-3)
    assert called("check", "suite.toml", "--require-conclusive").return_value == 0
    history = json.loads(called("history", "suite.toml", "--json").stdout)
    assert history["summary"][0].startswith(f"{ROW}: accepted by ")
    assert [one["cells"]["newest"] for one in history["tables"][0]["records"] if one["cells"]["series"] == ROW] == [
        "ACCEPTED"
    ]


def test_a_level_worse_than_the_accepted_one_is_flagged(place, monkeypatch):
    run(monkeypatch, Measures(place, 1.05, 1.052))
    called("accept", "suite.toml", ROW, "--because", "more exact")
    for number in (300, 301):
        made.run(place, number, 1.2e-3)
    assert called("check", "suite.toml").return_value == 4


def test_what_cannot_be_accepted(place, monkeypatch):
    run(monkeypatch, Measures(place, 1.001))
    refused = called("accept", "suite.toml", ROW, "--because", "x").exception
    assert isinstance(refused, UsageError)
    assert str(refused) == f"the newest run has no regression of '{ROW}'. Regressions and suspects: none."
    Path("artifacts/ci/n/accepted.json").write_text("{")
    broken = called("check", "suite.toml").exception
    assert isinstance(broken, AiperfError)
    assert "cannot read 'artifacts/ci/n/accepted.json', the accepted regressions: " in str(broken)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"aiperf": "9.9"}, "method: "),
        ({"packages": {"torch": "9.9"}}, "environment: "),
        ({"git": None}, "unknown: neither commit"),
        ({}, "code: 000000000009 to "),
    ],
)
def test_the_class_of_a_cause(place, change, cause):
    for number in (200, 201):
        made.run(place, number, 1.05e-3, **change)
    (decision,) = json.loads(called("check", "suite.toml", "--json").stdout)["decisions"]
    assert (decision["word"], decision["cause"].startswith(cause)) == ("REGRESSION", True), decision["cause"]


# --- check


def test_check_gates_what_is_there(place):
    made.run(place, 200, 1.05e-3)
    done = called("check", "suite.toml", "--json")
    assert done.return_value == 0
    assert json.loads(done.stdout)["status"] == "suspect"
    assert called("check", "suite.toml", "--require-conclusive").return_value == 5
    made.run(place, 201, 1.05e-3)
    assert called("check", "suite.toml").return_value == 4


def test_check_takes_further_bundles(place, tmp_path):
    made.run(tmp_path / "other", 200, 1.0e-3)
    done = called("check", "suite.toml", str(tmp_path / "other" / "run-200"), "--json")
    assert json.loads(done.stdout)["runs_before"] == 10


def test_check_without_bundles_is_refused(place, tmp_path):
    (tmp_path / "suite.toml").write_text(SUITE.replace('"n"', '"empty"'))
    done = called("check", "suite.toml")
    assert str(done.exception) == (
        "the suite 'empty' has no bundles in 'artifacts/ci/empty/runs'. Name some, or make some: aiperf ci run suite.toml"
    )


def test_runs_of_another_branch_are_no_history(place):
    for number in range(300, 308):
        made.run(place, number, 2e-3, labels={"branch": "slow"})
    made.run(place, 310, 1e-3, labels={"branch": "main", "commit": "c"})
    done = called("check", "suite.toml", "--json")
    report = json.loads(done.stdout)
    assert (report["runs_before"], report["status"]) == (10, "no change")


def test_history_of_a_suite(place):
    done = called("history", "suite.toml", "--json")
    assert done.return_value == 0, done.output
    assert json.loads(done.stdout)["options"]["floor"] == 0.01


# --- the machine


def test_the_lock_keeps_a_second_run_off(place, tmp_path):
    with fitness.lock(0):
        code = (
            "from aiperf_core.devices import fitness\n"
            "try:\n    fitness.lock(0).__enter__()\nexcept fitness.NotFitError as error: print(error.exit_code, error)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        f"75 another run measures on this machine (process {os.getpid()}, lock '{tmp_path}/lock'); waited 0 s. "
        "Try again later, or raise busy.wait_s.\n"
    )
    with fitness.lock(0):
        pass


def test_a_killed_run_leaves_no_lock(place, tmp_path):
    path = tmp_path / "lock"
    code = "import os, signal\nfrom aiperf_core.devices import fitness\nfitness.lock(0).__enter__(); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert path.exists()
    with fitness.lock(0), path.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


UNUSABLE = "Remove it if no run goes on, or name another place for all users of this machine: AIPERF_CI_LOCK=PATH"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.symlink_to(path.parent / "elsewhere"), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (os.mkfifo, "Not a regular file"),
        (Path.mkdir, "Is a directory"),
    ],
)
def test_a_lock_that_is_no_file_is_refused(place, tmp_path, make, reason):
    make(tmp_path / "lock")
    with pytest.raises(fitness.NotFitError) as raised, fitness.lock(0):
        pass
    assert str(raised.value) == f"cannot open the lock '{tmp_path}/lock': {reason}. {UNUSABLE}"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("path", ["none/lock", "lock/lock", "/dev/full", "/proc/version", "a" * 300])
def test_a_lock_elsewhere_is_refused(place, tmp_path, monkeypatch, path):
    (tmp_path / "lock").touch()
    monkeypatch.setenv(fitness.LOCK_VARIABLE, path)
    with pytest.raises(fitness.NotFitError, match=r"^cannot (open|write) the lock '"), fitness.lock(0):
        pass


def test_a_lock_on_a_full_disk_is_refused_and_left(place, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(fitness.NotFitError) as raised, fitness.lock(0):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(raised.value) == f"cannot write the lock '{tmp_path}/lock': File too large. {UNUSABLE}"
    with fitness.lock(0):
        pass


@pytest.fixture
def measuring(place, tmp_path):
    """Starts `running._run` under the lock, with lines of Python in place of `aiperf run`; gives both processes."""
    started = []

    def start(lines=""):
        stub = f"import os, time\n{lines}\nopen('pid.new', 'w').write(str(os.getpid()))\nos.rename('pid.new', 'pid')\ntime.sleep(60)"
        code = (
            "import sys\nfrom aiperf_analysis.ci import running\nfrom aiperf_analysis.ci.suite import Suite\n"
            "from aiperf_core.devices.fitness import lock\nrunning._AIPERF = (sys.executable, '-c', sys.argv[1])\n"
            "with lock(0):\n    running._run(Suite('n', ['practice.*']), ['practice.*'])"
        )
        started.append(psutil.Popen([sys.executable, "-c", code, stub]))
        until((tmp_path / "pid").exists)
        started.append(psutil.Process(int((tmp_path / "pid").read_text())))
        return started

    yield start
    for one in started:
        with suppress(psutil.NoSuchProcess):
            one.kill()
            one.wait(10)


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("by", "stopped"), [(signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGTERM, False)])
def test_a_suite_that_is_killed_ends_its_measurement(measuring, by, stopped):
    suite, run = measuring()
    if stopped:
        run.suspend()
    suite.send_signal(by)
    suite.wait()
    until(lambda: not run.is_running())
    with fitness.lock(5):
        pass


def test_the_lock_holds_until_the_measurement_has_ended(measuring, tmp_path):
    """One that outlives its suite, which the kernel does not let any other do."""
    suite, run = measuring("import ctypes; ctypes.CDLL(None).prctl(1, 0)")
    for sent, ended in ((signal.SIGSTOP, ""), (signal.SIGKILL, ", which has ended: what it started has not")):
        suite.send_signal(sent)
        if ended:
            suite.wait()
        with pytest.raises(fitness.NotFitError) as raised, fitness.lock(0):
            pass
        assert str(raised.value) == (
            f"another run measures on this machine (process {suite.pid}{ended}, lock '{tmp_path}/lock'); waited 0 s. Try "
            "again later, or raise busy.wait_s."
        )
    run.kill()
    with fitness.lock(5):
        pass


def test_a_measurement_that_is_killed_leaves_the_lock_to_its_suite(measuring):
    suite, run = measuring()
    suite.suspend()
    run.kill()
    with pytest.raises(fitness.NotFitError), fitness.lock(0):
        pass


def test_a_child_whose_parent_has_ended_before_ends_too():
    done = subprocess.run(["sleep", "60"], preexec_fn=partial(end_with_parent, os.getppid()), check=False)
    assert done.returncode == -signal.SIGKILL


def test_another_kind_of_machine_is_refused(place, tmp_path):
    (tmp_path / "suite.toml").write_text(f'machine = "nvidia-z9-*"\n{SUITE}')
    done = called("run", "suite.toml")
    assert done.exception.exit_code == 75
    assert str(done.exception).startswith("the suite 'n' demands a machine of the kind 'nvidia-z9-*'; this is ")


def test_a_busy_machine_is_refused(place, monkeypatch):
    monkeypatch.setattr(fit, "busy", lambda limits: ["90 % of the processors are busy (at most 10 %)"])
    done = called("run", "suite.toml")
    assert done.exception.exit_code == 75
    assert str(done.exception) == (
        "the machine is too busy to measure: 90 % of the processors are busy (at most 10 %); waited 0 s. Stop that, try again "
        "later, or change the limits in 'busy'."
    )


def test_what_makes_a_machine_busy(monkeypatch):
    import psutil

    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 50.0)
    with subprocess.Popen(["sleep", "60"]) as first, subprocess.Popen(["sleep", "60"]) as second:
        first_key, second_key, ended, idle = (first.pid, 1.0), (second.pid, 2.0), (0, 3.0), (1, 4.0)
        times = [
            {first_key: 5.0, idle: 9.0, ended: 1.0},
            {first_key: 5.25, second_key: 0.75, idle: 9.01},
        ]
        monkeypatch.setattr(fitness, "_processor_times", iter(times).__next__)
        monkeypatch.setattr(fitness, "gpu_processes", lambda: [first.pid, 0])
        reasons = fitness.busy(Busy(processors=0.4))
        first.kill()
        second.kill()
    assert reasons == [
        f"50 % of the processors are busy (at most 40 %), in 1 s by 'sleep' (process {second.pid}) for 750 ms, 'sleep' "
        f"(process {first.pid}) for 250 ms",
        f"2 processes use a GPU (at most 0): 'sleep' (process {first.pid}), process 0",
    ]
    monkeypatch.undo()
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 50.0)
    monkeypatch.setattr(fitness, "gpu_processes", lambda: [1, 1])
    assert fitness.busy(Busy(processors=0.6, gpu_processes=2)) == []


# --- the command that measures


def test_the_arguments_of_aiperf_run(monkeypatch):
    monkeypatch.setattr(running, "labels_of_commit", lambda: {"branch": "main", "commit": "c"})
    suite = Suite(
        "n",
        ["ch07.*"],
        exclude=["ch07.x"],
        sizes={"n": 268435457.0},
        device="cpu",
        budget_s=2.0,
        labels={"pool": "a"},
        min_samples=7,
    )
    assert running.arguments(suite, ["ch07.a"], Path("out")) == [
        *("run", "ch07.a", "--out", "out", "--quiet", "--tier", "quick", "--policy", "standard"),
        *("--device", "cpu", "--budget", "2.0", "--timeout", "60.0", "--set", "n=268435457"),
        *("--label", "branch=main", "--label", "commit=c", "--label", "pool=a", "--label", "suite=n"),
        *("--exclude", "ch07.x", "--min-samples", "7"),
    ]


def test_the_branch_comes_from_ci_where_none_is_checked_out(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("GITHUB_HEAD_REF", "topic")
    assert running.labels_of_commit() == {"branch": "topic"}


# --- bisection


@pytest.fixture
def repository(place, monkeypatch, tmp_path):
    """Eight commits, of which the sixth and later are slower; `aiperf run` reads the factor from a file."""

    def git(*words):
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "--quiet", "--initial-branch", "main")
    (tmp_path / ".gitignore").write_text("artifacts\nlock\nsuite.toml\n")
    commits = []
    for number in range(8):
        (tmp_path / "factor").write_text(f"{1.0 if number < 5 else 1.05} {number}")
        git("add", "factor", ".gitignore")
        git("commit", "--quiet", "-m", f"commit {number}")
        commits.append(git("rev-parse", "HEAD"))
    counter = iter(range(1000))

    def measured(suite, targets):
        number = next(counter)
        factor = float((tmp_path / "factor").read_text().split()[0]) * LEVEL[number % len(LEVEL)]
        suite.runs.mkdir(parents=True, exist_ok=True)
        bundle = made.run(suite.runs, number, 1e-3 * factor, created=made.START + timedelta(hours=number))
        return running.Ran(bundle.path, 0)

    monkeypatch.setattr(running, "_run", measured)
    return commits, git


def test_bisect_finds_the_commit(repository, monkeypatch):
    commits, git = repository
    done = called("bisect", commits[0], commits[-1], "suite.toml")
    assert done.return_value == 0, (done.output, done.exception)
    assert done.stdout == f"the first bad commit: {commits[5]}\n"
    assert git("symbolic-ref", "--short", "HEAD") == "main"


def test_bisect_names_the_commits_that_it_had_to_skip(repository, monkeypatch):
    commits, git = repository
    build = f"{sys.executable} -c \"import subprocess; exit(subprocess.check_output(['git', 'rev-parse', 'HEAD'], text=True)[:9] in {{ {', '.join(repr(one[:9]) for one in commits[3:6])} }})\""
    done = called("bisect", commits[0], commits[-1], "suite.toml", "--build", build)
    assert done.return_value == 5, (done.output, done.exception)
    assert all(one in done.stdout for one in commits[3:7])
    assert git("symbolic-ref", "--short", "HEAD") == "main"


def test_bisect_without_a_regression_is_refused(repository, monkeypatch):
    commits, git = repository
    done = called("bisect", commits[0], commits[3], "suite.toml")
    assert str(done.exception).startswith(f"{commits[3][:12]} is no regression against {commits[0][:12]} here")
    assert git("symbolic-ref", "--short", "HEAD") == "main"


def test_bisect_refuses_changes_and_unknown_commits(repository, tmp_path):
    commits, _ = repository
    assert str(called("bisect", "nothing", commits[3], "suite.toml").exception) == (
        "'nothing' is no commit of this repository. List them: git log --oneline"
    )
    assert "is not an ancestor of" in str(called("bisect", commits[3], commits[0], "suite.toml").exception)
    (tmp_path / "factor").write_text("3")
    done = called("bisect", commits[0], commits[3], "suite.toml")
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == (
        "the working tree has changes, which a bisection would carry along. Commit or stash them."
    )


# --- the script that measures the gate


def test_the_gate_script_resumes(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location(
        "analysis_gate", Path(__file__).parents[2] / "benchmarks" / "analysis_gate.py"
    )
    assert spec is not None
    assert spec.loader is not None
    gate = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = gate
    spec.loader.exec_module(gate)
    calls = []

    def runner(slowed):
        calls.append(slowed)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return gate.Try("slowed" if slowed else "unchanged", 75 if len(calls) == 2 else 4 if slowed else 0, 1.0, "x")

    arguments = ["--work", str(tmp_path), "--slowed", "2", "--unchanged", "3"]
    with pytest.raises(KeyboardInterrupt):
        gate.main(arguments, runner)
    assert gate.main([*arguments, "--report"]) == 5
    assert gate.main(arguments, runner) == 0
    # The history, five tries, one without a decision and one that was interrupted.
    assert len(calls) == gate.HISTORY + 5 + 2
    assert calls.count(True) == 2
    assert "slowed             2       2" in capsys.readouterr().out
    assert "MORE = 0.03" in (tmp_path / "slowed" / "gate_targets" / "reflect.py").read_text()


def test_gates_without_a_direction_know_theirs():
    assert evolve(Gate("energy"), direction="both").stops == "both"
    assert Gate("energy").stops == "up"
