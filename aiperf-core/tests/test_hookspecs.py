"""Every hook, by the example in its documentation. A hook without a heading there, or without a test here, fails."""

import ast
import inspect
import logging
import re
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from attrs import evolve, fields
from click.testing import CliRunner

from aiperf_core import events, hookspecs
from aiperf_core.candidate_format import Code
from aiperf_core.cli.main import Shell
from aiperf_core.contributions import CONTRIBUTIONS
from aiperf_core.devices.timing import TimingDevice
from aiperf_core.errors import SkipError
from aiperf_core.executor import WorkerSpec
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.measurements import Samples
from aiperf_core.observers import HOOKS, OBSERVER_HOOKS
from aiperf_core.plugins import Plugins
from aiperf_core.testing import fleet_conformance
from aiperf_core.validity.check import NotObserved
from aiperf_core.validity.evidence import Evidence

DOCS = Path(__file__).parents[2] / "docs" / "hooks.md"


def sections():
    """Map each heading of the documentation to its examples."""
    parts = re.split(r"^## `(.+)`$", DOCS.read_text(), flags=re.MULTILINE)[1:]
    examples = [re.findall(r"```python\n(.*?)```", text, re.DOTALL) for text in parts[1::2]]
    return dict(zip(parts[::2], examples, strict=True))


def signature(hook):
    """Return a hook's signature as its source spells it."""
    (function,) = ast.parse(inspect.getsource(getattr(hookspecs, hook))).body
    return f"{hook}({ast.unparse(function.args)}) -> {ast.unparse(function.returns)}"


def example(hook, number=0):
    return sections()[signature(hook)][number]


def installed(site, hook, **modules):
    """Install the first example of a hook, and modules with their text, which loading does not import."""
    site.install("aiperf-acme", example(hook))
    for name, text in modules.items():
        site.write(f"aiperf_acme/{name}.py", text)
    plugins = site.load()
    assert plugins.set_aside == []
    assert not {f"aiperf_acme.{name}" for name in modules} & {*sys.modules}
    return plugins


def observe(site, caplog, hook, **event):
    """Install the example of an observer, tell it of an event, and return what it logs."""
    plugins = installed(site, hook)
    assert plugins.loaded[1].hooks == (hook,)
    with caplog.at_level(logging.INFO):
        getattr(plugins.hook, hook)(**event)
    assert plugins.set_aside == []
    return caplog.messages


def test_the_documentation_has_the_hooks_in_their_order_with_their_signatures():
    assert list(sections()) == [signature(hook) for hook in HOOKS]


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_an_example_a_docstring_and_a_test(hook):
    assert f"def {hook}(" in example(hook)
    assert inspect.getdoc(getattr(hookspecs, hook))
    assert f"test_{hook}" in globals()


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_says_when_it_is_called(hook):
    section = DOCS.read_text().partition(f"## `{signature(hook)}`")[2].partition("\n## ")[0]
    assert "Called " in section
    assert "Called " in inspect.getdoc(getattr(hookspecs, hook))


def test_a_hook_is_an_observer_or_has_its_line_among_the_contributions():
    assert [*(one.hook for one in CONTRIBUTIONS), *OBSERVER_HOOKS] == list(HOOKS)


@pytest.mark.parametrize("contribution", CONTRIBUTIONS, ids=lambda one: one.name)
def test_every_contribution_is_what_its_hook_returns_and_is_held_by_plugins(contribution):
    returned = inspect.get_annotations(getattr(hookspecs, contribution.hook))["return"]
    assert returned == Iterable[contribution.kind]
    assert contribution.name in {one.name for one in fields(Plugins)}
    assert f"`{contribution.hook}`" in hookspecs.__doc__


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_typed(hook):
    annotations = inspect.get_annotations(getattr(hookspecs, hook))
    assert "return" in annotations
    assert annotations.keys() - {"return"} == set(inspect.signature(getattr(hookspecs, hook)).parameters)


def test_aiperf_targets(site):
    plugins = installed(site, "aiperf_targets")
    assert [(target.name, target.module) for target in plugins.targets] == [("acme.gather", "aiperf_acme.gather")]


def test_aiperf_commands(site):
    plugins = installed(site, "aiperf_commands")
    assert CliRunner().invoke(Shell(plugins), ["count"]).stdout == "0 benchmarks\n"


def test_aiperf_issues(site):
    plugins = installed(site, "aiperf_issues")
    assert plugins.issues["serving.dropped_requests"].distribution == "aiperf-acme"
    shown = CliRunner().invoke(Shell(plugins), ["validity", "serving"]).stdout
    assert "serving.dropped_requests  request_census  none yet  Requests that are dropped are not counted\n" in shown


def test_aiperf_checks(site):
    plugins = installed(site, "aiperf_checks")
    (one,) = [one.record for one in plugins.checks if one.distribution == "aiperf-acme"]
    evidence = Evidence(name="a", role="variant", device="cpu", clock="wall", cache="cold")
    assert one.look(evidence) == NotObserved("0 samples have a wall time; it takes 20")
    assert one.look(evolve(evidence, samples=Samples(wall_s=[1.0] * 20))) == []
    (seen,) = one.look(evolve(evidence, samples=Samples(wall_s=[1.0] * 19 + [100.0])))
    assert (seen.issue, seen.message) == (
        "serving.work_put_off",
        "a call takes 5.95 s on average, and 1 s in the middle",
    )


def test_aiperf_attacks(site):
    plugins = installed(site, "aiperf_attacks")
    cases = [one.record for one in plugins.attacks if one.distribution == "aiperf-acme"]
    assert [(one.issue, one.implementation, one.honest) for one in cases] == [
        ("output.wrong_values", "rounded", False),
        ("output.wrong_values", "reordered", True),
    ]
    shown = CliRunner().invoke(Shell(plugins), ["validity", "output.wrong_values"]).stdout
    assert "attack             sums:rounded (cpu)\n" in shown
    assert "honest look-alike  sums:reordered (cpu)\n" in shown


