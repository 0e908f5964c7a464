"""`aiperf demo`: its runs, its folder, its end by Ctrl-C, and the dashboard on what it measured."""

import re
import runpy
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from aiperf_analysis import demo
from aiperf_core.cli.main import Shell
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

SITE = runpy.run_path(str(Path(__file__).with_name("dashboard_site.py")))
# Stands for `aiperf run`: writes a bundle to the folder of --out; `fails` and `waits` as the target say what else it does.
STUB = """
import pathlib, signal, sys, time
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
if "fails" in sys.argv:
    print("no torch\\nno luck")
    raise SystemExit(1)
if "waits" in sys.argv:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    print("waiting", flush=True)
    signal.sigwait([signal.SIGINT])
bundle = Bundle.create_at(out)
bundle.write_target(example.result())
bundle.write_manifest(example.manifest())
"""
PLAN = (demo.Step("one", "a target", ("x",)), demo.Step("two", "the same", ("x",)))


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Runs of the demo that measure nothing."""
    place = tmp_path / "stub.py"
    place.write_text(STUB)
    monkeypatch.setattr(demo, "_AIPERF", (sys.executable, str(place)))
    return place


def without_times(lines):
    return [re.sub(r", \d+ s$", ", N s", line) for line in lines]


def test_the_demo_measures_and_says_where(stub, aiperf, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "PLAN", PLAN)
    folder = tmp_path / "new" / "demo"
    told = aiperf("demo", folder, "--no-dashboard")
    assert (told.code, told.err) == (0, "")
    assert without_times(told.out.splitlines()) == [
        f"aiperf demo: 2 quick runs on this machine's CPU, into {folder}. They take less than two minutes. Ctrl-C stops "
        "them, and keeps what was measured.",
        "  1 of 2  one: a target, N s",
        "  2 of 2  two: the same, N s",
        f"2 runs in {folder}. To look at them: aiperf dashboard {folder}",
    ]
    assert sorted(one.name for one in folder.iterdir()) == ["one", "two"]


def test_the_pages_to_begin_with_exist(example_runs, plugins):
    client = SITE["client_of"](example_runs, plugins)
    for path, about in demo.TOUR:
        assert client.get(path).status_code == 200, path
        assert len(path) < 10, "the command aligns what a page shows"
        assert about


def test_aiperf_run_takes_the_arguments_of_the_plan(plugins):
    shell = Shell(plugins)
    command = shell.get_command(click.Context(shell), "run")
    for step in demo.PLAN:
        given = command.make_context("run", list(step.arguments), obj=plugins).params
        assert given["patterns"] in (("practice.*",), ("practice.matmul",), ("practice.softmax",))
        assert (given["device"], given["budget_s"]) == ("cpu", 0.3)
    assert {"practice.matmul", "practice.softmax"} <= {one.name for one in plugins.targets}
    assert len({one.name for one in demo.PLAN}) == len(demo.PLAN)


def test_a_run_that_takes_too_long_is_stopped(stub, tmp_path):
    said = []
    plan = [demo.Step("one", "a target", ("waits",)), *PLAN[1:]]
    assert demo.measure(tmp_path, said.append, plan, limit_s=0.5) == 0
    assert said == ["The time is up after 0 of 2 runs: this machine is slow or busy."]
    assert not (tmp_path / "two").exists()
    assert not (tmp_path / "one.log").exists()


def test_runs_end_with_the_time(stub, tmp_path, monkeypatch):
    said, clock = [], iter((0.0, 0.0, 60.0, 60.0))
    monkeypatch.setattr(demo.time, "monotonic", lambda: next(clock, 60.0))
    assert demo.measure(tmp_path, said.append, PLAN, limit_s=100.0) == 1
    assert without_times(said) == [
        "  1 of 2  one: a target, N s",
        "The time is up after 1 of 2 runs: this machine is slow or busy.",
    ]


def test_a_run_without_a_bundle_is_told(stub, tmp_path):
    with pytest.raises(demo.AiperfError) as failed:
        demo.measure(tmp_path, print, [demo.Step("one", "a target", ("fails",))])
    assert str(failed.value) == (
        "aiperf run ended with 1 and left no bundle. It said: no torch no luck. Try it by hand: aiperf run fails"
    )


def test_folders_that_are_refused(aiperf, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("mine")
    for folder, message in (
        (tmp_path, f"'{tmp_path}' is not empty; the demo needs a new or an empty folder. Name another: aiperf demo "
         f"FOLDER. To look at the results in this one: aiperf dashboard {tmp_path}"),
        (kept, f"'{kept}' is a file; the demo needs a folder. Name a new one: aiperf demo FOLDER"),
        (kept / "in", f"'{kept}/in' is a file; the demo needs a folder. Name a new one: aiperf demo FOLDER"),
    ):  # fmt: skip
        told = aiperf("demo", folder, "--port", 0)
        assert (told.code, told.out, told.err) == (2, "", f"aiperf: {message}\n")
    assert kept.read_text() == "mine"


def test_a_port_that_is_taken_is_told_before_the_runs(aiperf, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = aiperf("demo", tmp_path / "new", "--port", port)
    assert (told.code, told.out) == (2, "")
    assert told.err == (
        f"aiperf: cannot listen on 127.0.0.1, port {port}: Address already in use. Choose another with --port; "
        "--port 0 takes a free one.\n"
    )
    assert not (tmp_path / "new").exists()


def test_ctrl_c_keeps_what_was_measured(stub, tmp_path):
    folder = tmp_path / "demo"
    code = (
        "import sys; from aiperf_analysis import demo; from aiperf_core.cli.main import main; "
        f"demo._AIPERF = (sys.executable, {str(stub)!r}); "
        "demo.PLAN = (demo.Step('one', 'a target', ('x',)), demo.Step('two', 'a target', ('waits',))); "
        f"sys.argv = ['aiperf', 'demo', {str(folder)!r}, '--no-dashboard']; sys.exit(main())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)) as process:  # fmt: skip
        end = time.monotonic() + 60
        while not (log := folder / "two.log").exists() or "waiting" not in log.read_text():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert out.splitlines()[-1] == f"Stopped. Look at what was measured: aiperf dashboard {folder}"
    assert [Bundle(folder / name).manifest.exit_code for name in ("one", "two")] == [example.manifest().exit_code] * 2


@pytest.mark.long
@pytest.mark.quiet
def test_the_whole_demo_takes_less_than_two_minutes(tmp_path, aiperf, plugins):
    start = time.monotonic()
    told = aiperf("demo", tmp_path / "demo", "--no-dashboard")
    assert told.code == 0
    assert time.monotonic() - start < 120
    assert told.out.splitlines()[-1].startswith(f"{len(demo.PLAN)} runs in ")
    client = SITE["client_of"](tmp_path / "demo", plugins)
    for path in ("/scaling", "/pareto", "/history"):
        assert "<svg" in client.get(path).text, path
