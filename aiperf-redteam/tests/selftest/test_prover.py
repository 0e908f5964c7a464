"""How cases end: on scripted runs, every outcome there is; on real ones, those of `targets/guarded.py`."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from attrs import evolve

from aiperf_core.described import Described, DescribedImplementation
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.setup import CANDIDATE, Plan
from aiperf_core.measurements import Estimate
from aiperf_core.proofs import recording
from aiperf_core.proofs.outcomes import Outcome
from aiperf_core.requirements import Hardware
from aiperf_core.results import example
from aiperf_core.results.models import Confined, Finding, Row, SkippedTarget, Verdict
from aiperf_core.targets import Selection
from aiperf_core.validity.cases import WORD, Case, Recorded
from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence
from aiperf_core.validity.issues import NOTE, Issue
from aiperf_redteam.selftest import kept_cache, prover
from aiperf_redteam.selftest.outcomes import Proof, Proven
from aiperf_redteam.selftest.prover import LOOK_AGAIN, LOOK_LONGER, Prover, unknown_issues
from aiperf_redteam.selftest.runs import BESIDE, BUDGET_S, Job, RunKey
from aiperf_redteam.selftest.trials import BAITS, ProofPlanner, Trials

TARGETS = Path(__file__).parent / "targets"
FOUND, PREVENTED, MISSED, VOID = Outcome.FOUND, Outcome.PREVENTED, Outcome.MISSED, Outcome.VOID
CLEARED, FLAGGED, ERROR, UNDECIDED = Outcome.CLEARED, Outcome.FLAGGED, Outcome.ERROR, Outcome.UNDECIDED
NOT_OBSERVABLE = Outcome.NOT_OBSERVABLE


def issue(name: str, guard: str, **other: Any) -> Issue:
    return Issue(id=name, title="x", happens="x", guard=guard, protection="x", **other)


CHEAT, FOUL = issue("play.cheat", "referee"), issue("play.foul", "camera")
LATE = issue("play.late", "referee", severity=NOTE)
ISSUES = (CHEAT, LATE, FOUL)


class Keeping(Silent):
    """Keeps the events of a proving."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def made_ahead(self, index: int, total: int) -> None:
        self.events.append(f"{index} of {total} runs ahead")

    def case_started(self, issue: str, case: str, device: str, index: int, total: int) -> None:
        self.events.append(f"[{index}/{total}] {issue}: {case} on {device or 'paper'}")

    def case_finished(self, proof: Proof) -> None:
        self.events.append(str(proof.outcome))


def row(verdict: str, speedup: float | None = None, *issues: str, severity: str = "invalid", reason: str = "") -> Row:
    estimate = Estimate(speedup, speedup * 0.99, speedup * 1.01) if speedup else None
    findings = [Finding(one, severity, f"{one} was seen") for one in issues]
    return Row("move", "variant", "cpu", Verdict(verdict), reason=reason or None, speedup=estimate, findings=findings)


def baseline(verdict: str, reason: str = "", *findings: Finding) -> Row:
    return Row("still", "baseline", "cpu", Verdict(verdict), reason=reason or None, findings=list(findings))


BASELINE = baseline("MEASURED")
FASTER, SAME, UNSURE, NOISY = row("FASTER", 5.0), row("SAME", 1.0), row("INCONCLUSIVE", 1.5), row("INCONCLUSIVE", 9.0)
CAUGHT = row("INVALID", None, "play.cheat", reason="a cheat was seen")
WARNED = row("FASTER", 5.0, "play.cheat", severity="warning")
FOULED = row("UNTRUSTED", None, "play.foul")

# What a run says of an implementation: by the options, its name, and the number of implementations in the run.
Script = Callable[[Options, str, int], Any]


def is_off(run: Options | RunKey) -> bool:
    return "referee" in run.off


def script(off: Any, on: Any, *, standard_off: Any = None, standard_on: Any = None) -> Script:
    """Runs by their tier, with the guard off and with it on."""

    def say(options: Options, *_: object) -> Any:
        if options.tier == "standard":
            return (standard_off or off) if is_off(options) else (standard_on or on)
        return off if is_off(options) else on

    return say


CATCHES = script(FASTER, CAUGHT)


def each(*rows: Any) -> Script:
    """One run after the other."""
    given = iter(rows)
    return lambda *_: next(given)


