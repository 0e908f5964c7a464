"""How cases end: on scripted runs, every outcome there is; on real ones, those of `targets/guarded.py`."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

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
from aiperf_core.requirements import Hardware
from aiperf_core.results import example
from aiperf_core.results.models import Confined, Finding, Row, SkippedTarget, Verdict
from aiperf_core.selftest import kept_cache, proof, recording
from aiperf_core.selftest.outcomes import Outcome, Proof, Proven
from aiperf_core.selftest.proof import LOOK_AGAIN, LOOK_LONGER, Prover, unknown_issues
from aiperf_core.selftest.recording import Recording
from aiperf_core.selftest.runs import RunKey
from aiperf_core.selftest.sharing import BESIDE, Job
from aiperf_core.selftest.trials import BAITS, BUDGET_S, ProofPlanner, Trials
from aiperf_core.targets import Selection
from aiperf_core.validity.cases import WORD, Case, Recorded
from aiperf_core.validity.check import Check, NotObserved, Seen
from aiperf_core.validity.evidence import Evidence
from aiperf_core.validity.issues import NOTE, Issue

TARGETS = Path(__file__).parent / "targets"

CHEAT = Issue(
    id="play.cheat", title="A cheat", happens="Somebody cheats.", guard="referee", protection="The referee looks."
)
LATE = Issue(
    id="play.late", title="Late", happens="Somebody is late.", guard="referee", protection="It looks.", severity=NOTE
)
FOUL = Issue(id="play.foul", title="A foul", happens="Somebody fouls.", guard="camera", protection="The camera looks.")
ISSUES = (CHEAT, LATE, FOUL)


class Keeping(Silent):
    """Keeps what is told of cases."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def made_ahead(self, index: int, total: int) -> None:
        """Keep how many runs were made side by side."""
        self.told.append(f"{index} of {total} runs ahead")

    def case_started(self, issue: str, case: str, device: str, index: int, total: int) -> None:
        """Keep that a case began."""
        self.told.append(f"[{index}/{total}] {issue}: {case} on {device or 'paper'}")

    def case_finished(self, proof: Proof) -> None:
        """Keep how it ended."""
        self.told.append(str(proof.outcome))


def row(verdict: str, speedup: float | None = None, *issues: str, severity: str = "invalid", reason: str = "") -> Row:
    """What a run says of an implementation."""
    estimate = Estimate(speedup, speedup * 0.99, speedup * 1.01) if speedup else None
    findings = [Finding(one, severity, f"{one} was seen") for one in issues]
    return Row("move", "variant", "cpu", Verdict(verdict), reason=reason or None, speedup=estimate, findings=findings)


BASELINE = Row("still", "baseline", "cpu", Verdict.MEASURED)
FASTER = row("FASTER", 5.0)
SAME = row("SAME", 1.0)
UNSURE = row("INCONCLUSIVE", 1.5)
CAUGHT = row("INVALID", None, "play.cheat", reason="a cheat was seen")


class Scripted:
    """A planner whose runs are written down: what each says by its tier and by whether `referee` is off."""

    hardware = Hardware()
    light = False
    run_whole = Planner.run_whole

    def __init__(self, script: Callable[[Options], Any]) -> None:
        self.script = script
        self.options = Options()
        self.runs: list[Options] = []
        self.lights: list[bool] = []
        self.planned = 0

    def plan(self, selections: list[Selection]) -> tuple[list[Plan], list[SkippedTarget]]:
        """Describe a target with one variant for each device."""
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
                DescribedImplementation(name, role, device, "here")
                for device in ("cpu", "cuda")
                for name, role in (("still", "baseline"), ("move", "variant"))
            ],
        )
        return [Plan(selection, described, self.options.device, "smoke", {})], []

    def run(self, plan: Plan, log_path: object, reporter: object) -> Any:
        """Answer as the script says."""
        assert plan.selection.implementations == {"move"}
        self.runs.append(self.options)
        self.lights.append(self.light)
        said = self.script(self.options)
        if isinstance(said, SkippedTarget):
            return said
        rows = said if isinstance(said, list) else [BASELINE, said]
        return evolve(example.result(), rows=rows, complete=True)


def without_referee(options: Options) -> bool:
    return "referee" in options.off


def script(
    off: Row, on: Row, *, standard_off: Row | None = None, standard_on: Row | None = None
) -> Callable[[Options], Row]:
    """Runs by their tier, with the guard off and with it on."""

    def say(options: Options) -> Row:
        if options.tier == "standard":
            return (standard_off or off) if without_referee(options) else (standard_on or on)
        return off if without_referee(options) else on

    return say


def case(issue: str = "play.cheat", **other: Any) -> Case:
    return Case(**{"issue": issue, "module": "aiperf_redteam.play", "implementation": "move", **other})


def prove(
    planner: Scripted,
    *cases: Case,
    recorded: tuple[Recorded, ...] = (),
    issues: Sequence[Issue] = ISSUES,
    device: str | None = None,
    logs: Path | None = None,
    **other: Any,
) -> tuple[list[Proven], list[str]]:
    reporter = Keeping()
    with tempfile.TemporaryDirectory() as folder:
        prover = Prover(planner, logs or Path(folder), issues, device, reporter, **other)  # type: ignore[arg-type]
        return list(prover.prove(issues, cases, recorded)), reporter.told


def prove_one(planner: Scripted, one: Case, **other: Any) -> Proof:
    results, _ = prove(planner, one, **other)
    (proof,) = [proof for result in results for proof in result.proofs]
    return proof


# --- attacks


def test_an_attack_that_gains_without_its_guard_and_is_seen_with_it_is_found():
    planner = Scripted(script(FASTER, CAUGHT))
    proof = prove_one(planner, case())
    assert proof.seconds > 0
    assert evolve(proof, seconds=0.0) == Proof(
        case="play:move",
        honest=False,
        device="cpu",
        outcome=Outcome.FOUND,
        off="FASTER 5x",
        on="INVALID (play.cheat)",
        tier="quick",
    )
    assert [one.off for one in planner.runs] == [BESIDE | {"referee"}, BESIDE]
    assert {(one.device, one.tier, one.at_end.energy) for one in planner.runs} == {("cpu", "quick", False)}
    assert planner.lights == [False, False]


