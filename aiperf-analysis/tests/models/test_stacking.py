"""Stacking: contrasts of factorials, verdicts, ladders, and what the command says."""

import itertools
import json
import math

import attrs
import numpy as np
import pytest
from simulated import Made, bundle, result, square

from aiperf_analysis.analyses import stacking
from aiperf_analysis.analyses.stacking import Options
from aiperf_analysis.models import factorial
from aiperf_analysis.models.draws import probability
from aiperf_analysis.selection import select
from aiperf_core.measurements import Estimate
from aiperf_core.report.result import Figure
from aiperf_core.results.models import Verdict


def cells(*names):
    return [frozenset(one) for one in names]


def found(tmp_path, *results, **options):
    bundle(tmp_path / "runs" / "one", *results)
    return stacking.analyze(select([str(tmp_path / "runs")]), Options(**options))


def table(result_, name):
    return next(one for one in result_.tables if one.name == name)


CUBE = {
    cell: 0.1 * len(cell) + 0.05 * ("a" in cell and "b" in cell) - 0.3 * ("c" in cell)
    for cell in factorial.subsets("abc")
}


def valued(weights, logs=CUBE):
    return sum(weight * logs[cell] for cell, weight in weights.items())


def test_designs_are_the_largest_complete_factorials():
    [design] = factorial.designs(CUBE)
    assert (design.context, design.names) == (frozenset(), ("a", "b", "c"))
    without = [one for one in CUBE if one != frozenset("abc")]
    assert [one.names for one in factorial.designs(without)] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert factorial.designs(cells("", "a", "ab")) == []


def test_a_design_may_have_a_context():
    [design] = factorial.designs(cells("", "c", "ca", "cb", "cab"))
    assert (design.context, design.names) == (frozenset("c"), ("a", "b"))


def test_contrasts_of_known_effects():
    [design] = factorial.designs(CUBE)
    # g = t(A) t(B) / (t(0) t(AB)): the time of both is longer by the interaction.
    assert valued(factorial.interaction(design, "a", "b")) == pytest.approx(-0.05)
    assert valued(factorial.interaction(design, "a", "c")) == pytest.approx(0)
    assert valued(factorial.main_effect(design, "c")) == pytest.approx(0.2)
    assert valued(factorial.main_effect(design, "a")) == pytest.approx(-0.1 - 0.025)


def test_credits_add_up_to_the_gain_whatever_the_times():
    [design] = factorial.designs(CUBE)
    logs = {cell: float(value) for cell, value in zip(CUBE, np.random.default_rng(0).normal(size=8), strict=True)}
    parts = [valued(factorial.credit(design, name), logs) for name in design.names]
    assert sum(parts) == pytest.approx(valued(factorial.gain(design), logs))
    # The mean over all orders, written out.
    steps = []
    for order in itertools.permutations("abc"):
        before = frozenset(order[: order.index("a")])
        steps.append(logs[before] - logs[before | {"a"}])
    assert parts[0] == pytest.approx(np.mean(steps))


def test_holm_multiplies_by_the_number_of_hypotheses_left():
    assert factorial.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_a_half_fraction_has_the_aliases_of_its_word():
    half = factorial.fraction(cells("", "ab", "ac", "bc"))
    assert half.words == {frozenset("abc"): -1}
    assert half.aliases[frozenset("a")] == (frozenset("bc"),)
    logs = {cell: -0.5 * ("a" in cell) for cell in half.cells}
    assert valued(factorial.fractional_effect(half, frozenset("a")), logs) == pytest.approx(0.5)
    assert factorial.fraction(CUBE) is None
    assert factorial.fraction(cells("", "a", "ab", "abc")) is None


def test_an_estimator_is_exact_for_pairwise_effects_and_refuses_what_is_not_determined():
    known = [one for one in CUBE if one != frozenset("abc")]
    weights = factorial.estimator(known, frozenset("abc"))
    assert valued(weights) == pytest.approx(CUBE[frozenset("abc")])
    assert factorial.estimator(cells("", "ab"), frozenset("a")) is None


