"""Edits of a stored result, sealed again, that no figure computed from the samples shows."""

import attrs
import measured
import pytest

from aiperf_core.measurements import Flush, Spread
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Conditions, Finding, Judging, Quality, RankTime, RunRequest, Sighting, Verdict
from aiperf_core.stats.recheck import recheck

TARGET = "ch07.memory_access"
WIDE = 2  # an undecided variant


@pytest.fixture
def bundle(tmp_path):
    return measured.bundle(tmp_path / "run")


def edited(bundle, edit):
    """The differences after an edit of the document, sealed again."""
    measured.tamper(bundle, edit)
    bundle.write_manifest(bundle.manifest)
    return recheck(bundle).differences


def edit_of_row(index, **changes):
    return lambda document: document["rows"][index].update(changes)


def judgement(**changes):
    return lambda document: document["rows"][1]["judgement"].update(changes)


def test_a_result_of_a_run_does_not_contradict_itself(bundle):
    assert recheck(bundle).differences == []


@pytest.mark.parametrize(
    ("edit", "where", "what", "recorded", "found"),
    [
        (judgement(worst=1.25), ":coalesced", "worst", "1.25", "at most 1, the tolerance, in a row that is believed"),
        (judgement(worst=None), ":coalesced", "worst", "none", "at most 1, the tolerance, in a row that is believed"),
        (judgement(samples=0), ":coalesced", "verified samples", "none", "at least 1 in a row that is believed"),
        (
            edit_of_row(1, judgement=None),
            ":coalesced",
            "verified samples",
            "none",
            "at least 1 in a row that is believed",
        ),
        (
            edit_of_row(0, judgement=None),
            ":strided",
            "verified samples",
            "none",
            "at least 1 in a row that is believed",
        ),
        (judgement(samples=24), ":coalesced", "verified samples", "24", "8 to 9 by its samples"),
        (judgement(samples=7), ":coalesced", "verified samples", "7", "8 to 9 by its samples"),
        (judgement(tolerance="fp16"), ":coalesced", "tolerance", "fp16", "bit-exact"),
        (
            edit_of_row(1, quality={"metric": "rel_l2", "value": 0.2, "budget": 0.05}),
            ":coalesced",
            "quality",
            "0.2",
            "at most 0.05, its budget",
        ),
        (lambda document: document["overhead"].update(samples=1200), "", "samples", "1200", "99 in its rows"),
        (lambda document: document["order"].append("ghost"), "", "order", "ghost", "no such row"),
        (
            lambda document: document["order"].append("wide"),
            ":wide",
            "blocks",
            "9 in the order of the run",
            "8 by its samples",
        ),
    ],
)
def test_an_edit_is_found(bundle, edit, where, what, recorded, found):
    differences = edited(bundle, edit)
    assert [(one.where, one.what, one.recorded, one.found) for one in differences] == [
        (f"{TARGET}{where}", what, recorded, found)
    ]


def test_fewer_rounds_than_the_samples_have(bundle):
    differences = edited(bundle, lambda document: document.update(rounds=1))
    assert {(one.what, one.recorded, one.found) for one in differences} == {("rounds", "1", "2 by its samples")}
    assert len(differences) == 4


def test_rows_that_are_not_believed_claim_nothing(bundle):
    def edit(document):
        for row in document["rows"]:
            row.update(verdict="FAILED", reason="x", speedup=None, step_speedup=None, judgement=None, time_s=None)
            row.update(wall_s=None, bytes_per_s=None, flop_per_s=None, speed_of_light=None, isolated_s=None)
            row.update(memory_gain=None)

    assert "verified samples" not in {one.what for one in edited(bundle, edit)}


def test_an_interrupted_target_may_lack_the_last_counts(tmp_path):
    found = attrs.evolve(measured.result(), complete=False)
    rows = [
        attrs.evolve(row, judgement=attrs.evolve(row.judgement, samples=7)) if row.judgement else row
        for row in found.rows
    ]
    made = Bundle.create_at(tmp_path / "run")
    short = attrs.evolve(found.overhead, samples=98)
    made.write_target(attrs.evolve(found, rows=rows, overhead=short, order=found.order[:-1]))
    made.write_manifest(attrs.evolve(measured.manifest(), complete=False, exit_code=130))
    assert recheck(made).differences == []


# --- findings

THROTTLED = Conditions(readings=8, throttled={"hw_thermal_slowdown": 0.5}, throttled_share=0.5)
LOADED = Conditions(readings=8, background=Spread(0.1, 0.2, 0.3))
SLOW, FAST = (Conditions(readings=8, sm_clock_hz=Spread(hz, hz, hz)) for hz in (1.0e9, 1.9e9))
WARM = Flush(hot_s=1e-3, cold_s=2e-3, flushed_s=1.1e-3)


