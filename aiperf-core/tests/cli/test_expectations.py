import contextlib
import hashlib
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import attrs
import measured
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiperf_core.cli import expectations as expectations_command
from aiperf_core.cli import goals as goals_command
from aiperf_core.cli import narrowing
from aiperf_core.cli.main import Shell
from aiperf_core.described import Described
from aiperf_core.errors import BundleError, UsageError
from aiperf_core.git import git_commit as commit_of
from aiperf_core.goal import make_goal
from aiperf_core.measurements import Estimate, Memory
from aiperf_core.plugins import load_plugins
from aiperf_core.report.expectations import JudgedPage, view
from aiperf_core.results import example, hardware
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Verdict
from aiperf_core.stats import expectations as rules
from aiperf_core.stats.threshold import Judgement

KEY = "nvidia-h200-x1"
PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("memory_access", "Neighbours", "speed", "cuda")
"""
SURE = {"strided": 1.0, "coalesced": 0.5, "wide": 0.8, "memcpy": 0.4}


def git(folder, *arguments):
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *name, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def package(site):
    """An installed package with one target, in a repository of its own."""
    site.install("aiperf-lesson", PLUGIN)
    site.write("aiperf_lesson/memory_access.py", "the source\n")
    folder = site.folder / "aiperf_lesson"
    (folder / ".gitignore").write_text("__pycache__\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")
    return folder


@pytest.fixture
def bundle(tmp_path, package):
    return make(tmp_path / "run", package)


def make(path, package, factors=SURE, interrupted=False, **changes):
    """A bundle of the package's source, of rows that are all sure unless told otherwise."""
    found = measured.result(factors=factors)
    found = attrs.evolve(found, target="lesson.memory_access", rows=found.rows[:-1], complete=not interrupted)
    made = Bundle.create_at(path)
    made.write_target(measured.counted(attrs.evolve(found, rows=measured.scored(found))))
    source = hashlib.sha256((package / "memory_access.py").read_bytes()).hexdigest()
    facts = {"files": {"aiperf_lesson.memory_access": source}, "git": "0" * 40, "skipped": [], "exit_code": 0}
    made.write_manifest(attrs.evolve(measured.manifest(), **{**facts, **changes}))
    return made


@pytest.fixture
def command(site):
    def call(*arguments):
        return CliRunner().invoke(Shell(site.load()), ["expectations", *map(str, arguments)])

    return call


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    """The goals of `lesson.memory_access`, whose source is no benchmark; none unless a test adds some."""
    goals = []
    found = Described("speed", "device", "cold", None, {"cuda": {"n": 1 << 28}}, "exact", "m", "0", [], goals=goals)

    def declarations(_, targets):
        return [(one, found) for one in targets if one.name == "lesson.memory_access"], []

    for module in (expectations_command, goals_command):
        monkeypatch.setattr(module, "declarations", declarations)
    return goals


def page(package):
    return json.loads((package / f"expectations/{KEY}.json").read_text())


def test_a_write_and_a_check(command, bundle, package):
    found = command("write", bundle.path)
    assert (found.exit_code, found.stderr) == (0, "")
    lines = found.stdout.splitlines()
    assert lines[0] == f"{KEY}  {package}/expectations/{KEY}.json"
    assert [line.split()[0] for line in lines[2:]] == ["lesson.memory_access:coalesced", "lesson.memory_access:wide"]
    assert all(line.endswith("new") for line in lines[2:])
    written, row = page(package), bundle.target("lesson.memory_access").rows[2]
    entry, manifest = written["expected"]["lesson.memory_access:wide"], bundle.manifest
    assert entry == {
        "metric": "speedup",
        "at_least": row.speedup.low * 0.99,
        "measured": row.speedup.value,
        "low": row.speedup.low,
        "high": row.speedup.high,
        "sizes": {"n": 1 << 28},
        "run": 0,
        "time_s": attrs.asdict(row.time_s),
        "sol": attrs.asdict(row.speed_of_light),
    }
    assert written["runs"] == [
        {
            "bundle": "run",
            "seal": manifest.hashes["manifest.json"],
            "date": manifest.created,
            "versions": {"aiperf": "0.1.0", "torch": "2.13.0", "triton": "3.9.0", "driver": "570.86.15"},
            "git": "0" * 40,
            "sources": {"lesson.memory_access": manifest.files["aiperf_lesson.memory_access"]},
            "tier": "quick",
        }
    ]
    lines = (package / f"expectations/{KEY}.json").read_text().splitlines()
    assert [line.count('"metric"') for line in lines if '"metric"' in line] == [1, 1]
    found = command("check", bundle.path)
    assert (found.exit_code, found.stdout.splitlines()[1]) == (
        0,
        "2 variants checked (0 below the threshold), 0 without a threshold",
    )
    assert command("check", bundle.path, "--require").exit_code == 0


