"""A run's writing side: what is on disk at every moment, and how somebody goes on with it. Nothing is measured here."""

import errno
import json
import os
import signal
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import attrs
import pytest

from aiperf_core import atomic
from aiperf_core.errors import BundleError, UsageError
from aiperf_core.harness.run import bundle_run as run_module
from aiperf_core.harness.run.options import Options
from aiperf_core.results import lock, resuming
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import SkippedTarget, Verdict
from aiperf_core.stats.recheck import recheck

spec = spec_from_file_location("killed_runs", Path(__file__).parents[1] / "killed_runs.py")
killed_runs = module_from_spec(spec)
spec.loader.exec_module(killed_runs)
CODE, TARGETS, RecordedPlanner = killed_runs.CODE, killed_runs.TARGETS, killed_runs.RecordedPlanner
begin, resume, begin_or_resume = killed_runs.begin, killed_runs.resume, killed_runs.begin_or_resume


@pytest.fixture(autouse=True)
def recorded(monkeypatch):
    killed_runs.prepare(monkeypatch.setattr)
    monkeypatch.setattr(RecordedPlanner, "cut_short", None)
    return monkeypatch


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def interrupted(path, monkeypatch):
    """A bundle that Ctrl-C left behind: one target finished, one cut short, one not begun."""
    monkeypatch.setattr(RecordedPlanner, "cut_short", "acme.two")
    assert begin(path).execute() == 130
    monkeypatch.setattr(RecordedPlanner, "cut_short", None)
    return Bundle.open(path)


def ran():
    return RecordedPlanner.last.ran


def message_of(action, error=BundleError):
    with pytest.raises(error) as caught:
        action()
    return str(caught.value)


# --- a whole run


def test_a_run_says_what_it_was_asked_for_and_how_it_went(path):
    assert begin(path).execute() == CODE
    manifest = Bundle.open(path).manifest
    assert [one.target for one in manifest.request.targets] == list(TARGETS)
    (stretch,) = manifest.stretches
    assert (stretch.ending, stretch.targets) == ("finished", list(TARGETS))
    assert stretch.started <= stretch.ended
    assert {"host", "load_1min", "memory_available_bytes", "gpus"} == stretch.state.keys()
    assert recheck(Bundle.open(path)).holds
    assert not (path / lock.FILE).exists()


def test_what_goes_beyond_the_options_of_the_command_is_no_run_to_go_on_with(path):
    one = begin(path)
    one.request = attrs.evolve(one.request, options=Options(off=frozenset({"fresh_values"})))
    one.execute()
    manifest = Bundle.open(path).manifest
    assert manifest.request is None
    assert message_of(lambda: resuming.request_of(Bundle(path), manifest)) == (
        f"'{path}' cannot be resumed: it does not record its request, as bundles of 'aiperf judge' do not. Run its "
        "command again."
    )


def measures_again(monkeypatch, target):
    """Have the planner find a faster memory when it comes to a target."""
    planner_run = RecordedPlanner.run

    def run(self, plan, *rest):
        result, before = planner_run(self, plan, *rest), self.measured_ceilings
        rates = ("copy_bytes_per_s", "read_bytes_per_s", "write_bytes_per_s")
        faster = {name: 1.5 * getattr(before["cuda"], name) for name in rates}
        self.measured_ceilings = {"cuda": attrs.evolve(before["cuda"], **faster)} if plan.name == target else before
        return result

    monkeypatch.setattr(RecordedPlanner, "run", run)


def lights(bundle, target):
    return [row.speed_of_light.time_s for row in bundle.target(target).rows if row.speed_of_light]


def test_all_fractions_of_light_are_of_the_same_ceilings(path, monkeypatch):
    measures_again(monkeypatch, "acme.two")
    run = begin(path)
    run.execute()
    bundle = Bundle.open(path)
    recorded = [row.speed_of_light.time_s for row in killed_runs.RECORDED["acme.one"].rows if row.speed_of_light]
    assert lights(bundle, "acme.one") == pytest.approx([one / 1.5 for one in recorded])
    assert [row.speed_of_light for row in run.results[0].rows] == [
        row.speed_of_light for row in bundle.target("acme.one").rows
    ]
    assert recheck(bundle).holds


def test_ceilings_of_a_later_stretch_hold_for_the_earlier_too(interrupted, monkeypatch):
    before = lights(interrupted, "acme.one")
    measures_again(monkeypatch, "acme.three")
    assert resume(interrupted.path).execute() == CODE
    assert lights(interrupted, "acme.one") == pytest.approx([one / 1.5 for one in before])
    assert recheck(interrupted).holds


# --- going on


