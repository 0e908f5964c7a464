"""The scripts that check intervals by simulation run, and count what they should."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the repository's folder `benchmarks`")


def module(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize(("name", "rows"), [("analysis_stacking", 8), ("analysis_scaling", 24)])
def test_a_script_prints_its_table(name, rows):
    done = subprocess.run([sys.executable, FOLDER / f"{name}.py", "--repeats", "2"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + rows


def test_a_wrong_truth_is_seen():
    stacking = module("analysis_stacking")
    honest = stacking.Scenario("g = 0.9", g=0.9)
    assert stacking.check(honest, 5, 0)["truth"] == 100
    assert stacking.true_verdict(honest) == "OVERLAP"
    scaling = module("analysis_scaling")
    wrong = [scaling.Scenario("wrong", "Amdahl", {"s": 0.1}, scaling.usl(0.2, 0))]
    scaling.SCENARIOS = wrong
    assert scaling.check(scaling.NOISES[0], 3, 0) == {("wrong", "s"): [0, 0, 3]}
