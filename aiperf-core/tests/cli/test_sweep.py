"""Sweeps as a user runs them and reads them again: with recorded results instead of measured ones."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import attrs
import pytest
import swept
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.harness.run import bundle_run as run_module
from aiperf_core.plugins import load_plugins
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import SkippedTarget, Verdict
from aiperf_core.stats.recheck import recheck
from aiperf_core.sweep import point_name

spec = spec_from_file_location("killed_runs", Path(__file__).parents[1] / "harness" / "killed_runs.py")
killed_runs = module_from_spec(spec)
spec.loader.exec_module(killed_runs)

CODE = killed_runs.CODE
TOO_LARGE = 10**9


class SweptPlanner(killed_runs.RecordedPlanner):
    """Records of a workload with the parameters `m` and `n`, which fails at the size TOO_LARGE."""

    def plan(self, selections):
        plans, skipped = super().plan(selections)
        sizes = {"m": 1, "n": 7}
        return [
            attrs.evolve(
                one,
                params={
                    **sizes,
                    **{k: int(v) for k, v in {**self.options.params, **dict(one.selection.point)}.items()},
                },
            )
            for one in plans
        ], skipped

    def run(self, plan, log_path, reporter):
        result = super().run(plan, log_path, reporter)
        if plan.params["n"] == TOO_LARGE:
            return SkippedTarget(plan.name, Verdict.FAILED, f"'{plan.name}' could not be set up: ran out of memory")
        return attrs.evolve(result, problem=attrs.evolve(result.problem, params=plan.params))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder to run in, without a machine to measure."""
    killed_runs.prepare(monkeypatch.setattr)

    class Recorded(dict):
        def __missing__(self, name):
            return attrs.evolve(self[name.partition("@")[0]], target=name)

    monkeypatch.setattr(killed_runs, "RECORDED", Recorded(killed_runs.RECORDED))
    monkeypatch.setattr(run_module, "Planner", SweptPlanner)
    monkeypatch.setattr(SweptPlanner, "cut_short", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def aiperf(*arguments, targets=killed_runs.TARGETS):
    plugins = attrs.evolve(load_plugins([]), targets=killed_runs.plugins(targets).targets)
    return CliRunner().invoke(Shell(plugins), list(map(str, arguments)))


def measured(*arguments):
    done = aiperf("run", "acme.one", *arguments, "--out", "a run", "--quiet")
    assert done.exit_code == CODE, done.stderr
    return done


# --- measuring


def test_a_sweep_is_one_bundle_with_a_result_for_each_point():
    done = measured("--set", "n=100,1e1", "--set", "m=3")
    bundle = Bundle.open(Path("a run"))
    assert sorted(bundle.targets) == ["acme.one@n=10", "acme.one@n=100"]
    assert [bundle.target(name).problem.params for name in sorted(bundle.targets)] == [
        {"m": 3, "n": 10},
        {"m": 3, "n": 100},
    ]
    assert recheck(bundle).holds
    # A single table, in the order of the parameter.
    assert done.stdout.count("median") == 1
    assert "acme.one: cuda, sweep of n, 2 points" in done.stdout
    assert done.stdout.index("\n 10  strided") < done.stdout.index("\n100  strided")
    assert done.stdout.endswith("\nresults       a run\n")


def test_the_request_names_the_points_and_their_sizes():
    measured("--set", "n=1,2", "--set", "m=3")
    (one, two) = Bundle.open(Path("a run")).manifest.request.targets
    assert (one.target, one.params) == ("acme.one@n=1", {"m": 3.0, "n": 1.0})
    assert (two.target, two.params) == ("acme.one@n=2", {"m": 3.0, "n": 2.0})


def test_a_run_without_a_sweep_has_the_names_that_it_had():
    done = measured("--set", "n=5")
    manifest = Bundle.open(Path("a run")).manifest
    assert list(Bundle.open(Path("a run")).targets) == ["acme.one"]
    assert [(one.target, one.params) for one in manifest.request.targets] == [("acme.one", {"n": 5.0})]
    assert "sweep" not in done.stdout


def test_json_has_the_parameters_of_each_point():
    done = measured("--set", "n=1,2", "--json")
    targets = json.loads(done.stdout)["targets"]
    assert [(one["target"], one["problem"]["params"]) for one in targets] == [
        ("acme.one@n=1", {"m": 1, "n": 1}),
        ("acme.one@n=2", {"m": 1, "n": 2}),
    ]


def test_a_size_that_fails_costs_only_its_point():
    done = aiperf("run", "acme.one", "--set", f"n=1,{TOO_LARGE},2", "--out", "a run", "--quiet")
    bundle = Bundle.open(Path("a run"))
    assert sorted(bundle.targets) == ["acme.one@n=1", "acme.one@n=2"]
    assert [one.target for one in bundle.manifest.skipped] == [f"acme.one@n={TOO_LARGE}"]
    assert bundle.manifest.complete
    assert "FAILED" in done.stdout
    assert "could not be set up: ran out of memory" in " ".join(done.stdout.split())
    assert recheck(bundle).holds


def test_every_selected_target_is_swept():
    aiperf("run", "acme.one", "acme.two", "--set", "n=1,2", "--out", "a run", "--quiet")
    assert sorted(Bundle.open(Path("a run")).targets) == [
        f"acme.{name}@n={n}" for name in ("one", "two") for n in (1, 2)
    ]


# --- an interrupted sweep


@pytest.fixture
def interrupted(monkeypatch):
    """The folder of a sweep that Ctrl-C ended at its second point."""
    monkeypatch.setattr(SweptPlanner, "cut_short", "acme.one@n=2")
    done = aiperf("run", "acme.one", "--set", "n=1,2,4", "--out", "a run", "--quiet")
    assert done.exit_code == 130
    monkeypatch.setattr(SweptPlanner, "cut_short", None)
    return done


def test_an_interrupted_sweep_shows_what_it_has_and_continues_at_the_point(interrupted):
    assert interrupted.stderr.endswith("resume with: aiperf run --resume 'a run'\n")
    assert "interrupted at n=2: figures are partial" in interrupted.stdout
    done = aiperf("run", "--resume", "a run", "--quiet", "--picture", "sweep.svg")
    assert done.exit_code == CODE, done.stderr
    assert SweptPlanner.last.ran == ["acme.one@n=2", "acme.one@n=4"]
    assert "sweep of n, 3 points" in done.stdout
    assert "interrupted" not in done.stdout
    assert Path("sweep.svg").exists()
    bundle = Bundle.open(Path("a run"))
    assert sorted(bundle.targets) == ["acme.one@n=1", "acme.one@n=2", "acme.one@n=4"]
    assert recheck(bundle).holds


def test_the_same_sweep_may_be_given_again(interrupted):
    done = aiperf("run", "--resume", "a run", "acme.one", "--set", "n=1:4:x2", "--quiet")
    assert done.exit_code == CODE, done.stderr


@pytest.mark.parametrize("given", ["n=1,2", "n=1", "m=1,2,4"])
def test_another_sweep_is_refused(interrupted, given):
    done = aiperf("run", "--resume", "a run", "--set", given, "--quiet")
    assert done.exit_code == 2
    assert done.stderr.startswith("aiperf: --set differs from the run in 'a run': given ")
    assert "recorded n=1, n=2, n=4." in done.stderr


# --- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "n=1,many"], "--set n takes a number, such as 4096 or 1e6; got 'many'."),
        (["--set", "n=1", "--set", "n=2"], "--set n was given twice; give all values at once: --set n=1e6,1e7"),
        (
            ["--set", "n=1:100:1"],
            "--set asks for 100 points (n: 100); at most 64 are accepted. Give fewer values, or raise the limit: "
            "--max-points 100",
        ),
        (
            ["--set", "n=1,2,3", "--max-points", "2"],
            "--set asks for 3 points (n: 3); at most 2 are accepted. Give fewer values, or raise the limit: --max-points 3",
        ),
        (
            ["--set", "m=1,2", "--set", "n=1,2", "--size", "smoke"],
            "--size smoke conflicts with --set: 'acme.one' has no parameters besides m, n, and --set gives them all. "
            "Leave out --size.",
        ),
        (
            ["--set", "n=1", "--picture", "a.svg"],
            "--picture draws a sweep: give a parameter several values, such as --set n=1e6,1e7",
        ),
        (
            ["--set", "n=1,2", "--picture", "a.gif"],
            "'a.gif' is not .svg, .png or .pdf; give --picture a name that ends in one of them.",
        ),
        (
            ["--set", "n=1,2", "--nnodes", "2"],
            "--nnodes cannot be combined with a sweep; give each --set a single value.",
        ),
    ],
)
def test_what_is_refused_before_anything_is_measured(here, arguments, message):
    done = aiperf("run", "acme.one", *arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"aiperf: {message}\n")
    assert list(here.iterdir()) == []


