"""`aiperf demo`: its stored results, the run beside them, its folder, its end by Ctrl-C, and the dashboard."""

import errno
import runpy
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import click
import pytest

from aiperf_analysis import demo
from aiperf_core.cli.main import Shell
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.seal_check import check

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


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """A run of the demo that measures nothing."""
    place = tmp_path / "stub.py"
    place.write_text(STUB)
    monkeypatch.setattr(demo, "_AIPERF", (sys.executable, str(place)))
    return place


def test_stored_results_are_unpacked_and_a_target_is_measured(stub, aiperf, tmp_path):
    folder = tmp_path / "new" / "demo"
    told = aiperf("demo", folder, "--no-dashboard")
    assert (told.code, told.err) == (0, "")
    stored = sorted(one.name for one in folder.iterdir() if one.name != demo.HERE)
    assert told.out.splitlines() == [
        f"aiperf demo: {len(stored)} stored runs in {folder}; practice.softmax is measured on this machine meanwhile.",
        f"To look at them: aiperf dashboard {folder}",
    ]
    assert len(stored) >= 40
    assert Bundle(folder / demo.HERE).manifest.exit_code == example.manifest().exit_code
    assert [one.name for one in folder.parent.iterdir()] == ["demo"]


def test_stored_results_are_sealed_and_have_one_regression(tmp_path):
    demo.checked(tmp_path / "demo")
    assert demo.unpack(tmp_path / "demo") == len(list((tmp_path / "demo").iterdir()))
    for bundle in (tmp_path / "demo").iterdir():
        found = check(Bundle(bundle))
        assert (found.sealed, found.told()) == (True, "")
    history = sorted((tmp_path / "demo").glob("history-*"))
    assert len(history) == 40


def test_nothing_half_unpacked_stays(tmp_path, monkeypatch):
    folder = tmp_path / "demo"
    demo.checked(folder)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(demo.ZipFile, "extractall", full)
    with pytest.raises(demo.AiperfError) as failed:
        demo.unpack(folder)
    assert str(failed.value) == (
        f"cannot write the results of the demo to '{folder}': No space left on device. Name another folder: aiperf demo "
        "FOLDER"
    )
    assert list(tmp_path.iterdir()) == [folder]
    assert list(folder.iterdir()) == []


def test_the_pages_to_begin_with_exist(example_runs, plugins):
    client = SITE["client_of"](example_runs, plugins)
    for path, about in demo.TOUR:
        assert client.get(path).status_code == 200, path
        assert len(path) < 10, "the command aligns what a page shows"
        assert about


def test_aiperf_run_takes_the_arguments_of_the_live_run(plugins):
    shell = Shell(plugins)
    command = shell.get_command(click.Context(shell), "run")
    given = command.make_context("run", list(demo.LIVE), obj=plugins).params
    assert (given["patterns"], given["device"], given["budget_s"]) == (("practice.softmax",), "cpu", 5)
    assert "practice.softmax" in {one.name for one in plugins.targets}


def test_a_run_without_a_bundle_is_told(stub, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "LIVE", ("fails",))
    with pytest.raises(demo.AiperfError) as failed, demo.measuring(tmp_path) as run:
        run.wait()
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
        f"demo._AIPERF = (sys.executable, {str(stub)!r}); demo.LIVE = ('waits',); "
        f"sys.argv = ['aiperf', 'demo', {str(folder)!r}, '--no-dashboard']; sys.exit(main())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)) as process:  # fmt: skip
        end = time.monotonic() + 60
        while not (log := folder / f"{demo.HERE}.log").exists() or "waiting" not in log.read_text():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert Bundle(folder / demo.HERE).manifest.exit_code == example.manifest().exit_code


@pytest.mark.long
@pytest.mark.quiet
def test_the_dashboard_answers_within_two_seconds_while_a_target_is_measured(tmp_path):
    folder, start = tmp_path / "demo", time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "aiperf_core", "demo", str(folder), "--port", str(port), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while True:
            try:
                page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read().decode()
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.02)
        took_s = time.monotonic() - start
        while not (folder / demo.HERE).exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "demo.row_norm" in page
    assert took_s < 2