@pytest.mark.parametrize(
    "on",
    [
        row("FASTER", 5.0, "play.cheat", severity="warning"),
        row("FASTER", 5.0, "play.late", severity="warning"),  # of the same guard
        row("INVALID", None, "play.foul"),  # of another one, but hard
        [Row("still", "baseline", "cpu", Verdict.INVALID, findings=[Finding("play.cheat", "invalid", "it")]), UNSURE],
    ],
)
def test_it_is_found_by_whatever_tells_of_it(on):
    assert prove_one(Scripted(script(FASTER, on)), case()).outcome is Outcome.FOUND


@pytest.mark.parametrize("on", [SAME, row("SLOWER", 0.5), UNSURE, row("FAILED", reason="it died")])
def test_an_attack_that_gains_nothing_any_more_is_prevented(on):
    assert prove_one(Scripted(script(FASTER, on)), case()).outcome is Outcome.PREVENTED


def test_what_is_said_of_the_baseline_too_is_not_told():
    foul = Finding("play.foul", "warning", "it is foggy")
    both = [evolve(BASELINE, findings=[foul]), evolve(FASTER, findings=[foul])]
    proof = prove_one(Scripted(lambda _: both), case(honest=True))
    assert (proof.outcome, proof.on) == (Outcome.CLEARED, "FASTER 5x")


def test_a_warning_of_another_guard_finds_nothing():
    on = row("FASTER", 5.0, "play.foul", severity="warning")
    assert prove_one(Scripted(script(FASTER, on)), case()).outcome is Outcome.MISSED


def test_what_is_found_without_the_guard_is_not_found_by_it():
    warned = row("FASTER", 5.0, "play.cheat", severity="warning")
    assert prove_one(Scripted(script(warned, warned)), case()).outcome is Outcome.MISSED


def test_an_attack_that_the_quick_tier_does_not_catch_is_tried_in_the_standard_one():
    planner = Scripted(script(FASTER, FASTER, standard_on=CAUGHT))
    proof = prove_one(planner, case())
    assert (proof.outcome, proof.tier, proof.reason) == (Outcome.FOUND, "standard", "")
    assert [(one.tier, without_referee(one)) for one in planner.runs] == [
        ("quick", True),
        ("quick", False),
        ("standard", True),
        ("standard", False),
    ]


def test_an_attack_that_is_never_caught_is_missed():
    proof = prove_one(Scripted(script(FASTER, row("FASTER", 4.0))), case())
    assert (proof.outcome, proof.tier) == (Outcome.MISSED, "standard")
    assert proof.reason == "FASTER 4x with all guards on, FASTER 5x without 'referee'"


@pytest.mark.parametrize(
    ("off", "reason"),
    [
        (SAME, "is not FASTER without 'referee': SAME 1x"),
        (CAUGHT, "is not FASTER without 'referee': INVALID (play.cheat): a cheat was seen"),
        (row("FAILED", reason="raised KeyError"), "is not FASTER without 'referee': FAILED: raised KeyError"),
    ],
)
def test_an_attack_that_gains_nothing_in_the_first_place_proves_nothing(off, reason):
    planner = Scripted(script(off, CAUGHT))
    proof = prove_one(planner, case())
    assert (proof.outcome, proof.reason) == (Outcome.VOID, reason)
    assert [(one.tier, without_referee(one)) for one in planner.runs] == [("quick", True), ("standard", True)]


def test_noise_is_looked_through_for_longer_and_then_in_more_rounds():
    planner = Scripted(script(UNSURE, CAUGHT, standard_off=FASTER))
    assert prove_one(planner, case()).outcome is Outcome.FOUND
    quick = [one.budget_s or 0.0 for one in planner.runs if one.tier == "quick"]
    assert quick[1] == pytest.approx(LOOK_LONGER * quick[0])
    assert [(one.tier, without_referee(one)) for one in planner.runs] == [
        ("quick", True),
        ("quick", True),
        ("quick", True),
        ("standard", True),
        ("standard", False),
    ]


def test_noise_in_enough_rounds_is_looked_through_again():
    answers = iter([UNSURE, UNSURE, FASTER])
    planner = Scripted(lambda options: CAUGHT if not without_referee(options) else next(answers))
    assert prove_one(planner, evolve(case(), tier="standard")).outcome is Outcome.FOUND
    assert [(one.tier, without_referee(one)) for one in planner.runs] == [("standard", True)] * 3 + [
        ("standard", False)
    ]


def test_a_case_of_the_standard_tier_is_tried_in_one_round_of_processes_first():
    planner = Scripted(script(FASTER, CAUGHT))
    results, _ = prove(planner, case(tier="standard"), case(honest=True))
    assert [(one.case, one.tier) for one in results[0].proofs] == [
        ("play:move", "one-round"),
        ("play:move", "one-round"),
    ]
    assert [(one.tier, one.rounds, one.controls) for one in planner.runs] == [("standard", 1, True)] * 3
    assert {one.round_budget_s for one in planner.runs} == {BUDGET_S["one-round"]}


def test_what_one_round_does_not_catch_is_tried_in_all():
    planner = Scripted(lambda options: FASTER if without_referee(options) or options.rounds == 1 else CAUGHT)
    proof = prove_one(planner, case(tier="standard"))
    assert (proof.outcome, proof.tier) == (Outcome.FOUND, "standard")
    assert [one.rounds for one in planner.runs] == [1, 1, 3, 3]


def test_an_attack_that_another_guard_refused_by_chance_gets_another_chance():
    planner = Scripted(script(row("UNTRUSTED", None, "play.foul"), CAUGHT, standard_off=FASTER))
    assert prove_one(planner, case()).outcome is Outcome.FOUND


def test_a_gain_that_noise_hides_is_no_fault_of_the_attack():
    proof = prove_one(Scripted(script(row("INCONCLUSIVE", 9.0), CAUGHT)), case())
    assert (proof.outcome, proof.tier) == (Outcome.UNDECIDED, "standard")
    assert proof.reason == "is not FASTER without 'referee': INCONCLUSIVE 9x"


