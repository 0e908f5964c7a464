"""For the tests of a package of benchmarks: measure targets as `aiperf run` does, and check a plugin's contract.

Nothing is written to a bundle. `pytest --aiperf` tests every target; see `aiperf_core.pytest_plugin`.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from attrs import asdict, evolve

from aiperf_core.audit import Setting
from aiperf_core.described import TargetRef
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.fleet_check import fleet_conformance as fleet_conformance
from aiperf_core.harness.processes.child import Child, ForkServer
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Known, Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.setup import Plan
from aiperf_core.loading import load_benchmark
from aiperf_core.observers import describe
from aiperf_core.plugins import Plugins, load_plugins
from aiperf_core.results.models import SkippedTarget, TargetResult, Verdict
from aiperf_core.targets import InstalledTarget, Selection
from aiperf_core.validity.cases import Case

# What the fixture `aiperf_measure` is: `Measuring.measure`.
Measure = Callable[..., TargetResult]

BUDGET_S = 0.02
# What every process imports that compiles or saves a model: more than a second, spent once for all targets.
COMPILER = ("torch._dynamo",)
# Guards of times take time, and a busy machine sets them off. A test is about right and wrong.
OF_TIMES = frozenset({"clocks_agree", "cold_cache", "faster_than_light", "process_census"})

_OMP_WAIT_POLICY = "OMP_WAIT_POLICY"

# Longer lines break in the listings of a terminal.
SUMMARY_WIDTH = 100

# Loads the plugins as every command does, where what must not be imported ends whoever imports it, and says who that
# was.
_DISCOVERY = """
import json
import sys

from aiperf_core.plugins import HEAVY, load_plugins


class HeavyImport(BaseException):
    pass


class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HEAVY:
            raise HeavyImport(f"the import of {name!r}, which slows every command")


sys.meta_path.insert(0, Refusing())
plugins = load_plugins()
json.dump(
    {
        "aside": [[one.distribution, one.entry_point, one.reason] for one in plugins.set_aside],
        "notes": [[one.distribution, one.entry_point, note] for one in plugins.loaded for note in one.notes],
    },
    sys.stdout,
)
"""


class Measuring:
    """Measures installed targets, one call each; a context manager, since its fork server imports torch only once.

    The budget is short, and guards of times are off: the verdicts of such runs say nothing about speed, and everything
    about right and wrong. Threads of its processes that wait for others sleep instead of spinning, unless
    `OMP_WAIT_POLICY` says
    otherwise: tests share a machine. `planner` has the processes.
    """

    def __init__(self) -> None:
        self._waits_passively = _OMP_WAIT_POLICY not in os.environ
        os.environ.setdefault(_OMP_WAIT_POLICY, "passive")
        self._folder = tempfile.TemporaryDirectory(prefix="aiperf-test-")
        self._plugins = load_plugins()
        known = Known(devices=self._plugins.known_devices)
        self.planner = Planner(Options(known=known), Path(self._folder.name), server=ForkServer(COMPILER))
        self._linters: dict[tuple[str, str], Child] = {}

    def __enter__(self) -> "Measuring":
        return self

    def __exit__(self, *_: object) -> None:
        self.planner.__exit__()
        self._folder.cleanup()
        if self._waits_passively:
            os.environ.pop(_OMP_WAIT_POLICY, None)

    def measure(self, target: str, *, device: str = "cpu", size: str = "smoke", **params: float) -> TargetResult:
        """Measure a target (or one implementation of it) at a size; `params` override single sizes.

        Raises `UsageError` for what is not there, and `AssertionError` with the reason where it could not be run.
        """
        (selection,) = self._plugins.select([target])
        result = self.attempt(selection, short_run(device, params, size))
        if isinstance(result, SkippedTarget):
            raise AssertionError(f"{result.verdict}: {result.reason}")
        return result

    def attempt(self, selection: Selection, options: Options) -> TargetResult | SkippedTarget:
        """Measure a chosen target, or say why it was not.

        Raises `UsageError` for options that it does not take, and `KeyboardInterrupt` where Ctrl-C ended it.
        """
        plans, skipped = self.plan(selection, options)
        return skipped[0] if skipped else self.run(plans[0])

    def plan(self, selection: Selection, options: Options) -> tuple[list[Plan], list[SkippedTarget]]:
        """Decide device and sizes of a chosen target. Raises `UsageError` for options that it does not take."""
        known = evolve(options.known, devices=self._plugins.known_devices)
        self.planner.options = evolve(options, known=known)
        return self.planner.plan([selection])

    def run(self, plan: Plan) -> TargetResult | SkippedTarget:
        """Measure as planned last, or say why it was not. Raises `KeyboardInterrupt` where Ctrl-C ended it."""
        return self.planner.run_whole(plan, self._log_path, Silent())

    def linter(self, target: InstalledTarget, device: str) -> Child:
        """The process that lints the targets of a package on a device; a new one where that has ended."""
        key = target.module.partition(".")[0], device
        for other, linter in list(self._linters.items()):
            if other != key or linter.ended:
                self._linters.pop(other).kill()
        if key not in self._linters:
            self._linters[key] = self.planner.spawn("linter", f"linter-{'-'.join(key)}")
        return self._linters[key]

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that are here."""
        return self.planner.devices

    def device(self, name: str) -> dict[str, str]:
        """A device as the processes of a planner are told of it."""
        return asdict(self.planner.options.known.devices[name])

    def _log_path(self, target: str, name: str) -> Path:
        return Path(self._folder.name) / f"{target}.{name}.log"