def test_an_interrupted_run_goes_on(interrupted):
    kept = interrupted.target_path("acme.one").read_bytes()
    run = resume(interrupted.path)
    assert run.execute() == CODE
    assert ran() == ["acme.two", "acme.three"]
    assert [one.target for one in run.results] == list(TARGETS)
    assert (run.total, run.resumable) == (3, False)
    assert interrupted.target_path("acme.one").read_bytes() == kept
    manifest = interrupted.manifest
    assert (manifest.complete, manifest.exit_code) == (True, CODE)
    assert [(one.ending, one.targets) for one in manifest.stretches] == [
        ("interrupted", ["acme.one"]),
        ("finished", ["acme.two", "acme.three"]),
    ]
    assert recheck(interrupted).holds
    logs = {name: (interrupted.path / "logs" / name / "strided.log").read_text() for name in TARGETS}
    assert set(logs.values()) == {"a line\n"}  # also of the one that was begun twice


@pytest.mark.parametrize("method", ["write_target", "write_manifest"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_while_a_target_is_written(path, monkeypatch, method, when):
    written, write = [], getattr(Bundle, method)

    def interrupted_once(self, *arguments):
        done = len(ran()) == 2 and not written
        if done:
            written.append(method)
        if done and when == "before":
            raise KeyboardInterrupt
        found = write(self, *arguments)
        if done:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Bundle, method, interrupted_once)
    run = begin(path)
    assert run.execute() == 130
    assert written
    bundle = Bundle.open(path)
    assert [(one.ending, one.targets) for one in bundle.manifest.stretches] == [
        ("interrupted", ["acme.one", "acme.two"])
    ]
    assert [one.target for one in run.results] == ["acme.one", "acme.two"]
    assert recheck(bundle).holds
    assert resume(path).execute() == CODE
    assert ran() == ["acme.three"]


def test_it_may_be_interrupted_again(interrupted, monkeypatch):
    monkeypatch.setattr(RecordedPlanner, "cut_short", "acme.three")
    assert resume(interrupted.path).execute() == 130
    assert sorted(killed_runs.finished(interrupted.path)) == ["acme.one", "acme.two"]
    assert recheck(interrupted).holds
    monkeypatch.setattr(RecordedPlanner, "cut_short", None)
    assert resume(interrupted.path).execute() == CODE
    assert [one.ending for one in interrupted.manifest.stretches] == ["interrupted", "interrupted", "finished"]


def test_it_may_crash_when_it_is_gone_on_with(interrupted, monkeypatch):
    planner_run = RecordedPlanner.run

    def crash_last(self, plan, *rest):
        if plan.name == "acme.three":
            raise ZeroDivisionError
        return planner_run(self, plan, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(RecordedPlanner, "run", crash_last)
        with pytest.raises(ZeroDivisionError):
            resume(interrupted.path).execute()
    assert interrupted.manifest.stretches[-1].ending is None
    assert resume(interrupted.path).execute() == CODE
    assert ran() == ["acme.three"]
    assert [one.ending for one in interrupted.manifest.stretches] == ["interrupted", "cut off", "finished"]


def test_what_failed_is_finished_too(path, monkeypatch):
    planner_run = RecordedPlanner.run

    def fail_first(self, plan, *rest):
        failed = SkippedTarget("acme.one", Verdict.FAILED, "no such luck")
        return failed if plan.name == "acme.one" else planner_run(self, plan, *rest)

    monkeypatch.setattr(RecordedPlanner, "run", fail_first)
    monkeypatch.setattr(RecordedPlanner, "cut_short", "acme.two")
    begin(path).execute()
    monkeypatch.setattr(RecordedPlanner, "cut_short", None)
    run = resume(path)
    assert run.execute() == CODE
    assert [one.target for one in run.results] == list(TARGETS)
    assert ran() == ["acme.two", "acme.three"]
    assert [one.target for one in Bundle.open(path).manifest.skipped] == ["acme.one"]


def test_a_target_that_cannot_be_planned_is_told_once(path, monkeypatch):
    plan = RecordedPlanner.plan

    def without_last(self, selections):
        plans, _ = plan(self, selections)
        return [one for one in plans if one.name != "acme.three"], [
            SkippedTarget(one.name, Verdict.SKIPPED, "elsewhere") for one in plans if one.name == "acme.three"
        ]

    monkeypatch.setattr(RecordedPlanner, "plan", without_last)
    monkeypatch.setattr(RecordedPlanner, "cut_short", "acme.two")
    assert begin(path).execute() == 130
    monkeypatch.setattr(RecordedPlanner, "cut_short", None)
    run = resume(path)
    assert run.execute() == CODE
    assert sorted(one.target for one in run.results) == sorted(TARGETS)
    assert [one.target for one in Bundle.open(path).manifest.skipped] == ["acme.three"]


def test_ctrl_c_before_anything_is_measured_leaves_a_bundle_to_go_on_with(path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RecordedPlanner, "run", interrupt)
        run = begin(path)
        assert run.execute() == 130
    assert run.resumable
    assert resume(path).execute() == CODE
    assert ran() == list(TARGETS)


# --- refusing


def test_nothing_is_gone_on_with_that_is_complete(path):
    begin(path).execute()
    before = (path / "manifest.json").read_bytes()
    assert message_of(lambda: resume(path).execute()) == f"'{path}' is complete: another process resumed it."
    assert (path / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"machine": attrs.evolve(killed_runs.MACHINE, cpu="Another")}, "and is Another, 16 logical CPUs"),
        ({"machine": attrs.evolve(killed_runs.MACHINE, driver="1.2")}, "driver was "),
        ({"machine": attrs.evolve(killed_runs.MACHINE, gpus=[{"name": "B300"}])}, "and is B300"),
        ({"packages": {}}, "package torch was 2."),
        ({"sources": {"aiperf_core": "b" * 64}}, "source aiperf_core was aaaaaaaaaaaa and is bbbbbbbbbbbb"),
        ({"files": {"acme.one": "6" * 64}}, "source acme.one was 555555555555 and is 666666666666"),
        ({"files": {}}, "source acme.one was 555555555555 and is not there"),
    ],
)
def test_another_machine_and_other_sources_are_refused(interrupted, monkeypatch, change, said):
    new = run_module.BundleRun._planned
    monkeypatch.setattr(run_module.BundleRun, "_planned", lambda self, *rest: attrs.evolve(new(self, *rest), **change))
    before = (interrupted.path / "manifest.json").read_bytes()
    message = message_of(lambda: resume(interrupted.path).execute())
    assert message.startswith(f"'{interrupted.path}' cannot be resumed: ")
    assert said in message
    assert message.endswith("Rows from before and after could not be compared; start a new run.")
    assert (interrupted.path / "manifest.json").read_bytes() == before
    assert ran() == []