def test_a_gain_that_noise_hides_was_not_prevented():
    proof = prove_one(Scripted(script(FASTER, row("INCONCLUSIVE", 9.0))), case())
    assert (proof.outcome, proof.tier) == (Outcome.UNDECIDED, "standard")
    assert proof.reason == "INCONCLUSIVE 9x with all guards on, FASTER 5x without 'referee'"


def test_noise_that_stays_proves_nothing():
    proof = prove_one(Scripted(script(UNSURE, CAUGHT)), case())
    assert (proof.outcome, proof.tier) == (Outcome.VOID, "standard")
    assert proof.reason == "is not FASTER without 'referee': INCONCLUSIVE 1.5x"


# --- beside other work

BUSY = "other processes kept 40 % of the processors busy"
LOADED = row("FASTER", 5.0, "environment.background_load", severity="warning")
BROKEN_GUARD = script(FASTER, FASTER)
NO_GAIN = script(UNSURE, CAUGHT)
HIDDEN_GAIN = script(row("INCONCLUSIVE", 9.0), CAUGHT)
PERHAPS_A_GAIN = script(FASTER, row("INCONCLUSIVE", 9.0))
NO_BASELINE = lambda _: [Row("still", "baseline", "cpu", Verdict.UNTRUSTED, reason="clocks disagree"), FASTER]  # noqa: E731


@pytest.mark.parametrize(
    ("runs", "quiet", "reason"),
    [
        (BROKEN_GUARD, Outcome.MISSED, "FASTER 5x with all guards on, FASTER 5x without 'referee'"),
        (NO_GAIN, Outcome.VOID, "is not FASTER without 'referee': INCONCLUSIVE 1.5x"),
        (HIDDEN_GAIN, Outcome.UNDECIDED, "is not FASTER without 'referee': INCONCLUSIVE 9x"),
        (PERHAPS_A_GAIN, Outcome.UNDECIDED, "INCONCLUSIVE 9x with all guards on, FASTER 5x without 'referee'"),
        (NO_BASELINE, Outcome.ERROR, "the baseline was UNTRUSTED: clocks disagree"),
        (script(FASTER, CAUGHT), Outcome.FOUND, ""),
        (script(FASTER, SAME), Outcome.PREVENTED, ""),
    ],
)
@pytest.mark.parametrize("load", [0.0, 0.049, 0.4])
def test_load_alone_decides_whether_a_failure_is_decided(load, runs, quiet, reason):
    proof = prove_one(Scripted(runs), case())
    if load < 0.05 or not reason:
        assert (proof.outcome, proof.reason) == (quiet, reason)
    else:
        assert (proof.outcome, proof.reason) == (Outcome.UNDECIDED, f"{BUSY}: {reason}")


@pytest.mark.parametrize(("load", "outcome"), [(None, Outcome.UNDECIDED), (0.0, Outcome.MISSED)])
def test_a_warning_of_load_counts_where_no_process_of_the_run_made_it(load, outcome):
    """An attack that works beside its calls is no load of others."""
    assert prove_one(Scripted(script(FASTER, LOADED)), case()).outcome is outcome


@pytest.mark.parametrize("load", [0.4])
def test_what_load_does_in_the_quick_tier_is_not_the_last_word(load):
    assert prove_one(Scripted(script(FASTER, FASTER, standard_on=CAUGHT)), case()).outcome is Outcome.FOUND


@pytest.mark.parametrize("load", [None])
def test_a_finding_that_load_makes_without_the_guard_too_is_not_decided(load):
    caught = row("FASTER", 5.0, "play.cheat", severity="warning")
    loaded = evolve(caught, findings=[*caught.findings, *LOADED.findings])
    proof = prove_one(Scripted(script(loaded, caught)), case())
    assert (proof.outcome, proof.reason.partition(":")[0]) == (
        Outcome.UNDECIDED,
        "environment.background_load was seen",
    )


def test_an_issue_with_an_undecided_attack_is_not_proven():
    proofs = [
        Proof(case="play:move", honest=False, device="cpu", outcome=one) for one in (Outcome.FOUND, Outcome.UNDECIDED)
    ]
    assert Proven(issue="play.cheat", guard="referee", proofs=tuple(proofs)).outcome is Outcome.UNDECIDED


# --- what attacks are for


def test_an_attack_for_silence():
    silent = case(gains="silence")
    assert prove_one(Scripted(script(SAME, row("SAME", 1.0, "play.cheat"))), silent).outcome is Outcome.FOUND
    assert prove_one(Scripted(script(SAME, SAME)), silent).outcome is Outcome.MISSED
    told = prove_one(Scripted(script(row("SAME", 1.0, "play.cheat", severity="warning"), CAUGHT)), silent)
    assert (told.outcome, told.reason) == (Outcome.VOID, "is not silent without 'referee': SAME 1x (play.cheat)")


def test_light_is_measured_for_the_guard_that_needs_it_only(tmp_path):
    light = Issue(id="play.light", title="x", happens="x", guard="faster_than_light", protection="x")
    planner = Scripted(lambda options: FASTER if "faster_than_light" in options.off else CAUGHT)
    prover = Prover(planner, tmp_path, [light], None, Keeping())  # type: ignore[arg-type]
    (result,) = prover.prove([light], [case("play.light")], [])
    assert result.outcome is Outcome.FOUND
    assert [one.off for one in planner.runs] == [BESIDE, BESIDE - {"faster_than_light"}]
    assert planner.lights == [True, True]


def test_a_session_measures_a_processor_for_light_only(monkeypatch):
    asked = []
    monkeypatch.setattr(Planner, "ceilings", lambda self, *given: asked.append(given))
    planner = ProofPlanner.__new__(ProofPlanner)
    planner.ceilings("cpu")
    planner.ceilings("cuda", True)
    planner.light = True
    planner.ceilings("cpu", True, ["wire"])
    assert asked == [("cuda", True, ()), ("cpu", True, ["wire"])]


class Linted(Scripted):
    """A planner whose linter says what is given, or raises it."""

    def __init__(self, said: list[str] | ChildError, run: Row = FASTER) -> None:
        super().__init__(lambda _: run)
        self.said = said

    def lint(self, plan: Plan) -> list[str]:
        """Answer as given."""
        if isinstance(self.said, ChildError):
            raise self.said
        return self.said


