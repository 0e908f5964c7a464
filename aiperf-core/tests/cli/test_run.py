"""`aiperf run`: a package of benchmarks on the path, real results.

Where a process of its own matters, the command has one; else it runs in that of the test, with a fork server that the
tests share.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.harness.processes import child
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.plugins import load_plugins
from aiperf_core.results.bundle import Bundle
from aiperf_core.stats.recheck import recheck

pytestmark = pytest.mark.quiet

PLUGIN = """
import os


@hookimpl
def aiperf_targets():
    yield Target("scale", "One pass over the data is enough", "speed", ("cpu",), ("memory",))
    yield Target("broken", "A benchmark that cannot be imported", "speed", ("cpu",))
    yield Target("elsewhere", "A benchmark for a device that is not here", "speed", ("cuda",))


@hookimpl
def aiperf_target_finished(result):
    if result.verdicts:
        with open(result.path + ".seen", "w") as file:
            file.write(repr(dict(result.verdicts)))


@hookimpl
def aiperf_progress(progress):
    if (progress.block or 0) >= 2 and "TELLS_OF_SAMPLES" in os.environ:
        open("sampled", "w").close()
"""

SCALE = """
import time
import torch
from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed")


@bench.workload(smoke={"n": 1009}, cpu={"n": 200003})
def inputs(n, device, generator):
    return {"a": torch.rand(n, device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a * 2


@bench.cost
def cost(n):
    return Cost(bytes_read=4 * n, bytes_written=4 * n, flops=n)


@bench.baseline(device="cpu", kind="reasonable")
def waits(a):
    time.sleep(0.01)
    return a * 2


@bench.variant(device="cpu", why="does not wait")
def goes_on(a):
    return a * 2


@bench.variant(device="cpu", why="returns what it was given")
def lazy(a):
    return a.clone()


@bench.variant(device="cpu", why="raises")
def raises(a):
    raise RuntimeError("no such luck")
"""

ELSEWHERE = SCALE.replace('device="cpu"', 'device="cuda"')


class Acme:
    """An installed package `aiperf-acme`, and a folder to run in."""

    def __init__(self, folder: Path, here: Path, server: type[ForkServer]) -> None:
        self.folder, self.here, self.server = folder, here, server

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run in this process; exit code, output and errors."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.here)
            patch.setattr(child, "ForkServer", self.server)
            done = CliRunner().invoke(Shell(load_plugins()), ["run", *arguments], prog_name="aiperf")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.stdout, done.stderr

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """Run in a process of its own."""
        env = {**os.environ, "PYTHONPATH": str(self.folder), **environment}
        command = [sys.executable, "-m", "aiperf_core", "run", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.here, env=env, stdout=pipe, stderr=pipe, text=True)

    def run_apart(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """Run in a process of its own to the end; exit code, output and errors."""
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def start_sampling(self, *arguments: str) -> "subprocess.Popen[str]":
        """Run in a process of its own until it has taken samples."""
        process = self.start(*arguments, TELLS_OF_SAMPLES="1")
        wait_for((self.here / "sampled").exists)
        return process


@pytest.fixture(scope="module")
def package(make_site, lend, tmp_path_factory):
    """The folder of the package, and fork servers that find it."""
    site = make_site(tmp_path_factory.mktemp("site"))
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/scale.py", SCALE)
    site.write("aiperf_acme/broken.py", "import no_such_module\n")
    site.write("aiperf_acme/elsewhere.py", ELSEWHERE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site.folder))
        patch.setenv("PYTHONPATH", str(site.folder))
        with lend() as server:
            yield site.folder, server
    for name in [one for one in sys.modules if one.partition(".")[0] == "aiperf_acme"]:
        del sys.modules[name]


@pytest.fixture
def acme(package, tmp_path, new_cache, monkeypatch):
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(new_cache()))
    folder, server = package
    return Acme(folder, tmp_path, server)


def only_bundle(acme):
    (path,) = (acme.here / "artifacts" / "runs").iterdir()
    return Bundle.open(path)


def test_a_run_leaves_a_bundle_that_can_be_read(acme):
    code, out, err = acme.run_apart("acme.scale:goes_on", "--budget", "1")
    assert code == 0, err
    bundle = only_bundle(acme)
    assert bundle.path.name.endswith("-acme.scale")
    result = bundle.target("acme.scale")
    rows = {row.name: row for row in result.rows}
    assert list(rows) == ["waits", "goes_on"]
    assert rows["goes_on"].verdict == "FASTER"
    assert rows["goes_on"].speedup.low > 1
    assert rows["goes_on"].judgement.samples >= 1
    assert len(rows["goes_on"].samples.wall_s) == len(rows["goes_on"].samples.block)
    manifest = bundle.manifest
    assert (manifest.complete, manifest.exit_code) == (True, 0)
    assert manifest.ceilings["cpu"].copy_bytes_per_s > 0
    assert list(manifest.files) == ["aiperf_acme.scale"]
    assert "acme.scale - cpu - n=200,003" in out
    assert "FASTER" in out
    assert f"artifacts/runs/{bundle.path.name}" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 100
    assert (
        bundle.path / "targets" / "acme.scale.json.seen"
    ).read_text() == "{'waits': 'MEASURED', 'goes_on': 'FASTER'}"


def test_invalid_rows_stand_beside_untouched_ones_and_decide_the_exit_code(acme):
    code, out, _ = acme.run("acme.scale", "--budget", "1", "--quiet", "--json")
    assert code == 3
    document = json.loads(out)
    (target,) = document["targets"]
    verdicts = {row["name"]: row["verdict"] for row in target["rows"]}
    assert verdicts == {"waits": "MEASURED", "goes_on": "FASTER", "lazy": "INVALID", "raises": "FAILED"}


def test_failures_decide_the_exit_code(acme):
    assert acme.run("acme.scale", "--variant", "raises", "--budget", "0.1", "--quiet")[0] == 1


def test_many_targets_one_of_which_cannot_be_imported(acme):
    code, out, err = acme.run("acme", "--variant", "goes_on", "--budget", "0.1")
    assert code == 1
    assert "'acme.broken' cannot be used: importing 'aiperf_acme.broken' raised ModuleNotFoundError" in " ".join(
        out.split()
    )
    assert "Traceback" not in out + err
    manifest = only_bundle(acme).manifest
    assert [(one.target, one.verdict) for one in manifest.skipped] == [
        ("acme.broken", "FAILED"),
        ("acme.elsewhere", "SKIPPED"),
    ]


def test_a_target_for_another_device_is_skipped_and_no_success(acme):
    code, out, err = acme.run_apart("acme.elsewhere", CUDA_VISIBLE_DEVICES="")
    assert code == 1
    assert (out + err).count("has no implementation for cpu; it runs on cuda") == 1
    assert out.startswith("acme.elsewhere  SKIPPED\nhas no implementation for cpu; it runs on cuda\n")


def test_the_reasons_of_several_skipped_targets_stand_once(acme):
    code, out, err = acme.run_apart("acme.elsewhere", "acme.broken", CUDA_VISIBLE_DEVICES="")
    assert code == 1
    assert (out + err).count("has no implementation for cpu; it runs on cuda") == 1
    assert " ".join(out.split()).count("'acme.broken' cannot be used") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["acme.scael"], "'acme.scael' is not a target. Did you mean 'acme.scale'?"),
        (["acme.scale", "--size", "huge"], "'acme.scale' has no size 'huge'; it has smoke, cpu."),
        (["acme.scale", "--set", "m=3"], "'acme.scale' has no size parameter 'm'; it has n."),
        (["acme.scale", "--set", "n=many"], "--set n takes a number, such as 4096 or 1e6; got 'many'."),
        (["acme.scale", "--set", "n"], "--set takes NAME=NUMBER, such as --set n=1e6; got 'n'."),
        (["acme.scale", "--set", "n=-1"], "--set n takes a number that is not negative; got '-1'."),
        (["acme.scale", "--set", "n=nan"], "--set n takes a number that is not negative; got 'nan'."),
        (["acme.scale", "--budget", "0"], "--budget takes a number of seconds above 0; got 0."),
        (["acme.scale:fast"], "'acme.scale' has no implementation named 'fast'; it has goes_on, lazy, raises, waits."),
        (
            ["acme.scale", "--variant", "x"],
            "'acme.scale' has no implementation named 'x'; it has goes_on, lazy, raises, waits.",
        ),
    ],
)
def test_what_cannot_be_asked_for(acme, arguments, message):
    code, out, err = acme.run(*arguments)
    assert (code, out) == (2, "")
    assert err == f"aiperf: {message}\n"
    assert not (acme.here / "artifacts").exists()


def test_a_device_that_is_not_there(acme):
    code, _, err = acme.run_apart("acme.scale", "--device", "cuda", CUDA_VISIBLE_DEVICES="")
    assert code == 2
    assert err.startswith("aiperf: The device 'cuda' was requested, but this machine has none: ")
    assert len(err.splitlines()) == 1
    assert not (acme.here / "artifacts").exists()


def test_an_output_folder_that_is_in_use(acme):
    out = acme.here / "out"
    out.mkdir()
    (out / "precious").write_text("data")
    code, _, err = acme.run("acme.scale", "--out", "out")
    assert code == 1
    assert err.startswith("aiperf: 'out' is not empty; results go to a new or an empty folder.")
    assert [path.name for path in out.iterdir()] == ["precious"]


def test_an_output_folder_that_cannot_be_made(acme):
    (acme.here / "file").write_text("")
    code, _, err = acme.run("acme.scale", "--out", "file/out")
    assert code == 1
    assert err.startswith("aiperf: cannot create 'file/out'")
    assert "Traceback" not in err


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_keeps_what_was_measured(acme):
    process = acme.start_sampling("acme.scale:goes_on", "acme.elsewhere", "--budget", "60")
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    bundle = only_bundle(acme)
    assert (bundle.manifest.complete, bundle.manifest.exit_code) == (False, 130)
    result = bundle.target("acme.scale")
    assert (result.complete, result.stopped) == (False, "interrupted")
    assert all(len(row.samples.wall_s) > 0 for row in result.rows)
    wait_for(lambda: not any(child.is_running() for child in children))


def test_nothing_outlives_a_supervisor_that_is_killed(acme):
    process = acme.start_sampling("acme.scale:goes_on", "--budget", "60")
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 4  # the fork server, the judge, two workers
    process.kill()
    process.communicate(timeout=120)
    wait_for(lambda: not any(child.is_running() for child in children))
    assert only_bundle(acme).manifest.complete is False


def test_size_presets_and_sizes(acme):
    code, out, _ = acme.run("acme.scale:goes_on", "--size", "smoke", "--set", "n=2e3", "--budget", "0.05", "--json")
    assert code == 0
    (target,) = json.loads(out)["targets"]
    assert (target["problem"]["size"], target["problem"]["params"]) == ("smoke", {"n": 2000})


def test_it_runs_under_a_name_of_its_own(acme):
    script = Path(sys.executable).with_name("aiperf-bench")
    env = {**os.environ, "PYTHONPATH": str(acme.folder)}
    done = subprocess.run([script, "run", "acme.scael"], cwd=acme.here, env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "aiperf: 'acme.scael' is not a target. Did you mean 'acme.scale'?\n"


def test_a_sweep_measures_each_point_and_goes_on_after_a_size_that_does_not_fit(acme):
    sweep = ("--set", "n=1009,1e15,2003", "--budget", "0.1", "--picture", "sweep.svg")
    code, out, err = acme.run("acme.scale:goes_on", *sweep)
    assert code == 1, err
    bundle = only_bundle(acme)
    assert bundle.path.name.endswith("-acme.scale")
    assert sorted(bundle.targets) == ["acme.scale@n=1009", "acme.scale@n=2003"]
    assert [bundle.target(name).problem.params for name in sorted(bundle.targets)] == [{"n": 1009}, {"n": 2003}]
    (failed,) = bundle.manifest.skipped
    assert (failed.target, failed.verdict) == ("acme.scale@n=1000000000000000", "FAILED")
    assert "Try smaller sizes with --set." in failed.reason
    assert recheck(bundle).holds
    assert "acme.scale: cpu, sweep of n, 3 points" in out
    assert "[3/3] acme.scale@n=1000000000000000" in err
    assert (acme.here / "sweep.svg").read_text().startswith("<svg ")