def stored(tmp_path, changes, request=None, baseline=None, **more):
    """A bundle in which the undecided variant has this evidence, and no finding of it."""
    found = measured.result()
    rows = list(found.rows)
    rows[WIDE] = attrs.evolve(rows[WIDE], **changes)
    rows[0] = attrs.evolve(rows[0], **(baseline or {}))
    made = Bundle.create_at(tmp_path / "run")
    made.write_target(attrs.evolve(found, rows=rows, **more))
    made.write_manifest(attrs.evolve(measured.manifest(), request=request))
    return made


def throttled_samples():
    samples = measured.result().rows[WIDE].samples
    return attrs.evolve(samples, throttled=[index % 2 == 0 for index in range(len(samples.block))])


@pytest.mark.parametrize(
    ("changes", "issue"),
    [
        ({"conditions": LOADED}, "environment.background_load"),
        ({"conditions": THROTTLED, "samples": throttled_samples()}, "environment.thermal_throttling"),
        ({"conditions": Conditions(readings=8, other_pids=[7])}, "environment.shared_gpu"),
        ({"conditions": SLOW}, "environment.clock_drift"),
        ({"flush": WARM}, "timing.cache_not_cold"),
        ({"ranks": [RankTime(1, "cuda:1", 1e-3, conditions=LOADED)]}, "environment.background_load"),
    ],
)
def test_a_finding_that_was_removed(tmp_path, changes, issue):
    drift = {"conditions": FAST} if issue.endswith("drift") else None
    made = stored(tmp_path, changes, baseline=drift)
    (one,) = recheck(made).differences
    assert (one.where, one.what, one.recorded) == (f"{TARGET}:wide", "finding", "none")
    assert one.found.startswith(f"{issue}: ")
    # With its finding the row holds.
    known = {**changes, "findings": [Finding(issue, "warning", "as the run said it")]}
    if "flush" in changes:
        known["seen"] = [Sighting(issue, "as the run said it")]
    assert recheck(stored(tmp_path / "known", known, baseline=drift)).holds


def test_interference_is_computed_from_the_samples(tmp_path):
    alone = [value * 0.8 for value in measured.result().rows[WIDE].samples.device_s]
    made = stored(tmp_path, {"isolated_samples_s": alone})
    assert ("finding", "none") in {(one.what, one.recorded) for one in recheck(made).differences}


def test_what_the_policy_ignores_is_no_finding(tmp_path, monkeypatch):
    lenient = Judging("lenient")
    made = stored(tmp_path, {"conditions": LOADED}, request=RunRequest([], policy="lenient"), judging=lenient)
    assert [one.what for one in recheck(made).differences] == ["finding"]  # a warning under every policy
    from aiperf_core.validity.policy import Policy

    effect = Policy.effect

    def milder(self, issue):
        return "ignored" if (self.name, issue) == ("lenient", "environment.background_load") else effect(self, issue)

    monkeypatch.setattr(Policy, "effect", milder)
    assert recheck(made).holds
    # Of `aiperf judge`, whose request is not recorded, the target's own policy counts.
    made.write_manifest(attrs.evolve(made.manifest, request=None))
    assert recheck(made).holds
    made.write_manifest(attrs.evolve(made.manifest, request=RunRequest([], policy="strict")))
    (one,) = recheck(made).differences
    assert (one.where, one.what, one.recorded) == (TARGET, "policy", "lenient")
    assert one.found == "strict, by the request of the run"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"conditions": Conditions(readings=5)}, "readings"),
        (
            {"conditions": Conditions(readings=8, throttled_share=0.0), "samples": throttled_samples()},
            "throttled share",
        ),
        ({"conditions": Conditions(readings=8, throttled_share=0.5)}, "throttled share"),
    ],
)
def test_conditions_that_do_not_fit_the_samples(tmp_path, changes, what):
    assert [one.what for one in recheck(stored(tmp_path, changes)).differences] == [what]


def test_a_lossy_row_within_its_budget_holds(tmp_path):
    made = stored(tmp_path, {"quality": Quality("rel_l2", 0.04, 0.05)})
    assert recheck(made).holds


def test_the_made_up_rows_are_those_that_are_named():
    rows = measured.result().rows
    assert [rows[index].name for index in (0, 1, WIDE)] == ["strided", "coalesced", "wide"]
    assert rows[1].verdict is Verdict.FASTER
