"""`aiperf goals`: goals of targets against bundles and expectations files."""

import json
import os

import attrs
import measured
import pytest
from click.testing import CliRunner

from aiperf_core.cli import goals as command
from aiperf_core.cli.main import Shell
from aiperf_core.harness.roles.describer import describe
from aiperf_core.loading import load_benchmark
from aiperf_core.results.models import Verdict

PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("gather", "Sorted indices", "speed", ("cpu", "cuda"))
    yield Target("graph", "One launch", "latency", ("cpu",))
"""
BENCHMARK = """
from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed")

@bench.workload(smoke={"n": 3}, cpu={"n": 4}, cuda={"n": 1 << 28})
def inputs(n, device, generator): ...

@bench.reference(tolerance=exact)
def reference(): ...

@bench.cost
def cost(n):
    return Cost(bytes_read=n)

@bench.baseline(device=("cpu", "cuda"), kind="naive")
def strided(): ...

@bench.variant(device=("cpu", "cuda"), why="neighbours")
def coalesced(): ...

@bench.variant(device="cuda", why="bytes in flight")
def wide(): ...

@bench.yardstick(device="cuda")
def memcpy(): ...

"""
# 2 GiB in 2 ms are 1.07 TB/s of 4.34 TB/s.
GOALS = """
bench.reach(of="BW", at_least=0.2)
bench.reach(of="time:memcpy", at_most=1.2, implementation="coalesced", cause="a late store", shown_by="counter:dram__bytes.sum")
bench.reach(of="speedup", at_least=2.5)
bench.reach(of="LAT", at_most=2)
"""


@pytest.fixture
def installed(site, monkeypatch):
    """A package with two targets, one of them with goals; the working directory is its folder."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site.folder), os.environ.get("PYTHONPATH", "")]))
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/gather.py", BENCHMARK + GOALS)
    site.write("aiperf_acme/graph.py", BENCHMARK.replace('("cpu", "cuda")', '"cpu"').replace('"cuda"', '"cpu"'))
    monkeypatch.chdir(site.folder)
    return site


@pytest.fixture
def acme(installed, monkeypatch):
    """The same; its benchmarks are imported in this process, which is quicker."""

    def described(_, targets):
        return [(one, describe(load_benchmark(one), one.module)) for one in targets], []

    monkeypatch.setattr(command, "declarations", described)
    return installed


def run(path, created="2026-11-21T14:25:30+00:00", factor=0.5, **changes):
    """A bundle of `acme.gather` on a GPU in which `coalesced` takes so many times the baseline's 4 ms."""
    bundle = measured.bundle(path, created=created)
    found = measured.result(1, {"strided": 1.0, "coalesced": factor, "wide": 1.02, "memcpy": 0.4})
    found = attrs.evolve(found, target="acme.gather", started=created, **changes)
    (path / "targets" / "ch07.memory_access.json").unlink()
    for file in (path / "targets").iterdir():
        file.unlink()
    bundle.write_target(found)
    bundle.write_manifest(bundle.manifest)
    return path