class Scripted:
    """A planner whose runs, linter and harness of one process say what is written down, or raise it."""

    light = False
    run_whole = Planner.run_whole

    def __init__(self, script: Script, *, linted: Any = (), alone: Any = None, gpus: int = 0) -> None:
        self.script, self.linted, self.alone = script, linted, alone
        self.hardware = Hardware(gpus=gpus)
        self.options = Options()
        self.runs: list[Options] = []
        self.names: list[list[str]] = []
        self.lights: list[bool] = []
        self.measured: list[str] = []
        self.asked_alone: list[str] = []
        self.planned = 0

    @property
    def course(self) -> list[str]:
        return [f"{one.tier} {'off' if is_off(one) else 'on'}" for one in self.runs]

    def plan(self, selections: list[Selection]) -> tuple[list[Plan], list[SkippedTarget]]:
        self.planned += 1
        (selection,) = selections
        if selection.target.module == "absent":
            return [], [SkippedTarget(selection.target.name, Verdict.FAILED, "there is no such module")]
        if selection.target.module == "greedy":
            return [], [SkippedTarget(selection.target.name, Verdict.SKIPPED, "needs 99 processors")]
        assert self.options.device is not None
        described = Described(
            goal="speed",
            clock="wall",
            cache="warm",
            threads=None,
            presets={"smoke": {}},
            tolerances={"smoke": "exact"},
            module=selection.target.module,
            sha256="",
            implementations=[
                DescribedImplementation(name, "baseline" if name == "still" else "variant", device, "here")
                for device in ("cpu", "cuda")
                for name in ("still", "move", "jump", "creep")
            ],
        )
        return [Plan(selection, described, self.options.device, "smoke", {})], []

    def run(self, plan: Plan, log_path: Any, reporter: object) -> Any:
        assert {one.name for one in log_path("any", "log").parent.iterdir()} == set(BAITS)
        names = sorted(plan.selection.implementations)
        self.runs.append(self.options)
        self.names.append(names)
        self.lights.append(self.light)
        said = [self.script(self.options, name, len(names)) for name in names or [CANDIDATE]]
        if isinstance(said[0], SkippedTarget):
            return said[0]
        named = (evolve(one, name=name) for one, name in zip(said, names or [CANDIDATE], strict=True))
        rows = said[0] if isinstance(said[0], list) else [BASELINE, *named]
        return evolve(example.result(), rows=rows, complete=True)

    def lint(self, plan: Plan) -> list[str]:
        if isinstance(self.linted, ChildError):
            raise self.linted
        return list(self.linted)

    def in_one_process(self, plan: Plan, name: str, log: Path) -> tuple[str | None, float]:
        self.asked_alone.append(name)
        if isinstance(self.alone, ChildError):
            raise self.alone
        return self.alone  # type: ignore[no-any-return]

    def ceilings(self, device: str) -> None:
        self.measured.append(f"ceilings of {device}")

    def flush_bound(self, device: str) -> None:
        self.measured.append(f"flush of {device}")


def case(issue: str = "play.cheat", **other: Any) -> Case:
    return Case(**{"issue": issue, "module": "aiperf_redteam.play", "implementation": "move", **other})


def prove(
    planner: Any, *cases: Case, recorded: Iterable[Recorded] = (), issues: Sequence[Issue] = ISSUES,
    device: str | None = None, **other: Any,
) -> tuple[list[Proven], list[str]]:  # fmt: skip
    reporter = Keeping()
    with tempfile.TemporaryDirectory() as folder:
        proving = Prover(planner, Path(folder), {one.id: one for one in issues}, device, reporter, **other)
        return list(proving.prove(issues, cases, recorded)), reporter.events


def prove_one(planner: Any, one: Case, **other: Any) -> Proof:
    results, _ = prove(planner, one, **other)
    (proof,) = [proof for result in results for proof in result.proofs]
    return proof


def outcomes(planner: Any, *cases: Case, **other: Any) -> list[Outcome]:
    results, _ = prove(planner, *cases, **other)
    return [proof.outcome for result in results for proof in result.proofs]


# --- attacks


def test_an_attack_that_gains_without_its_guard_and_is_seen_with_it_is_found():
    planner = Scripted(CATCHES)
    proof = prove_one(planner, case())
    assert proof.seconds > 0
    assert evolve(proof, seconds=0.0) == Proof(
        case="play:move", honest=False, device="cpu", outcome=FOUND, off="FASTER 5x", on="INVALID (play.cheat)", tier="quick",
    )  # fmt: skip
    assert [one.off for one in planner.runs] == [BESIDE | {"referee"}, BESIDE]
    assert {(one.device, one.tier, one.at_end.energy) for one in planner.runs} == {("cpu", "quick", False)}
    assert (planner.names, planner.lights) == ([["move"]] * 2, [False, False])


@pytest.mark.parametrize(
    ("on", "outcome"),
    [
        (WARNED, FOUND),
        (row("FASTER", 5.0, "play.late", severity="warning"), FOUND),  # of the same guard
        (row("INVALID", None, "play.foul"), FOUND),  # of another one, but hard
        ([baseline("INVALID", "", Finding("play.cheat", "invalid", "it")), UNSURE], FOUND),
        *((on, PREVENTED) for on in (SAME, row("SLOWER", 0.5), UNSURE, row("FAILED", reason="it died"))),
        (row("FASTER", 5.0, "play.foul", severity="warning"), MISSED),
    ],
)
def test_what_is_said_with_the_guard_on_decides(on, outcome):
    assert outcomes(Scripted(script(FASTER, on)), case()) == [outcome]


