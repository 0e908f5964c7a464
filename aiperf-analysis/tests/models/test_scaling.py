"""Scaling: laws, exponents, links and crossovers against known truths, and what the command says."""

import json
import math

import attrs
import numpy as np
import pytest
from simulated import Made, bundle, estimate, result

from aiperf_analysis.analyses import scaling
from aiperf_analysis.analyses.scaling import Options
from aiperf_analysis.models import laws
from aiperf_analysis.models.curve import Curve
from aiperf_analysis.models.draws import log_error, sample_draws, widening
from aiperf_analysis.models.pieces import pieces
from aiperf_analysis.selection import select
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.results.models import RankTime
from aiperf_core.stats.distributions import t_quantile
from aiperf_core.stats.intervals import Blocks
from aiperf_core.sweep import point_name

RANKS = [1, 2, 4, 8, 16, 32]


def curve(time, at=RANKS, spread=0.005):
    return Curve.of(at, [estimate(time(n), spread) for n in at])


def usl(n, sigma=0.05, kappa=0.001):
    return (1 + sigma * (n - 1) + kappa * n * (n - 1)) / n


def by_law(curve_, *, weak=False):
    return {one.law: one for one in laws.fits(curve_, weak=weak)}


# --- laws


def test_usl_of_a_curve_without_noise_is_exact():
    found = by_law(curve(usl))["USL"].parameters
    assert found["t1"].value == pytest.approx(1)
    assert found["sigma"].value == pytest.approx(0.05)
    assert found["kappa"].value == pytest.approx(0.001)
    assert found["peak"].value == pytest.approx(math.sqrt(0.95 / 0.001))
    assert found["sigma"].low < 0.05 < found["sigma"].high


def test_amdahl_is_chosen_where_there_is_no_coherency():
    found = laws.fits(curve(lambda n: usl(n, kappa=0)), weak=False)
    assert found[0].law == "Amdahl"
    assert found[0].parameters["s"].value == pytest.approx(0.05)
    assert not found[0].contradicted
    assert "reaches 0" in by_law(curve(lambda n: usl(n, kappa=0)))["USL"].absent["peak"]


def test_gustafson_for_weak_scaling():
    found = laws.fits(curve(lambda n: 1 / (1 - 0.2 * (n - 1) / n)), weak=True)
    assert found[0].law == "Gustafson"
    assert found[0].parameters["s"].value == pytest.approx(0.2)


def test_a_law_that_contradicts_a_point_says_so():
    assert by_law(curve(usl))["linear"].contradicted