def test_figures_of_goals_are_stored_in_the_row_that_they_are_of(command, bundle, package, site, declared):
    declared.append(make_goal(of="BW", at_least=0.2, at_most=None))
    declared.append(make_goal(of="time:memcpy", at_least=None, at_most=1, implementation="wide"))
    declared.append(make_goal(of="LAT", at_least=None, at_most=1))  # its ceiling was not measured
    assert command("write", bundle.path).exit_code == 0
    rows = {name: row.get("goals") for name, row in page(package)["expected"].items()}
    (best,), (other,) = rows["lesson.memory_access:coalesced"], rows["lesson.memory_access:wide"]
    assert (best["of"], other["of"]) == ("BW", "time:memcpy")
    assert best["value"] == pytest.approx((2 << 30) / 2e-3 / 4.34e12, rel=0.01)
    assert other["value"] == pytest.approx(2, rel=0.01)
    assert other["low"] < other["value"] < other["high"]
    # `aiperf goals` reads them where no bundle is stored.
    arguments = ["goals", "lesson", "--in", str(site.folder / "none"), "--json"]
    found = json.loads(CliRunner().invoke(Shell(site.load()), arguments).stdout)
    assert [one["state"] for one in found["goals"]] == ["MET", "MISSED", "NOT MEASURED"]
    assert found["goals"][1]["figure"] == {name: other[name] for name in ("value", "low", "high")}
    assert found["goals"][1]["origin"]["file"] == f"{KEY}.json"
    assert found["goals"][1]["origin"]["bundle"] == bundle.path.name
    assert found["never_on_gpu"] == []
    # Without one at other sizes. The speedup of a row is kept anyway, and the best row counts.
    declared[:] = [
        make_goal(of="BW", at_least=0.2, at_most=None, size="cuda", params={"n": 4}),
        make_goal(of="speedup", at_least=1.9, at_most=None),
        make_goal(of="speedup", at_least=1.9, at_most=None, implementation="wide"),
    ]
    found = json.loads(CliRunner().invoke(Shell(site.load()), arguments).stdout)
    assert [one["state"] for one in found["goals"]] == ["NOT MEASURED", "MET", "MISSED"]
    assert [one["implementation"] for one in found["goals"]] == [None, "coalesced", "wide"]


def test_below_is_4_and_above_is_not(command, bundle, package, tmp_path):
    command("write", bundle.path)
    slow = make(tmp_path / "slow", package, {**SURE, "wide": 0.85})
    found = command("check", slow.path)
    assert found.exit_code == 4
    line = next(line for line in found.stdout.splitlines() if ":wide" in line)
    assert "MISSED" in line
    assert found.stdout.splitlines()[1] == "2 variants checked (1 below the threshold), 0 without a threshold"
    assert command("report", slow.path).exit_code == 0
    assert command("check", f"{slow.path}:lesson.memory_access:coalesced").exit_code == 0
    assert command("check", make(tmp_path / "fast", package, {**SURE, "wide": 0.7}).path).exit_code == 0
    assert command("check", bundle.path, "--min-speedup", "1.5").exit_code == 4