def prove_lint(planner: Scripted, **other: Any) -> Proof:
    lint = Issue(id="play.loose", title="x", happens="x", guard="task_lint", protection="x")
    with tempfile.TemporaryDirectory() as folder:
        prover = Prover(planner, Path(folder), [lint], None, Keeping())  # type: ignore[arg-type]
        (result,) = prover.prove([lint], [case("play.loose", **other)], [])
    return result.proofs[0]


@pytest.mark.parametrize(
    ("planner", "honest", "outcome", "on", "reason"),
    [
        (Linted(["judge.zeros: accepts zeros"]), False, Outcome.FOUND, "judge.zeros: accepts zeros", ""),
        (Linted([]), False, Outcome.MISSED, "", "FASTER 5x, and lint finds nothing wrong with the judge"),
        (Linted(["judge.zeros: x"], SAME), False, Outcome.VOID, "", "is not FASTER without 'task_lint': SAME 1x"),
        (Linted(ChildError("hung", "hung")), False, Outcome.ERROR, "", "could not be linted: hung"),
        (Linted([]), True, Outcome.CLEARED, "FASTER 5x", ""),
        (Linted(["judge.zeros: x"]), True, Outcome.FLAGGED, "refused by lint", "judge.zeros: x"),
    ],
)
def test_a_benchmark_that_can_be_fooled_is_shown_to_the_linter(planner, honest, outcome, on, reason):
    proof = prove_lint(planner, honest=honest)
    assert (proof.outcome, proof.on, proof.reason) == (outcome, on, reason)


# --- runs that are shared


class Crowded(Scripted):
    """A planner whose runs hold several variants of one module; what each says, by its name and the run's options."""

    def __init__(self, say: Callable[[str, Options, int], Row]) -> None:
        super().__init__(lambda _: FASTER)
        self.say = say
        self.names: list[list[str]] = []

    def plan(self, selections: list[Selection]) -> tuple[list[Plan], list[SkippedTarget]]:
        """Describe a target with three variants."""
        ((plan,), _) = super().plan(selections)
        more = [DescribedImplementation(name, "variant", "cpu", "here") for name in ("jump", "creep")]
        return [
            evolve(plan, described=evolve(plan.described, implementations=plan.described.implementations + more))
        ], []

    def run(self, plan: Plan, log_path: object, reporter: object) -> Any:
        """Answer for each variant that is asked for."""
        names = sorted(plan.selection.implementations)
        self.runs.append(self.options)
        self.names.append(names)
        rows = [evolve(self.say(name, self.options, len(names)), name=name) for name in names]
        return evolve(example.result(), rows=[BASELINE, *rows], complete=True)


def crowd(**other: Any) -> list[Case]:
    return [case(implementation=name, **other) for name in ("move", "jump", "creep")]


def test_cases_of_a_module_share_their_runs(tmp_path):
    planner = Crowded(lambda name, options, _: FASTER if without_referee(options) else CAUGHT)
    results, _ = prove(planner, *crowd(), logs=tmp_path)
    assert [one.outcome for one in results[0].proofs] == [Outcome.FOUND] * 3
    assert planner.names == [["creep", "jump", "move"]] * 2
    assert [one.budget_s for one in planner.runs] == [pytest.approx(2 * BUDGET_S["quick"])] * 2


def test_who_disturbs_others_has_a_run_of_its_own(tmp_path):
    planner = Crowded(lambda name, options, _: FASTER if without_referee(options) else CAUGHT)
    one, *others = crowd()
    prove(planner, evolve(one, alone=True), *others, logs=tmp_path)
    assert planner.names == [["move"], ["move"], ["creep", "jump"], ["creep", "jump"]]


def test_an_attack_that_a_crowd_hides_is_tried_by_itself(tmp_path):
    def say(name: str, options: Options, crowd: int) -> Row:
        if without_referee(options):
            return UNSURE if name == "jump" and crowd > 1 else FASTER
        return FASTER if name == "creep" and crowd > 1 else CAUGHT

    planner = Crowded(say)
    results, _ = prove(planner, *crowd(), logs=tmp_path)
    assert [one.outcome for one in results[0].proofs] == [Outcome.FOUND] * 3
    assert planner.names == [["creep", "jump", "move"]] * 2 + [["jump"], ["creep"]]


def test_an_end_that_says_nothing_in_a_crowd_is_no_proof(tmp_path):
    planner = Crowded(lambda name, options, crowd: FASTER if without_referee(options) or crowd == 1 else UNSURE)
    results, _ = prove(planner, *crowd()[:2], logs=tmp_path)
    assert {one.outcome for one in results[0].proofs} == {Outcome.MISSED}


def test_look_alikes_share_a_run_and_one_that_is_struck_gets_its_own(tmp_path):
    foul = row("UNTRUSTED", None, "play.foul")
    planner = Crowded(lambda name, options, crowd: foul if name == "jump" and crowd > 1 else SAME)
    results, _ = prove(planner, *crowd(honest=True), logs=tmp_path)
    assert [one.outcome for one in results[0].proofs] == [Outcome.CLEARED] * 3
    assert planner.names == [["creep", "jump", "move"], ["jump"]]


# --- runs that are made side by side


class Ahead:
    """Makes runs ahead; what each says, by its key."""

    def __init__(self, say: Callable[[RunKey], Row | None]) -> None:
        self.say = say

    def make(
        self, jobs: Sequence[Job], meanwhile: Callable[[], None]
    ) -> Iterator[tuple[Job, dict[str, Row] | None, float]]:
        """Answer as given, after 7 seconds."""
        meanwhile()
        for job in jobs:
            rows = {name: self.say(job.key) for name in job.key.names}
            told = {name: evolve(row, name=name) for name, row in rows.items() if row is not None}
            yield job, {"still": BASELINE, **told} if told else None, 7.0


