"""The engine `here`, and what a task does on its machine."""

import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version

import psutil
import pytest
from attrs import evolve

from aiperf_core.fleet import FleetTask, TaskStatus
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.testing import fleet_conformance
from aiperf_fleet import delivery, machine
from aiperf_fleet.engines.here import Here
from aiperf_fleet.machine import Order
from aiperf_fleet.records import Ending


def test_it_keeps_the_contract(tmp_path):
    assert fleet_conformance(lambda folder: Here(folder, {}), tmp_path) == []


def test_a_task_ends_with_a_fleet_that_is_killed(tmp_path):
    """From its first moment on, whatever it is."""
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom aiperf_core.fleet import FleetTask\nfrom aiperf_fleet.engines.here import Here\n"
        "Here(Path('.'), {}).submit(FleetTask(id='a', command=('sleep', '60'), result=Path('r'), time_limit_s=60))\ntime.sleep(60)"
    )
    fleet = psutil.Popen([sys.executable, "-c", code], cwd=tmp_path)
    while not (tasks := fleet.children()):
        assert fleet.poll() is None
        time.sleep(0.02)
    fleet.kill()
    fleet.wait()
    psutil.wait_procs(tasks, 10)
    assert not tasks[0].is_running()


def test_a_task_that_takes_too_long_is_ended(tmp_path):
    here = Here(tmp_path, {})
    task = FleetTask(id="a", command=("sleep", "60"), result=tmp_path / "r", time_limit_s=0.1)
    waiting = FleetTask(id="b", command=("true",), result=tmp_path / "r")
    assert [here.submit(one) for one in (task, waiting)] == ["a", "b"]
    assert here.poll(["b"])["b"].status is TaskStatus.WAITING
    while not (state := here.poll(["a"])["a"]).over:
        pass
    assert (state.status, state.exit_code, state.reason) == (TaskStatus.ENDED, None, "longer than its limit of 0.1 s")
    here.close()


def test_a_task_that_cannot_be_started_is_lost_and_the_next_one_starts(tmp_path):
    here = Here(tmp_path, {})
    for name, program in (("a", "/no/such/python"), ("b", "true")):
        assert here.submit(FleetTask(id=name, command=(program,), result=tmp_path / "r")) == name
    found = here.poll(["a"])["a"]
    assert (found.status, found.reason) == (
        TaskStatus.LOST,
        f"cannot start '/no/such/python', which prints to '{tmp_path}/a.log': No such file or directory",
    )
    while not (state := here.poll(["b"])["b"]).over:
        pass
    assert (state.status, state.exit_code) == (TaskStatus.ENDED, 0)


@pytest.fixture
def lock(tmp_path, monkeypatch):
    monkeypatch.setenv("AIPERF_CI_LOCK", str(tmp_path / "lock"))


def outcome(order, tmp_path):
    return machine._outcome(order, tmp_path / "bundle")


def test_what_makes_a_machine_unfit(lock, tmp_path, monkeypatch):
    found = outcome(Order(["run"], versions={"aiperf-core": "9.9"}), tmp_path)
    ours = version("aiperf-core")
    assert (found.ending, found.lasting, found.reason) == (
        Ending.UNFIT,
        True,
        f"aiperf-core is {ours} on the machine and 9.9 where the fleet was started",
    )
    found = outcome(Order(["run"], kind="nvidia-z9-*", device="cpu"), tmp_path)
    assert found.lasting
    assert found.reason.endswith("; its class demands 'nvidia-z9-*'")
    monkeypatch.setattr(machine, "busy", lambda limits: ["90 % of the processors are busy (at most 10 %)"])
    found = outcome(Order(["run"]), tmp_path)
    assert (found.ending, found.lasting, found.reason) == (
        Ending.UNFIT,
        False,
        "the machine is too busy to measure: 90 % of the processors are busy (at most 10 %)",
    )
    with machine.lock(0):
        code = (
            "from pathlib import Path\nfrom attrs import evolve\nfrom aiperf_fleet import machine\nfrom aiperf_fleet.machine import *\n"
            "print(machine._outcome(Order(['run'], limits=Busy(wait_s=0)), Path('bundle')).reason)"
        )
        printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith(
        f"another run measures on this machine (process {os.getpid()}, lock '{tmp_path}/lock'); waited 0 s."
    )


