"""Overview, trade-offs, recommendations, improvements, coverage and targets, on rows whose truth is known."""

from datetime import UTC, datetime

import numpy as np
import pytest
from attrs import evolve

from aiperf_analysis.analyses import coverage, improvements, overview, recommend, targets, tradeoff
from aiperf_analysis.selection import select
from aiperf_core.analysis_options import NoOptions
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.measurements import Estimate
from aiperf_core.report import cell_text
from aiperf_core.report.metrics import STORED
from aiperf_core.report.result import Figure
from aiperf_core.results import example
from aiperf_core.results.models import Quality, Verdict

LOSSY = {"quality": Quality("relative error", 1e-3, 1e-2)}


def selected(made, **filters):
    return select([str(made.folder)], **filters)


def sized(size):
    return evolve(example.result().problem, params={"n": size})


def cells(table, *names):
    return [tuple(record.cells[name] for name in names) for record in table.records]


def left_out(result):
    return {one.what: one.reason for one in result.left_out}


# --- overview


def test_means_over_targets_by_goal_class_and_baseline(made):
    gains = [2.0, 3.0, 4.0]
    made.bundle("one", *(made.result({"a": gain, "b": 1.0}, target=f"ch07.t{place}", noise=0.001)
                         for place, gain in enumerate(gains)), skipped=[])  # fmt: skip
    found = overview.analyze(selected(made), NoOptions())
    ((_, _, mean),) = cells(found.tables[2], "goal", "baseline", "mean")
    assert mean.value == pytest.approx(np.prod(gains) ** (1 / 3), rel=0.01)
    assert mean.low < 2.9 < mean.high
    assert found.summary[1].startswith("Mean speedup over reasonable baselines on nvidia-h200-x1 (goal speed): 2.88x [")
    assert cells(found.tables[1], "verdict", "goal") == [("FASTER", "speed")]


def test_a_target_of_several_sizes_counts_once_in_a_mean(made):
    """In one bundle as points of a sweep, and in bundles of their own."""
    sweep = [made.result({"a": 16.0, "b": 1.0}, target=f"ch07.sweep@n={size}", problem=sized(size)) for size in (1, 2)]
    others = [made.result({"a": 2.0, "b": 1.0}, target=f"ch07.t{place}") for place in range(2)]
    made.bundle("one", *sweep, *others)
    for place, gain in enumerate((1.0, 4.0)):
        size = made.result({"a": gain, "b": 1.0}, target="ch07.alone", problem=sized(place))
        made.bundle(f"size-{place}", size, created=f"2026-11-2{place}T10:00:00+00:00")
    found = overview.analyze(selected(made), NoOptions())
    assert found.summary[0].startswith("4 targets in 3 bundles: ")
    (record,) = found.tables[2].records
    assert record.cells["targets"].value == 4
    assert record.cells["mean"].value == pytest.approx((16 * 2 * 2 * 2) ** (1 / 4), rel=0.02)


def test_what_enters_no_mean(made):
    times = {"a": 4.0, "b": 1.0}
    results = [made.result(times, target=f"ch07.t{place}") for place in range(3)]
    results.append(made.result(times, target="ch07.none", no_gain="the compiler does it"))
    results.append(made.result(times, target="ch07.anti", row={"a": {"kind": "antipattern"}}))
    results.append(made.result({"a": 4.0, "b": 2.0, "half": 0.1}, target="ch07.lossy", row={"half": LOSSY}))
    made.bundle("one", *results)
    found = overview.analyze(selected(made), NoOptions())
    (record,) = found.tables[2].records
    assert record.cells["targets"].value == 4
    assert record.cells["mean"].value < 4
    assert dict(cells(found.tables[0], "target", "note"))["ch07.none"] == "no gain is expected: the compiler does it"
    assert dict(cells(found.tables[0], "target", "best"))["ch07.lossy"] == "half"