@pytest.fixture
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are made side by side however few they are."""
    monkeypatch.setattr(proof, "LEAST_AHEAD", 1)


def off(key: RunKey) -> bool:
    return "referee" in key.off


@pytest.mark.usefixtures("_few_runs")
def test_runs_that_were_made_ahead_are_not_made_again(tmp_path):
    planner = Crowded(lambda name, options, _: FASTER)
    ahead = Ahead(lambda key: FASTER if off(key) else CAUGHT)
    results, told = prove(planner, *crowd(), case(honest=True), logs=tmp_path, lanes=ahead)
    assert [one.outcome for one in results[0].proofs] == [Outcome.FOUND] * 3 + [Outcome.FLAGGED]
    assert planner.names == []
    assert [round(one.seconds) for one in results[0].proofs] == [14, 0, 0, 7], "the first case has the time of a run"
    assert told[:4] == [f"{index} of 3 runs ahead" for index in range(4)]


def test_a_few_runs_are_not_made_ahead(tmp_path):
    planner = Crowded(lambda name, options, _: FASTER if without_referee(options) else CAUGHT)
    results, _ = prove(planner, *crowd(), logs=tmp_path, lanes=Ahead(lambda key: UNSURE))
    assert [one.outcome for one in results[0].proofs] == [Outcome.FOUND] * 3
    assert len(planner.runs) == 2


@pytest.mark.parametrize(
    ("off_ahead", "on_ahead"), [(UNSURE, CAUGHT), (FASTER, FASTER), (FASTER, UNSURE), (None, None)]
)
@pytest.mark.usefixtures("_few_runs")
def test_what_proves_nothing_beside_another_run_is_tried_by_itself(off_ahead, on_ahead):
    planner = Scripted(script(FASTER, CAUGHT))
    proof = prove_one(planner, case(), lanes=Ahead(lambda key: off_ahead if off(key) else on_ahead))
    assert proof.outcome is Outcome.FOUND
    assert len(planner.runs) == (2 if off_ahead is None else 1)


@pytest.mark.usefixtures("_few_runs")
def test_a_gpu_is_measured_before_runs_are_made_on_it_side_by_side():
    class WithGpu(Scripted):
        hardware = Hardware(gpus=1)
        measured: ClassVar[list[str]] = []

        def ceilings(self, device: str) -> None:
            self.measured.append(f"ceilings of {device}")

        def flush_bound(self, device: str) -> None:
            self.measured.append(f"flush of {device}")

    ahead = Ahead(lambda key: FASTER if off(key) else CAUGHT)
    prove_one(WithGpu(script(FASTER, CAUGHT)), case(), lanes=ahead)
    assert WithGpu.measured == []
    prove_one(WithGpu(script(FASTER, CAUGHT)), case(device="cuda"), lanes=ahead)
    assert WithGpu.measured == ["ceilings of cuda", "flush of cuda"]


@pytest.mark.usefixtures("_few_runs")
def test_a_baseline_that_another_run_disturbed_is_measured_by_itself():
    class Disturbed(Ahead):
        def make(self, jobs, meanwhile):
            for job, rows, seconds in super().make(jobs, meanwhile):
                yield job, {**(rows or {}), "still": evolve(BASELINE, verdict=Verdict.UNTRUSTED)}, seconds

    planner = Scripted(script(FASTER, CAUGHT))
    assert prove_one(planner, case(), lanes=Disturbed(lambda key: FASTER)).outcome is Outcome.FOUND
    assert len(planner.runs) == 2


@pytest.mark.usefixtures("_few_runs")
def test_a_run_that_others_left_no_memory_is_made_by_itself():
    planner = Scripted(script(FASTER, CAUGHT))
    full = row("FAILED", reason="ran out of memory: CUDA out of memory")
    lanes = Ahead(lambda key: FASTER if off(key) else full)
    assert prove_one(planner, case(), lanes=lanes).outcome is Outcome.FOUND, "not prevented: nothing was seen of it"
    assert len(planner.runs) == 1


@pytest.mark.parametrize(
    ("guard", "runs"), [("interleaved", 1), ("camera", 0)], ids=["times decide", "times do not decide"]
)
@pytest.mark.usefixtures("_few_runs")
def test_a_refusal_for_times_beside_another_run_proves_nothing(guard, runs):
    planner = Scripted(script(FASTER, CAUGHT))
    lanes = Ahead(lambda key: FASTER if off(key) else row("INVALID", None, "play.foul"))
    proof = prove_one(planner, case(), issues=(CHEAT, evolve(FOUL, guard=guard)), lanes=lanes)
    assert proof.outcome is Outcome.FOUND
    assert len(planner.runs) == runs


@pytest.mark.parametrize(
    ("guard", "outcome"), [("interleaved", Outcome.MISSED), ("camera", Outcome.FOUND)], ids=["of times", "of values"]
)
def test_what_another_guard_finds_in_times_may_be_chance(guard, outcome):
    planner = Scripted(script(SAME, row("UNTRUSTED", None, "play.foul")))
    proof = prove_one(planner, case(gains="silence"), issues=(CHEAT, evolve(FOUL, guard=guard)))
    assert proof.outcome is outcome


@pytest.mark.usefixtures("_few_runs")
def test_a_harness_of_one_process_that_ran_beside_another_is_asked_as_often(tmp_path):
    own, asked = evolve(CHEAT, guard="own_process"), []

    class Counting(Alone):
        def in_one_process(self, plan: Plan, name: str, log: Path) -> tuple[str | None, float, float]:
            asked.append(name)
            return super().in_one_process(plan, name, log)

    ahead = Ahead(lambda key: SAME)
    prover = Prover(Counting((None, 1.0, 1.0)), tmp_path, [own], None, Keeping(), lanes=ahead)  # type: ignore[arg-type]
    (result,) = prover.prove([own], [case()], [])
    assert result.proofs[0].outcome is Outcome.VOID
    assert len(asked) == 2 * (1 + LOOK_AGAIN), "in the quick tier and in the standard one"


# --- what an attack is after, and candidates


@pytest.mark.parametrize(
    ("off", "on", "outcome"),
    [
        ([WORD], [], Outcome.PREVENTED),
        ([WORD], [WORD], Outcome.MISSED),
        ([], [], Outcome.VOID),
    ],
)
def test_an_attack_for_something_else_says_that_it_has_it(off, on, outcome):
    planner = Scripted(script(evolve(SAME, log=off), evolve(SAME, log=on)))
    assert prove_one(planner, case(gains="word")).outcome is outcome


def test_a_protection_that_the_machine_lacks_is_no_miss():
    lacking = Confined([], {"files": "needs Landlock", "user": "needs root"})
    planner = Scripted(script(evolve(SAME, log=[WORD]), evolve(SAME, log=[WORD], confined=lacking)))
    proof = prove_one(planner, case(gains="word", held_by=("files",)))
    assert (proof.outcome, proof.reason) == (
        Outcome.NOT_OBSERVABLE,
        "the sandbox has no 'files' here: needs Landlock",
    )
    assert prove_one(planner, case(gains="word", held_by=("signals",))).outcome is Outcome.MISSED


@pytest.mark.parametrize(
    ("measured", "outcome", "runs"),
    [
        ([""], Outcome.FOUND, 2),
        (["too cold"], Outcome.NOT_OBSERVABLE, 0),
    ],
)
def test_what_an_attack_needs_is_measured(monkeypatch, measured, outcome, runs):
    monkeypatch.setattr(kept_cache, "lacking", lambda: measured.pop(0))
    planner = Scripted(script(FASTER, CAUGHT))
    proof = prove_one(planner, case(needs=("kept_cache",)))
    assert (proof.outcome, proof.reason) == (outcome, "too cold" if runs == 0 else "")
    assert len(planner.runs) == runs


@pytest.mark.parametrize(("again", "outcome"), [("too cold", Outcome.NOT_OBSERVABLE), ("", Outcome.MISSED)])
def test_what_a_missed_attack_needs_is_measured_again(monkeypatch, again, outcome):
    measured = ["", again, again]
    monkeypatch.setattr(kept_cache, "lacking", lambda: measured.pop(0))
    planner = Scripted(script(FASTER, FASTER))
    assert prove_one(planner, case(needs=("kept_cache",), tier="standard")).outcome is outcome


def test_a_candidate_is_checked_as_one(tmp_path):
    one = case(module="aiperf_redteam.judged", implementation="golden_file", candidate=True, gains="word")
    planner = Candidates([WORD], [])
    assert prove_one(planner, one, logs=tmp_path).outcome is Outcome.PREVENTED
    sources = [options.candidate for options in planner.runs]
    assert [source.path.name for source in sources if source] == ["golden_file.py"] * 2
    lost = prove_one(planner, evolve(one, implementation="nobody"), logs=tmp_path)
    assert lost.outcome is Outcome.ERROR
    assert "nobody.py' does not exist" in lost.reason


class Candidates(Scripted):
    """A planner that runs candidates; what each writes to its log with the guard off and on."""

    def __init__(self, off: list[str], on: list[str]) -> None:
        super().__init__(script(evolve(SAME, name=CANDIDATE, log=off), evolve(SAME, name=CANDIDATE, log=on)))

    def run(self, plan: Plan, log_path: Any, reporter: object) -> Any:
        """Answer as the script says, beside the baits."""
        folder = log_path("any", CANDIDATE).parent
        assert {one.name for one in folder.iterdir()} == set(BAITS)
        assert plan.selection.implementations == frozenset()
        self.runs.append(self.options)
        said = self.script(self.options)
        return evolve(example.result(), rows=[BASELINE, said], complete=True)


# --- in one process


class Alone(Scripted):
    """A planner with a harness of one process that says what is given, or raises it."""

    def __init__(self, said: tuple[str | None, float, float] | ChildError, on: Row = SAME) -> None:
        super().__init__(lambda _: on)
        self.said = said

    def in_one_process(self, plan: Plan, name: str, log: Path) -> tuple[str | None, float, float]:
        """Answer as given."""
        if isinstance(self.said, ChildError):
            raise self.said
        return self.said


@pytest.mark.parametrize(
    ("said", "on", "outcome", "off"),
    [
        ((None, 3.0, 1.0), SAME, Outcome.PREVENTED, "FASTER 3x"),
        ((None, 3.0, 1.0), row("INVALID", None, "play.cheat"), Outcome.FOUND, "FASTER 3x"),
        ((None, 3.0, 1.0), FASTER, Outcome.MISSED, "FASTER 3x"),
        ((None, 1.1, 1.0), SAME, Outcome.VOID, "SAME 1.1x"),
        ((None, 1.0, 3.0), SAME, Outcome.VOID, "SLOWER 0.333x"),
        (("it is wrong", 0.0, 0.0), SAME, Outcome.VOID, "INVALID"),
        (ChildError("raised", "raised KeyError"), SAME, Outcome.VOID, "FAILED"),
    ],
)
def test_an_attack_on_own_processes_must_gain_in_a_harness_that_has_one(said, on, outcome, off, tmp_path):
    own = evolve(CHEAT, guard="own_process")
    planner = Alone(said, on)
    prover = Prover(planner, tmp_path, [own], None, Keeping())  # type: ignore[arg-type]
    (result,) = prover.prove([own], [case()], [])
    assert (result.proofs[0].outcome, result.proofs[0].off) == (outcome, off)
    assert all("own_process" not in options.off for options in planner.runs)


# --- look-alikes


@pytest.mark.parametrize(
    "on", [FASTER, SAME, UNSURE, row("SLOWER", 0.3), row("FASTER", 5.0, "play.foul", severity="warning")]
)
def test_a_look_alike_of_which_nothing_is_said_is_cleared(on):
    planner = Scripted(script(CAUGHT, on))
    proof = prove_one(planner, case(honest=True))
    assert (proof.outcome, proof.off, proof.reason) == (Outcome.CLEARED, "", "")
    assert [one.off for one in planner.runs] == [frozenset()]


@pytest.mark.parametrize(
    ("on", "reason"),
    [
        (CAUGHT, "INVALID (play.cheat): play.cheat was seen"),
        (row("SAME", 1.0, "play.cheat", severity="warning"), "SAME 1x (play.cheat): play.cheat was seen"),
        (row("INVALID", None, "play.foul"), "INVALID (play.foul): play.foul was seen"),
        (row("UNTRUSTED", reason="the clocks disagree"), "UNTRUSTED: the clocks disagree"),
    ],
)
def test_a_look_alike_of_which_anything_is_said_is_wrongly_flagged(on, reason):
    proof = prove_one(Scripted(script(FASTER, on)), case(honest=True))
    assert (proof.outcome, proof.reason) == (Outcome.FLAGGED, reason)


def test_a_look_alike_that_something_else_struck_once_is_tried_again_and_that_is_said():
    said = iter([row("UNTRUSTED", None, "play.foul"), SAME])
    proof = prove_one(Scripted(lambda _: next(said)), case(honest=True))
    assert (proof.outcome, proof.on) == (Outcome.CLEARED, "SAME 1x")
    assert proof.reason == "only when tried again; at first UNTRUSTED (play.foul): play.foul was seen"


def test_a_look_alike_that_is_taken_for_the_issue_once_is_flagged():
    said = iter([CAUGHT, SAME])
    assert prove_one(Scripted(lambda _: next(said)), case(honest=True)).outcome is Outcome.FLAGGED


def test_a_look_alike_is_tried_in_the_tier_that_its_attack_needs():
    planner = Scripted(script(FASTER, FASTER, standard_on=CAUGHT))
    results, told = prove(planner, case(honest=True), case())
    assert planner.runs[-1].tier == "standard"
    assert [one.outcome for one in results[0].proofs] == [Outcome.FOUND, Outcome.FLAGGED]
    assert results[0].outcome is Outcome.FLAGGED
    assert told == [
        "[1/2] play.cheat: attack play:move on cpu",
        "found",
        "[2/2] play.cheat: honest look-alike play:move on cpu",
        "wrongly flagged",
    ]


# --- what cannot be tried


@pytest.mark.parametrize(
    ("one", "device", "outcome", "reason"),
    [
        (case(device="cuda"), None, Outcome.NOT_OBSERVABLE, "needs cuda"),
        (case(device="cuda", needs=("cupti", "linux")), None, Outcome.NOT_OBSERVABLE, "needs cuda, cupti"),
        (case(needs=("gpus>=2",)), None, Outcome.NOT_OBSERVABLE, "needs gpus>=2"),
        (case(needs=("gpus>=1",)), None, Outcome.NOT_OBSERVABLE, "needs gpus>=1"),
        (case(), "cuda", Outcome.NOT_OBSERVABLE, "left out by --device cuda"),
        (case(device="cuda"), "cpu", Outcome.NOT_OBSERVABLE, "left out by --device cpu"),
        (case(module="greedy"), None, Outcome.NOT_OBSERVABLE, "needs 99 processors"),
        (case(module="absent"), None, Outcome.ERROR, "there is no such module"),
        (
            case(implementation="mov"),
            None,
            Outcome.ERROR,
            "aiperf_redteam.play has no variant 'mov' for cpu; it has move",
        ),
    ],
)
def test_a_case_that_cannot_be_tried_here_says_why(one, device, outcome, reason):
    planner = Scripted(script(FASTER, CAUGHT))
    proof = prove_one(planner, one, device=device)
    assert (proof.outcome, proof.reason, planner.runs) == (outcome, reason, [])


@pytest.mark.parametrize(
    ("said", "outcome", "reason"),
    [
        (row("SKIPPED", reason="needs sm_90"), Outcome.NOT_OBSERVABLE, "needs sm_90"),
        (SkippedTarget("redteam.play", Verdict.FAILED, "its reference raised"), Outcome.ERROR, "its reference raised"),
        (
            [Row("still", "baseline", "cpu", Verdict.FAILED, reason="it died"), UNSURE],
            Outcome.ERROR,
            "the baseline was FAILED: it died",
        ),
    ],
)
def test_a_run_that_tells_nothing_of_the_guard_is_no_proof(said, outcome, reason):
    proof = prove_one(Scripted(lambda _: said), case())
    assert (proof.outcome, proof.reason) == (outcome, reason)


def test_a_look_alike_that_fails_by_itself_is_an_error():
    proof = prove_one(Scripted(lambda _: row("FAILED", reason="raised KeyError")), case(honest=True))
    assert (proof.outcome, proof.reason) == (Outcome.ERROR, "raised KeyError")


def test_a_module_is_described_once():
    planner = Scripted(script(FASTER, CAUGHT))
    prove(planner, case(), case(honest=True), case("play.late"))
    assert planner.planned == 1


def test_an_interrupted_run_interrupts_the_selftest():
    class Interrupted(Scripted):
        def run(self, plan, log_path, reporter):
            return evolve(super().run(plan, log_path, reporter), complete=False)

    with pytest.raises(KeyboardInterrupt):
        prove_one(Interrupted(script(FASTER, CAUGHT)), case())


def test_a_case_of_an_issue_that_nobody_registered():
    (result,) = unknown_issues(ISSUES, [case(), case("play.chaet")])
    assert (result.issue, result.guard, result.outcome) == ("play.chaet", "", Outcome.ERROR)
    assert result.proofs[0].reason == "'play.chaet' is in no registry"


# --- recorded evidence


RECORDED = tuple(
    Recorded(issue="play.cheat", file=f"acme:{name}.json", honest=name == "honest") for name in ("guilty", "honest")
)


@pytest.fixture
def _recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings of two implementations with the names of their files."""

    def read(file: str) -> Recording:
        name = file.removeprefix("acme:").removesuffix(".json")
        evidence = Evidence(name=name, role="variant", device="cpu", clock="wall", cache="warm")
        return Recording(command="", machine={}, date="", versions={}, commit=None, run="", evidence=evidence)

    monkeypatch.setattr(recording, "read", read)


