"""Runs in which everything is real but the measuring, for tests that kill them: the results are recorded ones.

As a program it kills runs at random moments, resumes them until they are complete, and looks at what came of it:

    python killed_runs.py FOLDER KILLS SEED
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import attrs

from aiperf_core.described import Described, DescribedImplementation
from aiperf_core.errors import AiperfError
from aiperf_core.harness.run import bundle_run as run_module
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.request import ResolvedRequest, resolve
from aiperf_core.harness.run.setup import Plan
from aiperf_core.plugins import Plugins
from aiperf_core.requirements import Hardware
from aiperf_core.results.bundle import Bundle
from aiperf_core.stats.recheck import recheck
from aiperf_core.targets import InstalledTarget, Selection

spec = spec_from_file_location("measured", Path(__file__).parents[1] / "results" / "measured.py")
measured = module_from_spec(spec)
spec.loader.exec_module(measured)

TARGETS = ("acme.one", "acme.two", "acme.three")
CODE = 3  # of the recorded results: one of their rows is INVALID
FAILED = 99
RECORDED = {
    name: attrs.evolve(measured.result(seed, {"strided": 1.0, "coalesced": 0.5}), target=name)
    for seed, name in enumerate(TARGETS)
}
MACHINE = measured.manifest().machine


NO_SERVER = None  # nothing here is forked from one


class RecordedPlanner:
    """A planner in which nothing is measured. `seconds` is how long it pretends to; Ctrl-C hits the target `cut_short`."""

    seconds = 0.0
    cut_short = None
    next_judge = None

    def __init__(self, options, log_folder, server):
        self.options = options
        self.measured_ceilings = {}
        self.ran = []

    def __enter__(self):
        RecordedPlanner.last = self
        return self

    def __exit__(self, *_):
        pass

    hardware = Hardware("NVIDIA H200", "sm_90", 1)

    def estimate_s(self, plan):
        return self.seconds, True

    def plan(self, selections):
        def planned(selection):
            name = selection.target.name
            here = [DescribedImplementation(row.name, row.role, "cuda", "a.py:1") for row in RECORDED[name].rows]
            described = Described("speed", "device", "cold", None, {}, "", selection.target.module, "5" * 64, here)
            return Plan(selection, described, "cuda", "cuda", {})

        return [planned(one) for one in selections], []

    def run(self, plan, log_path, reporter):
        self.ran.append(plan.name)
        self.measured_ceilings = measured.manifest().ceilings
        with log_path(plan.name, "strided").open("a") as log:
            log.write("a line\n")
        time.sleep(self.seconds)
        return attrs.evolve(RECORDED[plan.name], complete=plan.name != self.cut_short)


def plugins(names=TARGETS):
    return Plugins(targets=tuple(InstalledTarget(name, name) for name in names))


def new_manifest(*, plugins, earlier=None):
    return attrs.evolve(
        measured.manifest(), machine=MACHINE, ceilings={}, files={}, skipped=[], complete=False, exit_code=None
    )


def prepare(patch=setattr):
    """Replace what takes time or asks the machine."""
    patch(run_module, "Planner", RecordedPlanner)
    patch(run_module, "new_manifest", new_manifest)
    patch(run_module, "package_hashes", lambda modules: {"aiperf_core": "a" * 64})


def begin(path, names=TARGETS):
    installed = plugins(names)
    request = ResolvedRequest([Selection(one) for one in installed.targets], Options())
    return run_module.BundleRun(NO_SERVER, installed, request, run_module.NewBundle(name="acme", out=path), Silent())


def resume(path, installed=None):
    installed, bundle = installed or plugins(), Bundle.open(path)
    found = resolve(bundle.manifest.request, installed)
    return run_module.BundleRun(NO_SERVER, installed, found, bundle, Silent())


def begin_or_resume(path):
    """As a user does: without a manifest there is nothing to go on with, and after the last one nothing to do."""
    if (path / "manifest.json").exists():
        return CODE if Bundle.open(path).manifest.complete else resume(path).execute()
    shutil.rmtree(path, ignore_errors=True)
    return begin(path).execute()


def forked(action, *arguments):
    """The pid of a process that does this and ends with the exit code that it returns."""
    pid = os.fork()
    if pid:
        return pid
    try:
        code = action(*arguments)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        code = FAILED
    os._exit(code)


def exit_code_of(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_after(pid, seconds):
    """Whether the process was killed; otherwise it had ended with CODE before."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
    code = exit_code_of(pid)
    assert code in (CODE, -signal.SIGKILL), code
    return code != CODE


def finished(path):
    """The documents of the finished targets, by name."""
    bundle = Bundle.open(path)
    done = [name for name in bundle.targets if bundle.target(name).complete]
    return {name: bundle.target_path(name).read_bytes() for name in done}


def read_until_told(path):
    """Read the bundle over and over: everything that is there is whole, and what was there stays."""
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    before, looks = {}, 0
    while not told:
        if (path / "manifest.json").exists():
            assert Bundle.open(path).manifest.request is not None
            now = finished(path)
            assert before.items() <= now.items(), "a finished target was lost or changed"
            before, looks = now, looks + 1
        time.sleep(0.002)  # a processor for the run too
    return 0 if looks else FAILED


def check(path, starts):
    """A complete bundle has each target once, holds, and nothing is left of the writes that were killed."""
    bundle = Bundle.open(path)
    manifest = bundle.manifest
    assert (manifest.complete, manifest.exit_code) == (True, CODE)
    measured_in = [name for one in manifest.stretches for name in one.targets]
    assert sorted(measured_in) == sorted(TARGETS) == list(bundle.targets), measured_in
    endings = [one.ending for one in manifest.stretches]
    assert endings == ["cut off"] * (len(endings) - 1) + ["finished"], endings
    assert len(endings) <= starts
    found = recheck(bundle)
    assert found.holds, found.differences
    assert found.seal
    # One that was killed after its last write leaves the lock's file, which holds nobody up.
    assert {one.name for one in path.iterdir()} - {".lock"} == {"manifest.json", "targets", "logs"}
    assert len(list((path / "targets").iterdir())) == 2 * len(TARGETS)


def kill_and_resume(folder, kills, seed):
    """Kill that many times in all; return how many bundles were completed meanwhile."""
    prepare()
    RecordedPlanner.seconds = 0.005
    begin(folder / "warm").execute()  # compiles schemas, once for all children
    started = time.monotonic()
    assert exit_code_of(forked(begin_or_resume, folder / "whole")) == CODE
    whole_s = time.monotonic() - started
    rng, done, completed = random.Random(seed), 0, 0
    while done < kills:
        path, starts, before = folder / f"run-{completed}", 1, {}
        reader = forked(read_until_told, path)
        try:
            # Killed in its first moments a run leaves no manifest, and is begun anew.
            # Each start is given longer, so that a run is completed however busy the machine has become.
            while killed_after(forked(begin_or_resume, path), rng.uniform(0, whole_s * (1 + starts / 10))):
                done, starts = done + 1, starts + 1
                after = finished(path) if (path / "manifest.json").exists() else {}
                assert before.items() <= after.items(), "a finished target was lost or changed"
                before = after
            os.kill(reader, signal.SIGTERM)
        except BaseException:
            os.kill(reader, signal.SIGKILL)  # it would keep the program's streams open
            raise
        assert exit_code_of(reader) == 0
        check(path, starts)
        completed += 1
    return completed


if __name__ == "__main__":
    try:
        bundles = kill_and_resume(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    except AiperfError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps({"completed": bundles}))
