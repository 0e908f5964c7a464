"""`benchmarks/fleet_overhead.py` and `benchmarks/fleet_ray_noise.py`, without clusters."""

import json
import runpy
import subprocess
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="the package is tested alone")


def test_the_overhead_of_this_machine(tmp_path, capsys):
    main = runpy.run_path(str(BENCHMARKS / "fleet_overhead.py"))["main"]
    code = main(["--on", "here", "--tasks", "1", "--out", str(tmp_path / "figures.json")])
    found = json.loads((tmp_path / "figures.json").read_text())["engines"]["here"]
    assert (found["tasks"], found["machines"]) == (1, 1)
    assert 0 <= found["overhead_s"] < found["wall_s"]
    assert code == int(found["overhead_s"] > 10)
    assert capsys.readouterr().out.startswith(f"here: {found['overhead_s']:.2f} s a task, ")


def test_the_figures_of_the_noise():
    script = runpy.run_path(str(BENCHMARKS / "fleet_ray_noise.py"))
    runs = [
        {"time_s": time_s, "control": interval}
        for time_s, interval in ((1.0, (0.9, 1.1)), (1.1, (0.8, 0.9)), (1.0, (0.9, 1.1)))
    ]
    assert script["summary"](runs)["without_1"] == 1
    slowed = [{**one, "time_s": one["time_s"] * factor} for one, factor in zip(runs, (1.01, 1.02, 1.03), strict=True)]
    low, middle, high = script["ratio"]({"with": slowed, "without": runs})
    # By hand: the mean of log 1.01, 1.02 and 1.03; t(2) = 4.303 times the standard error.
    assert (low, middle, high) == pytest.approx((0.9954, 1.01997, 1.0451), abs=2e-4)


def test_pairs_are_added_until_all_are_there_or_the_time_is_over(tmp_path, capsys):
    main = runpy.run_path(str(BENCHMARKS / "fleet_ray_noise.py"))["main"]
    out, asked = tmp_path / "figures.json", []

    def runner(given, kind):
        asked.append(kind)
        trusted = len(asked) > 2
        return {"time_s": 1.0 + 0.01 * len(asked), "control": [0.9, 1.1] if trusted else None, "busy": 0.0}

    def call(*more):
        asked_before = len(asked)
        code = main(["--out", str(out), *more], runner)
        return code, len(asked) - asked_before, capsys.readouterr().out.splitlines()[-1]

    assert call("--pairs", "4", "--minutes", "0") == (5, 0, "0 of 4 pairs")
    assert not out.exists()
    assert call("--pairs", "2") == (0, 6, "2 of 2 pairs, 1 not trusted")
    assert asked == ["with", "without", "without", "with", "with", "without"]
    assert call("--pairs", "2") == (0, 0, "2 of 2 pairs, 1 not trusted")
    assert call("--pairs", "3") == (0, 2, "3 of 3 pairs, 1 not trusted")
    document = json.loads(out.read_text())
    assert [len(document[name]) for name in ("pairs", "void", "ratio")] == [3, 1, 3]
    assert document["with"]["runs"] == 3
    with pytest.raises(SystemExit):
        call("--budget", "9")
    assert f"'{out}' has pairs with another budget_s: 2.0. Name another --out." in capsys.readouterr().err


def test_a_pair_that_takes_too_long_is_dropped(tmp_path, capsys):
    main = runpy.run_path(str(BENCHMARKS / "fleet_ray_noise.py"))["main"]
    asked = []

    def runner(given, kind):
        asked.append(kind)
        if len(asked) == 4:
            raise subprocess.TimeoutExpired("aiperf", given.deadline)
        return {"time_s": 1.0, "control": [0.9, 1.1], "busy": 0.0}

    assert main(["--out", str(tmp_path / "figures.json")], runner) == 5
    assert capsys.readouterr().out.endswith("1 of 8 pairs\n")


def test_runs_that_are_never_trusted_end_it(tmp_path, capsys):
    main = runpy.run_path(str(BENCHMARKS / "fleet_ray_noise.py"))["main"]
    never = {"time_s": None, "control": None, "busy": 1.0}
    assert main(["--out", str(tmp_path / "figures.json")], lambda given, kind: never) == 1
    assert capsys.readouterr().out.endswith("0 of 8 pairs, 3 not trusted\n")