BOTH_TIERS = ["quick off", "quick on", "standard off", "standard on"]
NEVER_GAINS = ["quick off", "standard off"]
WITHOUT = "is not FASTER without 'referee':"
NOISE_STAYS, GAIN_HIDDEN, PERHAPS_GAIN = script(UNSURE, CAUGHT), script(NOISY, CAUGHT), script(FASTER, NOISY)
PERHAPS = "INCONCLUSIVE 9x with all guards on, FASTER 5x without 'referee'"
# The runs of an attack; its outcome, tier and reason; and the course of its runs, where it matters.
ATTACKS = [
    (script(WARNED, WARNED), MISSED, "standard", None, None),  # what is found without the guard is not found by it
    (script(FASTER, FASTER, standard_on=CAUGHT), FOUND, "standard", "", BOTH_TIERS),
    (script(FASTER, row("FASTER", 4.0)), MISSED, "standard", "FASTER 4x with all guards on, FASTER 5x without 'referee'", BOTH_TIERS),
    (script(SAME, CAUGHT), VOID, "standard", f"{WITHOUT} SAME 1x", NEVER_GAINS),
    (script(CAUGHT, CAUGHT), VOID, "standard", f"{WITHOUT} INVALID (play.cheat): a cheat was seen", NEVER_GAINS),
    (script(row("FAILED", reason="died"), CAUGHT), VOID, "standard", f"{WITHOUT} FAILED: died", NEVER_GAINS),
    (script(FOULED, CAUGHT, standard_off=FASTER), FOUND, "standard", "", None),  # another guard refused it by chance
    (GAIN_HIDDEN, UNDECIDED, "standard", f"{WITHOUT} INCONCLUSIVE 9x", None),
    (PERHAPS_GAIN, UNDECIDED, "standard", PERHAPS, None),
    (NOISE_STAYS, VOID, "standard", f"{WITHOUT} INCONCLUSIVE 1.5x", None),
]  # fmt: skip


@pytest.mark.parametrize(("runs", "outcome", "tier", "reason", "course"), ATTACKS)
def test_how_an_attack_ends(runs, outcome, tier, reason, course):
    planner = Scripted(runs)
    proof = prove_one(planner, case())
    assert (proof.outcome, proof.tier) == (outcome, tier)
    assert reason is None or proof.reason == reason
    assert course is None or planner.course == course


def test_noise_is_looked_through_for_longer_and_then_in_more_rounds():
    planner = Scripted(script(UNSURE, CAUGHT, standard_off=FASTER))
    assert prove_one(planner, case()).outcome is FOUND
    assert planner.course == ["quick off"] * 3 + ["standard off", "standard on"]
    assert planner.runs[1].budget_s == pytest.approx(LOOK_LONGER * (planner.runs[0].budget_s or 0.0))


def test_noise_in_enough_rounds_is_looked_through_again():
    gains = iter([UNSURE, UNSURE, FASTER])
    planner = Scripted(lambda options, *_: next(gains) if is_off(options) else CAUGHT)
    assert prove_one(planner, case(tier="standard")).outcome is FOUND
    assert planner.course == ["standard off"] * 3 + ["standard on"]


def test_a_case_of_the_standard_tier_is_tried_in_one_round_of_processes_first():
    planner = Scripted(CATCHES)
    results, _ = prove(planner, case(tier="standard"), case(honest=True))
    assert [(one.case, one.tier) for one in results[0].proofs] == [("play:move", "one-round")] * 2
    assert [(one.tier, one.rounds, one.controls) for one in planner.runs] == [("standard", 1, True)] * 3
    assert {one.round_budget_s for one in planner.runs} == {BUDGET_S["one-round"]}


def test_what_one_round_does_not_catch_is_tried_in_all():
    planner = Scripted(lambda options, *_: FASTER if is_off(options) or options.rounds == 1 else CAUGHT)
    proof = prove_one(planner, case(tier="standard"))
    assert (proof.outcome, proof.tier) == (FOUND, "standard")
    assert [one.rounds for one in planner.runs] == [1, 1, 3, 3]


# --- beside other work

BUSY = "other processes kept 40 % of the processors busy"
LOADED = row("FASTER", 5.0, "environment.background_load", severity="warning")