def test_without_a_proven_gain_there_is_no_best_variant_and_no_mean(made):
    undecided = {"b": {"verdict": Verdict.INCONCLUSIVE, "speedup": Estimate(0.247, 0.08, 105.0)}}
    made.bundle("one", *(made.result({"a": 1.0, "b": 1.0}, target=f"ch07.t{place}", row=undecided)
                         for place in range(3)), skipped=[])  # fmt: skip
    found = overview.analyze(selected(made), NoOptions())
    assert found.summary == ["3 targets in 1 bundle: 3 INCONCLUSIVE."]
    assert [one.name for one in found.tables] == ["targets", "verdicts"]
    assert cells(found.tables[0], "best", "verdict") == [(None, "INCONCLUSIVE")] * 3
    assert found.tables[0].records[0].cells["gain"].reason == "no variant is proven to gain"
    assert found.drawings[0].series[0].points == []


def test_slower_targets_are_in_a_mean_and_undecided_ones_are_not(made):
    undecided = {"b": {"verdict": Verdict.INCONCLUSIVE, "speedup": Estimate(9.0, 0.08, 105.0)}}
    results = [
        made.result({"a": gain, "b": 1.0}, target=f"ch07.t{place}") for place, gain in enumerate((4.0, 2.0, 0.5))
    ]
    results.append(made.result({"a": 1.0, "b": 1.0}, target="ch07.noisy", row=undecided))
    made.bundle("one", *results, skipped=[])
    (record,) = overview.analyze(selected(made), NoOptions()).tables[2].records
    assert record.cells["targets"].value == 3
    assert record.cells["mean"].value == pytest.approx(4 ** (1 / 3), rel=0.02)


def test_a_mean_of_too_few_targets_has_a_reason():
    assert overview.geometric_mean([2.0, 3.0]) == Figure(value=None, reason="a mean takes at least 3 targets; found 2")


def test_the_interval_of_a_mean_covers_the_truth():
    rng = np.random.default_rng(1)
    hits = 0
    for seed in range(200):
        mean = overview.geometric_mean(list(rng.lognormal(0.5, 0.4, 12)), seed)
        hits += mean.low <= np.exp(0.5) <= mean.high
    assert hits >= 176


# --- trade-offs


@pytest.mark.parametrize(
    ("low", "high", "saved", "kind"),
    [
        (1.1, 1.2, 0, "GAIN"), (0.995, 1.005, 5, "GAIN"), (0.8, 0.9, 0, "LOSS"), (0.995, 1.005, -5, "LOSS"),
        (0.8, 0.9, 5, "TRADE"), (1.1, 1.2, -5, "TRADE"), (0.9, 1.1, 5, "UNCLEAR"), (0.995, 1.005, 0, "UNCLEAR"),
    ],
)  # fmt: skip
def test_kinds_of_trades(low, high, saved, kind):
    assert tradeoff.kind_of(Estimate((low + high) / 2, low, high), 0.01, saved) == kind


def test_the_rate_of_a_trade(made):
    made.bundle(
        "one", made.result({"plain": 1.0, "small": 1.2}, noise=0.002, memory={"plain": 4000 << 20, "small": 2000 << 20})
    )
    (record,) = tradeoff.analyze(selected(made), NoOptions()).tables[0].records
    assert record.cells["kind"] == "TRADE"
    assert record.cells["memory"].value == -2000 << 20
    rate = record.cells["rate"]
    assert rate.low < 100 << 20 < rate.high
    assert rate.high / rate.low < 1.3


@pytest.mark.parametrize(("plain", "fast"), [(4096, 5632), (1 << 40, (1 << 40) + (2 << 20))])
def test_a_difference_of_memory_below_the_floor_is_no_price(made, plain, fast):
    """1.5 KiB, and 2 MiB of a TiB."""
    made.bundle("one", made.result({"plain": 1.0, "fast": 0.5}, noise=0.002, memory={"plain": plain, "fast": fast}))
    (record,) = tradeoff.analyze(selected(made), NoOptions()).tables[0].records
    assert (record.cells["kind"], record.cells["rate"].value) == ("GAIN", None)


def test_a_gain_that_is_paid_with_quality(made):
    times = {"plain": 1.0, "half": 0.5}
    made.bundle("one", made.result(times, noise=0.002, memory=dict.fromkeys(times, 4000), row={"half": LOSSY}))
    (record,) = tradeoff.analyze(selected(made), NoOptions()).tables[0].records
    assert record.cells["kind"] == "LOSSY"
    assert record.cells["quality"].value == pytest.approx(1e-3 / 50, rel=0.02)