def test_another_name_of_the_machine_is_none(interrupted, monkeypatch):
    other = attrs.evolve(killed_runs.MACHINE, hostname="node8")
    monkeypatch.setattr(killed_runs, "MACHINE", other)
    assert resume(interrupted.path).execute() == CODE


def test_what_was_finished_must_hold(interrupted):
    file = interrupted.target_path("acme.one")
    file.write_bytes(file.read_bytes().replace(b'"FASTER"', b'"SLOWER"'))
    message = message_of(lambda: resume(interrupted.path).execute())
    assert "its finished part does not hold (targets/acme.one.json, SHA-256: recorded " in message
    assert message.endswith(f"See all: aiperf recheck {interrupted.path}. Start a new run.")


def test_figures_are_looked_at_where_there_is_no_seal(interrupted):
    manifest = interrupted.manifest
    interrupted.write_manifest(attrs.evolve(manifest, exit_code=None, hashes={}))
    file = interrupted.target_path("acme.one")
    file.write_bytes(file.read_bytes().replace(b'"FASTER"', b'"SAME"'))
    message = message_of(lambda: resume(interrupted.path).execute())
    assert "(acme.one:coalesced, verdict: recorded SAME, found FASTER)" in message


def test_a_target_that_is_gone_is_said(interrupted):
    installed = killed_runs.plugins(TARGETS[:2])
    message = message_of(lambda: resume(interrupted.path, installed), UsageError)
    assert message.startswith("'acme.three' is not a target.")


# --- one at a time


def test_two_at_once_do_not_both_run(interrupted, monkeypatch):
    pid = os.getpid()
    with lock.held(interrupted.path, required=True):
        message = message_of(lambda: resume(interrupted.path).execute())
    assert message.startswith(f"'{interrupted.path}' is being written by process {pid} on ")
    assert message.endswith("Wait until that run ends, or end it; then resume.")
    assert resume(interrupted.path).execute() == CODE


def test_a_run_that_goes_on_is_not_gone_on_with(path, monkeypatch):
    said = []
    planner_run = RecordedPlanner.run

    def meanwhile(self, plan, *rest):
        said.append(message_of(lambda: resume(path).execute()))
        return planner_run(self, plan, *rest)

    def once(self, *rest):
        monkeypatch.setattr(RecordedPlanner, "run", planner_run)
        return meanwhile(self, *rest)

    monkeypatch.setattr(RecordedPlanner, "run", once)
    assert begin(path).execute() == CODE
    assert len(said) == 1
    assert "is being written by process" in said[0]