def test_coefficients_are_not_negative():
    columns = np.stack([np.ones(5), np.arange(5.0), np.arange(5.0) ** 2], axis=1)
    values = np.array([[5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
    found = laws.nonnegative(columns, values, np.ones(5))
    # A falling line becomes its mean; a rising one stays.
    assert found[0] == pytest.approx([3, 0, 0])
    assert found[1] == pytest.approx([1, 1, 0])


def test_too_few_points_for_a_law():
    assert list(by_law(curve(usl, RANKS[:2]))) == ["linear"]
    assert set(by_law(curve(usl, RANKS[:4]))) == {"linear", "Amdahl"}


def test_near_ties_stand_together():
    found = laws.fits(curve(lambda n: 1 / n), weak=False)
    assert found[0].law == "linear"
    assert laws.near_ties(found)[0] is found[0]
    near = [attrs.evolve(found[0], aicc=1.0), attrs.evolve(found[0], aicc=2.9), attrs.evolve(found[0], aicc=3.1)]
    assert laws.near_ties(near) == near[:2]


def test_karp_flatt_of_amdahl_is_constant():
    for n in (2, 8, 64):
        assert laws.karp_flatt(estimate(1 / (0.1 + 0.9 / n)), n).value == pytest.approx(0.1)
    found = laws.karp_flatt(Estimate(4.0, 3.9, 4.1), 8)
    assert found.low < found.value < found.high


# --- pieces


def test_exponents_in_pieces():
    sizes = [1e3, 1e4, 1e5, 1e6, 1e7]
    first, second = pieces(curve(lambda n: max(1.0, n / 1e5), sizes)).pieces
    assert (first.high, second.low) == (1e5, 1e5)
    assert first.exponent.value == pytest.approx(0, abs=1e-3)
    assert second.exponent.value == pytest.approx(1, abs=1e-3)


def test_one_power_is_one_piece():
    [piece] = pieces(curve(lambda n: n**1.5, [1, 2, 4, 8, 16])).pieces
    assert piece.exponent.low <= 1.5 <= piece.exponent.high


# --- draws


def test_draws_have_the_error_of_the_figure_not_of_its_repeat():
    rng = np.random.default_rng(0)
    blocks = Blocks.of(list(np.exp(rng.normal(0, 0.01, 400))), [k // 4 for k in range(400)])
    draws = sample_draws(blocks)
    # The standard error of a median of 400 normal values.
    assert float(draws.std()) == pytest.approx(1.2533 * 0.01 / 20, rel=0.2)
    assert sample_draws(Blocks.of([1.0] * 4, [0, 1, 2, 3])) is None


def test_rounds_count_as_in_the_intervals_of_times():
    assert widening([1, 1]) == 1
    assert widening([3] * 6) == pytest.approx(2.1788 / 1.95996, rel=1e-3)
    wide = math.exp(t_quantile(0.975, 2) * math.sqrt(2) * 0.01)
    assert log_error(Estimate(1.0, 1 / wide, wide), rounds=3) == pytest.approx(0.01)


def test_the_error_of_an_interval_that_predicts_a_repeat():
    wide = 1.959963984540054 * math.sqrt(2) * 0.01
    assert log_error(Estimate(1.0, math.exp(-wide), math.exp(wide))) == pytest.approx(0.01)


# --- the analysis


def sweep(path, times, over="world_size", name="ch04.x", seed=0, **problem):
    """A bundle with a point for each place; `times` maps a place to the implementations."""
    made = []
    for index, (at, implementations) in enumerate(times.items()):
        declared = {key: value(at) for key, value in problem.items()}
        if over == "world_size":
            declared["world_size"] = at
        declared = {"params": {over: at}, "flops": 1e9, **declared}
        made.append(result(implementations, point_name(name, {over: at}), seed=seed + 100 * index, problem=declared))
    return bundle(path / "runs" / "one", *made)


def found(path, **options):
    return scaling.analyze(select([str(path / "runs")]), Options(**options))


def table(result_, name):
    return next(one for one in result_.tables if one.name == name)


def strong(path, time=usl, ranks=RANKS):
    return sweep(path, {n: [Made("plain", 1e-3 * time(n))] for n in ranks}, flops=lambda n: 1e9 / n)


def test_strong_scaling_of_samples(tmp_path):
    strong(tmp_path)
    whole = found(tmp_path)
    assert whole.title == "Scaling over world_size"
    assert whole.details["kinds"] == {"ch04.x:plain": "strong"}
    best = table(whole, "laws").records[0].cells
    assert (best["law"], best["verdict"]) == ("USL", "best")
    for name, truth in (("sigma", 0.05), ("kappa", 0.001)):
        assert best[name].low <= truth <= best[name].high
        assert best[name].high - best[name].low < 0.2 * truth
    points = [one.cells for one in table(whole, "points").records]
    assert points[3]["speedup"].value == pytest.approx(1 / usl(8), rel=0.01)
    assert points[3]["efficiency"].value == pytest.approx(1 / usl(8) / 8, rel=0.01)
    serial = [one["serial"].value for one in points[1:]]
    assert serial == sorted(serial)


def test_weak_scaling_by_the_declared_work(tmp_path):
    sweep(tmp_path, {n: [Made("plain", 1e-3 / (1 - 0.2 * (n - 1) / n))] for n in RANKS})
    whole = found(tmp_path)
    assert whole.details["kinds"] == {"ch04.x:plain": "weak"}
    best = table(whole, "laws").records[0].cells
    assert best["law"] == "Gustafson"
    assert best["s"].low <= 0.2 <= best["s"].high
    last = table(whole, "points").records[-1].cells
    assert last["speedup"].value == pytest.approx(32 - 0.2 * 31, rel=0.01)


def test_superlinear_points_are_kept_and_flagged(tmp_path):
    strong(tmp_path, lambda n: 1 / n**1.2)
    marks = [one.cells["mark"] for one in table(found(tmp_path), "points").records]
    assert marks == [None] + ["superlinear"] * 5


def test_few_points_name_how_many_are_needed(tmp_path):
    strong(tmp_path, ranks=[1, 2])
    reasons = [one.cells.get("s", one.cells.get("sigma")) for one in table(found(tmp_path), "laws").records[1:]]
    assert [one.reason for one in reasons] == [
        "Amdahl needs 3 values of world_size; 2 were measured",
        "USL needs 5 values of world_size; 2 were measured",
    ]


def test_without_one_rank_there_is_no_speedup(tmp_path):
    strong(tmp_path, ranks=[2, 4, 8])
    whole = found(tmp_path)
    assert table(whole, "points").records[0].cells["speedup"].reason == "no point with world_size = 1 was measured"
    linear, amdahl = (one.cells for one in table(whole, "laws").records[:2])
    assert (linear["verdict"], amdahl["verdict"]) == ("best, MISFIT", "not compared")
    assert amdahl["s"].value == pytest.approx(0.06, abs=0.01)
    assert "Best laws, by the number of implementations: none fits 1." in whole.summary


def test_sizes_have_exponents_and_crossovers(tmp_path):
    times = {n: [Made("plain", 1e-9 * n), Made("fast", 1e-4 + 1e-11 * n, ("x",))] for n in (1e3, 1e4, 1e5, 1e6, 1e7)}
    sweep(tmp_path, times, over="n", name="ch07.x")
    whole = found(tmp_path)
    [crossing] = table(whole, "crossovers").records
    assert (crossing.cells["below"], crossing.cells["above"]) == ("plain", "fast")
    assert (crossing.cells["before"].value, crossing.cells["after"].value) == (1e4, 1e6)
    plain = [one.cells for one in table(whole, "exponents").records if one.cells["row"] == "ch07.x:plain"]
    assert plain[0]["exponent"].value == pytest.approx(1, abs=0.01)
    assert "up to n = 10,000 'plain' is faster, from 1,000,000 on 'fast'." in whole.summary[-1]


def test_a_fit_through_noise_is_not_drawn_and_counted(tmp_path):
    times = {n: [Made("plain", 1e-9 * n), Made("flat", 1e-3, ("x",))] for n in (1e3, 1e4, 1e5, 1e6)}
    sweep(tmp_path, times, over="n", name="ch07.x")
    whole = found(tmp_path)
    assert "1 fit not drawn: the interval of the exponent includes 0." in whole.summary
    assert [one.name for one in whole.drawings[0].series] == ["flat", "plain", "plain: powers"]


def test_a_link_has_a_step_and_a_rate(tmp_path):
    sizes = [2**power for power in range(10, 24, 3)]
    made = []
    for index, n in enumerate(sizes):
        one = result([Made("ring", 6 * 2e-6 + n / 1e9)], point_name("ch04.x", {"n": n}), seed=index,
                     problem={"params": {"n": n, "world_size": 4}, "world_size": 4, "wire_bytes": n})  # fmt: skip
        rows = [attrs.evolve(row, ranks=[RankTime(0, "cuda:0", 1e-3, {"all_reduce": 1}, n)]) for row in one.rows]
        made.append(attrs.evolve(one, rows=rows))
    bundle(tmp_path / "runs" / "one", *made)
    [record] = table(found(tmp_path), "links").records
    assert record.cells["steps"].value == 6
    assert record.cells["alpha"].low <= 2e-6 <= record.cells["alpha"].high
    assert record.cells["rate"].low <= 1e9 <= record.cells["rate"].high
    assert record.cells["verdict"] == "fits"
    assert len(table(found(tmp_path), "rates").records) == len(sizes)


def test_intervals_serve_where_samples_are_gone(tmp_path, monkeypatch):
    strong(tmp_path)
    monkeypatch.setattr("aiperf_analysis.selection.Entry.blocks", lambda self, row=None: None)
    best = table(found(tmp_path), "laws").records[0].cells
    assert best["sigma"].low <= 0.05 <= best["sigma"].high


def test_unlike_points_are_not_pooled(tmp_path):
    strong(tmp_path)
    other = result([Made("plain", 1e-3)], "ch04.x", problem={"params": {"world_size": 64}}, cache="warm")
    bundle(tmp_path / "runs" / "two", other)
    assert len(table(found(tmp_path), "points").records) == len(RANKS)


# --- the command


def test_the_command_in_every_form(tmp_path, analyze):
    strong(tmp_path)
    shown = analyze("scaling", "--in", tmp_path / "runs", "--over", "world_size")
    assert shown.exit_code == 0, shown.output
    assert "Best laws, by the number of implementations: USL 1." in shown.output
    document = json.loads(analyze("scaling", "--in", tmp_path / "runs", "--json").output)
    assert document["details"]["over"] == "world_size"
    for ending in ("svg", "html", "csv"):
        assert analyze("scaling", "--in", tmp_path / "runs", "-o", tmp_path / f"out.{ending}").exit_code == 0


def test_an_unknown_parameter_is_refused(tmp_path):
    strong(tmp_path)
    with pytest.raises(UsageError) as error:
        found(tmp_path, over="wold_size")
    assert str(error.value) == (
        "no selected target has a parameter 'wold_size' with a positive value. Did you mean 'world_size'? "
        "Parameters here: world_size."
    )


def test_several_parameters_ask_for_one(tmp_path):
    made = [
        result([Made("plain", 1e-3)], point_name("ch07.x", {"m": m, "n": n}), problem={"params": {"m": m, "n": n}})
        for m in (1, 2)
        for n in (10, 20)
    ]
    bundle(tmp_path / "runs" / "one", *made)
    with pytest.raises(UsageError) as error:
        found(tmp_path)
    assert str(error.value) == "several parameters vary: m, n. Choose one: --over m"
    assert len(table(found(tmp_path, over="n"), "points").records) == 4


def test_a_single_point_is_refused_with_its_number(tmp_path):
    strong(tmp_path, ranks=[4])
    with pytest.raises(AiperfError) as error:
        found(tmp_path, over="world_size")
    assert str(error.value) == (
        "no target was measured at two values of 'world_size': ch04.x has 1 (4). Run a sweep: aiperf run ch04.x --set "
        "world_size=VALUE,VALUE,VALUE"
    )
    with pytest.raises(AiperfError, match="nothing to scale over"):
        found(tmp_path)


def test_draws_are_checked(tmp_path, analyze):
    strong(tmp_path)
    shown = analyze("scaling", "--in", tmp_path / "runs", "--draws", "few")
    assert shown.exit_code == 2
    assert "--draws got 'few'; it takes a whole number of at least 100." in shown.output