@pytest.mark.parametrize(
    ("g", "b", "verdict"),
    [(1.0, 1.5, "MULTIPLIES"), (1.3, 1.5, "SYNERGY"), (0.8, 1.5, "OVERLAP"), (0.5, 1.5, "CONFLICT")],
)
def test_verdicts_by_the_interval(tmp_path, g, b, verdict):
    [record] = table(found(tmp_path, result(square(g, b=b))), "pairs").records
    assert record.cells["verdict"] == verdict
    together = record.cells["together"]
    assert together.low <= g <= together.high
    assert together.high / together.low < 1.01
    assert [one.row for one in record.origins] == ["with_a", "with_b", "plain", "both"]


def test_several_pairs_need_more_than_an_interval_beyond_the_floor():
    beyond = Estimate(1.05, 1.012, 1.09)
    assert stacking.verdict_of(beyond, None, 0.02, 0.01)[0] == "SYNERGY"
    verdict, reason = stacking.verdict_of(beyond, None, 0.06, 0.01)
    assert verdict == "INCONCLUSIVE"
    assert "Holm" in reason
    below = Estimate(0.9, 0.88, 0.92)
    verdict, reason = stacking.verdict_of(below, Estimate(1.0, 0.98, 1.02), 0.001, 0.01)
    assert verdict == "INCONCLUSIVE"
    assert reason == "g is below 1, but whether both together are slower than the better one alone is open"


def test_a_probability_follows_the_nearer_end():
    assert probability(Estimate(1.1, 1.0, 1.3)) == pytest.approx(0.05, rel=1e-3)
    assert probability(Estimate(1.1, 1.05, 1.3)) < 0.01
    assert probability(Estimate(1.0, 0.9, 1.1)) == 1


def test_a_wide_interval_is_inconclusive(tmp_path):
    [record] = table(found(tmp_path, result(square(1.0), noise=0.3)), "pairs").records
    assert record.cells["verdict"] == "INCONCLUSIVE"
    assert "run longer" in record.cells["reason"]


def test_a_missing_combination_gets_no_number(tmp_path):
    made = [one for one in square() if one.name != "with_b"]
    whole = found(tmp_path, result(made))
    assert "pairs" not in [one.name for one in whole.tables]
    [record] = table(whole, "unmeasured_pairs").records
    assert record.cells["verdict"] == "NOT MEASURED"
    assert not any(isinstance(cell, Figure) for cell in record.cells.values())
    assert record.cells["reason"] == "no row has wide loads"


def test_a_combination_that_failed_is_incompatible_with_its_reason(tmp_path):
    made = [*square()[:3], attrs.evolve(square()[3], verdict=Verdict.FAILED, reason="out of memory")]
    [record] = table(found(tmp_path, result(made)), "unmeasured_pairs").records
    assert record.cells["verdict"] == "INCOMPATIBLE"
    assert record.cells["reason"] == "tiling + wide loads ('both') is FAILED: out of memory"


def test_without_samples_intervals_are_not_combined(tmp_path, monkeypatch):
    monkeypatch.setattr("aiperf_analysis.selection.Entry.blocks", lambda self, row=None: None)
    [record] = table(found(tmp_path, result(square())), "pairs").records
    assert record.cells["verdict"] == "NOT MEASURED"
    assert "the samples are gone" in record.cells["together"].reason


def cube(interaction=1.0):
    gains = {"x": 2.0, "y": 1.5, "z": 1.2}
    return [
        Made(
            "_".join(sorted(one)) or "plain",
            4e-3 / math.prod(gains[name] for name in one) / (interaction if {"x", "y"} <= one else 1.0),
            tuple(sorted(one)),
        )
        for one in factorial.subsets(gains)
    ]