def interpreted(script: Path, *, timeout_s: float = 300) -> str:
    """Output of a script that runs Triton kernels by Triton's interpreter, for which no GPU is needed.

    It runs in a process of its own: a kernel is interpreted or compiled for as long as its process lives. Raises
    `AssertionError` with what it wrote to standard error where it fails, and skips the test where triton is missing.
    """
    if find_spec("triton") is None:
        import pytest  # commands import this module too, and need no pytest

        pytest.skip("needs triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{script.name} ended with {done.returncode}: {done.stderr}"
    return done.stdout


def made_up_machine(root: Path, files: Mapping[str, str]) -> Path:
    """A folder with files of /proc and /sys, by their paths, for the test of an audit."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def advised(settings: Iterable[Setting]) -> dict[str, str]:
    """The values of an audit that come with advice, by name. Raises `AssertionError` for a setting without source."""
    settings = list(settings)
    assert all(setting.name and setting.value and setting.source for setting in settings)
    return {setting.name: setting.value for setting in settings if setting.advice}


def short_run(device: str, params: Mapping[str, float] = MappingProxyType({}), size: str = "smoke") -> Options:
    """The options of a test's run: a short budget, each sample judged, and no guards of times."""
    return Options(device=device, size=size, params=dict(params), budget_s=BUDGET_S, answers_only=True, off=OF_TIMES)


def problems(result: TargetResult) -> list[str]:
    """Problems of a result: implementations that are not right, did not run, or were never compared."""
    wrong = [f"{row.name}: {row.verdict}: {row.reason}" for row in result.rows if row.verdict in ("INVALID", "FAILED")]
    unjudged = [f"{row.name}: never judged" for row in result.rows if row.verdict != "SKIPPED" and not row.judgement]
    return wrong + unjudged


def conformance(distribution: str) -> list[str]:
    """The problems of the plugins of an installed distribution, one sentence each.

    They load, and importing and asking them imports nothing heavy and prints nothing. Targets and commands are told
    apart by their summaries; commands and issues are whole. Every implementation is right at the smallest sizes on
    every device that is here, and one that is skipped says why. Raises `UsageError` where the distribution is not
    installed or has no plugin.
    """
    plugins = load_plugins()
    entry_points = {one.entry_point for one in plugins.loaded if _same(one.distribution, distribution)}
    aside = {one.entry_point for one in plugins.set_aside if _same(one.distribution, distribution)}
    if not entry_points | aside:
        raise UsageError(f"{distribution!r} {_instead(distribution, plugins)}")
    targets = [one for one in plugins.targets if _same(one.distribution, distribution)]
    return [
        *_discovery(distribution),
        *_summaries(targets),
        *_devices(targets, plugins),
        *_commands(distribution, plugins),
        *_issues(distribution, plugins),
        *_implementations(targets),
    ]


def _same(one: str, other: str) -> bool:
    """Whether two spellings name one distribution."""
    return re.sub(r"[-_.]+", "-", one).lower() == re.sub(r"[-_.]+", "-", other).lower()


def _instead(distribution: str, plugins: Plugins) -> str:
    """Message about a distribution that has no plugin."""
    try:
        found = f"{version(distribution)} is installed, but declares no entry point in the group 'aiperf_core'"
    except PackageNotFoundError:
        found = "is not installed"
    others = ", ".join(sorted({one.distribution for one in plugins.loaded}))
    return f"{found}. Distributions with plugins: {others}. Install yours with: pip install -e FOLDER"


def _discovery(distribution: str) -> list[str]:
    """Problems of the plugins in a fresh process, in which nothing heavy can be imported."""
    search = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", _DISCOVERY], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": search}
    )
    if done.returncode:
        return [f"loading the plugins in a fresh process failed: {done.stderr.strip()[-500:]}"]
    told = json.loads(done.stdout)
    wrong = [f"{point!r} is set aside: {reason}" for name, point, reason in told["aside"] if _same(name, distribution)]
    return wrong + [f"{point!r} {note}" for name, point, note in told["notes"] if _same(name, distribution)]