def test_what_changes_is_shown(command, bundle, package, tmp_path):
    command("write", bundle.path)
    before = page(package)
    changed = make(tmp_path / "b", package, {"strided": 1.0, "coalesced": 0.4, "wide": 0.9, "memcpy": 0.4})
    found = command("write", changed.path, "--dry-run")
    assert found.stdout.splitlines()[0].endswith("  (not written)")
    assert page(package) == before
    lines = command("write", changed.path).stdout.splitlines()
    assert lines[2].endswith("RAISED")
    assert lines[3].endswith("LOWERED")
    lines = command("write", make(tmp_path / "c", package, {**SURE, "wide": 0.97}).path).stdout.splitlines()
    assert "threshold removed: " in lines[3]
    assert lines[3].endswith("is below 1.05")
    # The figure stays, for goals and for the ladder of the lesson; no run is held to it.
    wide = page(package)["expected"]["lesson.memory_access:wide"]
    assert wide.get("at_least") is None
    assert wide["measured"] < 1.05
    checked = command("check", changed.path, "--require")
    assert checked.exit_code == 0
    assert "NO THRESHOLD" in next(line for line in checked.stdout.splitlines() if ":wide" in line)
    assert checked.stdout.splitlines()[1] == (
        "1 variant checked (0 below the threshold), 1 without a threshold (1 NO THRESHOLD)"
    )


@pytest.mark.parametrize("verdict", ["INVALID", "UNTRUSTED", "INCONCLUSIVE", "FAILED"])
def test_a_row_that_is_not_sure_is_refused(command, bundle, package, verdict):
    found = bundle.target("lesson.memory_access")
    wide = attrs.evolve(found.rows[2], verdict=Verdict(verdict), reason="x", speedup=None)
    bundle.write_target(attrs.evolve(found, rows=[*found.rows[:2], wide, found.rows[3]]))
    bundle.write_manifest(bundle.manifest)
    answer = command("write", bundle.path)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr == (
        "aiperf: expectations were not written. These rows give none:\n"
        f"lesson.memory_access:wide: {verdict}: x\n"
        "Measure them longer with: aiperf expectations write PATTERN. Or name other rows: BUNDLE:TARGET or "
        "BUNDLE:TARGET:IMPLEMENTATION\n"
    )
    assert not (package / "expectations").exists()


def widened(bundle, low, high):
    """The same bundle, in which the interval of `wide` has these ends."""
    found = bundle.target("lesson.memory_access")
    wide = attrs.evolve(found.rows[2], speedup=Estimate((low + high) / 2, low, high))
    bundle.write_target(attrs.evolve(found, rows=[*found.rows[:2], wide, found.rows[3]]))
    bundle.write_manifest(bundle.manifest)


def test_too_wide_an_interval_is_refused(command, bundle, package):
    widened(bundle, 1.2, 1.9)
    answer = command("write", bundle.path)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert "lesson.memory_access:wide: too wide an interval: high / low is 1.58, at most 1.5\nMeasure" in answer.stderr
    assert not (package / "expectations").exists()


@pytest.mark.parametrize(
    ("low", "high", "wide"), [(1.2, 1.8, False), (1.2, 1.81, True), (0.2, 0.9, False), (0.9, 1.5, True)]
)
def test_the_limit_of_width(low, high, wide):
    row = attrs.evolve(example.rows()[1], speedup=Estimate(low, low, high))
    result = attrs.evolve(example.result(), rows=[row])
    assert (rules.refusal(result, row, 1.05) is not None, rules.can_narrow(result, row, 1.05)) == (wide, wide)
    assert not rules.can_narrow(result, attrs.evolve(row, verdict=Verdict.INVALID, reason="x"), 1.05)
    unsure = attrs.evolve(row, verdict=Verdict.INCONCLUSIVE, reason=None, speedup=Estimate(1.0, 0.98, 1.1))
    assert rules.refusal(result, unsure, 1.05) == "INCONCLUSIVE: the interval is 0.98 to 1.1"
    assert rules.can_narrow(result, unsure, 1.05)


