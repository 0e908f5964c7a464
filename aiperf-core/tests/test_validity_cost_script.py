"""`benchmarks/validity_cost.py` on a small run."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "validity_cost.py"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def test_the_costs_of_a_small_target_are_printed_and_written(tmp_path: Path) -> None:
    out = tmp_path / "costs.json"
    small = ("--device", "cpu", "--tier", "quick", "--budget", "0.05", "--runs", "1")
    done = run("practice.sum_rows", *small, "--out", out)
    written = json.loads(out.read_text())
    assert [one["target"] for one in written["costs"]] == ["practice.sum_rows"]
    assert written["machine"]["cores"] >= 1
    (cost,) = written["costs"]
    ratio = cost["with_s"] / cost["without_s"]
    assert f"{ratio:.2f}x" in done.stdout
    assert done.returncode == int(ratio > 1.5)


def test_a_target_that_is_not_there(tmp_path: Path) -> None:
    done = run("practice.nothing")
    assert done.returncode == 2
    assert "practice.nothing" in done.stderr
    assert "Traceback" not in done.stderr