def test_the_size_of_the_parameters_that_are_not_swept_may_be_chosen():
    measured("--set", "n=1,2", "--size", "smoke")


def test_other_commands_take_a_single_value():
    done = aiperf("profile", "acme.one", "--set", "n=1,2")
    assert done.exit_code == 2
    assert done.stderr == "aiperf: --set n takes a single number here; got 2 values. For a sweep: aiperf run\n"


# --- a stored sweep


@pytest.fixture
def stored(tmp_path):
    swept.bundle(tmp_path / "then", [swept.point(n=10), swept.point(1, n=100), swept.failed(n=1000)])
    return "then"


def test_a_stored_sweep_is_shown_as_it_was_when_it_was_measured():
    ran = measured("--set", "n=1,2")
    assert aiperf("sweep", "a run").stdout == ran.stdout


def test_a_picture_of_a_stored_sweep(stored):
    done = aiperf("sweep", stored, "--picture", "sweep.svg")
    assert (done.exit_code, done.stdout.splitlines()[-2:]) == (0, ["results       then", "picture       sweep.svg"])
    assert done.stderr.splitlines() == [
        "left out of the picture: ch07.memory_access@n=10:remembered: INVALID",
        "left out of the picture: ch07.memory_access@n=100:remembered: INVALID",
        "left out of the picture: ch07.memory_access@n=1000: FAILED",
    ]
    text = Path("sweep.svg").read_text()
    assert ">ch07.memory_access: time of a call against n</text>" in text
    assert "NVIDIA H200" in text


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_bytes_from_the_same_sweep(stored, kind):
    if kind != "svg":
        pytest.importorskip("vl_convert")
    for name in ("one", "two"):
        assert aiperf("sweep", stored, "--picture", f"{name}.{kind}").exit_code == 0
    assert Path(f"one.{kind}").read_bytes() == Path(f"two.{kind}").read_bytes()