def _summaries(targets: list[InstalledTarget]) -> Iterator[str]:
    """Problems of the lines by which targets are chosen."""
    seen: dict[str, str] = {}
    for target in targets:
        if len(target.summary) > SUMMARY_WIDTH:
            yield f"{target.name!r} has a summary of {len(target.summary)} characters; {SUMMARY_WIDTH} fit a line"
        first = seen.setdefault(target.summary, target.name)
        if first != target.name:
            yield f"{target.name!r} has the summary of {first!r}"


def _devices(targets: list[InstalledTarget], plugins: Plugins) -> Iterator[str]:
    """Devices of targets that no plugin provides: misspelt, or of a plugin that is not installed."""
    for target in targets:
        for name in target.devices:
            if name not in plugins.devices:
                known = ", ".join(sorted(plugins.devices))
                yield f"{target.name!r} names the device {name!r}, which no plugin provides; known are {known}"


def _commands(distribution: str, plugins: Plugins) -> Iterator[str]:
    """Commands that cannot be loaded, or that are called otherwise in their own help."""
    for installed in plugins.commands.values():
        if not _same(installed.distribution, distribution):
            continue
        name = installed.record.name
        try:
            found = installed.record.resolve().name
        except Exception as error:
            yield f"command {name!r} cannot be loaded: {describe(error)}"
            continue
        if found != name:
            yield f"command {name!r} calls itself {found!r} in its help"


def _issues(distribution: str, plugins: Plugins) -> Iterator[str]:
    """Issues without an attack or an honest look-alike, and cases that cannot be tried."""
    cases = [one.record for one in plugins.attacks]
    for issue in plugins.issues.values():
        if _same(issue.distribution, distribution):
            honest = {one.honest for one in cases if one.issue == issue.record.id}
            lacking = [
                kind for kind, is_honest in (("attack", False), ("honest look-alike", True)) if is_honest not in honest
            ]
            yield from (f"issue {issue.record.id!r} has no {kind}, so nothing is proven of it" for kind in lacking)
    for attack in plugins.attacks:
        if _same(attack.distribution, distribution):
            yield from _case(attack.record, plugins)


def _case(case: Case, plugins: Plugins) -> Iterator[str]:
    """Why a case cannot be tried."""
    name = f"{case.module}:{case.implementation}"
    if case.issue not in plugins.issues:
        yield f"case {name!r} is of issue {case.issue!r}, which no plugin registers"
    if case.candidate:
        return
    try:
        here = load_benchmark(TargetRef(name, case.module)).implementations_on(case.device)
    except AiperfError as error:
        yield f"case {name!r} cannot be tried: {error}"
        return
    if case.implementation not in [one.name for one in here]:
        yield f"case {name!r} is no implementation on {case.device!r}; there are {', '.join(one.name for one in here)}"


def _implementations(targets: list[InstalledTarget]) -> Iterator[str]:
    """Problems of the targets at their smallest sizes, on every device that is here."""
    with Measuring() as measuring:
        for target in targets:
            for device in measuring.devices:
                try:
                    result = measuring.attempt(Selection(target), short_run(device))
                except UsageError as error:
                    yield f"{target.name!r} on {device}: {error}"
                    continue
                yield from (f"{target.name!r} on {device}: {one}" for one in _complaints(result))


def _complaints(result: TargetResult | SkippedTarget) -> list[str]:
    """Problems of a result, a skip without a reason included."""
    if isinstance(result, SkippedTarget):
        return [f"{result.verdict}: {result.reason}"] if result.verdict is Verdict.FAILED or not result.reason else []
    silent = [
        f"{row.name}: skipped without a reason" for row in result.rows if row.verdict == "SKIPPED" and not row.reason
    ]
    return [*problems(result), *silent]
