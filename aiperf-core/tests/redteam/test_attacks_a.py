"""Attacks on outputs, workloads, memory and replay, and honest code that looks like them.

Each gains something with its guard off, and is caught with all guards on; the look-alikes are left alone. The cases of a
module share their runs, since a run of many costs little more than a run of one.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiperf_core.benchmark import load_benchmark
from aiperf_core.harness import clocks
from aiperf_core.harness.channel import Channel
from aiperf_core.harness.described import TargetRef
from aiperf_core.harness.options import Options
from aiperf_core.harness.session import Session
from aiperf_core.redteam import cases_memory, cases_output, cases_replay, cases_workload, recorded_rare
from aiperf_core.redteam.cases import Case
from aiperf_core.requirements import Hardware
from aiperf_core.results.models import Row, TargetResult, Verdict
from aiperf_core.targets import InstalledTarget, Selection
from aiperf_core.testing import Silent
from aiperf_core.validity.check import NotObserved
from aiperf_core.validity.checks import process_census
from aiperf_core.validity.lint import Linter
from aiperf_core.validity.registry import ISSUES

pytestmark = pytest.mark.proof

MODULES = (cases_output, cases_workload, cases_memory, cases_replay)
GUARDS = {one.id: one.guard for one in ISSUES}
ALL = tuple(case for module in MODULES for case in module.CASES)
# What no switch of a run can bring about is tried by `aiperf selftest`.
HERE = [case for case in ALL if case.device == "cpu" and (case.honest or GUARDS[case.issue] != "own_process")]
REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED)
# Is attacked by nothing that can be tried here: it needs a machine that swaps.
UNATTACKED = {"memory.swap_interference"}
# What a busy machine does to any code.
BUSY = {"timing.clocks_disagree"}
# They look at what the harness itself does, and see that a guard is off.
BESIDE = frozenset({"conduct", "versions"})
# It looks only where a run has controls.
TIERS = {"repeat_against_fresh": "standard"}


def tier_of(case: Case) -> str:
    return TIERS.get(GUARDS[case.issue], "quick")


def chosen(*, honest: bool, gains: str = "verdict", lint: bool = False) -> Any:
    """Parametrize a test by the cases of one kind."""
    kept = [
        one
        for one in HERE
        if one.honest == honest and (honest or one.gains == gains) and (GUARDS[one.issue] == "task_lint") == lint
    ]
    assert kept
    return pytest.mark.parametrize("case", kept, ids=[f"{one.issue}-{one.implementation}" for one in kept])


Measure = Callable[..., dict[str, Row]]


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measure]:
    """Run implementations of a module beside its baseline: `measure(module, names, off, tier=..., budget_s=...)`; their rows."""
    folder = tmp_path_factory.mktemp("attacks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIPERF_CACHE_DIR", str(folder / "cache"))
        patch.setattr(Session, "ceilings", lambda *_: None)
        # Clocks are tested elsewhere, and many calls without a pause take long on a machine that tests keep busy.
        patch.setattr(clocks, "STEADY_S", 0.0)
        with Session(Options(), folder) as session:
            session._hardware, session._no_cuda = Hardware(), "the tests hide it"

            def run(
                module: str,
                names: frozenset[str],
                off: frozenset[str] = frozenset(),
                *,
                tier: str = "quick",
                budget_s: float = 0.1,
            ) -> dict[str, Row]:
                target = InstalledTarget(f"tests.{module.rpartition('.')[2]}", module)
                session.options = Options(
                    device="cpu", tier=tier, budget_s=budget_s, timeout_s=60.0, energy=False, off=off
                )
                plans, skipped = session.plan([Selection(target, names)])
                assert not skipped
                result = session.run(plans[0], lambda _, name: folder / f"{name}.log", Silent())
                assert isinstance(result, TargetResult), result
                return {row.name: row for row in result.rows}

            yield run


@pytest.fixture(scope="module")
def shared(measure: Measure) -> Callable[[Case, frozenset[str]], Row]:
    """The row of a case from a run that it shares with others; all of its guard's, or all of the module's."""
    known: dict[tuple[str, str, frozenset[str]], dict[str, Row]] = {}

    def row(case: Case, off: frozenset[str]) -> Row:
        tier = tier_of(case)
        key = case.module, tier, off
        if key not in known:
            beside = [one for one in HERE if one.module == case.module and tier_of(one) == tier]
            names = {one.implementation for one in beside if not off or (GUARDS[one.issue] in off and not one.honest)}
            known[key] = measure(case.module, frozenset(names), off, tier=tier)
        return known[key][case.implementation]

    return row


def without(case: Case) -> frozenset[str]:
    """What is off for an attack to gain."""
    return BESIDE | {GUARDS[case.issue]}


def issues(row: Row) -> set[str]:
    return {one.issue for one in row.findings}


@chosen(honest=False)
def test_without_its_guard_an_attack_is_faster(case: Case, shared: Any, measure: Measure) -> None:
    row = shared(case, without(case))
    if row.verdict is not Verdict.FASTER:  # for noise, or want of samples: by itself, and for longer
        alone = measure(case.module, frozenset({case.implementation}), without(case), tier=tier_of(case), budget_s=1.0)
        row = alone[case.implementation]
    assert row.verdict is Verdict.FASTER, (row.reason, row.findings)


@chosen(honest=False)
def test_with_all_guards_an_attack_is_not_faster(case: Case, shared: Any) -> None:
    row = shared(case, frozenset())
    assert row.verdict is not Verdict.FASTER
    if GUARDS[case.issue] in ("judged_output", "poison", "inputs_intact", "aliasing"):
        assert row.verdict is Verdict.INVALID
        assert {GUARDS[one] for one in issues(row)} & {"judged_output", GUARDS[case.issue]}


@chosen(honest=False, gains="silence")
def test_without_its_guard_an_attack_is_silent(case: Case, shared: Any) -> None:
    assert case.issue not in issues(shared(case, without(case)))


@chosen(honest=False, gains="silence")
def test_with_all_guards_an_attack_is_told_of(case: Case, shared: Any) -> None:
    assert case.issue in issues(shared(case, frozenset()))


@chosen(honest=True)
def test_look_alikes_are_left_alone(case: Case, shared: Any) -> None:
    row = shared(case, frozenset())
    assert case.issue not in issues(row)
    assert row.verdict not in REFUSED or issues(row) <= BUSY, (row.reason, row.findings)
    assert row.judgement is not None


@chosen(honest=False, lint=True)
def test_a_bad_benchmark_lets_an_attack_be_faster(case: Case, measure: Measure) -> None:
    row = measure(case.module, frozenset({case.implementation}))[case.implementation]
    assert row.verdict is Verdict.FASTER
    assert [one for one in row.findings if one.severity == "invalid"] == []


LINTED = {
    "output.zeros_within_tolerance": "budget.zeros",
    "output.data_shortcut": "judge.skipped_work",
    "output.invalid_ground_truth": "reference.finite",
}


def problems(module: str) -> set[str]:
    """What `aiperf lint` finds in a module, at the smallest size. In this process, as its child would."""
    benchmark = load_benchmark(TargetRef(module, module))
    listed = {"goal": "speed", "devices": sorted({one.device for one in benchmark.implementations})}
    ours, theirs = Channel.pair()
    target = {"name": module, "module": module}
    found = Linter(ours).do_lint(target, "cpu", dict(benchmark.task.presets["smoke"]), listed)
    ours.close()
    theirs.close()
    return {one["test"] for one in found if one["verdict"] == "problem"}


@chosen(honest=False, lint=True)
def test_a_bad_benchmark_is_found_by_lint(case: Case) -> None:
    assert LINTED[case.issue] in problems(case.module)


@chosen(honest=True, lint=True)
def test_a_sound_benchmark_passes_lint(case: Case) -> None:
    assert problems(case.module) == set()


def test_memory_of_other_processes_is_never_seen(measure: Measure) -> None:
    rows = measure("aiperf_core.redteam.memory", frozenset({"as_allocated", "own_pool"}))
    assert rows["as_allocated"].verdict is not Verdict.FASTER
    assert rows["own_pool"].judgement is not None
    assert rows["own_pool"].judgement.worst is not None


def test_recorded_swapping_is_seen_and_only_that() -> None:
    (recorded,) = [one for one in recorded_rare.CASES if one.issue == "memory.swap_interference"]
    guilty, honest = (process_census.CHECK.look(evidence()) for evidence in (recorded.guilty, recorded.honest))
    assert not isinstance(guilty, NotObserved)
    assert [one.issue for one in guilty] == [recorded.issue]
    assert honest == []


def test_each_issue_has_an_attack_and_a_look_alike() -> None:
    of_us = {one.id for one in ISSUES if one.category in ("output", "workload", "memory", "replay")}
    assert {one.issue for one in ALL if not one.honest} == of_us - UNATTACKED
    assert {one.issue for one in ALL if one.honest} == of_us - {"memory.swap_interference"}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_cases_name_what_there_is(device: str) -> None:
    for case in ALL:
        if case.device == device:
            benchmark = load_benchmark(TargetRef(case.module, case.module))
            there = {one.name: one for one in benchmark.on(device) if one.role == "variant"}
            assert case.implementation in there, case
            assert there[case.implementation].why.startswith("honest: ") == case.honest, case


def test_cases_are_listed_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise BaseException('torch was imported')")
    names = ", ".join(module.__name__ for module in MODULES)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, "-c", f"import {names}"], check=True, env=environment)
