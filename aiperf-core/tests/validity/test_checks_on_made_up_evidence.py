import pkgutil

import pytest
from attrs import evolve
from made_up import CASES, CLOCKS, RARE, READINGS, TURNS, MadeUp

from aiperf_core.measurements import Memory
from aiperf_core.validity import checks
from aiperf_core.validity.assess import built_in
from aiperf_core.validity.check import NotObserved
from aiperf_core.validity.registry import issue, issues

# Their evidence is that of processes: test_checks_of_processes.py.
OF_PROCESSES = {"aliasing", "global_state", "process_census", "repeat_against_fresh"}
CHECKS = {check.guard: check for check in built_in() if check.guard not in OF_PROCESSES}
GUARDS = tuple(CHECKS)


def seen(check, evidence):
    found = check.look(evidence)
    return None if isinstance(found, NotObserved) else {one.issue for one in found}


@pytest.fixture(params=CASES, ids=lambda case: case.issue)
def case(request):
    return request.param


def test_each_module_of_the_checks_holds_the_check_of_its_guard():
    names = {module.name for module in pkgutil.iter_modules(checks.__path__)}
    assert sorted(check.guard for check in built_in()) == sorted(names)
    assert names >= OF_PROCESSES


def test_every_issue_of_these_guards_that_no_attack_commits_has_one_case():
    catalogue = pytest.importorskip("aiperf_redteam.catalogue")
    otherwise = {case.issue for case in catalogue.cases()} | {one.id for one in issues() if one.excluded}
    rest = [one.id for one in issues() if one.guard in GUARDS and one.id not in otherwise]
    assert sorted(case.issue for case in CASES if case.issue not in otherwise) == sorted(rest)
    assert sorted(one.issue for one in READINGS) == sorted(one.id for one in issues() if one.guard == "conditions")


def test_the_guilty_is_seen_as_what_it_did(case: MadeUp):
    found = seen(CHECKS[issue(case.issue).guard], case.guilty())
    assert found == {case.issue}


def test_no_other_check_sees_the_guilty(case: MadeUp):
    others = {name: seen(check, case.guilty()) for name, check in CHECKS.items() if name != issue(case.issue).guard}
    assert not any(others.values()), others


def test_the_look_alike_is_looked_at_and_nothing_is_seen(case: MadeUp):
    evidence = case.honest()
    assert seen(CHECKS[issue(case.issue).guard], evidence) == set()
    assert not any(seen(check, evidence) for check in CHECKS.values())


@pytest.mark.parametrize(("share", "found"), [(1.0, {"policy.ghost_branch"}), (0.5, set())])
def test_the_same_kernels_in_less_memory_are_other_code(share: float, found: set[str]):
    (case,) = (one for one in CASES if one.issue == "policy.ghost_branch")
    guilty, peak = case.guilty(), 1 << 30
    theirs = evolve(guilty.baseline, memory=Memory(peak_bytes=peak))
    assert (
        seen(CHECKS["cupti_ledger"], evolve(guilty, memory=Memory(peak_bytes=int(share * peak)), baseline=theirs))
        == found
    )


@pytest.mark.parametrize(("spread", "found"), [(0.2, {"policy.ghost_branch"}), (0.002, set())])
def test_noise_of_the_callers_clock_makes_the_same_kernels_no_other_code(spread: float, found: set[str]):
    """Medians that are 6 % apart differ only where the samples lie apart too."""
    (case,) = (one for one in CASES if one.issue == "policy.ghost_branch")
    guilty = case.guilty()

    def noisy(evidence, factor: float):
        times, places = evidence.samples.wall_s, iter(range(99))
        wall_s = [one and 1.3e-3 * factor * (1 + spread * (next(places) * 5 % 8 - 3.5) / 4) for one in times]
        return evolve(evidence, samples=evolve(evidence.samples, wall_s=wall_s))

    evidence = evolve(noisy(guilty, 1.0), baseline=noisy(guilty.baseline, 1.06))
    assert seen(CHECKS["cupti_ledger"], evidence) == found


def test_what_is_seen_has_a_message_and_figures(case: MadeUp):
    found = CHECKS[issue(case.issue).guard].look(case.guilty())
    assert not isinstance(found, NotObserved)
    for one in found:
        assert one.message
        assert one.evidence


EVERY = (*CASES, *READINGS, *TURNS, *CLOCKS, *RARE)
LOOKED_AT = [one for one in EVERY if one.look is not None]


@pytest.mark.parametrize("recorded", LOOKED_AT, ids=lambda one: one.issue)
def test_what_looks_at_other_than_evidence(recorded: MadeUp):
    assert recorded.look is not None
    told = [[one.issue for one in recorded.look(shown())] for shown in (recorded.guilty, recorded.honest)]
    assert told == [[recorded.told or recorded.issue], []]
    issue(recorded.told or recorded.issue)


def test_what_is_told_as_another_issue_is_said_of_it():
    for one in EVERY:
        assert one.told is None or one.told in issue(one.issue).protection, one.issue