@pytest.mark.parametrize(
    ("look", "outcomes", "reasons"),
    [
        (
            lambda seen: [Seen("play.cheat", "it cheats")] if seen.name == "guilty" else [],
            [Outcome.RECORDED, Outcome.CLEARED],
            ["", ""],
        ),
        (
            lambda seen: [],
            [Outcome.MISSED, Outcome.CLEARED],
            ["the check saw nothing in the recording 'acme:guilty.json'", ""],
        ),
        (
            lambda seen: [Seen("play.late", "it is late")],
            [Outcome.MISSED, Outcome.CLEARED],
            ["the check saw play.late in the recording 'acme:guilty.json'", ""],
        ),
        (
            lambda seen: iter([Seen("play.foul", "a foul"), Seen("play.cheat", "it cheats")]),
            [Outcome.RECORDED, Outcome.FLAGGED],
            ["", "play.foul: a foul"],
        ),
        (
            lambda seen: NotObserved("it was dark"),
            [Outcome.MISSED, Outcome.CLEARED],
            ["the check did not look: it was dark", ""],
        ),
        (lambda seen: 1 / 0, [Outcome.ERROR, Outcome.ERROR], ["ZeroDivisionError: division by zero"] * 2),
    ],
)
@pytest.mark.usefixtures("_recordings")
def test_recorded_evidence(look, outcomes, reasons):
    results, told = prove(Scripted(script(FASTER, CAUGHT)), recorded=RECORDED, checks=(Check("referee", look),))
    assert [(one.case, one.honest, one.device) for one in results[0].proofs] == [
        ("recorded evidence", False, ""),
        ("recorded evidence", True, ""),
    ]
    assert [one.outcome for one in results[0].proofs] == outcomes
    assert [one.reason for one in results[0].proofs] == reasons
    assert told[0] == "[1/2] play.cheat: recorded evidence on paper"