def test_a_check_names_intervals_that_are_too_wide(command, bundle, package):
    command("write", bundle.path)
    widened(bundle, 1.2, 1.9)
    found = command("check", bundle.path)
    line = next(line for line in found.stdout.splitlines() if ":wide" in line)
    assert line.endswith("UNCLEAR  too wide an interval: high / low is 1.58, at most 1.5")
    assert found.exit_code == 0
    file = package / f"expectations/{KEY}.json"
    document = json.loads(file.read_text())
    document["expected"]["lesson.memory_access:coalesced"]["high"] = 9.0
    file.write_text(json.dumps(document))
    assert "MET      the expectation: too wide an interval: high / low is " in command("check", bundle.path).stdout


def test_rows_of_several_runs_name_their_run(command, bundle, package, tmp_path):
    command("write", bundle.path)
    later = make(tmp_path / "later", package, {**SURE, "wide": 0.7}, created="2027-01-01T00:00:00+00:00")
    command("write", f"{later.path}:lesson.memory_access:wide")
    written = page(package)
    assert [run["bundle"] for run in written["runs"]] == ["run", "later"]
    assert {name.rpartition(":")[2]: row["run"] for name, row in written["expected"].items()} == {
        "coalesced": 0,
        "wide": 1,
    }
    command("write", later.path)
    written = page(package)
    assert [run["bundle"] for run in written["runs"]] == ["later"]
    assert {row["run"] for row in written["expected"].values()} == {0}


def test_nothing_is_half_written(command, bundle, package, monkeypatch):
    command("write", bundle.path)
    before = page(package)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupted)
    (package / f"expectations/{KEY}.json").write_text(json.dumps({**before, "runs": before["runs"] * 2}))
    command("write", bundle.path)
    assert [file.name for file in (package / "expectations").iterdir()] == [f"{KEY}.json"]
    assert page(package)["runs"] == before["runs"] * 2


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"exit_code": None, "complete": False}, 1, "is not complete"),
        ({"git": "0" * 40 + "-dirty"}, 1, "was measured with changed sources"),
        ({"exit_code": 3}, 3, "does not hold (manifest.json: exit_code)"),
    ],
)
def test_a_bundle_that_is_not_whole_or_clean_is_refused(command, tmp_path, package, changes, code, message):
    made = make(tmp_path / "run", package, **changes)
    answer = command("write", made.path)
    assert (answer.exit_code, answer.stdout) == (code, "")
    assert message in answer.stderr
    assert not (package / "expectations").exists()


def test_of_an_interrupted_run_whole_targets_are_stored(command, tmp_path, package):
    made = make(tmp_path / "run", package, complete=False, exit_code=130)
    assert command("write", made.path, "--dry-run").exit_code == 0
    target = made.target("lesson.memory_access")
    made = make(tmp_path / "part", package, interrupted=True, complete=False, exit_code=130)
    answer = command("write", made.path)
    assert answer.exit_code == 1
    assert "is not complete: lesson.memory_access was interrupted" in answer.stderr
    assert target.complete
    assert not (package / "expectations").exists()


def test_a_tampered_bundle_is_refused(command, bundle, package):
    file = bundle.path / "targets/lesson.memory_access.json"
    file.write_text(file.read_text().replace("Neighbours in a warp", "neighbours in a warp"))
    assert "does not hold (targets/lesson.memory_access.json: SHA-256)" in command("write", bundle.path).stderr
    assert not (package / "expectations").exists()


def test_a_source_that_was_not_measured_is_refused(command, bundle, package):
    (package / "memory_access.py").write_text("another\n")
    assert command("write", bundle.path).stderr == (
        f"aiperf: '{package}/memory_access.py' is not the source that was measured. Run again with this one.\n"
    )


@pytest.mark.parametrize("name", ["plugin.py", "new.py"])
def test_a_dirty_tree_is_refused(command, bundle, package, name):
    (package / name).write_text((package / "plugin.py").read_text() + "\n")
    answer = command("write", bundle.path)
    assert answer.stderr == (
        f"aiperf: the source tree of '{package}' is dirty ({name}). Commit or remove that first.\n"
    )
    assert not (package / "expectations").exists()