def test_a_run_without_a_bundle_is_a_result(lock, tmp_path, monkeypatch):
    """Here the command does not exist; the whole way through the process and the delivered file."""
    monkeypatch.setattr(machine, "busy", lambda limits: [])
    monkeypatch.setattr(machine, "end_with_parent", lambda: None)
    monkeypatch.setenv("AIPERF_FLEET_RESULT", str(tmp_path / "result"))
    monkeypatch.setenv("AIPERF_FLEET_MACHINE", platform.node())
    machine.main(machine.to_text(Order(["no-such-command"])))
    found = delivery.read(tmp_path / "result", tmp_path / "bundle")
    assert (found.ending, found.exit_code) == (Ending.FAILED, 2)
    assert found.reason == "aiperf run ended with 2 and left no bundle"


@pytest.fixture
def fake_run(tmp_path, monkeypatch):
    """Replaces `aiperf run` by lines of shell, whose last argument is the bundle."""

    def replace(text):
        path = tmp_path / "python"
        path.write_text(f'#!/bin/sh\nfor bundle in "$@"; do :; done\n{text}\n')
        path.chmod(0o755)
        monkeypatch.setattr(machine.sys, "executable", str(path))

    return replace


def test_a_log_that_is_full_does_not_end_the_run(fake_run, tmp_path):
    """What it prints is lost. Its exit code and its length stay."""
    fake_run("seq 50000 && seq 50000 >&2 && exit 5")
    kept = os.dup(1)
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), 1)
    try:
        found = machine.measure(Order(["run"]), tmp_path / "bundle")
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    assert (found.ending, found.exit_code) == (Ending.FAILED, 5)


def test_what_a_run_prints_is_printed(fake_run, tmp_path, capfd):
    """A process that it leaves behind is not waited for."""
    fake_run("echo out; echo err >&2; sleep 3 & exit 0")
    began = time.monotonic()
    machine._PRINT_S, before = 0.2, machine._PRINT_S
    try:
        machine.measure(Order(["run"]), tmp_path / "bundle")
    finally:
        machine._PRINT_S = before
    assert time.monotonic() - began < 2
    assert capfd.readouterr().out == "out\nerr\n"


def test_a_bundle_without_a_seal_is_not_delivered(fake_run, lock, tmp_path, monkeypatch):
    """The disk of the machine was full: another machine may do it."""
    bundle = Bundle.create_at(tmp_path / "half")
    bundle.write_manifest(evolve(example.manifest(), complete=False, exit_code=None))
    fake_run(f'cp -r "{bundle.path}" "$bundle"; exit 1')
    monkeypatch.setattr(machine, "busy", lambda limits: [])
    monkeypatch.setattr(machine, "end_with_parent", lambda: None)
    monkeypatch.setenv("AIPERF_FLEET_RESULT", str(tmp_path / "result"))
    with pytest.raises(SystemExit) as caught:
        machine.main(machine.to_text(Order(["run"])))
    assert caught.value.code == (
        "aiperf run ended with 1 and left its bundle without a seal, as on a machine whose disk is full"
    )
    assert not (tmp_path / "result").exists()


def test_a_folder_that_stays_full(lock, tmp_path, monkeypatch):
    tries = []

    def full(*_):
        tries.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(delivery, "_write", full)
    monkeypatch.setattr(delivery, "RETRY_S", 0.01)
    monkeypatch.setattr(machine, "end_with_parent", lambda: None)
    monkeypatch.setenv("AIPERF_FLEET_RESULT", str(tmp_path / "result"))
    with pytest.raises(SystemExit) as caught:
        machine.main(machine.to_text(Order(["run"], kind="none-*", device="cpu", patience_s=0.05)))
    assert len(tries) > 1
    assert caught.value.code == f"cannot deliver to '{tmp_path}/result': No space left on device"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the delivered file does not begin with an outcome: "),
        (b"\x80\x04pickle\n", "the delivered file does not begin with an outcome: "),
        (b'{"ending":"LOST","exit_code":0,"seal":null,"reason":"","lasting":false}\n', "the delivered outcome is LOST; expected DONE,"),
        (b'{"ending":"DONE","exit_code":0,"seal":"x","reason":"","lasting":false}\n' + b"no tar" * 500, "the body is not the bundle x: 'the bundle' has no manifest.json, "),
    ],
)  # fmt: skip
def test_a_delivered_file_that_is_damaged(data, message, tmp_path):
    (tmp_path / "result").write_bytes(data)
    with pytest.raises(delivery.UsageError) as caught:
        delivery.read(tmp_path / "result", tmp_path / "bundle")
    assert str(caught.value).startswith(message)
    assert [one.name for one in tmp_path.iterdir()] == ["result"]


def test_an_order_is_one_argument():
    order = Order(["run", "a.b"], {"aiperf-core": "1"}, "x-*", "cpu", machine.Busy(0.5, 1, 2.0))
    assert machine.structure.structure(json.loads(machine.to_text(order)), Order) == order