def asked(site, *arguments, code=0):
    result = CliRunner().invoke(Shell(site.load()), ["goals", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def document(site, *arguments, code=0):
    found = json.loads(asked(site, *arguments, "--json", code=code).stdout)
    return found, {one["words"]: one for one in found["goals"]}


BW, TIME = "at least 20 % of the rate of a copy", "at most 1.2x the time of memcpy"
SPEEDUP, LAT = (
    "at least 2.5x the speed of the baseline",
    "at most 2x the time of an empty kernel that the host waits for",
)


def test_the_table_beside_a_target_that_cannot_be_used(installed):
    installed.write("aiperf_acme/graph.py", "1 / 0\n")
    run(installed.folder / "artifacts/runs/first")
    done = asked(installed, "acme", code=1)
    assert done.stdout.startswith("Goals\n1 MET, 2 MISSED, 1 NOT MEASURED\n")
    (line,) = [line for line in done.stdout.splitlines() if BW in line]
    assert line.startswith("acme.gather  ")
    for part in ("24.", "coalesced", "first, NVIDIA H200, 2026-11-21, quick", " MET"):
        assert part in line
    assert "a late store (counter:dram__bytes.sum)" in done.stdout
    assert "not explained yet" in done.stdout  # of the missed speedup
    assert "its run has no ceiling" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("aiperf: 'acme.graph' cannot be used: importing 'aiperf_acme.graph' raised ")


def test_the_document(acme):
    run(acme.folder / "artifacts/runs/first")
    found, goals = document(acme, "acme.gather")
    states = {words: one["state"] for words, one in goals.items()}
    assert states == {BW: "MET", TIME: "MISSED", SPEEDUP: "MISSED", LAT: "NOT MEASURED"}
    assert goals[BW]["implementation"] == "coalesced"
    assert goals[BW]["figure"]["low"] < goals[BW]["figure"]["value"] < goals[BW]["figure"]["high"]
    assert goals[BW]["figure"]["value"] == pytest.approx((2 << 30) / 2e-3 / 4.34e12, rel=0.01)
    assert goals[BW]["origin"] == {
        "bundle": "first",
        "machine": "NVIDIA H200",
        "date": "2026-11-21T14:25:30+00:00",
        "tier": "quick",
        "file": None,
    }
    assert goals[TIME]["figure"]["value"] == pytest.approx(1.25, rel=0.01)
    assert goals[TIME]["goal"]["cause"] == "a late store"
    assert (
        goals[LAT]["reason"]
        == "first: its run has no ceiling LAT; on that machine run aiperf ceilings first, then run the target again"
    )
    assert found["never_on_gpu"] == []


def test_a_target_without_a_goal_is_an_error(acme):
    done = asked(acme, "acme", code=1)
    file = acme.folder / "aiperf_acme/graph.py"
    assert done.stderr == f"aiperf: acme.graph has no goal; declare it with bench.reach: {file}\n"
    found, _ = document(acme, "acme", code=1)
    assert found["without"] == {"acme.graph": str(file)}


def test_targets_without_a_measurement_on_a_gpu_are_named(acme):
    assert "no stored measurement on a GPU: acme.gather" in asked(acme, "acme.gather").stdout
    found, _ = document(acme, "acme", code=1)
    assert found["never_on_gpu"] == ["acme.gather"]  # the other one is for processors


def test_the_latest_run_that_has_the_figure_counts(acme):
    folder = acme.folder / "artifacts/runs"
    run(folder / "first", "2026-11-20T10:00:00+00:00")
    run(folder / "second", "2026-11-21T10:00:00+00:00", factor=0.45)
    run(folder / "small", "2026-11-22T10:00:00+00:00", problem=attrs.evolve(measured.result().problem, params={"n": 3}))
    run(folder / "halted", "2026-11-23T10:00:00+00:00", complete=False)
    _, goals = document(acme, "acme.gather")
    assert goals[BW]["origin"]["bundle"] == "second"
    assert goals[LAT]["reason"] == "halted: the run was interrupted"
    # Given bundles replace the folder.
    _, goals = document(acme, "acme.gather", folder / "first", folder / "small")
    assert goals[BW]["origin"]["bundle"] == "first"
    _, goals = document(acme, "acme.gather", "--in", acme.folder)
    assert goals[BW]["state"] == "NOT MEASURED"


def test_rows_that_are_not_believed_have_no_figure(acme):
    path = acme.folder / "artifacts/runs/first"
    rows = [
        attrs.evolve(row, verdict=Verdict.UNTRUSTED, reason="clocks", speedup=None, speed_of_light=None)
        for row in measured.result(1).rows
        if row.name in ("coalesced", "wide")
    ]
    run(path, rows=rows)
    _, goals = document(acme, "acme.gather")
    assert goals[BW]["reason"] == "first: no variant is believed (coalesced UNTRUSTED, wide UNTRUSTED)"
    assert goals[TIME]["reason"] == "first: coalesced is UNTRUSTED, which is not believed"


def test_damaged_and_missing_bundles(acme):
    path = run(acme.folder / "artifacts/runs/first")
    (path / "targets" / "acme.gather.json").write_text("{}")
    done = asked(acme, "acme.gather", code=3)
    assert "first/targets/acme.gather.json" in done.stderr
    assert "Traceback" not in done.stderr
    (path / "manifest.json").write_text("{")
    assert "manifest.json" in asked(acme, "acme.gather").stderr
    done = asked(acme, "acme.gather", "./nothing", code=1)
    assert done.stderr == "aiperf: 'nothing' does not exist; a result bundle is a folder with a manifest.json in it.\n"


def test_the_page(acme):
    run(acme.folder / "artifacts/runs/first")
    page = acme.folder / "goals.md"
    done = asked(acme, "acme", "--page", page, code=1)
    assert done.stdout == ""
    lines = page.read_text().splitlines()
    assert lines[0] == "# Goals"
    (line,) = [line for line in lines if BW in line]
    assert line.startswith(f"| acme.gather | {BW} | 24.")
    assert line.endswith(" | coalesced | first, NVIDIA H200, 2026-11-21, quick | MET | - |")
    (line,) = [line for line in lines if line.startswith("| acme.gather | coalesced: ")]
    assert line.endswith(r" | MISSED | a late store \(counter:dram\_\_bytes.sum\) |")
    (line,) = [line for line in lines if SPEEDUP in line]
    assert line.endswith(" | MISSED | not explained yet |")
    (line,) = [line for line in lines if LAT in line]
    assert line.endswith(
        " | NOT MEASURED | first: its run has no ceiling LAT; on that machine run aiperf ceilings first, then run the target again |"
    )
    assert "- no goal: acme.graph" in lines
    done = asked(acme, "acme.gather", "--page", acme.folder / "none/goals.md", code=1)
    assert (
        done.stderr
        == f"aiperf: cannot write '{acme.folder}/none/goals.md': No such file or directory. Choose another --page.\n"
    )


def test_a_figure_next_to_its_bar_is_unclear(acme):
    acme.write("aiperf_acme/gather.py", BENCHMARK + "bench.reach(of='time:memcpy', at_most=1.25)\n")
    run(acme.folder / "artifacts/runs/first")
    done = asked(acme, "acme.gather")
    assert ("UNCLEAR" in done.stdout, done.stderr) == (True, "")
    _, goals = document(acme, "acme.gather")
    assert [one["state"] for one in goals.values()] == ["UNCLEAR"]
