"""Attacks on time, place, the harness, its secrets, compilers, statistics and the exam, and honest code that looks like them.

What a guard can be switched off for is shown by two runs. What takes more than a switch of a run (a harness of one process, a
candidate, rounds, recorded evidence) is tried by `aiperf selftest`, and here with all guards on.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from aiperf_core.benchmark import load_benchmark
from aiperf_core.harness import clocks
from aiperf_core.harness.described import TargetRef
from aiperf_core.harness.options import Options
from aiperf_core.harness.session import Session
from aiperf_core.redteam import (
    cases_compiling,
    cases_cuda,
    cases_environment,
    cases_evaluation,
    cases_leak,
    cases_location,
    cases_statistical,
    cases_tamper,
    cases_timing,
)
from aiperf_core.redteam.cases import Case
from aiperf_core.requirements import Hardware
from aiperf_core.results.models import Ceilings, Row, SkippedTarget, TargetResult, Verdict
from aiperf_core.targets import InstalledTarget, Selection
from aiperf_core.testing import Silent
from aiperf_core.validity.registry import ISSUES

pytestmark = pytest.mark.proof

MODULES = (
    cases_compiling,
    cases_cuda,
    cases_environment,
    cases_evaluation,
    cases_leak,
    cases_location,
    cases_statistical,
    cases_tamper,
    cases_timing,
)
GUARDS = {one.id: one.guard for one in ISSUES}
ALL = tuple(case for module in MODULES for case in module.CASES)
# Tried in runs of this module: those of one implementation, in a quick one, by a switch or as a look-alike.
HERE = [
    case
    for case in ALL
    if case.device == "cpu"
    and not (case.candidate or case.alone or case.gains == "word" or case.tier != "quick")
    and (case.honest or GUARDS[case.issue] != "own_process")
]
IN_ONE_PROCESS = [case for case in ALL if not case.honest and GUARDS[case.issue] == "own_process"]
LIGHT = "faster_than_light"
REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED)
# What a busy machine does to any code, and what others who edit the sources do to any row.
BUSY = {"timing.clocks_disagree", "evaluation.metric_definition_gaming"}
ATTEMPTS = 3


def chosen(*, honest: bool, gains: str = "verdict", lint: bool = False) -> Any:
    """Parametrize a test by the cases of one kind."""
    kept = [
        one
        for one in HERE
        if one.honest == honest and (honest or one.gains == gains) and (GUARDS[one.issue] == "task_lint") == lint
    ]
    assert kept
    return pytest.mark.parametrize("case", kept, ids=[f"{one.issue}-{one.implementation}" for one in kept])


Run = Callable[..., TargetResult | SkippedTarget]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run implementations of a module beside its baseline: `run(module, names, off=..., budget_s=...)`."""
    folder = tmp_path_factory.mktemp("attacks")
    light = Ceilings("cpu", "never", 20e9, 20e9, 20e9, {"fp32": 40e9})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIPERF_CACHE_DIR", str(folder / "cache"))
        # Where some attacks leave files.
        patch.chdir(folder)
        with Session(Options(), folder) as session:
            session._hardware, session._no_cuda = Hardware(), "the tests hide it"

            def measure(
                module: str, names: set[str], off: frozenset[str] = frozenset(), budget_s: float = 0.2
            ) -> TargetResult | SkippedTarget:
                short = module.rpartition(".")[2]
                target = InstalledTarget(f"tests.{short}", module)
                # Only attacks on them need a run without pauses, which takes long on a busy machine.
                patch.setattr(clocks, "STEADY_S", 0.01 if short == "timing_clocks" else 0.0)
                patch.setattr(Session, "ceilings", lambda *_: light if short == "timing_light" else None)
                session.options = Options(device="cpu", budget_s=budget_s, timeout_s=60.0, off=off)
                plans, skipped = session.plan([Selection(target, frozenset(names))])
                assert not skipped
                return session.run(plans[0], lambda _, name: folder / f"{name}.log", Silent())

            yield measure


def rows_of(result: TargetResult | SkippedTarget) -> dict[str, Row]:
    assert isinstance(result, TargetResult), result
    return {row.name: row for row in result.rows}


Rows = Callable[..., Row]


@pytest.fixture(scope="module")
def row_of(run: Run) -> Rows:
    """The row of a case from a run that it shares with others: those of its guard, or of all look-alikes or all attacks."""
    known: dict[tuple[str, frozenset[str], bool], dict[str, Row]] = {}

    def row(case: Case, off: frozenset[str], *, alone: bool = False) -> Row:
        key = case.module, off, case.honest
        if alone:
            known.setdefault(key, {}).update(rows_of(run(case.module, {case.implementation}, off, 0.6)))
        elif key not in known:
            beside = [one for one in HERE if one.module == case.module and one.honest == case.honest]
            names = {one.implementation for one in beside if not off or GUARDS[one.issue] in off}
            known[key] = rows_of(run(case.module, names, off))
        return known[key][case.implementation]

    return row


def eventually(look: Callable[[bool], Row], right: Callable[[Row], bool]) -> Row:
    """Look again, at a case alone and for longer, where a busy machine may have hidden the answer."""
    for attempt in range(ATTEMPTS):
        row = look(attempt > 0)
        if right(row):
            break
    return row


def issues(row: Row) -> set[str]:
    return {one.issue for one in row.findings}


# --- by two runs


@chosen(honest=False)
def test_without_its_guard_an_attack_is_faster(case: Case, row_of: Rows) -> None:
    off = frozenset({GUARDS[case.issue]})
    row = eventually(lambda alone: row_of(case, off, alone=alone), lambda row: row.verdict is Verdict.FASTER)
    assert row.verdict is Verdict.FASTER, (row.verdict, row.speedup, row.reason, row.findings)


