import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from aiperf_core.cli.main import Shell
from aiperf_core.cli.profile import profiling
from aiperf_core.cli.screen import Screen
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.plugins import Plugins, load_plugins
from aiperf_core.profiling import store

pytestmark = pytest.mark.quiet

PLUGIN = """
from aiperf_core.profiler import MetricSet, Profiler

@hookimpl
def aiperf_profilers():
    yield Profiler("never", "is never there", "aiperf_acme.never:Never")

    yield Profiler("quick", "profiles nothing", "aiperf_acme.never:Quick")

@hookimpl
def aiperf_metrics():
    yield MetricSet("banks", tool="ncu", metrics=("x.sum",), summary="bank conflicts")
"""
NEVER = """
import json

from aiperf_core.profiler import Observed
from aiperf_core.profiler import Pace


class Never:
    def __init__(self, job):
        self.job = job

    def unavailable(self):
        return f"it looks at no {self.job.device}; use another"


class Quick:
    pace = Pace(1, 1.0)

    def __init__(self, job):
        self.job = job

    def unavailable(self):
        return None

    def commands(self, argv, folder):
        told = {"calls": 1, "in_a_row": 1, "call_s": [0.5], "cost": {"bytes_read": 4, "bytes_written": 0}}
        (folder / "told").write_text(json.dumps(told))
        return [["cp", str(folder / "told"), str(folder / "subject.json")]]

    def remedy(self, log):
        return None

    def summarise(self, folder, calls):
        return Observed(version="1", files=["told"])
"""


def profile(*arguments: str, plugins: Plugins | None = None) -> Result:
    return CliRunner().invoke(Shell(plugins or load_plugins()), ["profile", *arguments])


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profiles") / "new"


@pytest.fixture(scope="module")
def document(out: Path) -> Any:
    """One real pass over a baseline and a variant, on the processor, by the torch profiler."""
    # Beside fewer rows the operator's wrapper takes as long by chance.
    size = ("--size", "smoke", "--set", "rows=1031")
    result = profile("practice.softmax", "--device", "cpu", *size, "--out", str(out), "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == ["profiling library ...", "profiling kept_output ..."]
    return json.loads(result.stdout)


def test_the_operators_of_both_are_found(document: Any) -> None:
    assert [one["implementation"] for one in document["profiles"]] == ["library", "kept_output"]
    for one in document["profiles"]:
        seen = one["observed"]
        assert seen["hot"][0]["name"] == "aten::_softmax"
        assert seen["figures"]["operators"] == 2
        # By the trace, in which the profiler itself takes time: no less than a call, and no more than a tenth of a second.
        assert 0.5 * min(one["taken_s"]) <= seen["figures"]["call_s"] < 0.1
        assert 0 < seen["hot"][0]["share"] <= 1
        # 1031 rows of 1021 floats are read and written.
        assert one["cost_bytes"] == 2 * 4 * 1031 * 1021
        assert seen["figures"]["bytes_per_s"] == pytest.approx(one["cost_bytes"] / seen["figures"]["call_s"])


def test_both_are_held_against_each_other(document: Any) -> None:
    (one,) = document["contrasts"]
    assert (one["left"], one["right"]) == ("library", "kept_output")
    assert one["conclusion"].startswith("Under torch ")


def test_the_traces_are_kept_with_their_hashes(document: Any, out: Path) -> None:
    assert document["folder"] == str(out)
    for one in document["profiles"]:
        folder = store.folder_of(out, "practice.softmax", one["implementation"])
        found = store.read(folder)
        assert [artifact.name for artifact in found.artifacts] == ["torch.trace.json.gz"]
        assert list(store.damaged(folder, found)) == []


@pytest.fixture
def plugins(site: Any) -> Plugins:
    """The targets that are installed, and the profilers of a made-up distribution."""
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/never.py", NEVER)
    found = site.load()
    assert found.set_aside == []
    return evolve(load_plugins(), profilers=found.profilers, metrics=found.metrics)


def test_a_profiler_that_is_not_there_says_why(plugins: Plugins, tmp_path: Path) -> None:
    out = tmp_path / "new"
    result = profile("practice.softmax", "--device", "cpu", "--tool", "never", "--out", str(out), plugins=plugins)
    assert result.exit_code == 1
    assert result.stderr == (
        "aiperf: 'never' cannot profile 'practice.softmax' here: it looks at no cpu; use another.\n"
    )
    assert not out.exists()


def test_a_run_profiles_what_it_measured(plugins: Plugins, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["practice.softmax", "--device", "cpu", "--size", "smoke", "--budget", "0.01", "--quiet"]
    result = CliRunner().invoke(Shell(plugins), ["run", *arguments, "--out", str(out), "--profile", "quick"])
    assert (out / "targets/practice.softmax.json").exists()
    assert store.read(store.folder_of(out, "practice.softmax", "kept_output")).tool == "quick"
    assert result.stdout.index("practice.softmax:library - quick - cpu") > result.stdout.index("kept_output")
    assert CliRunner().invoke(Shell(plugins), ["recheck", str(out), "--seal-only"]).exit_code == 0


def test_a_run_whose_profiler_is_missing_measures_nothing(plugins: Plugins, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["practice.softmax", "--device", "cpu", "--size", "smoke", "--budget", "0.01", "--quiet"]
    result = CliRunner().invoke(Shell(plugins), ["run", *arguments, "--out", str(out), "--profile", "never"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "aiperf: 'never' cannot profile 'practice.softmax' here: it looks at no cpu; use another. "
        "Nothing was measured. To measure without profiles, omit --profile.\n"
    )
    assert not out.exists()


def test_what_cannot_be_profiled_costs_a_run_nothing(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise SkipError("'never' cannot profile 'a.b' here: install it.")

    monkeypatch.setattr("aiperf_core.profiling.passes.profile_target", refuse)
    bundle = SimpleNamespace(path=Path())
    run, said = SimpleNamespace(plugins=plugins, bundle=bundle, before=lambda *_: None), io.StringIO()
    profiling(run, "never", None, Screen(said), quiet=True)  # type: ignore[arg-type]
    run.after(SimpleNamespace(name="a.b", device="cpu"), SimpleNamespace(hardware_of=lambda device: None))  # type: ignore[arg-type]
    assert said.getvalue() == "no profile of a.b: 'never' cannot profile 'a.b' here: install it.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tool", "nsy"), "'nsy' is not a profiler. Did you mean 'nsys'? There are: torch, nsys, ncu, perf"),
        (("--tool", "perf", "--metrics", "memory"), "'memory' is not a metric set of perf. It has: cache ("),
        (("--timeout", "0"), "--timeout takes a number of seconds above 0; got 0."),
        (("--set", "rows"), "--set takes NAME=NUMBER, such as --set n=1e6; got 'rows'."),
    ],
)
def test_mistakes_are_told_before_anything_runs(arguments: tuple[str, ...], message: str) -> None:
    result = profile("practice.softmax", *arguments)
    assert result.exit_code == UsageError.exit_code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
