"""Fronts of rows whose truth is known, and the analysis `pareto`."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from aiperf_analysis import joint
from aiperf_analysis.analyses import pareto
from aiperf_analysis.analyses.pareto import Options, Standing, standings
from aiperf_analysis.selection import select
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.report.metrics import half_width
from aiperf_core.results import example
from aiperf_core.results.models import Quality, Verdict

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "analysis_pareto.py"


def exact(*points):
    return np.array([points], dtype=float)


def test_exact_points():
    values = exact((1.0, 4.0), (2.0, 2.0), (4.0, 1.0), (3.0, 3.0))
    found = standings(values, np.zeros((4, 2)))
    assert [one.kind for one in found] == ["FRONT", "FRONT", "FRONT", "DOMINATED"]
    assert found[3] == Standing("DOMINATED", 1, 1.0)
    assert found[0].rival is None


def test_equal_points_and_those_within_the_floor_do_not_beat_each_other():
    values = exact((1.0, 1.0), (1.0, 1.0), (1.005, 1.0))
    assert {one.kind for one in standings(values, np.full((3, 2), 0.01))} == {"FRONT"}
    assert [one.kind for one in standings(values, np.zeros((3, 2)))] == ["FRONT", "FRONT", "DOMINATED"]


def test_zero_is_the_best_of_an_exact_figure():
    values = exact((1.0, 0.0), (1.0, 0.01))
    assert [one.kind for one in standings(values, np.zeros((2, 2)))] == ["FRONT", "DOMINATED"]


@pytest.mark.parametrize(("share", "kind"), [(0.0, "FRONT"), (0.04, "FRONT"), (0.5, "UNDECIDED"), (0.95, "DOMINATED")])
def test_the_share_of_draws_decides(share, kind):
    values = np.ones((1000, 2, 2))
    values[: round(1000 * share), 1, 0] = 2.0
    found = standings(values, np.full((2, 2), 0.01))[1]
    assert (found.kind, found.share) == (kind, pytest.approx(share))


def test_rows_of_a_bundle_share_their_draws(made):
    made.bundle("one", made.result({"a": 1e-3, "b": 1.1e-3}, noise=0.1))
    entries = select([str(made.folder)]).entries
    draws = joint.times(entries, 500)
    assert np.std(np.log(draws[:, 0] / draws[:, 1])) < 0.6 * np.std(np.log(draws[:, 0] / np.roll(draws[:, 1], 1)))
    assert np.median(draws, axis=0) == pytest.approx([one.row.time_s.value for one in entries], rel=0.05)


def test_without_samples_the_stored_intervals_decide(made):
    made.bundle("example")  # three samples a row
    entries = select([str(made.folder)]).entries
    draws = joint.times(entries, 2000)
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    assert low == pytest.approx([one.row.time_s.low for one in entries], rel=0.01)
    assert high == pytest.approx([one.row.time_s.high for one in entries], rel=0.01)


def test_ranks_are_ranges():
    rng = np.random.default_rng(0)
    scores = np.stack([rng.normal(9, 0.1, 500), rng.normal(2, 0.5, 500), rng.normal(2, 0.5, 500)], axis=1)
    assert joint.ranks(scores) == [(1, 1), (2, 3), (2, 3)]


# --- the analysis


def analyzed(made, **options):
    return pareto.analyze(select([str(made.folder)]), Options(**options))


def cells(result, *names):
    return [tuple(record.cells[name] for name in names) for record in result.tables[0].records]


def test_a_front_of_time_and_memory(example_runs, made):
    found = analyzed(made)
    standing = dict(cells(found, "row", "standing"))
    assert standing["ch09.matmul:plain"] == "DOMINATED"
    assert standing["ch09.matmul:tiled"] == "FRONT"
    assert standing["ch09.matmul:packed"] == "FRONT"
    assert ("ch09.matmul:plain", "tiled") in cells(found, "row", "rival")
    drawing = found.drawings[0]
    assert drawing.x.title == "time of a call (less is better)"
    assert drawing.message.endswith("FRONT: tiled, packed; DOMINATED: plain.")
    left = {one.what: one.reason for one in found.left_out}
    assert left["ch07.memory_access:memcpy"] == "a yardstick may do other work"
    assert "ch07.memory_access:remembered" in left
    assert not any("remembered" in row for row in standing)


def test_an_open_comparison_says_which_run_would_decide(made):
    result = made.result(
        {"plain": 2e-3, "one": 1.0e-3, "two": 1.015e-3}, noise=0.05, memory=dict.fromkeys(("plain", "one", "two"), 100)
    )
    made.bundle("one", result)
    found = analyzed(made)
    (record,) = [record for record in found.tables[0].records if record.cells["row"] == "ch07.memory_access:two"]
    assert record.cells["standing"] == "UNDECIDED"
    assert record.cells["next"] == (
        "time: more rounds, aiperf run ch07.memory_access --variant one --variant two --tier standard"
    )
    assert [one.row for one in record.origins] == ["two", "one"]
    assert found.summary[1] == "2 rows may or may not be on a front: the table says which run would decide."


def quality(value, budget=0.01):
    return {"quality": Quality("relative error", value, budget)}


def test_lossy_variants_have_a_front_of_their_own_unless_quality_is_an_objective(made):
    times = {"plain": 2e-3, "exact": 1.8e-3, "half": 1e-3, "eighth": 0.5e-3, "beyond": 0.1e-3}
    lossy = {"half": quality(0.001), "eighth": quality(0.009), "beyond": quality(0.02)}
    made.bundle("one", made.result(times, memory=dict.fromkeys(times, 100), row=lossy))
    found = analyzed(made)
    assert dict(cells(found, "row", "standing")) == {
        "ch07.memory_access:plain": "DOMINATED",
        "ch07.memory_access:exact": "FRONT",
        "ch07.memory_access:half": "DOMINATED",
        "ch07.memory_access:eighth": "FRONT",
    }
    left = {one.what: one.reason for one in found.left_out}
    assert left["ch07.memory_access:beyond"] == (
        "beyond its quality budget: relative error of 0.02 where 0.01 is allowed"
    )
    standing = dict(cells(analyzed(made, objective=("time", "quality")), "row", "standing"))
    assert [name.rpartition(":")[2] for name, kind in standing.items() if kind == "FRONT"] == [
        "exact",
        "half",
        "eighth",
    ]


def test_machines_of_different_kinds_are_compared_only_when_asked(made):
    base = made.result({"a": 2e-3, "b": 1e-3}, memory={"a": 100, "b": 100})
    slower = made.result({"a": 4e-3, "b": 3e-3}, memory={"a": 100, "b": 100})
    gpu = {**example.manifest().machine.gpus[0], "name": "NVIDIA A100"}
    made.bundle("one", base)
    made.bundle("two", slower, machine=evolve(example.manifest().machine, gpus=[gpu]))
    assert cells(analyzed(made), "standing").count(("FRONT",)) == 2
    rate = {"nvidia-h200-*": 4.0, "nvidia-a100-*": 1.0}
    found = analyzed(made, across=True, objective=("time", "cost"), rate=rate)
    assert sorted(cells(found, "row", "class", "standing"))[2:] == [
        ("ch07.memory_access:b", "nvidia-a100-x1", "FRONT"),
        ("ch07.memory_access:b", "nvidia-h200-x1", "FRONT"),
    ]
    cost = found.tables[0].records[-1].cells["cost"]
    time = found.tables[0].records[-1].cells["time"]
    assert cost.value == pytest.approx(time.value * 4.0 / 3600)
    assert "nvidia-h200-* 4 USD/h" in found.assumptions[-1]


def test_an_objective_that_no_row_has_is_refused_with_those_that_are_there(made):
    made.bundle("one", made.result({"a": 2e-3, "b": 1e-3}, memory={"a": 100, "b": 100}))
    with pytest.raises(UsageError) as caught:
        analyzed(made, objective=("time", "energy"))
    assert str(caught.value) == (
        "no row has the objective 'energy' (the tier quick measures no energy). Objectives of these rows: time, memory."
    )


def test_other_options_that_are_refused(made, aiperf):
    made.bundle("one", made.result({"a": 2e-3, "b": 1e-3}))
    for arguments, message in (
        (
            ("--objective", "time"),
            "--objective got 1 objective; a front takes 2 to 5 of: time, wall, memory, energy, quality, cost.",
        ),
        (
            ("--objective", "time,power"),
            "--objective got 'power'. Accepted: time, wall, memory, energy, quality, cost.",
        ),
        (("--rate", "h200"), "--rate got 'h200'; it takes CLASS=USD_PER_HOUR, such as nvidia-h200-x1=3.50."),
        (("--rate", "h200=-1"), "--rate got 'h200=-1'; it takes CLASS=USD_PER_HOUR, such as nvidia-h200-x1=3.50."),
        (("--draws", "10"), "--draws got 10; at least 100 draws tell 5 % from 0."),
    ):
        told = aiperf("analyze", "pareto", "--in", made.folder, *arguments)
        assert (told.code, told.err) == (2, f"aiperf: {message}\n")


def test_no_two_rows_with_the_objectives(made):
    made.bundle("one", made.result({"a": 2e-3, "b": 1e-3}, memory={"a": 100}, row={"b": {"verdict": Verdict.FASTER}}))
    with pytest.raises(
        AiperfError, match="no target has two rows with time and memory, so there is no front. Left out: "
    ):
        analyzed(made)


def test_energy_is_as_uncertain_as_time_and_counter(made):
    made.bundle("one", made.result({"a": 2e-3, "b": 1e-3}, joules={"a": 1.0, "b": 0.5}))
    entry = select([str(made.folder)]).entries[0]
    found = entry.figure("joules_per_call")
    assert found.value == 1.0
    assert half_width(found) == pytest.approx(np.hypot(half_width(entry.row.time_s), np.log(1.01)))
    assert half_width(Estimate(1.0, -0.1, 1.5)) > 3


# --- the simulation


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("analysis_pareto", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_wrong_claims_are_rare(script):
    counts = script.simulate(script.NOISES["usual"], 3, 300)
    assert counts.front > 0
    assert counts.dominated > 0
    assert counts.lost <= 0.05 * counts.front
    assert counts.kept <= 0.05 * counts.dominated
    assert counts.misranked <= 0.05 * counts.ranked
    assert counts.undecided < 0.5 * (counts.front + counts.dominated)


def test_the_script_prints_a_line_for_each_noise(script, monkeypatch, capsys):
    monkeypatch.setattr(script, "FRONTS", 2)
    monkeypatch.setattr("sys.argv", [str(SCRIPT), "--repeats", "1", "--draws", "100"])
    script.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| quiet", "| usual", "| busy"]
