"""Every table at 40, 80 and 120 columns: no line is wider, and no traceback.

A path or a name without a place to break is the only exception.
"""

import io
import json
from pathlib import Path

import attrs
import measured
import pytest
from click.testing import CliRunner

from aiperf_core.cli import result_screen
from aiperf_core.cli.main import Shell
from aiperf_core.cli.resuming import print_end
from aiperf_core.cli.run_view import print_result
from aiperf_core.cli.screen import Screen
from aiperf_core.goal import make_goal
from aiperf_core.measurements import Estimate
from aiperf_core.plugins import load_plugins
from aiperf_core.render.row_columns import COLUMNS
from aiperf_core.report import expectations, goals, reproduction
from aiperf_core.results import example
from aiperf_core.results.address import Address
from aiperf_core.stats import reproduce
from aiperf_core.stats.goal_standings import JudgedGoal, Origin, Standings
from aiperf_core.stats.goals import Reached
from aiperf_core.stats.threshold import Judgement, Threshold

WIDTHS = (40, 80, 120)
LONG = "a_variant_with_a_name_of_forty_letters_x"
MANY = """
@hookimpl
def aiperf_targets():
    for name in ("gather", "a_target_with_a_rather_long_name", "x"):
        yield Target(name, "Sorted indices turn a gather into a copy, and more words than a line has", "throughput",
                     ("cpu", "cuda"), ("memory",))
"""


BENCHMARK = '''"""Sorted gather: neighbours in the index should be neighbours in memory, which a line of text cannot tell.

Workload   out[i] = a[index[i]] over n float32 values, with a sentence that is longer than a terminal is wide.
"""
from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed")

@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 25})
def inputs(n, device, generator): ...

@bench.reference(tolerance=exact)
def reference(a): ...

@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=4 * n, flops=n, precision="fp32", wire_bytes=n)

@bench.baseline(device="cpu", kind="antipattern")
def a_baseline_with_a_name_of_forty_letters(a): ...

@bench.variant(device="cpu", requires=("compiler",), why="a line is fetched once, and not for each of its elements")
def ordered(a): ...
'''


@pytest.fixture(params=WIDTHS)
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


@pytest.fixture
def bundles(tmp_path):
    """Two runs of several targets: with extreme intervals, long names, and rows and options that differ."""
    left, right = measured.bundle(tmp_path / "left"), measured.bundle(tmp_path / "right", seed=1)
    rows = example.rows()
    wild = Estimate(0.0900, 0.0016, 1.1458)
    extreme = attrs.evolve(rows[1], name=LONG, time_s=wild, speedup=Estimate(3.49, 0.0038, 1290.1))
    other = attrs.evolve(example.result(), target="ch01.a_target_with_a_long_name", rows=[rows[0], extreme, *rows[2:]])
    left.write_target(other)
    right.write_target(attrs.evolve(other, tier="audit", rounds=10, rows=rows[:3]))
    left.write_manifest(attrs.evolve(measured.manifest(), skipped=example.manifest().skipped))
    right.write_manifest(attrs.evolve(measured.manifest(), git="f" * 40))
    return left, right


def invoke(*arguments, plugins=None):
    found = CliRunner().invoke(Shell(plugins or load_plugins([])), [str(one) for one in arguments])
    assert found.exception is None or isinstance(found.exception, SystemExit)
    assert "Traceback" not in found.output
    assert found.stdout
    return found.stdout


def fits(text, width):
    """No line is wider than this, but for a single word that has no room beside its label."""
    assert "\x1b" not in text
    too_wide = [line for line in text.splitlines() if len(line) > width]
    return [line for line in too_wide if len(line.split()) > 2 or "/" not in line]


def test_a_wide_line_is_seen():
    assert fits("a line of several words that is wide", 20) == ["a line of several words that is wide"]
    assert fits("left   /a/path/that/cannot/be/broken", 20) == []


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--compact",),
        ("--sort", "speedup"),
        ("-v",),
        ("--columns", ",".join(COLUMNS)),
        ("--compact", "--columns", "median,min,p95,stddev,samples", "--sort", "time"),
    ],
)
def test_show(bundles, width, options):
    text = invoke("show", bundles[0].path, *options)
    assert fits(text, width) == []
    assert " ".join(text.split()).count("runs under a hypervisor") == ("-v" in options)


def test_show_of_a_target(site, width):
    site.install("aiperf-acme", MANY)
    site.write("aiperf_acme/gather.py", BENCHMARK)
    assert fits(invoke("show", "acme.gather", plugins=site.load()), width) == []


def test_list(site, width):
    site.install("aiperf-acme", MANY)
    assert fits(invoke("list", plugins=site.load()), width) == []


@pytest.mark.parametrize("arguments", [(), ("timing",), ("timing.unsynced_streams",)])
def test_validity(width, arguments):
    assert fits(invoke("validity", *arguments), width) == []