def test_a_cube_has_pairs_effects_credits_and_a_matrix(tmp_path):
    whole = found(tmp_path, result(cube(0.8)))
    verdicts = {
        (one.cells["first"], one.cells["second"]): one.cells["verdict"] for one in table(whole, "pairs").records
    }
    assert verdicts == {("x", "y"): "OVERLAP", ("x", "z"): "MULTIPLIES", ("y", "z"): "MULTIPLIES"}
    credit = {one.cells["mechanism"]: one.cells["gain"].value for one in table(whole, "credit").records}
    assert credit["x"] * credit["y"] * credit["z"] == pytest.approx(credit["all together"])
    assert credit["z"] == pytest.approx(1.2, rel=0.01)
    effects = {one.cells["mechanism"]: one.cells["gain"].value for one in table(whole, "effects").records}
    assert effects["x"] == pytest.approx(2.0 * 0.8**0.5, rel=0.01)
    assert table(whole, "matrix").records[0].cells == {"mechanism": "x", "x": None, "y": "OVERLAP", "z": "MULTIPLIES"}


def test_a_fraction_prints_its_aliases(tmp_path):
    half = [one for one in cube() if len(one.mechanisms) in (0, 2)]
    shown = table(found(tmp_path, result(half)), "fractions")
    assert "4 of 8 combinations, defining words x x y x z" in shown.note
    assert shown.records[0].cells["aliases"] == "y x z"
    assert shown.records[0].cells["gain"].value == pytest.approx(2.0, rel=0.01)


def test_an_estimate_is_as_wide_as_the_interaction_that_is_missed_when_left_out(tmp_path):
    lacking = [one for one in cube(0.8) if len(one.mechanisms) < 3]
    assert "estimates" not in [one.name for one in found(tmp_path, result(lacking)).tables]
    [record] = table(stacking.analyze(select([str(tmp_path / "runs")]), Options(estimate=True)), "estimates").records
    assert record.cells["error"].value == pytest.approx(25, abs=1)
    assert record.cells["gain"].low <= 2.0 * 1.5 * 1.2 * 0.8 <= record.cells["gain"].high


def test_an_estimate_without_anything_to_leave_out_is_refused(tmp_path):
    lacking = [one for one in square() if one.name != "both"]
    [record] = table(found(tmp_path, result(lacking), estimate=True), "estimates").records
    assert record.cells["verdict"] == "NOT MEASURED"
    assert "error of an estimate is unknown" in record.cells["gain"].reason


def test_an_estimate_with_combinations_to_leave_out(tmp_path):
    gains = {"w": 1.3, "x": 2.0, "y": 1.5, "z": 1.2}
    made = [
        Made("_".join(sorted(one)) or "plain", 4e-3 / math.prod(gains[name] for name in one), tuple(sorted(one)))
        for one in factorial.subsets(gains)
        if len(one) < 4
    ]
    [record] = table(found(tmp_path, result(made), estimate=True), "estimates").records
    assert record.cells["verdict"] == "ESTIMATE"
    gain = record.cells["gain"]
    assert gain.certainty == "estimated"
    assert gain.low <= math.prod(gains.values()) <= gain.high
    assert record.cells["held_out"].value > 0


def test_a_ladder_multiplies_to_its_total(tmp_path):
    records = table(found(tmp_path, result(square(0.8))), "ladders").records
    assert [one.cells["step"] for one in records] == ["with_a", "both"]
    assert records[-1].cells["note"] == "the product equals the total"


def test_a_ladder_that_does_not_multiply_says_why(tmp_path):
    made = result(square())
    rows = [attrs.evolve(row, speedup=attrs.evolve(row.speedup, value=row.speedup.value * 1.02, high=9.0))
            if row.name == "both" else row for row in made.rows]  # fmt: skip
    whole = found(tmp_path, attrs.evolve(made, rows=rows))
    note = table(whole, "ladders").records[-1].cells["note"]
    assert "the product of the steps is 3.0" in note
    assert "have not all passes in common" in note
    assert "The steps of 1 of 1 ladders do not multiply to the total." in whole.summary