def test_no_memory_figures(made):
    made.bundle("one", made.result({"plain": 1.0, "half": 0.5}))
    with pytest.raises(AiperfError) as caught:
        tradeoff.analyze(selected(made), NoOptions())
    assert str(caught.value) == (
        "no variant has both a speedup and a peak of memory (1 x no peak of its memory, or of the baseline's, was "
        "measured), so there is nothing to trade. Run more targets: aiperf run PATTERN"
    )


# --- recommendations


def test_a_target_is_recommended_once_by_its_largest_step(made):
    times = {"plain": 2e-3, "fast": 1e-3, "faster": 0.5e-3, "same": 2e-3}
    made.bundle("one", made.result(times, row={"faster": {"why": "tiles stay in the cache"}}), skipped=[])
    made.bundle("two", made.result({"plain": 2e-3, "fast": 1.5e-3}, target="ch09.matmul"), skipped=[])
    found = recommend.analyze(selected(made), recommend.Options())
    assert cells(found.tables[0], "row", "over") == [
        ("ch07.memory_access:faster", "plain"), ("ch09.matmul:fast", "plain"),
    ]  # fmt: skip
    gain = cell_text.whole(found.tables[0].records[0].cells["gain"])
    assert found.summary == [
        "For low-latency (a shorter time of one call): a step of 2 targets is proven to help.",
        "First to try, if your work is like ch07.memory_access (Neighbours in a warp should touch neighbours in "
        f"memory): faster, {gain} over plain: tiles stay in the cache. To see it: aiperf run ch07.memory_access",
    ]
    assert len(recommend.analyze(selected(made), recommend.Options(top=1)).tables[0].records) == 1


def test_a_gain_over_a_naive_baseline_is_no_advice_and_a_step_that_gains_nothing_neither(made):
    """918x over one counter for all; the step on top of it gains nothing, and another gains 1.5x."""
    rows = {
        "plain": {"kind": "naive"},
        "by_lane": {"builds_on": "by_warp", "step_speedup": Estimate(0.99, 0.97, 1.01)},
        "packed": {"builds_on": "by_warp", "step_speedup": Estimate(1.5, 1.4, 1.6)},
    }
    times = {"plain": 0.918, "by_warp": 1e-3, "by_lane": 1.01e-3, "packed": 0.667e-3}
    made.bundle("one", made.result(times, row=rows, target="ch07.histogram"), skipped=[])
    found = recommend.analyze(selected(made), recommend.Options())
    assert cells(found.tables[0], "row", "over") == [("ch07.histogram:packed", "by_warp")]
    assert found.tables[0].records[0].cells["gain"].value == 1.5


def test_each_use_case_has_its_figure(made, monkeypatch):
    times = {"plain": 2e-3, "fast": 1e-3, "small": 2.5e-3}
    made.bundle("one", made.result(times, memory={"plain": 400, "fast": 400, "small": 100},
                                   joules={"plain": 1.0, "fast": 0.99, "small": 0.5}))  # fmt: skip
    monkeypatch.setattr(recommend, "_training", lambda: frozenset())
    best = {}
    for use in recommend.CASES:
        found = recommend.analyze(selected(made), recommend.Options(use=use))
        best[use] = [row.rpartition(":")[2] for (row,) in cells(found.tables[0], "row")]
    assert best == {
        "low-vram": ["small"], "low-latency": ["fast"], "throughput": ["fast"], "training": [], "cost": ["fast"],
        "energy": ["small"],
    }  # fmt: skip


def test_where_nothing_helps_it_says_so(made, aiperf):
    made.bundle("one", made.result({"plain": 2e-3, "slow": 3e-3}), skipped=[])
    told = aiperf("analyze", "recommend", "--in", made.folder)
    assert told.code == 0
    assert "no step of 1 variant is proven to help; nothing is recommended." in told.out
    told = aiperf("analyze", "recommend", "--use", "low-vrm", "--in", made.folder)
    assert (told.code, told.err) == (
        2, "aiperf: --use got 'low-vrm'. Did you mean 'low-vram'? Accepted: low-vram, low-latency, throughput, training, cost, energy.\n",
    )  # fmt: skip