def test_a_sweep_as_json(stored):
    done = aiperf("sweep", f"{stored}:{swept.TARGET}", "--json")
    ((found,), bundle) = (json.loads(done.stdout)[name] for name in ("sweeps", "bundle"))
    assert (bundle, found["target"], found["parameters"]) == ("then", swept.TARGET, ["n"])
    assert [(one["values"]["n"], one["implementation"], one["verdict"]) for one in found["rows"]] == [
        *(
            (n, *row)
            for n in (10, 100)
            for row in (("strided", "MEASURED"), ("coalesced", "FASTER"), ("remembered", "INVALID"))
        ),
        (1000, None, "FAILED"),
    ]


def test_a_bundle_without_a_sweep_is_refused(tmp_path):
    swept.bundle(tmp_path / "then", [attrs.evolve(swept.point(), target=swept.TARGET)])
    done = aiperf("sweep", "then")
    assert (done.exit_code, done.stderr) == (
        2,
        "aiperf: 'then' holds no sweep. Measure one with several values of a parameter, such as: aiperf run TARGET --set "
        "n=1e6,1e7\n",
    )


def test_a_picture_without_a_believed_row_is_not_written(tmp_path):
    doubted = [
        attrs.evolve(row, verdict=Verdict.INVALID, reason="a reason", speedup=None, step_speedup=None)
        for row in swept.point().rows
    ]
    swept.bundle(tmp_path / "then", [attrs.evolve(swept.point(n=n), rows=doubted) for n in (1, 2)])
    done = aiperf("sweep", "then", "--picture", "sweep.svg")
    assert done.exit_code == 0
    assert done.stderr.endswith("no picture was written: no row of the sweep is believed\n")
    assert not Path("sweep.svg").exists()