def test_the_newest_result_counts_not_the_best(tmp_path):
    bundle(tmp_path / "runs" / "old", result(square(1.3)), created="2026-01-01T00:00:00+00:00")
    bundle(tmp_path / "runs" / "new", result(square(0.8)), created="2026-02-01T00:00:00+00:00")
    whole = stacking.analyze(select([str(tmp_path / "runs")]), Options())
    assert [one.cells["verdict"] for one in table(whole, "pairs").records] == ["OVERLAP"]


def test_the_command_in_every_form(tmp_path, analyze):
    bundle(tmp_path / "runs" / "one", result(square(0.8)))
    shown = analyze("stacking", "--in", tmp_path / "runs")
    assert shown.exit_code == 0, shown.output
    assert "1 pair of mechanisms measured in 1 target with combinations: 1 OVERLAP." in shown.output
    document = json.loads(analyze("stacking", "--in", tmp_path / "runs", "--json").output)
    assert document["details"]["verdicts"]["OVERLAP"] == 1
    for ending in ("svg", "html", "csv", "json"):
        assert analyze("stacking", "--in", tmp_path / "runs", "-o", tmp_path / f"out.{ending}").exit_code == 0
    assert "ladder" in (tmp_path / "out.html").read_text()


def test_no_two_mechanisms_together_is_not_measured(tmp_path, analyze):
    bundle(tmp_path / "runs" / "one", result(square()[:3]))
    shown = analyze("stacking", "--in", tmp_path / "runs")
    assert shown.exit_code == 1
    assert (
        "Not measured: no believed row combines two mechanisms. A variant declares its mechanisms with adds=; two "
        "mechanisms need the variants A, B and both together."
    ) in " ".join(shown.output.split())


def test_hostile_names_stay_words(tmp_path, analyze):
    made = [attrs.evolve(one, reason="\x1b[31mred") for one in square()]
    made[3] = attrs.evolve(made[3], verdict=Verdict.FAILED)
    bundle(tmp_path / "runs" / "one", result(made))
    assert "\x1b" not in analyze("stacking", "--in", tmp_path / "runs").output


def test_targets_compose_by_amdahl_where_their_shares_are_given(tmp_path):
    bundle(tmp_path / "runs" / "one", result(square()), result(square(), target="ch09.y"))
    selection = select([str(tmp_path / "runs")])
    texts = ("ch07.memory_access:with_a=0.4..0.5", "ch09.y:with_b=20%")
    records = table(stacking.analyze(selection, Options(share=texts)), "composition").records
    whole = records[-1].cells["gain"]
    assert whole.value == pytest.approx(1 / (1 - 0.65 + 0.45 / 2 + 0.2 / 1.5), rel=0.01)
    assert whole.low < 1 / (1 - 0.6 + 0.4 / 2 + 0.2 / 1.5) < 1 / (1 - 0.7 + 0.5 / 2 + 0.2 / 1.5) < whole.high
    assert whole.certainty == "estimated"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ch07.memory_access:with_a", "it takes TARGET:IMPLEMENTATION=SHARE"),
        ("ch07.memory_access:with_a=2", "does not lie between 0 and 1"),
        ("ch07.memory_access:with_x=0.2", "no believed row of the selected bundles. Did you mean"),
        ("ch07.memory_access:plain=0.2", "has no speedup; name a variant."),
        ("ch07.memory_access:with_a=0.6,ch07.memory_access:with_b=0.6", "add up to 1.2; at most 1 is a step."),
    ],
)
def test_bad_shares_are_refused(tmp_path, analyze, text, message):
    bundle(tmp_path / "runs" / "one", result(square()))
    shown = analyze("stacking", "--in", tmp_path / "runs", "--share", text)
    assert shown.exit_code == 2
    assert message in " ".join(shown.output.split())
