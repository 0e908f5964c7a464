"""The engines of clusters without a cluster: what they do on a full disk and in a slow folder."""

import base64
import sys

import pytest

from aiperf_core.errors import AiperfError
from aiperf_core.fleet import FleetTask, TaskStatus
from aiperf_fleet.engines import ray, slurm


@pytest.fixture
def on_ray(monkeypatch, tmp_path, tiny_disk):
    """The engine on a disk that is full, with a bridge whose only answer is the end of the task `a`."""
    monkeypatch.setattr(ray, "find_spec", lambda name: True)
    engine = ray.Ray(tiny_disk(tmp_path / "disk", 1 << 16), {})
    asked = []

    def ask(do, **more):
        asked.append(do)
        if do == "offers":
            return [{"machine": "n1", "classes": [], "up": True}]
        if do == "poll":
            content = base64.b64encode(b"x" * 9000).decode()
            ended = {
                "status": "ENDED",
                "machine": "n1",
                "exit_code": 0,
                "log": "",
                "delivered": True,
                "content": content,
            }
            return {
                one: ended if one == "a" else {"status": "LOST", "machine": "n1", "reason": "it died"}
                for one in more["ids"]
            }
        return None

    monkeypatch.setattr(engine, "_ask", ask)
    for one in "ab":
        engine.submit(FleetTask(id=one, command=("true",), result=engine.folder / f"{one}.result"))
    asked.clear()
    engine.asked = asked
    return engine


def test_ray_keeps_in_memory_what_it_cannot_write(on_ray):
    """The bridge tells the end of a task once."""
    filler = on_ray.folder / "filler"
    filler.write_bytes(bytes((1 << 16) - 4096))
    for _ in range(2):
        with pytest.raises(AiperfError) as caught:
            on_ray.poll(["a", "b"])
        assert str(caught.value) == "what a delivered cannot be written: No space left on device"
    filler.unlink()
    found = on_ray.poll(["a", "b"])
    assert [found[one].status for one in "ab"] == [TaskStatus.ENDED, TaskStatus.LOST]
    assert (found["a"].exit_code, found["b"].reason) == (0, "it died")
    assert (on_ray.folder / "a.result").read_bytes() == b"x" * 9000
    assert on_ray.poll(["a", "b"]) == found
    assert on_ray.asked == ["poll"]


@pytest.fixture
def on_slurm(monkeypatch, tmp_path):
    """The engine, with a controller that knows a job 7 that is completed."""
    monkeypatch.setattr(slurm, "PROGRAMS", ())
    monkeypatch.setitem(sys.modules, "submitit", object())
    monkeypatch.setattr(slurm, "_ask", lambda *line: "7|COMPLETED|n1|None\n")
    (tmp_path / "7.name").write_text("a.1")
    return slurm.Slurm(tmp_path, {})


def test_slurm_waits_for_an_exit_code_in_a_slow_folder(on_slurm):
    assert on_slurm.poll(["7"])["7"].status is TaskStatus.RUNNING
    (on_slurm.folder / "a.1.exit").write_text("3 n1")
    found = on_slurm.poll(["7"])["7"]
    assert (found.status, found.exit_code, found.machine) == (TaskStatus.ENDED, 3, "n1")


def test_slurm_does_not_wait_for_ever(on_slurm, monkeypatch):
    monkeypatch.setattr(slurm, "SETTLE_S", 0.0)
    found = on_slurm.poll(["7"])["7"]
    assert (found.status, found.exit_code, found.reason) == (TaskStatus.ENDED, None, "the job is COMPLETED")


def test_slurm_cancels_a_job_that_it_cannot_note(monkeypatch, tmp_path, tiny_disk):
    """It would run without anybody who knows it."""

    class Executor:
        def __init__(self, **more):
            pass

        def update_parameters(self, **more):
            pass

        def submit(self, *given):
            folder.joinpath("filler").write_bytes(bytes(1 << 16))
            return type("Job", (), {"job_id": "7"})

    folder = tiny_disk(tmp_path / "disk", 1 << 16)
    cancelled = []
    monkeypatch.setattr(slurm, "PROGRAMS", ())
    monkeypatch.setitem(sys.modules, "submitit", type("submitit", (), {"SlurmExecutor": Executor}))
    monkeypatch.setattr(slurm, "_ask", lambda *line: "n1||idle\n")
    monkeypatch.setattr(slurm.Slurm, "cancel", lambda engine, job: cancelled.append(job))
    with pytest.raises(AiperfError) as caught:
        slurm.Slurm(folder, {}).submit(FleetTask(id="a", command=("true",), result=folder / "r"))
    assert str(caught.value) == "the job 7 cannot be noted, and is cancelled: No space left on device"
    assert cancelled == ["7"]


def test_what_commands_of_slurm_print_has_any_encoding(monkeypatch, tmp_path):
    program = tmp_path / "sinfo"
    program.write_bytes(b"#!/bin/sh\nprintf 'n1|caf\\351|idle\\n'\n")
    program.chmod(0o755)
    assert slurm._ask(str(program)) == "n1|caf\ufffd|idle\n"
