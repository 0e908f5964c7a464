"""`aiperf analyze trace` and `trace-diff` as commands, with every form of output; and the benchmark script."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.report.picture import render_svg
from aiperf_core.report.result import Axis, Drawing, Span
from aiperf_traces import breakdown, example, pieces, reading, totals, windows
from aiperf_traces import trace as analysis

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "analysis_traces.py"


@pytest.fixture(scope="module")
def shell():
    """The command, of the package that brings this one."""
    pytest.importorskip("aiperf_analysis")
    return Shell(load_plugins())


@pytest.fixture
def files(tmp_path):
    job = example.Job(steps=6, ranks=2, straggler=1, late=5000)
    return [str(example.write(tmp_path / f"rank{rank}.json", job, rank)) for rank in range(2)]


def run(shell, *arguments):
    return CliRunner().invoke(shell, ["analyze", *map(str, arguments)])


def test_the_command_prints_the_conclusion_first(shell, files):
    result = run(shell, "trace", *files)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "Trace of 2 ranks"
    assert lines[1].startswith(
        "rank 1 is the straggler: it holds up the others in 6 of 6 windows, by 5 us in the mean."
    )


def test_json_and_files_hold_the_same(shell, files, tmp_path):
    out = tmp_path / "out.json"
    printed = run(shell, "trace", *files, "--json", "--out", out)
    assert printed.exit_code == 0, printed.output
    document = json.loads(out.read_text())
    assert json.loads(printed.stdout) == document
    assert document["details"]["straggler"] == "rank 1"
    assert {one["name"] for one in document["drawings"]} == {"timeline", "flame"}
    for end in ("csv", "html", "svg"):
        assert run(shell, "trace", *files, "--out", tmp_path / f"out.{end}").exit_code == 0
    assert (tmp_path / "out.svg").read_text().startswith("<svg ")
    assert "<figcaption" in (tmp_path / "out.html").read_text()


def test_the_exported_window_is_the_trace_again(shell, files, tmp_path):
    out = tmp_path / "window.json"
    result = run(shell, "trace", files[0], "--window", "ProfilerStep#2", "--export", out)
    assert result.exit_code == 0, result.output
    first, second = (json.loads(run(shell, "trace", path, "--json", *more).stdout) for path, more in (
        (files[0], ("--window", "ProfilerStep#2")), (out, ())
    ))  # fmt: skip
    one, other = (found["tables"][0]["records"][0]["cells"] for found in (first, second))
    for name in ("window", "compute", "communication", "copies", "idle"):
        assert one[name]["value"] == pytest.approx(other[name]["value"], abs=1e-12)
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["trace", "none.json"], 2, "'none.json' does not exist. Give files of traces"),
        (["trace", "FILE", "--window", "epoch"], 2, "has no range 'epoch'. Ranges in it: "),
        (["trace", "FILE", "--top", "0"], 2, "--top takes a whole number from 1 on; got 0."),
        (["trace", "FILE", "--export", "x.txt"], 2, "'x.txt' does not end in .json; --export writes a trace"),
        (
            ["trace", "FILE", "--memory"],
            1,
            "has no events of memory. Record with torch.profiler.profile(profile_memory=True)",
        ),
        (["trace", "FILE", "--picture", "pie"], 2, "--picture got 'pie'. Accepted: timeline, flame."),
        (["trace-diff", "FILE"], 2, "trace-diff compares two traces; 1 were given."),
    ],
)
def test_bad_input(shell, files, arguments, code, message):
    result = run(shell, *[files[0] if one == "FILE" else one for one in arguments])
    assert result.exit_code == code
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_help_shows_files_and_no_options_of_bundles(shell):
    text = run(shell, "trace", "--help").output
    assert "FILE..." in text
    assert "--window NAME" in text
    assert "--db" not in text
    assert "--db" in run(shell, "overview", "--help").output


def test_a_real_trace_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile, schedule

    plan = schedule(wait=1, warmup=1, active=3, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, profile_memory=True) as profiler:
        for _ in range(5):
            x = torch.randn(64, 64, requires_grad=True)
            (x @ x).relu().sum().backward()
            profiler.step()
    path = tmp_path / "real.json"
    profiler.export_chrome_trace(str(path))
    result = analysis.analyze([path], analysis.Options(memory=True))
    assert result.summary[0].startswith("The trace has no work of a GPU, so there is no breakdown")
    work = next(table for table in result.tables if table.name == "work")
    names = [record.cells["name"] for record in work.records]
    assert "aten::mm" in names
    memory = next(table for table in result.tables if table.name == "memory").records[0].cells
    # Three matrices of 64 x 64 floats are alive at once.
    assert memory["peak"].value >= 3 * 64 * 64 * 4
    found = totals.of_host(reading.read([path])[0], windows.of(reading.read([path])[0]))
    assert sum(one.alone for one in found.pieces.values()) + found.rest == found.window
    assert all(one.alone >= 0 for one in found.pieces.values())
    for drawing in result.drawings:
        render_svg(drawing)


def test_the_profile_of_the_core_is_read(shell, tmp_path):
    from aiperf_core.profiling import store

    trace = example.write(tmp_path / "torch.trace.json.gz", example.Job(steps=2))
    from aiperf_core.profiler import Observed
    from aiperf_core.profiling.models import Profile

    def made(tool, artifacts):
        return Profile(
            target="t", implementation=f"i{tool}", role="variant", why="", device="cuda", size="", params={}, cache="warm",
            cost_bytes=0.0, tool=tool, metrics=[], calls=1, in_a_row=1, taken_s=[1.0], created="", aiperf="",
            observed=Observed(version="", hot=[], figures={}, missing={}, files=[]), artifacts=artifacts,
        )  # fmt: skip

    folder = store.write(tmp_path, made("torch", [store.artifact(trace)]), tmp_path)
    assert run(shell, "trace", folder).exit_code == 0
    (folder / trace.name).write_bytes(b"changed")
    assert "is missing or was changed since the profile was made" in " ".join(
        run(shell, "trace", folder).stderr.split()
    )
    other = store.write(tmp_path, made("perf", []), tmp_path)
    assert "is a profile of 'perf' without a time line" in " ".join(run(shell, "trace", other).stderr.split())
    report = store.write(tmp_path, made("nsys", []), tmp_path)
    assert "nsys export --type sqlite" in " ".join(run(shell, "trace", report).stderr.split())


def test_pictures_have_at_most_2000_pieces(tmp_path):
    path = example.write(tmp_path / "t.json", example.Job(steps=1, layers=3000))
    trace = reading.read([path])[0]
    own = windows.of(trace)
    spans = pieces.timeline([trace], own, {})
    assert 200 < len(spans) <= pieces.MOST
    # Nothing of the lanes is lost: joined pieces reach from the first to the last.
    ends = [one.start + one.length for one in spans]
    assert max(ends) == pytest.approx((own[0].length - 4000) / 1e9)
    flame = pieces.flame(totals.of_devices(trace, breakdown.devices_of(trace), own))
    assert 1 < len(flame) <= pieces.MOST


def test_a_flame_graph_of_many_operators_joins_the_smallest():
    kinds = {("compute", f"k{n}", (f"op{n % 50}", f"inner{n}")): n for n in range(1, 4000)}
    made = {
        key: totals.Piece(*key, lengths=breakdown.np.array([n]), alone=n)  # nanoseconds as numbered
        for key, n in kinds.items()
    }
    whole = sum(kinds.values())
    spans = pieces.flame(totals.Totals(made, 1, whole, 0, "idle", True))
    assert len(spans) <= pieces.MOST
    top = sum(one.length for one in spans if one.lane == "0")
    assert top == pytest.approx(whole / 1e9)
    assert any(one.kind == "joined" for one in spans)


@pytest.mark.parametrize("kind", ["flame", "timeline"])
def test_pictures_without_pieces_and_with_many_lanes(kind):
    axis = Axis(title="time", unit="s")
    empty = Drawing(name="x", title="x", kind=kind, message="nothing", x=axis, y=axis)
    assert "nothing to show" in render_svg(empty)
    spans = [Span(label="<b>" * 9, lane=str(n), start=0.0, length=1.0, kind="compute") for n in range(60)]
    text = render_svg(Drawing(name="x", title="x", kind=kind, message="m", x=axis, y=axis, spans=spans))
    assert "<b>" not in text
    assert "not drawn" in text


@pytest.mark.usefixtures("shell")
def test_the_benchmark_runs_and_its_figures_are_exact(tmp_path):
    command = [sys.executable, str(SCRIPT), "--megabytes", "1", "--ranks", "2", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("exact")
    assert list(tmp_path.iterdir()) == []