@pytest.mark.parametrize(
    ("runs", "quiet", "reason"),
    [
        (script(FASTER, FASTER), MISSED, "FASTER 5x with all guards on, FASTER 5x without 'referee'"),
        (NOISE_STAYS, VOID, f"{WITHOUT} INCONCLUSIVE 1.5x"),
        (GAIN_HIDDEN, UNDECIDED, f"{WITHOUT} INCONCLUSIVE 9x"),
        (PERHAPS_GAIN, UNDECIDED, PERHAPS),
        (script(FASTER, SAME), PREVENTED, ""),
        (lambda *_: [baseline("UNTRUSTED", "clocks disagree"), FASTER], ERROR, "the baseline was UNTRUSTED: clocks disagree"),
        (CATCHES, FOUND, ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("load", [0.0, 0.049, 0.4])
def test_load_alone_decides_whether_a_failure_is_decided(load, runs, quiet, reason):
    proof = prove_one(Scripted(runs), case())
    if load < 0.05 or not reason:
        assert (proof.outcome, proof.reason) == (quiet, reason)
    else:
        assert (proof.outcome, proof.reason) == (UNDECIDED, f"{BUSY}: {reason}")


@pytest.mark.parametrize(
    ("load", "runs", "outcome"),
    [
        (None, script(FASTER, LOADED), UNDECIDED),
        # An attack that works beside its calls is no load of others.
        (0.0, script(FASTER, LOADED), MISSED),
        # In the quick tier it is not the last word.
        (0.4, script(FASTER, FASTER, standard_on=CAUGHT), FOUND),
    ],
)
def test_a_warning_of_load_counts_where_no_process_of_the_run_made_it(load, runs, outcome):
    assert prove_one(Scripted(runs), case()).outcome is outcome


@pytest.mark.parametrize("load", [None])
def test_a_finding_that_load_makes_without_the_guard_too_is_not_decided(load):
    loaded = evolve(WARNED, findings=[*WARNED.findings, *LOADED.findings])
    proof = prove_one(Scripted(script(loaded, WARNED)), case())
    assert (proof.outcome, proof.reason.partition(":")[0]) == (UNDECIDED, "environment.background_load was seen")


# --- what attacks are for


@pytest.mark.parametrize(
    ("off", "on", "outcome", "reason"),
    [
        (SAME, row("SAME", 1.0, "play.cheat"), FOUND, ""),
        (SAME, SAME, MISSED, "SAME 1x with all guards on, SAME 1x without 'referee'"),
        (
            row("SAME", 1.0, "play.cheat", severity="warning"), CAUGHT, VOID,
            "is not silent without 'referee': SAME 1x (play.cheat)",
        ),
    ],
)  # fmt: skip
def test_an_attack_for_silence(off, on, outcome, reason):
    proof = prove_one(Scripted(script(off, on)), case(gains="silence"))
    assert (proof.outcome, proof.reason) == (outcome, reason)


HAS_WORD, HAS_NONE = evolve(SAME, log=[WORD]), evolve(SAME, log=[])


@pytest.mark.parametrize(
    ("off", "on", "outcome"),
    [(HAS_WORD, HAS_NONE, PREVENTED), (HAS_WORD, HAS_WORD, MISSED), (HAS_NONE, HAS_NONE, VOID)],
)
def test_an_attack_for_something_else_says_that_it_has_it(off, on, outcome):
    assert prove_one(Scripted(script(off, on)), case(gains="word")).outcome is outcome


def test_light_is_measured_for_the_guard_that_needs_it_only(monkeypatch):
    light = issue("play.light", "faster_than_light")
    planner = Scripted(lambda options, *_: FASTER if "faster_than_light" in options.off else CAUGHT)
    assert outcomes(planner, case("play.light"), issues=[light]) == [FOUND]
    assert [one.off for one in planner.runs] == [BESIDE, BESIDE - {"faster_than_light"}]
    assert planner.lights == [True, True]

    asked = []
    monkeypatch.setattr(Planner, "ceilings", lambda self, *given: asked.append(given))
    real = ProofPlanner.__new__(ProofPlanner)
    real.ceilings("cpu")
    real.ceilings("cuda", True)
    real.light = True
    real.ceilings("cpu", True, ["wire"])
    assert asked == [("cuda", True, ()), ("cpu", True, ["wire"])]


@pytest.mark.parametrize(
    ("linted", "run", "honest", "outcome", "on", "reason"),
    [
        (["judge.zeros: accepts zeros"], FASTER, False, FOUND, "judge.zeros: accepts zeros", ""),
        ([], FASTER, False, MISSED, "", "FASTER 5x, and lint finds nothing wrong with the judge"),
        (["judge.zeros: x"], SAME, False, VOID, "", "is not FASTER without 'task_lint': SAME 1x"),
        (ChildError("hung", "hung"), FASTER, False, ERROR, "", "could not be linted: hung"),
        ([], FASTER, True, CLEARED, "FASTER 5x", ""),
        (["judge.zeros: x"], FASTER, True, FLAGGED, "refused by lint", "judge.zeros: x"),
    ],
)
def test_a_benchmark_that_can_be_fooled_is_shown_to_the_linter(linted, run, honest, outcome, on, reason):
    planner = Scripted(lambda *_: run, linted=linted)
    proof = prove_one(planner, case("play.loose", honest=honest), issues=[issue("play.loose", "task_lint")])
    assert (proof.outcome, proof.on, proof.reason) == (outcome, on, reason)


OWN = evolve(CHEAT, guard="own_process")


@pytest.mark.parametrize(
    ("said", "on", "outcome", "off"),
    [
        ((None, 3.0), SAME, PREVENTED, "FASTER 3x"),
        ((None, 3.0), row("INVALID", None, "play.cheat"), FOUND, "FASTER 3x"),
        ((None, 3.0), FASTER, MISSED, "FASTER 3x"),
        ((None, 1.1), SAME, VOID, "SAME 1.1x"),
        ((None, 1 / 3), SAME, VOID, "SLOWER 0.333x"),
        (("it is wrong", 0.0), SAME, VOID, "INVALID"),
        (ChildError("raised", "raised KeyError"), SAME, VOID, "FAILED"),
    ],
)
def test_an_attack_on_own_processes_must_gain_in_a_harness_that_has_one(said, on, outcome, off):
    planner = Scripted(lambda *_: on, alone=said)
    proof = prove_one(planner, case(), issues=[OWN])
    assert (proof.outcome, proof.off) == (outcome, off)
    assert all("own_process" not in options.off for options in planner.runs)


# --- runs that are shared


def crowd(**other: Any) -> list[Case]:
    return [case(implementation=name, **other) for name in ("move", "jump", "creep")]


ALL = ["creep", "jump", "move"]


def test_cases_of_a_module_share_their_runs():
    planner = Scripted(CATCHES)
    assert outcomes(planner, *crowd()) == [FOUND] * 3
    assert planner.names == [ALL] * 2
    assert [one.budget_s for one in planner.runs] == [pytest.approx(2 * BUDGET_S["quick"])] * 2


def test_who_disturbs_others_has_a_run_of_its_own():
    planner = Scripted(CATCHES)
    one, *others = crowd()
    prove(planner, evolve(one, alone=True), *others)
    assert planner.names == [["move"], ["move"], ["creep", "jump"], ["creep", "jump"]]


def test_an_attack_that_a_crowd_hides_is_tried_by_itself():
    def say(options: Options, name: str, crowd: int) -> Row:
        if is_off(options):
            return UNSURE if name == "jump" and crowd > 1 else FASTER
        return FASTER if name == "creep" and crowd > 1 else CAUGHT

    planner = Scripted(say)
    assert outcomes(planner, *crowd()) == [FOUND] * 3
    assert planner.names == [ALL] * 2 + [["jump"], ["creep"]]


def test_an_end_that_says_nothing_in_a_crowd_is_no_proof():
    planner = Scripted(lambda options, name, crowd: FASTER if is_off(options) or crowd == 1 else UNSURE)
    assert outcomes(planner, *crowd()[:2]) == [MISSED] * 2


def test_only_runs_of_the_first_tier_are_shared():
    """That of a guard that compares rounds is the standard one, which is the second of others."""
    planner = Scripted(script(FASTER, FASTER), alone=(None, 3.0))
    own = case("play.own", implementation="jump", tier="standard")
    assert outcomes(planner, case(), own, issues=(CHEAT, issue("play.own", "own_process"))) == [MISSED] * 2
    assert planner.names == [["move"]] * 4 + [["jump"]]


def test_look_alikes_share_a_run_and_one_that_is_struck_gets_its_own():
    planner = Scripted(lambda options, name, crowd: FOULED if name == "jump" and crowd > 1 else SAME)
    assert outcomes(planner, *crowd(honest=True)) == [CLEARED] * 3
    assert planner.names == [ALL, ["jump"]]


# --- runs that are made side by side


class Ahead:
    """Makes runs ahead; what each says, by its key."""

    def __init__(self, off: Row | None, on: Row | None, baseline: Row = BASELINE) -> None:
        self.off, self.on, self.baseline = off, on, baseline

    def make(
        self, jobs: Sequence[Job], meanwhile: Callable[[], None]
    ) -> Iterator[tuple[Job, dict[str, Row] | None, float]]:
        meanwhile()
        for job in jobs:
            said = self.off if is_off(job.key) else self.on
            rows = {name: evolve(said, name=name) for name in job.key.names} if said else {}
            yield job, {"still": self.baseline, **rows} if said else None, 7.0


@pytest.fixture
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are made side by side however few they are."""
    monkeypatch.setattr(prover, "LEAST_AHEAD", 1)


@pytest.mark.usefixtures("_few_runs")
def test_runs_that_were_made_ahead_are_not_made_again():
    planner = Scripted(lambda *_: FASTER)
    results, events = prove(planner, *crowd(), case(honest=True), lanes=Ahead(FASTER, CAUGHT))
    assert [one.outcome for one in results[0].proofs] == [FOUND] * 3 + [FLAGGED]
    assert planner.names == []
    assert [round(one.seconds) for one in results[0].proofs] == [14, 0, 0, 7], "the first case has the time of a run"
    assert events[:4] == [f"{index} of 3 runs ahead" for index in range(4)]


def test_a_few_runs_are_not_made_ahead():
    planner = Scripted(CATCHES)
    assert outcomes(planner, *crowd(), lanes=Ahead(UNSURE, UNSURE)) == [FOUND] * 3
    assert len(planner.runs) == 2


@pytest.mark.parametrize(
    ("ahead", "runs"),
    [
        (Ahead(UNSURE, CAUGHT), 1),
        (Ahead(FASTER, FASTER), 1),
        (Ahead(FASTER, UNSURE), 1),
        (Ahead(None, None), 2),
        (Ahead(FASTER, FASTER, baseline("UNTRUSTED")), 2),
        # Not prevented: nothing was seen of it.
        (Ahead(FASTER, row("FAILED", reason="ran out of memory: CUDA out of memory")), 1),
    ],
)
@pytest.mark.usefixtures("_few_runs")
def test_what_proves_nothing_beside_another_run_is_tried_by_itself(ahead, runs):
    planner = Scripted(CATCHES)
    assert outcomes(planner, case(), lanes=ahead) == [FOUND]
    assert len(planner.runs) == runs


@pytest.mark.parametrize(("guard", "runs"), [("interleaved", 1), ("camera", 0)], ids=["of times", "of values"])
@pytest.mark.usefixtures("_few_runs")
def test_a_refusal_for_times_beside_another_run_proves_nothing(guard, runs):
    planner = Scripted(CATCHES)
    lanes = Ahead(FASTER, row("INVALID", None, "play.foul"))
    assert outcomes(planner, case(), issues=(CHEAT, evolve(FOUL, guard=guard)), lanes=lanes) == [FOUND]
    assert len(planner.runs) == runs


@pytest.mark.parametrize(("guard", "outcome"), [("interleaved", MISSED), ("camera", FOUND)], ids=["times", "values"])
def test_what_another_guard_finds_in_times_may_be_chance(guard, outcome):
    planner = Scripted(script(SAME, FOULED))
    assert outcomes(planner, case(gains="silence"), issues=(CHEAT, evolve(FOUL, guard=guard))) == [outcome]


@pytest.mark.parametrize(("device", "measured"), [("cpu", []), ("cuda", ["ceilings of cuda", "flush of cuda"])])
@pytest.mark.usefixtures("_few_runs")
def test_a_gpu_is_measured_before_runs_are_made_on_it_side_by_side(device, measured):
    planner = Scripted(CATCHES, gpus=1)
    prove(planner, case(device=device), lanes=Ahead(FASTER, CAUGHT))
    assert planner.measured == measured


@pytest.mark.usefixtures("_few_runs")
def test_a_harness_of_one_process_that_ran_beside_another_is_asked_as_often():
    planner = Scripted(lambda *_: SAME, alone=(None, 1.0))
    assert outcomes(planner, case(), issues=[OWN], lanes=Ahead(SAME, SAME)) == [VOID]
    assert len(planner.asked_alone) == 2 * (1 + LOOK_AGAIN), "in the quick tier and in the standard one"


# --- what a machine lacks, and candidates


@pytest.mark.parametrize(
    ("held_by", "outcome", "reason"),
    [
        ("files", NOT_OBSERVABLE, "the sandbox has no 'files' here: needs Landlock"),
        ("signals", MISSED, "SAME 1x with all guards on, SAME 1x without 'referee'"),
    ],
)
def test_a_protection_that_the_machine_lacks_is_no_miss(held_by, outcome, reason):
    confined = Confined([], {"files": "needs Landlock", "user": "needs root"})
    planner = Scripted(script(HAS_WORD, evolve(HAS_WORD, confined=confined)))
    proof = prove_one(planner, case(gains="word", held_by=(held_by,)))
    assert (proof.outcome, proof.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("measured", "tier", "on", "outcome", "runs"),
    [
        ([""], "quick", CAUGHT, FOUND, 2),
        (["too cold"], "quick", CAUGHT, NOT_OBSERVABLE, 0),
        # Of a missed attack it is measured again.
        (["", "too cold", "too cold"], "standard", FASTER, NOT_OBSERVABLE, 2),
        (["", "", ""], "standard", FASTER, MISSED, 4),
    ],
)
def test_what_an_attack_needs_is_measured(monkeypatch, measured, tier, on, outcome, runs):
    monkeypatch.setattr(kept_cache, "lacking", lambda: measured.pop(0))
    planner = Scripted(script(FASTER, on))
    proof = prove_one(planner, case(needs=("kept_cache",), tier=tier))
    assert (proof.outcome, len(planner.runs)) == (outcome, runs)
    assert outcome is not NOT_OBSERVABLE or proof.reason == "too cold"


def test_a_candidate_is_checked_as_one():
    one = case(module="aiperf_redteam.judged", implementation="golden_file", candidate=True, gains="word")
    planner = Scripted(script(HAS_WORD, HAS_NONE))
    assert outcomes(planner, one) == [PREVENTED]
    assert planner.names == [[], []]
    assert [source.path.name for source in (options.candidate for options in planner.runs) if source] == [
        "golden_file.py"
    ] * 2
    lost = prove_one(planner, evolve(one, implementation="nobody"))
    assert lost.outcome is ERROR
    assert "nobody.py' does not exist" in lost.reason


# --- look-alikes


@pytest.mark.parametrize(
    ("on", "outcome", "reason"),
    [
        *((one, CLEARED, "") for one in (FASTER, SAME, UNSURE, row("SLOWER", 0.3))),
        (row("FASTER", 5.0, "play.foul", severity="warning"), CLEARED, ""),
        (CAUGHT, FLAGGED, "INVALID (play.cheat): play.cheat was seen"),
        (row("SAME", 1.0, "play.cheat", severity="warning"), FLAGGED, "SAME 1x (play.cheat): play.cheat was seen"),
        (row("INVALID", None, "play.foul"), FLAGGED, "INVALID (play.foul): play.foul was seen"),
        (row("UNTRUSTED", reason="the clocks disagree"), FLAGGED, "UNTRUSTED: the clocks disagree"),
        (row("FAILED", reason="raised KeyError"), ERROR, "raised KeyError"),
    ],
)
def test_a_look_alike_is_cleared_unless_anything_is_said_of_it(on, outcome, reason):
    planner = Scripted(script(CAUGHT, on))
    proof = prove_one(planner, case(honest=True))
    assert (proof.outcome, proof.off, proof.reason) == (outcome, "", reason)
    assert {one.off for one in planner.runs} == {frozenset()}
    assert outcome is not CLEARED or len(planner.runs) == 1


def test_what_is_said_of_the_baseline_too_is_not_told():
    foul = Finding("play.foul", "warning", "it is foggy")
    both = [evolve(BASELINE, findings=[foul]), evolve(FASTER, findings=[foul])]
    proof = prove_one(Scripted(lambda *_: both), case(honest=True))
    assert (proof.outcome, proof.on) == (CLEARED, "FASTER 5x")


def test_a_look_alike_that_something_else_struck_once_is_tried_again_and_that_is_said():
    proof = prove_one(Scripted(each(FOULED, SAME)), case(honest=True))
    assert (proof.outcome, proof.on) == (CLEARED, "SAME 1x")
    assert proof.reason == "only when tried again; at first UNTRUSTED (play.foul): play.foul was seen"


def test_a_look_alike_that_is_taken_for_the_issue_once_is_flagged():
    assert outcomes(Scripted(each(CAUGHT, SAME)), case(honest=True)) == [FLAGGED]


def test_a_look_alike_is_tried_in_the_tier_that_its_attack_needs():
    planner = Scripted(script(FASTER, FASTER, standard_on=CAUGHT))
    results, events = prove(planner, case(honest=True), case())
    assert planner.runs[-1].tier == "standard"
    assert [one.outcome for one in results[0].proofs] == [FOUND, FLAGGED]
    assert results[0].outcome is FLAGGED
    assert events == [
        "[1/2] play.cheat: attack play:move on cpu",
        "found",
        "[2/2] play.cheat: honest look-alike play:move on cpu",
        "wrongly flagged",
    ]


# --- what cannot be tried


@pytest.mark.parametrize(
    ("one", "device", "outcome", "reason"),
    [
        (case(device="cuda"), None, NOT_OBSERVABLE, "needs cuda"),
        (case(device="cuda", needs=("cupti", "linux")), None, NOT_OBSERVABLE, "needs cuda, cupti"),
        (case(needs=("gpus>=2",)), None, NOT_OBSERVABLE, "needs gpus>=2"),
        (case(needs=("gpus>=1",)), None, NOT_OBSERVABLE, "needs gpus>=1"),
        (case(), "cuda", NOT_OBSERVABLE, "left out by --device cuda"),
        (case(device="cuda"), "cpu", NOT_OBSERVABLE, "left out by --device cpu"),
        (case(module="greedy"), None, NOT_OBSERVABLE, "needs 99 processors"),
        (case(module="absent"), None, ERROR, "there is no such module"),
        (
            case(implementation="mov"), None, ERROR,
            "aiperf_redteam.play has no variant 'mov' for cpu; it has move, jump, creep",
        ),
    ],
)  # fmt: skip
def test_a_case_that_cannot_be_tried_here_says_why(one, device, outcome, reason):
    planner = Scripted(CATCHES)
    proof = prove_one(planner, one, device=device)
    assert (proof.outcome, proof.reason, planner.runs) == (outcome, reason, [])


@pytest.mark.parametrize(
    ("said", "outcome", "reason"),
    [
        (row("SKIPPED", reason="needs sm_90"), NOT_OBSERVABLE, "needs sm_90"),
        (SkippedTarget("redteam.play", Verdict.FAILED, "its reference raised"), ERROR, "its reference raised"),
        ([baseline("FAILED", "it died"), UNSURE], ERROR, "the baseline was FAILED: it died"),
    ],
)
def test_a_run_that_tells_nothing_of_the_guard_is_no_proof(said, outcome, reason):
    proof = prove_one(Scripted(lambda *_: said), case())
    assert (proof.outcome, proof.reason) == (outcome, reason)


def test_a_module_is_described_once():
    planner = Scripted(CATCHES)
    prove(planner, case(), case(honest=True), case("play.late"))
    assert planner.planned == 1


def test_an_interrupted_run_interrupts_the_selftest():
    class Interrupted(Scripted):
        def run(self, plan, log_path, reporter):
            return evolve(super().run(plan, log_path, reporter), complete=False)

    with pytest.raises(KeyboardInterrupt):
        prove_one(Interrupted(CATCHES), case())


def test_a_case_of_an_issue_that_nobody_registered():
    (result,) = unknown_issues({CHEAT.id: CHEAT}, [case(), case("play.chaet")])
    assert (result.issue, result.guard, result.outcome) == ("play.chaet", "", ERROR)
    assert result.proofs[0].reason == "'play.chaet' is in no registry"


# --- recorded evidence


@pytest.fixture
def _recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings of two implementations with the names of their files."""

    def read(file: str) -> recording.Recording:
        name = file.removeprefix("acme:").removesuffix(".json")
        evidence = Evidence(name=name, role="variant", device="cpu", clock="wall", cache="warm")
        return recording.Recording(command="", machine={}, date="", versions={}, commit=None, run="", evidence=evidence)

    monkeypatch.setattr(recording, "read", read)


@pytest.mark.parametrize(
    ("look", "guilty", "honest"),
    [
        (
            lambda seen: [Seen("play.cheat", "it cheats")] if seen.name == "guilty" else [],
            (Outcome.RECORDED, ""), (CLEARED, ""),
        ),
        (lambda seen: [], (MISSED, "the check saw nothing in the recording 'acme:guilty.json'"), (CLEARED, "")),
        (
            lambda seen: [Seen("play.late", "it is late")],
            (MISSED, "the check saw play.late in the recording 'acme:guilty.json'"), (CLEARED, ""),
        ),
        (
            lambda seen: iter([Seen("play.foul", "a foul"), Seen("play.cheat", "it cheats")]),
            (Outcome.RECORDED, ""), (FLAGGED, "play.foul: a foul"),
        ),
        (lambda seen: NotObserved("it was dark"), (MISSED, "the check did not look: it was dark"), (CLEARED, "")),
        (lambda seen: 1 / 0, *[(ERROR, "ZeroDivisionError: division by zero")] * 2),
        # Evidence is shown to the checks of its own guard alone.
        (None, *[(ERROR, "'referee' has no check that looks at evidence")] * 2),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("_recordings")
def test_recorded_evidence(look, guilty, honest):
    recorded = [
        Recorded(issue="play.cheat", file=f"acme:{name}.json", honest=name == "honest") for name in ("guilty", "honest")
    ]
    check = Check("referee", look) if look else Check("camera", lambda seen: [Seen("play.cheat", "it cheats")])
    results, events = prove(Scripted(CATCHES), recorded=recorded, checks=(check,))
    found = [(one.case, one.honest, one.device, one.outcome, one.reason) for one in results[0].proofs]
    assert found == [("recorded evidence", False, "", *guilty), ("recorded evidence", True, "", *honest)]
    assert events[0] == "[1/2] play.cheat: recorded evidence on paper"


# --- all cases of an issue


@pytest.mark.parametrize(
    ("attacks", "look_alikes", "outcome"),
    [
        ([], [], Outcome.UNPROVEN),
        ([], [CLEARED], Outcome.UNPROVEN),
        ([], [FLAGGED], FLAGGED),
        ([FOUND], [CLEARED], FOUND),
        ([PREVENTED, FOUND], [], FOUND),
        ([NOT_OBSERVABLE, Outcome.RECORDED], [], Outcome.RECORDED),
        ([NOT_OBSERVABLE], [NOT_OBSERVABLE], NOT_OBSERVABLE),
        ([FOUND, MISSED], [], MISSED),
        ([FOUND, VOID], [], MISSED),
        ([FOUND], [FLAGGED], FLAGGED),
        ([FOUND], [ERROR], ERROR),
        ([FOUND, UNDECIDED], [], UNDECIDED),
    ],
)
def test_the_outcome_of_an_issue_is_the_gravest_or_the_best_proof(attacks, look_alikes, outcome):
    proofs = [
        Proof(case="a:b", honest=honest, device="cpu", outcome=one)
        for honest, of in ((False, attacks), (True, look_alikes))
        for one in of
    ]
    assert Proven(issue="play.cheat", guard="referee", proofs=tuple(proofs)).outcome is outcome


# --- real runs

REAL = (evolve(CHEAT, guard="judged_output"), evolve(FOUL, guard="fresh_values"))


def guarded(implementation: str, issue: str = "play.cheat", **other: Any) -> Case:
    return case(issue, **{"module": "guarded", "implementation": implementation, **other})


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProofPlanner]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
        with ProofPlanner(Options(), tmp_path_factory.mktemp("proof")) as opened:
            # It is tested elsewhere; and the tests must not depend on what the machine has.
            opened._probed["cuda"] = "the tests hide it"
            yield opened


@pytest.fixture
def trials(planner: ProofPlanner, tmp_path: Path) -> Trials:
    return Trials(planner, tmp_path, None, {one.id: one for one in ISSUES}, Keeping())


@pytest.mark.parametrize(
    ("one", "outcome"),
    [
        (guarded("kept", "play.foul"), FOUND),
        (guarded("zeros"), FOUND),
        (guarded("brisk", honest=True), CLEARED),
        (guarded("zeros", honest=True), FLAGGED),
        (guarded("zeros", module="broken"), ERROR),
    ],
)
@pytest.mark.proof
def test_on_the_harness_itself(planner, one, outcome):
    proof = prove_one(planner, one, issues=REAL)
    assert proof.outcome is outcome, proof
    assert planner._ceilings == {}


@pytest.mark.proof
def test_a_real_linter(planner, trials):
    assert planner.lint(trials.plan(guarded("zeros"))) == []
    assert planner.lint(trials._planned(case(module="loose")))[0].startswith("judge.")


@pytest.mark.proof
def test_no_process_is_left_that_an_attack_left_behind(planner):
    assert outcomes(planner, guarded("leaves_a_process", honest=True)) == [CLEARED]
    _, alive = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=2)
    left = []
    for one in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            left += [one] if one.name() == "sleep" else []
    assert left == []


@pytest.mark.parametrize(
    ("implementation", "wrong", "least", "most"),
    [("brisk", None, 2.0, 6.0), ("as_idle", None, 0.8, 1.25), ("zeros", "the output: relative L2 error 1", 0, 0)],
)
@pytest.mark.proof
def test_a_harness_of_one_process(planner, trials, tmp_path, implementation, wrong, least, most):
    plan = trials.plan(guarded(implementation, "play.foul"))
    for _ in range(3):
        said, speedup = planner.in_one_process(plan, implementation, tmp_path / "one.log")
        # Other work on the machine may delay one side.
        if wrong or least < speedup < most:
            break
    assert (said or "").startswith(wrong or "")
    assert bool(said) == bool(wrong)
    if not wrong:
        assert least < speedup < most