# --- improvements


def test_effects_of_single_mechanisms(made):
    rows = {
        "tiled": {"mechanisms": ["tiling"]},
        "both": {"mechanisms": ["tiling", "vectors"], "builds_on": "tiled", "step_speedup": example.estimate(1.5)},
        "three": {"mechanisms": ["tiling", "vectors", "async"]},
    }
    times = {"plain": 4e-3, "tiled": 2e-3, "both": 1.33e-3, "three": 1e-3, "none": 3e-3}
    made.bundle("one", *(made.result(times, target=f"ch07.t{place}", row=rows, seed=place) for place in range(4)))
    found = improvements.analyze(selected(made), improvements.Options())
    assert cells(found.tables[0], "mechanism") == [("tiling",), ("vectors",)]
    tiling, vectors = found.tables[0].records
    assert tiling.cells["median"].value == pytest.approx(2.0, rel=0.02)
    assert vectors.cells["median"].value == pytest.approx(1.5)
    assert tiling.cells["effects"].value == tiling.cells["targets"].value == tiling.cells["proven"].value == 4
    assert tiling.cells["lower"].value <= tiling.cells["median"].value <= tiling.cells["upper"].value
    assert left_out(found)["ch07.t0:three"] == "it combines async, tiling, vectors, and no step adds one of them alone"
    assert left_out(found)["ch07.t0:none"] == "it declares no mechanism"


def test_the_picture_has_the_mechanisms_of_several_targets(made):
    tiled, lone = ({"fast": {"mechanisms": [name]}} for name in ("tiling", "async"))
    results = [made.result({"plain": 2.0, "fast": 1.0}, target=f"ch07.t{place}", row=tiled) for place in range(3)]
    made.bundle("one", *results, made.result({"plain": 38.0, "fast": 1.0}, target="ch07.lone", row=lone))
    found = improvements.analyze(selected(made), improvements.Options())
    assert cells(found.tables[0], "mechanism") == [("async",), ("tiling",)]
    assert [point.label for point in found.drawings[0].series[0].points] == ["tiling (3)"]
    assert found.summary[1] == "1 mechanism of fewer than 3 targets in the table alone."
    assert found.drawings[0].message.endswith("; the largest median is async (1). " + found.summary[1][:-1])
    alone = improvements.analyze(selected(made), improvements.Options(mechanism="async"))
    assert [point.label for point in alone.drawings[0].series[0].points] == ["async (1)"]


def test_mechanisms_of_few_targets_alone_have_no_picture(made):
    lone = {"fast": {"mechanisms": ["async"]}}
    made.bundle("one", made.result({"plain": 38.0, "fast": 1.0}, target="ch07.lone", row=lone))
    assert improvements.analyze(selected(made), improvements.Options()).drawings == []


def test_the_picture_of_the_gains_begins_with_the_largest(made):
    gains = {"ch07.a": 2.0, "ch07.b": 8.0, "ch07.c": 4.0}
    made.bundle("one", *(made.result({"plain": gain, "fast": 1.0}, target=name) for name, gain in gains.items()))
    points = overview.analyze(selected(made), NoOptions()).drawings[0].series[0].points
    assert [point.label for point in points] == ["ch07.b:fast", "ch07.c:fast", "ch07.a:fast"]
    assert [point.y.value for point in points] == [0, 1, 2]


def test_a_target_of_several_sizes_has_one_effect(made):
    """And so have two variants of one target with the same mechanism."""
    rows = {name: {"mechanisms": ["tiling"]} for name in ("small", "large")}
    sweep = [
        made.result({"plain": 8.0, "small": 4.0, "large": 1.0}, target=f"ch07.sweep@n={size}", row=rows)
        for size in (1, 2, 3)
    ]
    made.bundle("one", *sweep, *(made.result({"plain": 2.0, "small": 1.0}, target=f"ch07.t{place}", row=rows)
                                 for place in range(2)))  # fmt: skip
    (tiling,) = improvements.analyze(selected(made), improvements.Options()).tables[0].records
    assert tiling.cells["effects"].value == tiling.cells["targets"].value == tiling.cells["proven"].value == 3
    assert tiling.cells["median"].value == pytest.approx(2.0, rel=0.02)
    assert tiling.cells["most"].value == pytest.approx(4.0, rel=0.02)
    assert len(tiling.origins) == 8