def test_aiperf_recordings(site):
    plugins = installed(site, "aiperf_recordings")
    (one,) = [one.record for one in plugins.recordings if one.distribution == "aiperf-acme"]
    assert (one.issue, one.file, one.honest) == (
        "environment.virtualization_overhead",
        "aiperf_acme:recordings/virtual.json",
        False,
    )


def test_aiperf_profilers(site):
    plugins = installed(site, "aiperf_profilers")
    assert [*plugins.profilers] == ["torch", "nsys", "ncu", "perf", "cprofile"]
    assert plugins.profilers["cprofile"].distribution == "aiperf-acme"
    assert "aiperf_acme.cprofile" not in sys.modules


def test_aiperf_metrics(site):
    plugins = installed(site, "aiperf_metrics")
    assert plugins.metrics["banks"].record.tool == "ncu"
    assert plugins.metrics["banks"].distribution == "aiperf-acme"


def test_aiperf_devices(site):
    plugins = installed(site, "aiperf_devices", xpu=example("aiperf_devices", 1))
    assert [*plugins.known_devices] == ["cuda", "cpu", "xpu"]
    assert plugins.devices["xpu"].distribution == "aiperf-acme"
    kind = plugins.known_devices["xpu"].resolve()
    with pytest.raises(SkipError, match="torch finds no Intel GPU"):
        kind.probe()
    timer = kind.open(0, all_streams=True)
    assert {name for name in vars(TimingDevice) if not name.startswith("_")} <= {*dir(timer)}


def test_aiperf_executors(site):
    plugins = installed(site, "aiperf_executors", nice=example("aiperf_executors", 1))
    assert [*plugins.known_executors] == ["here", "torchrun", "nice"]
    executor = plugins.known_executors["nice"].resolve(None)
    crew = executor.start(WorkerSpec(name="a", log=site.folder / "log", ranks=0, memory_limit_bytes=None))
    with pytest.raises(ChildError, match="no attribute 'do_nothing'"):
        crew.ask("nothing", timeout=60)
    crew.kill()
    executor.close()
    assert executor.exit_code(crew.pid) == -signal.SIGKILL


def test_aiperf_formats(site):
    plugins = installed(site, "aiperf_formats", solve=example("aiperf_formats", 1))
    assert [*plugins.known_formats] == ["aiperf", "kernelbench", "flashinfer-trace", "solve"]
    kind = plugins.known_formats["solve"].resolve()
    assert kind.code(site.folder, b"def solve(x): ...") == Code("def solve(x): ...", "solve")
    assert kind.adapt(lambda x: 2 * x, ["x"])().run(x=3) == 6


def test_aiperf_analyses(site):
    plugins = installed(
        site, "aiperf_analyses", noise="def analyze(selection, options):\n    return selection, options\n"
    )
    analysis = plugins.analyses["noise"]
    assert (analysis.record.summary, analysis.distribution) == (
        "How wide the intervals of each target are",
        "aiperf-acme",
    )
    assert analysis.record.resolve()(1, 2) == (1, 2)


def test_aiperf_documents(site):
    plugins = installed(
        site, "aiperf_documents", loads="class Reader:\n    def render(self, document):\n        return [document]\n"
    )
    kind = plugins.known_documents["load"]
    assert kind.summary == "Loads on a server"
    assert kind.resolve().render("whole") == ["whole"]
    site.write("aiperf_acme/schemas/load.json", "{}")
    assert kind.read_schema() == b"{}"


def test_aiperf_schemas(site):
    plugins = installed(site, "aiperf_schemas")
    schema = plugins.schemas["acme-suite"].record
    assert schema.files == "the suite of aiperf acme"
    site.write("aiperf_acme/schemas/acme-suite.json", "{}")
    assert schema.read_schema() == b"{}"


def test_aiperf_fleets(site):
    plugins = installed(site, "aiperf_fleets", idle=example("aiperf_fleets", 1))
    fleet = plugins.known_fleets["idle"]
    assert fleet.summary == "This machine, at the lowest priority"
    assert fleet_conformance(lambda folder: fleet.resolve(folder, {}), site.folder) == []


def test_aiperf_run_started(site, caplog):
    run = events.RunStarted(targets=("a.b", "a.c"), device="cpu", bundle="artifacts/x")
    assert observe(site, caplog, "aiperf_run_started", run=run) == ["2 benchmarks on cpu"]


def test_aiperf_target_started(site, caplog):
    target = events.TargetStarted(name="a.b", index=1, total=2)
    assert observe(site, caplog, "aiperf_target_started", target=target) == ["a.b (1 of 2)"]


def test_aiperf_progress(site, caplog):
    progress = events.Progress(target="a.b", phase="sampling", samples=3)
    assert observe(site, caplog, "aiperf_progress", progress=progress) == ["a.b: sampling, 3 samples"]


def test_aiperf_target_finished(site, caplog):
    result = events.TargetFinished(name="a.b", verdicts={"wide": "FASTER"}, path="artifacts/x/a.b.json")
    assert observe(site, caplog, "aiperf_target_finished", result=result) == ["a.b:wide FASTER"]


def test_aiperf_run_finished(site, caplog):
    bundle = events.RunFinished(path="artifacts/x", exit_code=0)
    assert observe(site, caplog, "aiperf_run_finished", bundle=bundle) == ["exit code 0, results in artifacts/x"]


def test_the_contract_is_imported_without_click():
    assert "aiperf_core.commands" in sys.modules
    assert not hasattr(sys.modules["aiperf_core.commands"], "click")