@pytest.mark.parametrize("command", ["show", "recheck", "export", "report", "roofline"])
def test_the_commands_of_bundles_read_a_point(stored, command):
    out = {"report": ["--out", "a.html"], "roofline": ["--out", "a.svg"], "export": ["--format", "csv"]}.get(
        command, []
    )
    where = stored if command == "recheck" else f"{stored}:{swept.TARGET}@n=1e2"
    done = aiperf(command, where, *out)
    assert done.exit_code == 0, done.output
    said = done.stdout + "".join(file.read_text() for file in Path().glob("a.*"))
    assert (point_name(swept.TARGET, {"n": 100}) in said) or command == "recheck"
    assert point_name(swept.TARGET, {"n": 10}) + ":" not in said


# --- comparing two sweeps

# What few samples with the same time allow to say.
CLOSE = "INCONCLUSIVE"


def compared(*arguments):
    found = json.loads(aiperf("compare", *arguments, "--json").stdout)
    return {(one["target"], one["implementation"]): (one["verdict"], one["reason"]) for one in found["rows"]}


def test_two_sweeps_are_compared_point_by_point(stored, tmp_path):
    slower = {"strided": 1.0, "coalesced": 0.6}
    swept.bundle(tmp_path / "now", [swept.point(2, n=10), swept.point(3, factors=slower, n=100), swept.point(n=5)])
    found = compared(stored, "now")
    assert found["ch07.memory_access@n=10", "coalesced"][0] == CLOSE
    assert found["ch07.memory_access@n=100", "coalesced"][0] == "SLOWER"
    assert found["ch07.memory_access@n=5", "coalesced"] == (None, "only in the right run")
    assert aiperf("compare", stored, "now").exit_code == 4
    assert set(compared(f"{stored}:{swept.TARGET}@n=1e1", "now")) >= {("ch07.memory_access@n=10", "coalesced")}


def test_points_are_matched_by_all_their_sizes(tmp_path):
    """The sides may sweep other parameters, or have measured a point alone."""
    swept.bundle(tmp_path / "a", [swept.point(n=10, also={"m": 5}), swept.point(n=20, also={"m": 5})])
    swept.bundle(tmp_path / "b", [swept.point(1, n=10, m=5), swept.point(1, n=10, m=6)])
    alone = attrs.evolve(swept.point(1, also={"n": 20, "m": 5}), target=swept.TARGET)
    swept.bundle(tmp_path / "c", [alone])
    found = compared("a", "b")
    assert found["ch07.memory_access@n=10", "coalesced"][0] == CLOSE
    assert found["ch07.memory_access@m=6,n=10", "coalesced"] == (None, "only in the right run")
    assert found["ch07.memory_access@n=20", "coalesced"] == (None, "only in the left run")
    assert compared("a", "c")["ch07.memory_access@n=20", "coalesced"][0] == CLOSE


def test_an_implementation_of_a_sweep_needs_a_point(stored):
    done = aiperf("compare", f"{stored}:{swept.TARGET}:strided", f"{stored}:{swept.TARGET}:coalesced")
    assert done.exit_code == 2
    assert "a sweep; name a point, such as ch07.memory_access@n=10" in done.stderr
    at = f"{stored}:{swept.TARGET}@n=10"
    assert aiperf("compare", f"{at}:strided", f"{at}:coalesced").exit_code == 0