# --- kills


def run_killer(folder, kills, seed):
    program = Path(killed_runs.__file__)
    done = subprocess.run(
        [sys.executable, program, folder, str(kills), str(seed)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["completed"]


def test_runs_that_are_killed_at_random_are_completed(tmp_path):
    assert run_killer(tmp_path, 10, 1) >= 1


@pytest.mark.long
def test_two_hundred_kills(tmp_path):
    seed = int(os.environ.get("AIPERF_TEST_SEED", "0")) or None
    assert run_killer(tmp_path, 200, seed or int.from_bytes(os.urandom(4))) >= 5


def killed_at(number, moment, path):
    """Run in a child that is killed at its `number`th write of a file; whether it came so far."""
    written = 0

    def kill_here(here):
        if written == number and here == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def fsync(descriptor):
        nonlocal written
        if not os.path.isdir(f"/proc/self/fd/{descriptor}"):
            written += 1
            if moment == "in mid-write" and written == number:
                os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            kill_here("in mid-write")
        real_fsync(descriptor)

    def replace(source, target):
        kill_here("before the rename")
        real_replace(source, target)
        kill_here("after the rename")

    def child():
        os.fsync, os.replace = fsync, replace
        return begin(path).execute()

    real_fsync, real_replace = os.fsync, os.replace
    return killed_runs.exit_code_of(killed_runs.forked(child)) == -signal.SIGKILL


MOMENTS = ("in mid-write", "before the rename", "after the rename")


@pytest.mark.parametrize(("number", "moment"), [(2, MOMENTS[0]), (4, MOMENTS[1]), (6, MOMENTS[1]), (7, MOMENTS[2])])
def test_a_kill_at_some_writes(path, number, moment):
    assert killed_at(number, moment, path)
    assert begin_or_resume(path) == CODE
    killed_runs.check(path, starts=2)


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_at_every_write(tmp_path, moment):
    number = 1
    while killed_at(number, moment, path := tmp_path / str(number)):
        assert begin_or_resume(path) == CODE
        killed_runs.check(path, starts=2)
        number += 1
    # Two files a target; the manifest at the start, with the ceilings, after each target and at the end.
    assert number - 1 == 2 * len(TARGETS) + 2 + len(TARGETS) + 1


# --- disks


@pytest.mark.parametrize("number", [1, 3, 12])
def test_a_full_disk_leaves_whole_files_and_a_run_to_go_on_with(path, monkeypatch, number):
    count = 0
    real = os.fsync

    def full(descriptor):
        nonlocal count
        count += not os.path.isdir(f"/proc/self/fd/{descriptor}")
        if count >= number:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    run = begin(path)
    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "fsync", full)
        assert "the disk is full. Free some space" in message_of(run.execute)
    assert run.resumable == (number > 1)
    assert not list(path.rglob("*.tmp"))
    assert begin_or_resume(path) == CODE
    killed_runs.check(path, starts=2)


def test_a_folder_that_became_read_only(interrupted, monkeypatch):
    before = {file: file.read_bytes() for file in interrupted.path.rglob("*") if file.is_file()}
    real = os.open

    def refuse(file, flags, *rest, **named):
        if flags & os.O_CREAT and str(interrupted.path) in str(file):
            raise OSError(errno.EROFS, "Read-only file system")
        return real(file, flags, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        message = message_of(lambda: resume(interrupted.path).execute())
    assert message == (
        f"cannot lock '{interrupted.path}': Read-only file system. Its folder must be writable and not be full."
    )
    assert {file: file.read_bytes() for file in interrupted.path.rglob("*") if file.is_file()} == before


# --- clearing


def test_what_killed_writes_left_is_cleared_and_nothing_else(interrupted, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("data")
    (interrupted.path / "logs" / "link").symlink_to(elsewhere)
    (interrupted.path / ".0123456789abcdef.tmp").write_text("{")
    (interrupted.path / "targets" / ".0123456789abcdef.tmp").write_text("{")
    (interrupted.path / ".notes").write_text("mine")
    # Samples whose document was never written.
    (interrupted.path / "targets" / "acme.three.01234567.npz").write_text("")
    manifest = interrupted.manifest
    interrupted.write_manifest(attrs.evolve(manifest, exit_code=None, hashes={}))
    assert resume(interrupted.path).execute() == CODE
    names = {one.name for one in interrupted.path.rglob("*")}
    assert not {one for one in names if one.endswith(".tmp")}
    assert "acme.three.01234567.npz" not in names
    assert ".notes" in names
    assert (elsewhere / "precious").read_text() == "data"
