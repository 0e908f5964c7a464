"""Fleets on a real Slurm and a real Ray: a controller and three nodes each, on this machine.

One test measures; in the others a stub stands for measurements. `nox -s clusters` installs what they need. Each cluster is started once, and all of its processes end with the tests.
"""

import json
import re
import subprocess
import sys
import time
from collections import Counter

import pytest
from clusters import ENGINES, missing
from fleet_command import PAGE, Filled
from local_ray import LocalRay
from local_slurm import LocalSlurm

from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.seal_check import check
from aiperf_core.testing import fleet_conformance
from aiperf_fleet import records

pytestmark = [pytest.mark.clusters, pytest.mark.timeout(240)]


@pytest.fixture(scope="module", params=ENGINES)
def cluster(request, tmp_path_factory):
    """A cluster of three nodes. Its name is that of its engine."""
    engine = request.param
    if lacks := missing(engine):
        pytest.skip(f"not installed: {', '.join(lacks)}")
    made = {"slurm": LocalSlurm, "ray": LocalRay}[engine](tmp_path_factory.mktemp("cluster") / engine)
    with made, pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        made.engine = engine
        yield made
    left = made.left()
    assert left == []


@pytest.fixture
def targets(plugins):
    return [one.name for one in plugins.targets][:4]


class Fleet:
    """A fleet that runs in a process of its own. Without a stub its machines measure."""

    def __init__(self, folder, stub, cluster, suite):
        self.folder, self.stub, self.cluster = folder, stub, cluster
        (folder / "suite.toml").write_text(suite)
        python = stub / "python" if stub else sys.executable
        line = ["fleet", "run", "suite.toml", "--on", cluster.engine, "--out", "f", "--python", str(python)]
        self.process = self.start(*line)

    def start(self, *line):
        return subprocess.Popen(
            [sys.executable, "-m", "aiperf_core", *line, "--poll", "0.2"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self, code=0):
        """Wait for its end; what it printed."""
        printed, _ = self.process.communicate(timeout=200)
        assert self.process.returncode == code, printed
        return printed

    @property
    def tasks(self):
        return json.loads((self.folder / "f/fleet.json").read_text())["tasks"]

    def started(self):
        """The machine of each start of a task."""
        path = self.stub / "started"
        return [line.split()[1] for line in path.read_text().splitlines()] if path.exists() else []

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            assert self.process.poll() is None, self.process.communicate()[0]
            time.sleep(0.1)

    def check_bundles(self, count):
        """A sealed bundle for each task, none twice."""
        tasks = self.tasks
        found = {path.name: Bundle.open(path) for path in (self.folder / "f/runs").iterdir()}
        assert sorted(found) == sorted(task["id"] for task in tasks)
        assert len(found) == count
        assert all(check(bundle).sealed and check(bundle).holds for bundle in found.values())
        done = [[one for one in task["attempts"] if one["ending"] == "DONE"] for task in tasks]
        assert [len(one) for one in done] == [1] * count
        seals = [bundle.manifest.hashes[MANIFEST] for bundle in found.values()]
        assert sorted(seals) == sorted(one["seal"] for (one,) in done)
        assert len(set(seals)) == count


def suite_of(targets, more=""):
    return f'name = "n"\ntargets = {json.dumps(targets)}\nrest_s = 0.0\n{more}'


def test_the_engine_keeps_the_contract(cluster, tmp_path, plugins):
    fleet = plugins.known_fleets[cluster.engine]
    assert fleet_conformance(lambda folder: fleet.resolve(folder, {}), tmp_path) == []


REAL = """\
name = "real"
targets = ["practice.softmax"]
classes = ["odd"]
machines = "each"
device = "cpu"
size = "smoke"
budget_s = 0.05
labels = { team = "kernels" }

[busy]
processors = 1.0
"""


def test_a_benchmark_is_measured_on_two_nodes(cluster, tmp_path):
    """The bundles are those of whole runs: they hold, and the commands that read bundles read them."""
    fleet = Fleet(tmp_path, None, cluster, REAL)
    fleet.end()
    fleet.check_bundles(2)
    file = records.read(tmp_path / "f")
    for task in file.tasks:
        (attempt,) = task.attempts
        assert attempt.machine == task.machine
        path = tmp_path / "f/runs" / task.id
        manifest = Bundle.open(path).manifest
        assert (manifest.complete, manifest.exit_code) == (True, attempt.exit_code)
        assert manifest.labels == {
            "team": "kernels",
            "suite": "real",
            "fleet": file.id,
            "task": task.id,
            "machine": task.machine,
        }
        for command, says in (
            ("recheck", r"holds: 1 target, \d+ rows, [1-9][\d,]* samples"),
            ("show", "practice.softmax"),
        ):
            line = [sys.executable, "-m", "aiperf_core", command, str(path)]
            done = subprocess.run(line, capture_output=True, text=True)
            assert (done.returncode, bool(re.search(says, done.stdout))) == (0, True), done.stdout + done.stderr
    assert {task.machine for task in file.tasks} == {"n1", "n3"}


def test_a_slowed_machine_is_named_and_no_other(cluster, tmp_path, stub, targets):
    (stub / "slow.n2").write_text("1.1")
    fleet = Fleet(tmp_path, stub, cluster, suite_of(targets, 'machines = "each"\n'))
    printed = fleet.end()
    fleet.check_bundles(12)
    assert [line.split()[0] for line in printed.splitlines() if line.endswith("SLOW")] == ["n2"]


def test_classes_and_a_second_fleet_at_once(cluster, tmp_path, stub, targets):
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    fleets = [Fleet(folder, stub, cluster, suite_of(targets[:1], 'classes = ["even"]\n')) for folder in folders]
    for fleet in fleets:
        fleet.end()
        fleet.check_bundles(1)
    assert set(fleets[0].started()) == {"n2"}


def test_a_folder_that_is_full_for_a_while(cluster, tmp_path, stub, targets, tiny_disk):
    """It is full when tasks deliver, or when what Ray brought is written."""
    disk = tiny_disk(tmp_path / "f", 64 * PAGE)
    (stub / "hold").touch()
    fleet = Fleet(tmp_path, stub, cluster, suite_of(targets[:2]))
    fleet.wait_until(lambda: len(fleet.started()) == 2)
    filled = Filled(disk, 3)
    (stub / "hold").unlink()
    time.sleep(4.0)
    assert fleet.process.poll() is None
    filled.remove()
    fleet.end()
    fleet.check_bundles(2)
    assert len(fleet.started()) == 2


def test_a_node_dies_in_the_middle(cluster, tmp_path, stub, targets):
    (stub / "hold").touch()
    fleet = Fleet(tmp_path, stub, cluster, suite_of(targets, "repeats = 3\n"))
    fleet.wait_until(lambda: len(set(fleet.started())) == 3)
    cluster.end("n3")
    (stub / "hold").unlink()
    fleet.end()
    fleet.check_bundles(12)
    lost = [one for task in fleet.tasks for one in task["attempts"] if one["ending"] == "LOST"]
    assert [one["machine"] for one in lost] == ["n3"]
    machines = Counter(one["machine"] for task in fleet.tasks for one in task["attempts"] if one["ending"] == "DONE")
    assert set(machines) == {"n1", "n2"}


def test_the_controller_restarts(cluster, tmp_path, stub, targets):
    """Two nodes are left by the test above. Of Ray they end with the head, which comes back alone."""
    (stub / "hold").touch()
    fleet = Fleet(tmp_path, stub, cluster, suite_of(targets[:2]))
    fleet.wait_until(lambda: len(fleet.started()) == 2)
    cluster.restart_controller()
    (stub / "hold").unlink()
    printed = fleet.end()
    fleet.check_bundles(2)
    assert "does not answer" in printed or cluster.engine == "slurm"