def test_expectations_of_before_do_not_make_it_dirty(command, bundle, package):
    assert command("write", bundle.path).exit_code == 0
    found = command("write", bundle.path)
    assert (found.exit_code, found.stdout.count("the same")) == (0, 2)


def test_changed_expectations_do_not_make_a_commit_dirty(command, bundle, package, tmp_path):
    command("write", bundle.path)
    git(package, "add", ".")
    git(package, "commit", "-qm", "y")
    assert command("write", make(tmp_path / "b", package, {**SURE, "wide": 0.7}).path).exit_code == 0
    assert not commit_of(package).endswith("-dirty")
    (package / "memory_access.py").write_text("changed\n")
    assert commit_of(package).endswith("-dirty")


def test_unknown_hardware_is_said_and_passes(command, bundle, package):
    command("write", bundle.path)
    found = command("check", bundle.path, "--hardware", "nvidia-b200-x8")
    assert found.exit_code == 0
    assert found.stdout == (
        f"Expectations for {bundle.path}\n"
        "0 variants checked (0 below the threshold), 2 without a threshold (2 without a file)\n"
        f"no expectations for 'nvidia-b200-x8' ({package}/expectations/nvidia-b200-x8.json). "
        "To store them: aiperf expectations write\n"
    )
    required = command("check", bundle.path, "--hardware", "nvidia-b200-x8", "--require")
    assert (required.exit_code, required.stdout) == (4, found.stdout)
    assert required.stderr == (
        "--require: every variant needs an expectation. To store them: aiperf expectations write\n"
    )


def test_a_variant_of_which_nothing_is_expected_is_counted_and_refused_on_demand(command, bundle, package):
    command("write", f"{bundle.path}:lesson.memory_access:wide")
    found = command("check", bundle.path)
    assert found.exit_code == 0
    assert "NEW" in next(line for line in found.stdout.splitlines() if ":coalesced" in line)
    assert found.stdout.splitlines()[1] == "1 variant checked (0 below the threshold), 1 without a threshold (1 NEW)"
    assert command("check", bundle.path, "--require").exit_code == 4
    assert command("check", f"{bundle.path}:lesson.memory_access:wide", "--require").exit_code == 0


def test_a_skipped_variant_is_counted(command, bundle, package):
    command("write", bundle.path)
    found = bundle.target("lesson.memory_access")
    wide = attrs.evolve(found.rows[2], verdict=Verdict.SKIPPED, reason="needs sm_100", speedup=None)
    bundle.write_target(attrs.evolve(found, rows=[*found.rows[:2], wide, found.rows[3]]))
    bundle.write_manifest(bundle.manifest)
    answer = command("check", bundle.path, "--require")
    assert answer.exit_code == 0
    assert (
        answer.stdout.splitlines()[1] == "1 variant checked (0 below the threshold), 0 without a threshold, 1 skipped"
    )


def test_a_row_that_is_no_longer_believed_is_below(command, bundle, package, tmp_path):
    command("write", bundle.path)
    found = bundle.target("lesson.memory_access")
    wide = attrs.evolve(found.rows[2], verdict=Verdict.INVALID, reason="a lie", speedup=None)
    bundle.write_target(attrs.evolve(found, rows=[*found.rows[:2], wide, found.rows[3]]))
    bundle.write_manifest(bundle.manifest)
    answer = command("check", bundle.path)
    assert answer.exit_code == 4
    assert "MISSED   INVALID: a lie" in answer.stdout