def test_results(bundles, width):
    assert fits(invoke("results", "list", "--in", bundles[0].path.parent), width) == []


def test_compare(bundles, width):
    text = invoke("compare", *(one.path for one in bundles))
    assert fits(text, width) == []
    assert text.count("only in the left run") == 1


def test_run(bundles, width):
    """What a run prints: each target, and what is said once."""
    stream = io.StringIO()
    screen = Screen(stream)
    results = [bundles[0].target(name) for name in bundles[0].targets]
    for result in results:
        print_result(screen, result)
    print_end(screen, [*results, *bundles[0].manifest.skipped], None)
    assert fits(stream.getvalue(), width) == []
    assert "hypervisor" not in stream.getvalue()
    heads = {line for line in stream.getvalue().splitlines() if line.startswith("implementation")}
    assert len(heads) == 1


def test_reproduce(bundles, width, capsys):
    left, right = bundles
    found = reproduce.judge(Address(left), right, {})
    result_screen.show(reproduction.view(found, "before", "after", strict=False))
    assert fits(capsys.readouterr().out, width) == []


def test_expectations(width, capsys):
    rows = [
        Judgement(
            f"ch01.a_target_with_a_long_name:{LONG}",
            Threshold("", "", "speedup", 15.2),
            Estimate(3.5, 3.1, 4.0),
            "MISSED",
            "a reason of words",
        ),
        Judgement("ch07.memory_access:wide", Threshold("", "", "speedup", 8.0), Estimate(8.67, 8.64, 8.70), "MET"),
    ]
    page = expectations.JudgedPage("nvidia-h200-x1", Path("expectations/nvidia-h200-x1.json"), rows)
    result_screen.show(expectations.view("latest", [page], 0))
    assert fits(capsys.readouterr().out, width) == []


def test_goals(width, capsys):
    goal = make_goal(
        of="BW", at_least=0.9, at_most=None, implementation=LONG, size=None, device="cuda", cause="", shown_by=""
    )
    origin = Origin("20261121-142530-ch07.memory_access", "nvidia-h200-x1", "2026-11-21", "quick")
    rows = [JudgedGoal("ch07.memory_access", goal, Reached(LONG, Estimate(0.94, 0.93, 0.95)), origin)]
    result_screen.show(goals.view(Standings(rows=rows)))
    text = capsys.readouterr().out
    assert fits(text, width) == []
    assert "94 %" in text
    assert "[93, 95]" in text


def test_a_pipe_has_a_line_for_each_row(bundles, monkeypatch):
    """Without COLUMNS the layout does not depend on a terminal, and no row of a table is broken."""
    monkeypatch.delenv("COLUMNS", raising=False)
    text = invoke("show", bundles[0].path, "--compact")
    assert sum(line.startswith(("ch07.", "ch01.")) for line in text.splitlines()) == 5 + 8
    text = invoke("compare", *(one.path for one in bundles))
    lines = [line for line in text.splitlines() if line.startswith(("ch07.", "ch01."))]
    assert len([line for line in lines if ": " not in line]) == 6
    assert len([line for line in lines if ": " in line]) == 3  # targets with rows that were left out


def test_json_keeps_what_the_tables_say_once(bundles):
    document = json.loads(invoke("show", bundles[0].path, "--json"))
    rows = [row for result in document["targets"] for row in result["rows"]]
    warned = [row for row in rows if any(one["issue"].startswith("environment.virt") for one in row["findings"])]
    assert len(warned) >= 4


def test_columns_help_and_an_unknown_column(bundles):
    listed = invoke("show", bundles[0].path, "--columns", "help")
    assert [line.split()[0] for line in listed.splitlines()] == [*COLUMNS]
    assert all(line.endswith(".") for line in listed.splitlines())
    found = CliRunner().invoke(Shell(load_plugins([])), ["show", str(bundles[0].path), "--columns", "median,p59"])
    assert found.exit_code == 2
    first, *others = found.stderr.splitlines()
    assert first == "aiperf: 'p59' is not a column. Did you mean 'p95'? The columns are:"
    assert [line.partition(":")[0] for line in others] == [*COLUMNS]


def test_v_shows_all_columns(bundles):
    path = bundles[0].path
    everything = invoke("show", path, "-v")
    assert all(f"  {COLUMNS[name].head}  " in everything for name in ("time", "wall_s", "sol", "samples"))
    assert "all details" not in everything
    found = CliRunner().invoke(Shell(load_plugins([])), ["show", str(path), "-v", "--columns", "min"])
    assert (found.exit_code, found.stderr) == (2, "aiperf: -v shows all columns; give either -v or --columns.\n")


def test_options_of_results_are_refused_for_a_declaration():
    found = CliRunner().invoke(Shell(load_plugins([])), ["show", "practice.matmul", "--compact"])
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        "aiperf: --compact, --columns, -v, --sort and --out are for results; name a bundle, or leave them out.\n"
    )
