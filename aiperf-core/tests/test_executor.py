"""Who starts workers: the core's own executors, and one of a plugin in `nice/`."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from aiperf_core.candidate_format import AIPERF
from aiperf_core.cli.main import Shell
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.events import Progress
from aiperf_core.executor import BUILT_IN, HERE, Executor, WorkerSpec, known_executor
from aiperf_core.formats.candidate import CandidateSource
from aiperf_core.harness.processes.child import ForkServer
from aiperf_core.harness.run.options import Known, Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import Row, SkippedTarget, TargetResult, Verdict
from aiperf_core.targets import InstalledTarget, Selection

pytestmark = pytest.mark.quiet

NICE = Executor("nice", "Subprocesses that yield", "nice_executor:Nice")
REFUSING = Executor("refusing", "Nothing", "nice_executor:Refusing")
KNOWN = Known(executors={**BUILT_IN, "nice": NICE, "refusing": REFUSING})
FOLDERS = (Path(__file__).parent / "nice", Path(__file__).parent / "harness" / "targets")


class _Silent:
    def phase(self, text: str, implementation: str | None = None) -> None:
        """Tell nobody."""

    def progress(self, state: Progress) -> None:
        """Tell nobody."""


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    folder = tmp_path_factory.mktemp("executors")
    with pytest.MonkeyPatch.context() as patch:
        for path in FOLDERS:
            patch.syspath_prepend(str(path))
        patch.setenv("PYTHONPATH", os.pathsep.join([*map(str, FOLDERS), *filter(None, sys.path)]))
        with Planner(Options(), folder) as planner:
            planner._probed["cuda"] = "the tests hide it"
            planner._ceilings["cpu"] = None
            patch.setattr(Planner, "ceilings", lambda *_, **__: None)
            yield planner


def attempt(planner: Planner, module: str, *names: str, executor: str | None) -> TargetResult | SkippedTarget:
    target = InstalledTarget(f"tests.{module}", module)
    planner.options = Options(
        device="cpu", size="smoke", executor=executor, known=KNOWN, budget_s=0.1, timeout_s=30.0, policy="lenient"
    )
    plans, skipped = planner.plan([Selection(target, frozenset(names))])
    if skipped:
        return skipped[0]
    return planner.run(plans[0], lambda _, name: planner.log_folder / f"{name}.log", _Silent())


def rows_of(result: object) -> dict[str, Row]:
    assert isinstance(result, TargetResult), result
    return {row.name: row for row in result.rows}


@pytest.fixture(scope="module")
def nice(planner: Planner) -> Any:
    """A result of the plugin's executor, with the niceness of its workers while they sampled, and who was left."""
    seen: set[int] = set()
    own = psutil.Process()
    before = set(own.children(recursive=True))

    class Watching(_Silent):
        def progress(self, state: Progress) -> None:
            """Look at the subprocesses."""
            seen.update(one.nice() for one in own.children() if one.nice())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "_Silent", Watching)
        result = attempt(planner, "features", "scaled", "presumptuous", executor="nice")
    # One that was killed is there until its parent has taken notice.
    _, left = psutil.wait_procs(set(own.children(recursive=True)) - before, timeout=5)
    return result, seen, left


def test_a_plugins_executor_starts_the_workers(nice: Any) -> None:
    result, niceness, left = nice
    rows = rows_of(result)
    assert result.executor == "nice"
    assert rows["plain"].verdict is Verdict.MEASURED, rows["plain"].reason
    assert rows["scaled"].speedup is not None, rows["scaled"].reason
    assert rows["presumptuous"].verdict is Verdict.INVALID
    assert niceness == {psutil.Process().nice() + 5}
    assert left == [], "every worker was killed"


def test_a_worker_that_dies_is_told_by_its_executor(planner: Planner) -> None:
    rows = rows_of(attempt(planner, "misbehaving", "exits", executor="nice"))
    assert rows["exits"].verdict is Verdict.FAILED
    assert re.match(r"its process exited with status \d+ during 'sample', without a result", str(rows["exits"].reason))


def test_one_that_cannot_start_them_costs_rows_and_says_why(planner: Planner) -> None:
    rows = rows_of(attempt(planner, "features", "scaled", executor="refusing"))
    assert {row.verdict for row in rows.values()} == {Verdict.FAILED}
    assert rows["scaled"].reason == ("could not be started by the executor 'refusing': OSError: the cluster is full")


def test_ranks_and_single_processes_need_an_executor_that_fits(planner: Planner) -> None:
    ranks = attempt(planner, "several_ranks", executor="here")
    assert isinstance(ranks, SkippedTarget)
    assert ranks.reason == "is a workload of 2 ranks; the executor 'here' starts one process at a time"
    one = attempt(planner, "features", executor="torchrun")
    assert isinstance(one, SkippedTarget)
    assert one.reason == "is a workload of one process; the executor 'torchrun' starts ranks"


def test_untrusted_code_stays_where_it_is_confined(planner: Planner) -> None:
    planner.options = Options(known=KNOWN, candidate=CandidateSource(Path("c.py"), "", "0", AIPERF))
    with pytest.raises(UsageError) as caught:
        planner._unfit("nice", {})
    assert str(caught.value) == (
        "Untrusted code cannot run under the executor 'nice', which has no sandbox. "
        "Omit --executor to run it on this machine."
    )


def test_an_executor_spawns_a_module_of_its_own(planner: Planner, tmp_path: Path) -> None:
    child = planner._server.spawn("aiperf_core.harness.processes.service", "own", tmp_path / "log")
    code = planner._server.exit_code(child.pid)
    child.kill()
    assert code == 1
    assert "has no attribute 'main'" in (tmp_path / "log").read_text()


# --- records


def test_an_unknown_executor_says_which_are_known() -> None:
    assert known_executor("here", BUILT_IN) is HERE
    result = CliRunner().invoke(Shell(load_plugins([])), ["run", "all", "--executor", "slurm"])
    assert (result.exit_code, result.stderr) == (
        2,
        "aiperf: 'slurm' is not an executor; known are here, torchrun. See what provides them: aiperf plugins\n",
    )


def test_plugins_lists_executors() -> None:
    listed = CliRunner().invoke(Shell(load_plugins([])), ["plugins"]).stdout
    assert "torchrun  Ranks of torch's elastic launcher  aiperf-core\n" in listed


@pytest.mark.parametrize("name", ["Slurm", "-a", "a b", "", 3])
def test_names_of_executors(name: Any) -> None:
    with pytest.raises(ValueError, match="cannot name an executor: lower-case letters, digits and hyphens can"):
        Executor(name, "b", "c:D")


def test_an_executor_says_where_its_class_is() -> None:
    with pytest.raises(ValueError, match="executor 'a' needs a summary of one line; found ' '"):
        Executor("a", " ", "c:D")
    with pytest.raises(ValueError, match="executor 'a' needs load='module:Class'; found 'c'"):
        Executor("a", "b", "c")


def test_a_class_that_cannot_be_used_says_why() -> None:
    server: ForkServer = None  # type: ignore[assignment]
    with pytest.raises(SkipError, match="cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"):
        Executor("a", "b", "no_such_module:D").resolve(server)
    with pytest.raises(SkipError, match=r"is not derived from aiperf_core.executor.ExecutorKind"):
        Executor("a", "b", "builtins:repr").resolve(server)


def test_a_command_is_a_worker_with_an_inherited_channel() -> None:
    spec = WorkerSpec(name="a", log=Path("a.log"), ranks=0, memory_limit_bytes=None)
    assert spec.command(7)[-4:] == ["worker", "7", "a.log", ""]