def test_other_sizes_are_not_held_to_it(command, bundle):
    command("write", bundle.path)
    found = bundle.target("lesson.memory_access")
    smaller = attrs.evolve(found.problem, params={"n": 4096})
    bundle.write_target(attrs.evolve(found, problem=smaller))
    bundle.write_manifest(bundle.manifest)
    answer = command("check", bundle.path, "--min-speedup", "100")
    assert (answer.exit_code, answer.stdout.count("OTHER SIZE\n")) == (0, 2)
    assert answer.stdout.splitlines()[1] == (
        "0 variants checked (0 below the threshold), 2 without a threshold (2 OTHER SIZE)"
    )
    assert command("check", bundle.path, "--require").exit_code == 4


def test_only_a_goal(command, bundle):
    found = command("check", bundle.path, "--goal", "memory")
    assert (found.exit_code, found.stdout.splitlines()[1:]) == (
        0,
        ["0 variants checked (0 below the threshold), 0 without a threshold"],
    )
    assert command("check", bundle.path, "--goal", "memory", "--require").exit_code == 4


def test_a_file_of_ones_own_and_targets_that_are_not_installed(bundle, tmp_path):
    def call(*arguments):
        return CliRunner().invoke(Shell(load_plugins([])), ["expectations", *map(str, arguments)])

    found = call("check", bundle.path)
    assert (found.exit_code, found.stderr) == (
        0,
        "lesson.memory_access is not installed; give its expectations with --file\n",
    )
    assert found.stdout.splitlines()[1:] == [
        "0 variants checked (0 below the threshold), 2 without a threshold (2 without a file)"
    ]
    assert call("check", bundle.path, "--require").exit_code == 4
    file = tmp_path / "own/mine.json"
    assert call("write", bundle.path, "--file", file).exit_code == 0
    assert call("check", bundle.path, "--file", file).stdout.splitlines()[1] == (
        "2 variants checked (0 below the threshold), 0 without a threshold"
    )
    other = call("check", bundle.path, "--file", file, "--hardware", "abacus")
    assert (other.exit_code, other.stderr) == (
        2,
        f"aiperf: '{file}' is for '{KEY}'; these results are from 'abacus'. To use it anyway: --hardware {KEY}\n",
    )


@pytest.mark.parametrize("key", ["../../etc/passwd", "/etc/passwd", "A", "a b", "a--b", "", "x" * 101, "\x1b[2J"])
def test_a_key_is_one_plain_word(key):
    with pytest.raises(UsageError, match="cannot name a kind of hardware"):
        hardware.checked_key(key)


def test_keys():
    machine = example.manifest().machine
    assert hardware.hardware_key(machine, "cuda", {"n": 8}) == KEY
    several = attrs.evolve(machine, gpus=machine.gpus * 4)
    assert hardware.hardware_key(several, "cuda", {"n": 8}) == KEY
    assert hardware.hardware_key(several, "cuda", {"n": 8, "world_size": 2}) == "nvidia-h200-x2"
    assert hardware.hardware_key(machine, "cpu", {}) == "amd-epyc-9654-96-core-processor-x16"
    hostile = attrs.evolve(machine, gpus=[{"name": "../../x\x1b[2J" * 50}])
    assert hardware.KEY.fullmatch(hardware.hardware_key(hostile, "cuda", {}))


def test_a_link_out_of_the_package_is_not_followed(command, bundle, package, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (package / "expectations").symlink_to(outside)
    answer = command("write", bundle.path)
    assert (answer.exit_code, list(outside.iterdir())) == (1, [])
    assert "outside its package; aiperf follows no such link" in answer.stderr


def test_memory_is_expected_of_targets_for_memory():
    rows = [
        attrs.evolve(example.rows()[0], memory=Memory(peak_bytes=400)),
        attrs.evolve(example.rows()[1], memory=Memory(peak_bytes=100), memory_gain=4.0),
    ]
    result = attrs.evolve(example.result(), goal="memory", rows=rows)
    assert rules.figure(result, rows[1]) == Estimate(4.0, 4.0, 4.0)
    assert rules.figure(attrs.evolve(result, goal="speed"), rows[1]) == rows[1].speedup
    none = attrs.evolve(rows[1], memory=Memory(peak_bytes=0), memory_gain=None)
    assert rules.figure(attrs.evolve(result, rows=[rows[0], none]), none) is None


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(2.0, 2.1, "MET"), (1.9, 2.1, "UNCLEAR"), (1.8, 2.05, "UNCLEAR"), (1.8, 1.99, "MISSED"), (3.0, 4.0, "MET")],
)
def test_the_interval_decides(low, high, outcome):
    row = attrs.evolve(example.rows()[1], speedup=Estimate((low + high) / 2, low, high))
    result = attrs.evolve(example.result(), target="lesson.memory_access", rows=[row])
    expected = rules.Expectation(
        metric="speedup", at_least=2.0, measured=2.1, low=2.0, high=2.2, sizes={"n": 1 << 28}, run=0
    )
    run = rules.MeasuredRun(bundle="x", seal="", date="", versions={}, git=None, sources={})
    (found,) = rules.check(result, rules.Page(KEY, [run], {"lesson.memory_access:coalesced": expected}))
    assert found.outcome == outcome