@pytest.mark.usefixtures("_recordings")
def test_evidence_is_shown_to_the_checks_of_its_own_guard():
    other = Check("camera", lambda seen: [Seen("play.cheat", "it cheats")])
    results, _ = prove(Scripted(script(FASTER, CAUGHT)), recorded=RECORDED, checks=(other,))
    assert results[0].outcome is Outcome.ERROR
    assert results[0].proofs[0].reason == "'referee' has no check that looks at evidence"


# --- all cases of an issue


def proven(*outcomes: tuple[Outcome, bool]) -> Outcome:
    proofs = [Proof(case="a:b", honest=honest, device="cpu", outcome=one) for one, honest in outcomes]
    return Proven(issue="play.cheat", guard="referee", proofs=tuple(proofs)).outcome


@pytest.mark.parametrize(
    ("proofs", "outcome"),
    [
        ([], Outcome.UNPROVEN),
        ([(Outcome.CLEARED, True)], Outcome.UNPROVEN),
        ([(Outcome.FLAGGED, True)], Outcome.FLAGGED),
        ([(Outcome.FOUND, False), (Outcome.CLEARED, True)], Outcome.FOUND),
        ([(Outcome.PREVENTED, False), (Outcome.FOUND, False)], Outcome.FOUND),
        ([(Outcome.NOT_OBSERVABLE, False), (Outcome.RECORDED, False)], Outcome.RECORDED),
        ([(Outcome.NOT_OBSERVABLE, False), (Outcome.NOT_OBSERVABLE, True)], Outcome.NOT_OBSERVABLE),
        ([(Outcome.FOUND, False), (Outcome.MISSED, False)], Outcome.MISSED),
        ([(Outcome.FOUND, False), (Outcome.VOID, False)], Outcome.MISSED),
        ([(Outcome.FOUND, False), (Outcome.FLAGGED, True)], Outcome.FLAGGED),
        ([(Outcome.FOUND, False), (Outcome.ERROR, True)], Outcome.ERROR),
    ],
)
def test_the_outcome_of_an_issue_is_the_gravest_or_the_best_proof(proofs, outcome):
    assert proven(*proofs) is outcome