@chosen(honest=False)
def test_with_all_guards_an_attack_is_not_faster(case: Case, row_of: Rows) -> None:
    none: frozenset[str] = frozenset()
    row = eventually(lambda alone: row_of(case, none, alone=alone), lambda row: row.verdict is not Verdict.FASTER)
    assert row.verdict is not Verdict.FASTER, (row.speedup, row.findings)


@chosen(honest=False, gains="silence")
def test_without_its_guard_an_attack_is_silent(case: Case, row_of: Rows) -> None:
    assert case.issue not in issues(row_of(case, frozenset({GUARDS[case.issue]})))


@chosen(honest=False, gains="silence")
def test_with_all_guards_an_attack_is_told_of(case: Case, row_of: Rows) -> None:
    assert case.issue in issues(row_of(case, frozenset()))


@chosen(honest=True)
def test_look_alikes_are_left_alone(case: Case, row_of: Rows) -> None:
    none: frozenset[str] = frozenset()
    row = eventually(lambda alone: row_of(case, none, alone=alone), lambda row: row.verdict not in REFUSED)
    assert case.issue not in issues(row) - BUSY
    assert row.verdict not in REFUSED or issues(row) <= BUSY, (row.reason, row.findings)
    assert row.judgement is not None


# --- what gains in a harness of one process gains nothing here


@pytest.mark.parametrize("module", sorted({one.module for one in IN_ONE_PROCESS if one.tier == "quick"}))
def test_what_is_elsewhere_cannot_be_attacked(module: str, run: Run) -> None:
    names = {one.implementation for one in IN_ONE_PROCESS if one.module == module}
    rows = rows_of(run(module, names, budget_s=0.4))
    for name in names:
        assert rows[name].verdict is not Verdict.FASTER, (name, rows[name].speedup)


def test_a_process_that_leaves_has_no_result(run: Run) -> None:
    row = rows_of(run("aiperf_core.redteam.tamper", {"leaves"}))["leaves"]
    assert row.verdict is Verdict.FAILED
    assert row.log[-1] == "PASSED: 1000x faster"


def test_a_machine_that_warms_up_is_no_difference_between_sides(run: Run) -> None:
    result = run("aiperf_core.redteam.statistical_drift", {"later"}, budget_s=0.8)
    assert isinstance(result, TargetResult)
    taken = [("sooner", "later"), ("later", "sooner")]
    pairs = list(zip(result.order[::2], result.order[1::2], strict=True))
    assert pairs == [taken[index % 2] for index in range(len(pairs))]
    baseline, variant = result.rows
    assert variant.verdict not in (Verdict.FASTER, Verdict.SLOWER)
    # One side after the other would have shown a difference.
    times = [time for time in baseline.samples.wall_s if time]
    assert median(times[: len(times) // 2]) > 1.1 * median(times[len(times) // 2 :])


def test_without_turns_one_side_comes_after_the_other(run: Run) -> None:
    result = run("aiperf_core.redteam.statistical_drift", {"later"}, frozenset({"interleaved"}))
    assert isinstance(result, TargetResult)
    half = result.order.index("later")
    assert set(result.order[:half]) == {"sooner"}
    assert set(result.order[half:]) == {"later"}


# --- the exam: a benchmark that lint must refuse


@chosen(honest=False, lint=True)
def test_a_bad_benchmark_lets_an_attack_be_faster(case: Case, row_of: Rows) -> None:
    none: frozenset[str] = frozenset()
    row = eventually(lambda alone: row_of(case, none, alone=alone), lambda row: row.verdict is Verdict.FASTER)
    assert row.verdict is Verdict.FASTER, (row.speedup, row.findings)


@pytest.mark.parametrize(
    ("module", "refused"),
    [("aiperf_core.redteam.evaluation_tolerance", True), ("aiperf_core.redteam.evaluation", False)],
)
def test_lint_refuses_a_tolerance_that_lets_everything_pass(module: str, refused: bool, tmp_path: Path) -> None:
    benchmark = load_benchmark(TargetRef(module, module))
    listed = {"goal": "speed", "devices": sorted({one.device for one in benchmark.implementations})}
    with Session(Options(), tmp_path) as session:
        child = session.spawn("linter", "linter")
        found = child.ask(
            "lint",
            timeout=60.0,
            target={"name": module, "module": module},
            device="cpu",
            params=benchmark.task.presets["smoke"],
            listed=listed,
        )
        child.kill()
    problems = {one["test"] for one in found if one["verdict"] == "problem"}
    assert any(one.startswith("judge.") for one in problems) == refused, problems


# --- the corpus


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_cases_name_what_there_is(device: str) -> None:
    for case in ALL:
        if case.device == device and not case.candidate:
            benchmark = load_benchmark(TargetRef(case.module, case.module))
            there = {one.name: one for one in benchmark.on(device) if one.role == "variant"}
            assert case.implementation in there, case
            assert there[case.implementation].why.startswith("honest: ") == case.honest, case


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_kernels_compile_without_a_gpu(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    from aiperf_core.redteam import child_grids, cuda

    assert set(cuda.source.names()) == {"relax", "linger", "rows"}
    assert cuda.source.compile(arch)
    assert child_grids.relocatable(arch)


def test_cases_are_listed_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise BaseException('torch was imported')")
    names = ", ".join(module.__name__ for module in MODULES)
    folders = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    subprocess.run([sys.executable, "-P", "-c", f"import {names}"], check=True, env=environment, cwd=tmp_path)