VALUES = st.sampled_from([None, True, -1, 0, 1.5, 10**40, "x", "\x1b[2J", [], {}, [1]])


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    field=st.sampled_from(
        ["hardware", "runs", "expected", "format", "at_least", "metric", "sizes", "low", "run", "goals", "seal", "tier"]
    ),
    value=VALUES,
    cut=st.none() | st.integers(0, 300),
)
def test_any_file_is_read_or_refused(tmp_path, field, value, cut):
    file = page_with(tmp_path, field, value, cut)
    with contextlib.suppress(BundleError):
        found = rules.read(file)
        rules.write(file, found)
        assert rules.read(file) == rules.compacted(found)


def page_with(folder, field, value, cut=None):
    """The file of a page with a changed field, cut off after some characters."""
    entry = {
        "metric": "speedup", "at_least": 2.0, "measured": 2.1, "low": 2.0, "high": 2.2, "sizes": {"n": 4.0}, "run": 0,
        "goals": [{"of": "BW", "value": 0.9, "low": 0.8, "high": 1.0}],
    }  # fmt: skip
    run = {"bundle": "x", "seal": "", "date": "", "tier": None, "versions": {}, "git": None, "sources": {}}
    document = {"hardware": KEY, "runs": [run], "expected": {"a:b": entry}, "format": 1}
    next(part for part in (document, entry, run) if field in part)[field] = value
    file = folder / "page.json"
    file.write_text(json.dumps(document)[:cut])
    return file


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("at_least", 0, 'at expected["a:b"].at_least: found 0; expected a number above 0 or null'),
        ("low", -1, 'at expected["a:b"].low: found -1; expected a number above 0'),
        ("metric", "time", "at expected[\"a:b\"].metric: found \"time\"; expected one of 'speedup', 'memory'"),
        ("run", 1, "found run 1 of 'a:b'; expected one of the 1 runs"),
        ("run", -1, 'at expected["a:b"].run: found -1; expected an integer from 0'),
        ("format", 2, "at format: found 2; expected 1"),
    ],
)
def test_what_no_page_has_is_refused(tmp_path, field, value, message):
    file = page_with(tmp_path, field, value)
    with pytest.raises(BundleError) as caught:
        rules.read(file)
    assert str(caught.value) == f"'{file}' is not an expectations file of format 1: {message}."


# --- measuring


class Measured:
    """In place of a run: makes bundles whose intervals are as wide as `widths` says, and notes what was asked."""

    def __init__(self, folder, package, widths):
        self.folder, self.package, self.widths, self.asked, self.servers = folder, package, list(widths), [], []

    def __call__(self, server, plugins, request, into, reporter):
        run = SimpleNamespace(resumable=False, bundle=None, results=[])

        def execute(on_result):
            names = sorted(name for one in request.selections for name in one.implementations)
            self.asked.append((request.options.budget_s, request.options.tier, names))
            assert server not in self.servers, "a run ends its server"
            self.servers.append(server)
            width = self.widths.pop(0)
            if width is None:
                raise KeyboardInterrupt
            run.bundle = make(self.folder / f"run{len(self.asked)}", self.package)
            widened(run.bundle, 1.2, 1.2 * width)
            run.results = [run.bundle.outline("lesson.memory_access")]
            return 0

        run.execute = execute
        return run