# --- real runs


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProofPlanner]:
    folder = tmp_path_factory.mktemp("proof")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TARGETS), prepend=os.pathsep)
        with ProofPlanner(Options(), folder) as opened:
            # It is tested elsewhere; and the tests must not depend on what the machine has.
            opened._probed["cuda"] = "the tests hide it"
            yield opened


@pytest.mark.parametrize(
    ("one", "outcome"),
    [
        (Case(issue="play.foul", module="guarded", implementation="kept"), Outcome.FOUND),
        (Case(issue="play.cheat", module="guarded", implementation="zeros"), Outcome.FOUND),
        (Case(issue="play.cheat", module="guarded", implementation="brisk", honest=True), Outcome.CLEARED),
        (Case(issue="play.cheat", module="guarded", implementation="zeros", honest=True), Outcome.FLAGGED),
        (Case(issue="play.cheat", module="broken", implementation="zeros"), Outcome.ERROR),
    ],
)
@pytest.mark.proof
def test_on_the_harness_itself(planner, tmp_path, one, outcome):
    issues = (evolve(CHEAT, guard="judged_output"), evolve(FOUL, guard="fresh_values"))
    prover = Prover(planner, tmp_path, issues, None, Keeping())
    (proof,) = [proof for result in prover.prove(issues, [one], []) for proof in result.proofs]
    assert proof.outcome is outcome, proof
    assert planner._ceilings == {}


@pytest.mark.proof
def test_a_real_linter(planner, tmp_path):
    trials = Trials(planner, tmp_path, None, Keeping())
    plan = trials.plan(case(module="guarded", implementation="zeros"), CHEAT)
    assert planner.lint(plan) == []
    loose = trials._planned(case(module="loose"))
    assert isinstance(loose, Plan)
    assert planner.lint(loose)[0].startswith("judge.")


@pytest.mark.proof
def test_no_process_is_left_that_an_attack_left_behind(planner, tmp_path):
    prover = Prover(planner, tmp_path, ISSUES, None, Keeping())
    one = Case(issue="play.cheat", module="guarded", implementation="leaves_a_process", honest=True)
    (proof,) = [proof for result in prover.prove(ISSUES, [one], []) for proof in result.proofs]
    assert proof.outcome is Outcome.CLEARED
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
def test_a_harness_of_one_process(planner, tmp_path, implementation, wrong, least, most):
    one = case("play.foul", module="guarded", implementation=implementation)
    plan = Trials(planner, tmp_path, None, Keeping()).plan(one, FOUL)
    for _ in range(3):
        said, baseline_s, variant_s = planner.in_one_process(plan, implementation, tmp_path / "one.log")
        # Other work on the machine may delay one side.
        if wrong or least < baseline_s / variant_s < most:
            break
    assert (said or "").startswith(wrong or "")
    assert bool(said) == bool(wrong)
    if not wrong:
        assert least < baseline_s / variant_s < most
