"""`benchmarks/validity_cost.py` on a small run."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "validity_cost.py"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def test_the_costs_of_a_small_target_are_printed_and_written(
    tmp_path: Path, new_cache: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(new_cache()))
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


@pytest.mark.quiet
def test_ctrl_c_ends_all_runs() -> None:
    command = [sys.executable, str(SCRIPT), "practice.sum_rows", "--device", "cpu", "--budget", "60"]
    script = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert script.stdout is not None
    assert "ratio" in script.stdout.readline()
    time.sleep(5)  # planned by then, and at its calls
    script.send_signal(signal.SIGINT)
    out, err = script.communicate(timeout=20)
    assert script.returncode == 130, err
    assert "practice.sum_rows" not in out
    assert "Traceback" not in err