@pytest.fixture
def measured_as(monkeypatch, tmp_path, package):
    def prepare(*widths):
        made = Measured(tmp_path, package, widths)
        monkeypatch.setattr(narrowing, "BundleRun", made)
        monkeypatch.setattr(narrowing, "server_ahead", object)
        # What was written into the row does not follow from the samples.
        monkeypatch.setattr(rules, "refuse_bundle", lambda bundle, manifest: None)
        return made

    return prepare


def test_a_pattern_is_measured_until_its_intervals_are_narrow(command, package, measured_as):
    runs = measured_as(1.9, 1.6, 1.2)
    found = command("write", "lesson", "--quiet")
    assert (found.exit_code, runs.asked) == (
        0,
        [(30.0, "standard", []), (60.0, "standard", ["wide"]), (120.0, "standard", ["wide"])],
    )
    assert found.stderr.splitlines() == [
        f"interval still too wide; measuring again for {seconds} s a target: lesson.memory_access"
        for seconds in (60, 120)
    ]
    written = page(package)
    rows = {name.rpartition(":")[2]: row for name, row in written["expected"].items()}
    assert [written["runs"][rows[name]["run"]]["bundle"] for name in ("coalesced", "wide")] == ["run3", "run3"]
    assert rows["wide"]["high"] == pytest.approx(1.44)


def test_a_row_that_stays_wide_is_named_and_the_others_are_written(command, package, measured_as):
    runs = measured_as(*[1.9] * 5)
    found = command("write", "lesson.memory_access", "--quiet", "--tier", "quick", "--budget", "2")
    assert (found.exit_code, [budget for budget, _, _ in runs.asked]) == (5, [2.0, 4.0, 8.0, 16.0])
    assert list(page(package)["expected"]) == ["lesson.memory_access:coalesced"]
    line = next(line for line in found.stdout.splitlines() if ":wide" in line)
    assert line.endswith("too wide an interval: high / low is 1.9, at most 1.5")


def test_an_interrupted_measurement_writes_nothing(command, package, measured_as):
    measured_as(1.9, None)
    found = command("write", "lesson", "--quiet")
    assert found.exit_code == 130
    assert not (package / "expectations").exists()


def test_changed_sources_are_refused_before_anything_is_measured(command, package, measured_as):
    runs = measured_as(1.1)
    (package / "new.py").write_text("\n")
    assert "is dirty (new.py)" in command("write", "lesson").stderr
    assert runs.asked == []


def test_a_pattern_of_another_goal(command, measured_as):
    measured_as(1.1)
    found = command("write", "lesson", "--goal", "memory")
    assert (found.exit_code, found.stderr) == (
        2,
        "aiperf: no target of 'lesson' has the goal memory. See: aiperf list\n",
    )


def test_several_files_make_one_table():
    variants = [Judgement(f"{name}:fused", None, None, "NEW") for name in ("a.softmax", "b.matmul")]
    pages = [JudgedPage(KEY, Path(f"{one.name[0]}.json"), [one]) for one in variants]
    result = view("run", [*pages, JudgedPage(KEY, Path("c.json"), None)], 3)
    assert result.summary[0] == (
        "0 variants checked (0 below the threshold), 5 without a threshold (2 NEW, 3 without a file)"
    )
    (table,) = result.tables
    assert (table.title, table.columns[0].key) == ("2 files of expectations", "implementation")
    assert [record.cells["implementation"] for record in table.records] == ["a.softmax:fused", "b.matmul:fused"]
    (other,) = view("run", [pages[0], attrs.evolve(pages[1], hardware="nvidia-b200-x1")], 0).tables
    assert [record.cells["machine"] for record in other.records] == [KEY, "nvidia-b200-x1"]
    assert other.columns[0].key == "machine"