def test_targets_that_expect_no_gain_are_listed_apart(made):
    rows = {"tiled": {"mechanisms": ["tiling"]}}
    one = made.result({"plain": 2e-3, "tiled": 1e-3}, row=rows)
    made.bundle("one", one, evolve(one, target="ch07.none", no_gain="the cache holds it"))
    found = improvements.analyze(selected(made), improvements.Options())
    assert found.tables[0].records[0].cells["effects"].value == 1
    assert cells(found.tables[1], "row", "why") == [("ch07.none:tiled", "the cache holds it")]


def test_a_mechanism_that_was_never_measured(made):
    made.bundle("one", made.result({"plain": 2e-3, "tiled": 1e-3}, row={"tiled": {"mechanisms": ["tiling"]}}))
    found = improvements.analyze(selected(made), improvements.Options(mechanism="tilin"))
    assert found.summary[0] == "No evidence here for the mechanism 'tilin'. Did you mean 'tiling'?"
    assert (found.status, found.tables[0].records) == ("ok", [])


# --- coverage


def test_what_targets_lack_and_how_old_their_runs_are(made, monkeypatch):
    monkeypatch.setattr(coverage, "_installed", lambda: ["ch07.a", "ch07.b", "ch08.c"])
    monkeypatch.setattr(coverage, "_now", lambda: datetime(2026, 11, 25, 10, tzinfo=UTC))
    old = made.result({"x": 1e-3, "y": 1e-3}, target="ch07.a")
    made.bundle("old", old, created="2026-11-01T10:00:00+00:00")
    path = made.bundle(
        "new", made.result({"x": 1e-3}, target="ch07.a", joules={"x": 1.0}), created="2026-11-23T10:00:00+00:00"
    )
    failed = {"verdict": Verdict.FAILED, "reason": "signal 11"}
    made.bundle(
        "bad", made.result({"x": 1e-3}, target="ch07.b", row={"x": failed}), created="2026-11-24T10:00:00+00:00"
    )
    found = coverage.analyze(selected(made), coverage.Options())
    assert cells(found.tables[0], "target", "energy", "lacks") == [
        ("ch07.a", True, "profile"), ("ch07.b", None, "run"), ("ch08.c", None, "run"),
    ]  # fmt: skip
    ((hardware, newest, oldest, which),) = cells(found.tables[1], "class", "newest", "oldest", "which")
    assert (hardware, newest.value, oldest.value, which) == ("nvidia-h200-x1", 2.0, 2.0, "ch07.a")
    assert found.summary[0] == (
        "1 of 3 targets have a believed run; 2 without a run, 0 without energy, 1 without a profile, 0 without a cost."
    )
    assert left_out(found)["ch07.b:x"] == "signal 11"
    (path / "profiles" / "ch07.a").mkdir(parents=True)
    assert coverage.analyze(selected(made), coverage.Options(missing=True)).details["lacking"]["profile"] == 0
    only = coverage.analyze(selected(made, targets=["ch08.*"]), coverage.Options())
    assert cells(only.tables[0], "target") == [("ch08.c",)]


# --- targets of a file

ENTRY = {"name": '"ch07.memory_access"', "metric": '"speedup"', "at_least": "1.5", "source": '"a document"', "date": "2026-11-01"}  # fmt: skip


def entry(**changes):
    fields = {key: value for key, value in (ENTRY | changes).items() if value is not None}
    return "\n[[target]]\n" + "".join(f"{key} = {value}\n" for key, value in fields.items())


def held(made, tmp_path, *entries, **options):
    file = tmp_path / "targets.toml"
    file.write_text("".join(entries), encoding="utf-8-sig")
    return targets.analyze(selected(made), targets.Options(file=file, **options))


def test_targets_are_met_missed_or_unclear_by_the_whole_interval(made, tmp_path):
    made.bundle("one", made.result({"plain": 2e-3, "tiled": 1e-3, "wide": 1.5e-3}, noise=0.05))
    found = held(
        made, tmp_path, entry(), entry(at_least="2.0"), entry(at_least="3.0"), entry(row='"wide"'),
        entry(metric='"time_s"', at_least=None, at_most="0.0005"), entry(name='"ch99.x"'),
        entry(name=None, metric='"ceiling.copy_bytes_per_s"', at_least="4e12"),
        entry(**{"class": '"amd-*"'}),
    )  # fmt: skip
    assert cells(found.tables[0], "status", "line") == [
        ("MET", 2), ("UNCLEAR", 9), ("MISSED", 16), ("MISSED", 23), ("MISSED", 31), ("NOT MEASURED", 38), ("MET", 45),
        ("NOT MEASURED", 51),
    ]  # fmt: skip
    assert found.tables[0].records[5].cells["actual"].reason == (
        "no believed result of this benchmark, row and kind of machine"
    )
    assert found.summary == ["8 targets, 8 results: 2 MET, 3 MISSED, 1 UNCLEAR, 2 NOT MEASURED."]
    assert found.exit_code == 0


def test_required_targets_decide_the_exit_code(made, tmp_path):
    made.bundle("one", made.result({"plain": 2e-3, "tiled": 1e-3}))
    assert held(made, tmp_path, entry(), require_met=True).exit_code == 0
    assert held(made, tmp_path, entry(at_least="3.0"), require_met=True).exit_code == 4
    assert held(made, tmp_path, entry(name='"ch99.x"'), require_met=True).exit_code == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": None}, ":2: 'source' is missing: where the figure comes from, such as a document."),
        ({"source": '" "'}, ":2: 'source' is missing: where the figure comes from, such as a document."),
        ({"date": None}, ":2: 'date' is missing, or is none: when the target was set, such as 2026-11-01."),
        ({"date": '"soon"'}, ":2: 'date' is missing, or is none: when the target was set, such as 2026-11-01."),
        ({"at_least": None}, ":2: a target takes either 'at_least' or 'at_most', with a number above 0 in SI units."),
        ({"at_most": "2"}, ":2: a target takes either 'at_least' or 'at_most', with a number above 0 in SI units."),
        ({"at_least": "-1"}, ":2: a target takes either 'at_least' or 'at_most', with a number above 0 in SI units."),
        ({"at_least": "true"}, ":2: a target takes either 'at_least' or 'at_most', with a number above 0 in SI units."),
        ({"name": None}, ":2: 'name' is missing: a benchmark, or a pattern such as 'ch07.*'."),
        ({"name": "3"}, ":2: 'name' takes a text; found 3."),
        (
            {"sorce": '"x"'},
            ":2: 'sorce' is no field of a target. Did you mean 'source'? Accepted: name, row, metric, at_least, at_most, class, source, date, note.",
        ),
        ({"metric": '"sped"'}, ":2: 'sped' is no metric."),
        (
            {"metric": None},
            f":2: 'metric' is missing. Accepted: {', '.join(metric.key for metric in STORED.values())}, ceiling.NAME.",
        ),
    ],
)
def test_an_entry_that_is_refused_is_named_by_file_and_line(made, tmp_path, changes, message):
    made.bundle("one", made.result({"plain": 2e-3, "tiled": 1e-3}))
    with pytest.raises(UsageError) as caught:
        held(made, tmp_path, entry(**changes))
    assert str(caught.value).startswith(f"{tmp_path / 'targets.toml'}{message}")


@pytest.mark.parametrize("text", ["[[target]\n", "name = 1\n", "", "[target]\nname = 'x'\n"])
def test_files_that_are_no_targets(made, tmp_path, text):
    made.bundle("one")
    file = tmp_path / "targets.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"--file '.*targets\.toml' (is no|takes)"):
        targets.read(file)
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"targets\.toml' is not UTF-8: byte 0xff at position 0. Save it as UTF-8."):
        targets.read(file)
    with pytest.raises(UsageError, match="--file cannot be read: "):
        targets.read(tmp_path / "none.toml")


def test_without_a_file(made, aiperf):
    made.bundle("one")
    told = aiperf("analyze", "targets", "--in", made.folder)
    assert told.code == 2
    assert told.err.startswith("aiperf: --file is missing: a TOML file of performance targets, with entries [[target]]")
