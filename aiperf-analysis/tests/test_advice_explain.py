"""The rules of `aiperf explain`: each on a row that it is about, none on a row without a defect; labels and the command."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from aiperf_analysis.advice import explain, labels
from aiperf_analysis.advice.rules import RULES, Subject
from aiperf_analysis.selection import Entry, Measured, select
from aiperf_core.cli.main import Shell
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.measurements import Audit, Energy, Estimate, Memory, Spread, Steady, Work
from aiperf_core.plugins import load_plugins
from aiperf_core.profiler import Hot, Observed
from aiperf_core.profiling import store
from aiperf_core.profiling.models import Profile
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import (
    Conditions,
    Judgement,
    Quality,
    RankTime,
    Row,
    SpeedOfLight,
    TargetResult,
    Verdict,
)

PLUGINS = load_plugins()
TIME_S = 1e-3
BYTES = 2 * example.GIB


def clean(**changes: Any) -> Row:
    """A variant without a defect: 70 % of the speed of light, quiet, equal to what surrounds it."""
    row = example.row("tiled", "variant", Verdict.FASTER, TIME_S, 2.0, why="b")
    row = evolve(
        row,
        findings=[],
        bytes_per_s=1e12,
        speed_of_light=SpeedOfLight("memory", 0.7 * TIME_S, 0.7),
        wall_s=example.estimate(TIME_S * 1.01),
        warmup_s=[TIME_S * 3],
        conditions=Conditions(
            readings=9,
            sm_clock_hz=Spread(1.97e9, 1.98e9, 1.98e9),
            throttled={},
            throttled_share=0.0,
            background=Spread(0.0, 0.01, 0.02),
            steal=Spread(0.0, 0.0, 0.0),
            other_pids=[],
        ),
        memory=Memory(peak_bytes=example.GIB, allocated_bytes=example.GIB, reserved_bytes=example.GIB),
        isolated_s=example.estimate(TIME_S),
    )
    return evolve(row, **changes)


BASELINE = evolve(
    clean(),
    name="simple",
    role="baseline",
    kind="reasonable",
    verdict=Verdict.MEASURED,
    time_s=example.estimate(2 * TIME_S),
    wall_s=example.estimate(2.02 * TIME_S),
    speed_of_light=SpeedOfLight("memory", 1.4 * TIME_S, 0.7),
    isolated_s=example.estimate(2 * TIME_S),
    speedup=None,
    why=None,
)


def subject(
    row: Row | None = None,
    *others: Row,
    baseline: Row = BASELINE,
    ceilings: dict[str, Any] | None = None,
    problem: dict[str, Any] | None = None,
    profile: Profile | None = None,
    **result: Any,
) -> Subject:
    row = row or clean()
    manifest = example.manifest()
    roof = evolve(manifest.ceilings["cuda"], launch_s=2e-6, **(ceilings or {}))
    rows = [row, *others] if row.role == "baseline" else [baseline, row, *others]
    whole: TargetResult = evolve(
        example.result(), rows=rows, problem=evolve(example.result().problem, **(problem or {})), **result
    )
    run = Measured("seal", "path", evolve(manifest, ceilings={"cuda": roof, "cpu": roof}))
    return Subject(Entry(run, whole, row), {profile.tool: profile} if profile else {})


def profiled(tool: str, figures: dict[str, float] | None = None, hot: tuple[Hot, ...] = (), cost: float = BYTES,
             **words: str) -> Profile:  # fmt: skip
    return Profile(
        target="ch07.memory_access", implementation="tiled", role="variant", why="b", device="cuda", size="cuda",
        params={"n": 1 << 28}, cache="cold", cost_bytes=cost, tool=tool, metrics=[], calls=10, in_a_row=1,
        taken_s=[TIME_S] * 10, created="2026-11-21T14:25:30+00:00", aiperf="0.1.0",
        observed=Observed(version="1", figures=figures or {}, hot=list(hot), words=words), artifacts=[],
    )  # fmt: skip


def kernel(
    name: str = "kernel", count: float = 1, seconds: float = TIME_S, share: float = 1.0, **metrics: float
) -> Hot:
    return Hot(name=name, kind="kernel", count=count, seconds=seconds, share=share, metrics=metrics)


def copied(
    name: str = "copy", share: float = 0.4, seconds: float = 0.4 * TIME_S, size: float = 1e8, count: float = 1
) -> Hot:
    return Hot(name=name, kind="copy", count=count, seconds=seconds, share=share, bytes=size)


def conditions(**changes: Any) -> Row:
    seen = clean().conditions
    assert seen is not None
    return clean(conditions=evolve(seen, **changes))


def audit(*work: Work, span_s: float = TIME_S) -> Row:
    return clean(audit=Audit([span_s], [span_s], list(work), 0))


def rank(number: int, time_s: float = 1e-3, wire_bytes: float = 1e8, **collectives: int) -> RankTime:
    return RankTime(number, "cuda", time_s, collectives, wire_bytes)


def energy(joules: float, resolution: float = 0.001) -> Energy:
    return Energy(joules + 1, joules, 100.0, resolution, resolution, 100, 1.0, 100, 0.02, "energy counter")


def ncu(**figures: float) -> Subject:
    return subject(profile=profiled("ncu", figures))


def stall(reason: str) -> Subject:
    return ncu(**{f"stall.{reason}": 5.0, "stall.selected": 9.0, "stall.other": 1.0})


def perf(**figures: float) -> Subject:
    return subject(profile=profiled("perf", figures))


LINE = {
    "call_s": 2e-3,
    "span_s": 1e-3,
    "busy_s": 9e-4,
    "kernels": 1.0,
    "launches": 1.0,
    "idle_share": 0.05,
    "gaps": 0.0,
}


def line(*hot: Hot, tool: str = "nsys", **figures: float) -> Subject:
    return subject(profile=profiled(tool, LINE | figures, hot))


WIDE = Estimate(TIME_S, 0.9 * TIME_S, 1.1 * TIME_S)
# For each rule, a row on which it applies.
APPLIES: dict[str, Callable[[], Subject]] = {
    "row.throttled": lambda: subject(conditions(throttled_share=0.3, throttled={"hw_thermal_slowdown": 0.3})),
    "row.power_capped": lambda: subject(conditions(throttled={"sw_power_cap": 0.9}, power_median_w=698.0)),
    "row.background": lambda: subject(conditions(background=Spread(0.02, 0.2, 0.5))),
    "row.steal": lambda: subject(conditions(steal=Spread(0.0, 0.05, 0.1))),
    "row.foreign_gpu_work": lambda: subject(conditions(other_pids=[4711])),
    "row.clock_moved": lambda: subject(conditions(sm_clock_hz=Spread(1.4e9, 1.9e9, 1.98e9))),
    "row.control_differs": lambda: subject(
        BASELINE, evolve(BASELINE, name="again", role="control", speedup=Estimate(1.04, 1.03, 1.05))
    ),
    "row.wide_interval": lambda: subject(clean(time_s=WIDE)),
    "row.inconclusive": lambda: subject(clean(verdict=Verdict.INCONCLUSIVE, speedup=Estimate(1.02, 0.95, 1.09))),
    "row.neighbours_matter": lambda: subject(clean(isolated_s=example.estimate(0.7 * TIME_S))),
    "row.faster_than_memory": lambda: subject(clean(bytes_per_s=9e12), cache="warm"),
    "row.error_near_tolerance": lambda: subject(clean(judgement=Judgement(12, "fp32", 0.9))),
    "row.quality_budget": lambda: subject(clean(quality=Quality("relative error", 0.009, 0.01))),
    "row.energy_coarse": lambda: subject(clean(energy=energy(1.0, 0.2))),
    "row.yardstick_faster": lambda: subject(
        clean(),
        evolve(clean(), name="library", role="yardstick", verdict=Verdict.MEASURED, time_s=example.estimate(TIME_S / 2)),
        baseline=evolve(BASELINE, kind="naive"),
    ),
    "row.near_light": lambda: subject(clean(speed_of_light=SpeedOfLight("memory", 0.95 * TIME_S, 0.95))),
    "row.far_from_memory_light": lambda: subject(clean(speed_of_light=SpeedOfLight("memory", 0.2 * TIME_S, 0.2))),
    "row.far_from_compute_light": lambda: subject(clean(speed_of_light=SpeedOfLight("compute", 0.2 * TIME_S, 0.2))),
    "row.wire_bound": lambda: subject(clean(speed_of_light=SpeedOfLight("wire", 0.7 * TIME_S, 0.7))),
    "row.disk_bound": lambda: subject(clean(speed_of_light=SpeedOfLight("disk", 0.7 * TIME_S, 0.7))),
    "row.host_share": lambda: subject(clean(wall_s=example.estimate(2 * TIME_S))),
    "row.short_kernels": lambda: subject(audit(Work("add", "kernel", 0, 50, 50 * 3e-6, 0), span_s=160e-6)),
    "row.gaps": lambda: subject(audit(Work("add", "kernel", 0, 2, 0.5 * TIME_S, 0))),
    "row.copies": lambda: subject(
        audit(Work("add", "kernel", 0, 1, 0.6 * TIME_S, 0), Work("copy", "copy", 0, 1, 0.4 * TIME_S, 1 << 20))
    ),
    "row.first_call": lambda: subject(clean(warmup_s=[3.0, TIME_S])),
    "row.preparation": lambda: subject(clean(prepare_s=60.0)),
    "row.memory_grew": lambda: subject(clean(memory=Memory(peak_bytes=2 * example.GIB))),
    "row.reserved_memory": lambda: subject(
        clean(memory=Memory(peak_bytes=example.GIB, reserved_bytes=3 * example.GIB))
    ),
    "row.page_faults": lambda: subject(clean(beside={"minor_faults": 65536.0})),
    "row.latency_tail": lambda: subject(clean(beside={"latency_p50_s": 0.01, "latency_p99_s": 0.2})),
    "row.unequal_ranks": lambda: subject(clean(ranks=[rank(0), rank(1, 2e-3), rank(2)])),
    "row.wire_bytes": lambda: subject(clean(ranks=[rank(0), rank(1)]), problem={"wire_bytes": 5e7}),
    "row.small_collectives": lambda: subject(clean(ranks=[rank(one, wire_bytes=64e3, all_reduce=40) for one in range(2)])),
    "row.slower": lambda: subject(clean(verdict=Verdict.SLOWER, speedup=example.estimate(0.8))),
    "row.same_and_far": lambda: subject(
        clean(verdict=Verdict.SAME, speedup=example.estimate(1.0),
              speed_of_light=SpeedOfLight("wire", 0.1 * TIME_S, 0.1))
    ),
    "row.step_lost": lambda: subject(clean(builds_on="simple", step_speedup=example.estimate(0.9))),
    "row.energy_rose": lambda: subject(clean(energy=energy(2.0)), baseline=evolve(BASELINE, energy=energy(1.0))),
    "row.precision": lambda: subject(
        clean(speed_of_light=SpeedOfLight("compute", 0.7 * TIME_S, 0.7)),
        ceilings={"flop_per_s": {"fp32": 5e13, "bf16": 8e14}},
    ),
    "row.waits_between_calls": lambda: subject(clean(steady=[Steady(100, 100 * 0.6 * TIME_S)])),
    "row.faster_known": lambda: subject(BASELINE, clean()),
    "profile.small_kernels": lambda: line(kernel(count=60, seconds=60 * 2e-6), kernels=60.0),
    "profile.idle": lambda: line(kernel(), idle_share=0.4, gaps=5.0),
    "profile.copies": lambda: line(kernel(share=0.6), copied(), busy_s=0.0),
    "profile.no_overlap": lambda: line(kernel(seconds=8e-4, share=0.85), copied(share=0.15, seconds=1e-4)),
    "profile.pageable_copies": lambda: line(
        kernel(), copied("Memcpy HtoD (Pageable -> Device)", share=0.0, seconds=0.0), tool="torch"
    ),
    "profile.host_reads": lambda: line(
        kernel(), copied("Memcpy DtoH (Device -> Pinned)", share=0.0, seconds=0.0, size=4.0), idle_share=0.15
    ),
    "profile.elementwise": lambda: line(kernel("vectorized_elementwise_kernel<4, ...>", count=3, share=0.5)),
    "profile.outside_operators": lambda: subject(
        profile=profiled("torch", {"call_s": 0.01, "outside_share": 0.6, "outside_s": 6e-3})
    ),
    "profile.many_operators": lambda: subject(profile=profiled("torch", {"call_s": 4e-4, "operators": 100.0})),
    "profile.input_wait": lambda: subject(
        profile=profiled("torch", hot=(Hot(name="enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                                           kind="operator", share=0.5),))
    ),
    "ncu.scattered_loads": lambda: ncu(sectors_per_load=31.5),
    "ncu.scattered_stores": lambda: ncu(sectors_per_store=32.0),
    "ncu.bank_conflicts": lambda: ncu(bank_conflicts=9e6, warp_instructions=1e7),
    "ncu.divergence": lambda: ncu(**{"smsp__thread_inst_executed_per_inst_executed.ratio": 12.0}),
    "ncu.stalled_on_memory": lambda: stall("long_scoreboard"),
    "ncu.stalled_on_shared_memory": lambda: ncu(**{"stall.short_scoreboard": 1.5, "stall.mio_throttle": 1.5}),
    "ncu.stalled_on_requests": lambda: stall("lg_throttle"),
    "ncu.stalled_on_barriers": lambda: stall("barrier"),
    "ncu.stalled_on_arithmetic": lambda: stall("math_pipe_throttle"),
    "ncu.stalled_on_chains": lambda: stall("wait"),
    "ncu.registers_limit": lambda: subject(
        profile=profiled("ncu", {"occupancy_limit": 0.25, "registers": 168.0}, occupancy_limiter="registers")
    ),
    "ncu.shared_memory_limits": lambda: subject(
        profile=profiled("ncu", {"occupancy_limit": 0.25, "shared_bytes": 1e5},
                         occupancy_limiter="warps and shared memory")
    ),
    "ncu.small_blocks": lambda: subject(profile=profiled("ncu", {"occupancy_limit": 0.4}, occupancy_limiter="blocks")),
    "ncu.unused_occupancy": lambda: ncu(occupancy=0.3, occupancy_limit=0.9),
    "profile.registers_at_limit": lambda: subject(profile=profiled("nsys", hot=(kernel(registers=255.0),))),
    "ncu.more_traffic": lambda: ncu(dram_bytes=3.0 * BYTES),
    "ncu.at_memory_roof": lambda: ncu(dram_share=0.92),
    "ncu.below_both_roofs": lambda: ncu(dram_share=0.1, sm_share=0.2),
    "ncu.l2_misses": lambda: ncu(dram_bytes=3.0 * BYTES, l2_hit=0.1),
    "ncu.no_tensor_cores": lambda: subject(
        profile=profiled("ncu", {"tensor_share": 0.0}), problem={"flops": 1e13, "precision": "bf16"}
    ),
    "perf.cache_misses": lambda: perf(cache_miss_share=0.6, ipc=0.3),
    "perf.branches": lambda: perf(branch_miss_share=0.12),
    "perf.page_faults": lambda: perf(page_faults=4096.0),
    "perf.moved": lambda: perf(context_switches=25.0),
}  # fmt: skip
# Rules that follow from another one, on the same figures.
WITH = {"ncu.l2_misses": {"ncu.more_traffic"}}


def names(found: Subject) -> list[str]:
    return [one.rule.name for one in explain.findings(found)]


def test_enough_rules() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert sum(rule.needs == ("row",) for rule in RULES) >= 20
    assert sum(rule.needs != ("row",) for rule in RULES) >= 15
    assert set(APPLIES) == {rule.name for rule in RULES}


def test_every_rule_is_whole() -> None:
    for rule in RULES:
        assert rule.fact.endswith("."), rule.name
        assert rule.advice.endswith("."), rule.name
    assert sum(bool(rule.targets) for rule in RULES) >= 0.75 * len(RULES)


def test_every_rule_names_targets_that_exist(known_targets: set[str]) -> None:
    for rule in RULES:
        assert set(rule.targets) <= known_targets, rule.name


@pytest.mark.parametrize("name", APPLIES)
def test_a_rule_applies_alone(name: str) -> None:
    assert set(names(APPLIES[name]())) == {name} | WITH.get(name, set())


@pytest.mark.parametrize("tool", ["ncu", "nsys", "torch", "perf"])
def test_no_rule_applies_to_a_row_without_a_defect(tool: str) -> None:
    figures = {
        "nsys": LINE,
        "torch": LINE | {"operators": 3.0, "outside_share": 0.1, "outside_s": 1e-4},
        "perf": {"ipc": 2.5, "cache_miss_share": 0.05, "branch_miss_share": 0.001, "page_faults": 0.0},
        "ncu": {"sectors_per_load": 4.0, "sectors_per_store": 16.0, "bank_conflicts": 0.0, "warp_instructions": 1e7,
                "dram_share": 0.7, "sm_share": 0.5, "dram_bytes": BYTES, "l2_hit": 0.5, "occupancy": 0.8,
                "occupancy_limit": 1.0, "stall.long_scoreboard": 1.5, "stall.not_selected": 9.0},
    }  # fmt: skip
    assert names(subject(profile=profiled(tool, figures[tool], (kernel(registers=64.0),)))) == []


def test_no_rule_applies_where_nothing_was_measured() -> None:
    bare = Row("tiled", "variant", "cuda", Verdict.MEASURED)
    assert names(subject(bare, baseline=Row("simple", "baseline", "cuda", Verdict.MEASURED))) == []


def test_evidence_has_its_interval() -> None:
    (found,) = explain.findings(APPLIES["row.far_from_memory_light"]())
    fraction = found.evidence["fraction of the speed of light"]
    assert (round(fraction.value or 0, 6), fraction.unit, fraction.certainty) == (20.0, "%", "derived")
    assert (fraction.low, fraction.high) == (pytest.approx(20 / 1.003), pytest.approx(20 / 0.997))


def test_the_budget_that_an_unclear_row_needs() -> None:
    """Half a width of 7 % for an effect of 2 % needs 3.5² times the samples."""
    (found,) = explain.findings(APPLIES["row.inconclusive"]())
    budget = found.evidence["sampling budget that is needed"]
    assert (budget.value, budget.certainty) == (pytest.approx(12.25), "estimated")


@pytest.mark.parametrize(("device_s", "applies"), [(TIME_S / 2, True), (0.9 * TIME_S, False)])
def test_the_host_share_of_rows_by_the_caller_s_clock(device_s: float, applies: bool) -> None:
    row = clean(clock="wall", wall_s=example.estimate(TIME_S), device_s=example.estimate(device_s))
    rule = next(one for one in RULES if one.name == "row.host_share")
    assert (rule.find(subject(row)) is not None) is applies


def test_short_work_is_not_far_from_memory() -> None:
    """The overhead of a call explains the distance."""
    row = clean(time_s=example.estimate(1e-4), isolated_s=None, wall_s=None,
                speed_of_light=SpeedOfLight("memory", 1e-5, 0.1))  # fmt: skip
    assert "row.far_from_memory_light" not in names(subject(row))


# --- precision


def write_labels(folder: Path, *texts: str) -> Path:
    (folder / "labels.toml").write_text("\n".join(texts), encoding="utf-8-sig")
    return folder


def label(bundle: str, row: str, true: tuple[str, ...] = (), false: tuple[str, ...] = ()) -> str:
    lists = f"true = {json.dumps(list(true))}\nfalse = {json.dumps(list(false))}\n"
    return f'[[label]]\nbundle = "{bundle}"\ntarget = "ch07.memory_access"\nimplementation = "{row}"\n{lists}'


@pytest.fixture
def stored(tmp_path: Path) -> Bundle:
    """The example as a bundle, with a profile of its baseline."""
    bundle = Bundle.create_at(tmp_path / "runs" / "one")
    bundle.write_target(example.result())
    profile = evolve(profiled("ncu", {"sectors_per_load": 31.0}), implementation="strided", role="baseline")
    store.write(bundle.path, profile, tmp_path)
    bundle.write_manifest(example.manifest())
    return bundle


def test_precision_of_labelled_rows(stored: Bundle) -> None:
    folder = write_labels(
        stored.path.parent,
        label("one", "strided", true=("ncu.scattered_loads", "row.far_from_memory_light"), false=("row.background",)),
        label("one", "coalesced", false=("row.first_call", "row.reserved_memory")),
        label("one", "wide", true=("row.reserved_memory",)),
        label("one", "memcpy", true=("row.reserved_memory",)),
    )
    assert explain.labelled(folder) == {
        "ncu.scattered_loads": labels.Precision(1, 1),
        "row.far_from_memory_light": labels.Precision(1, 1),
        "row.reserved_memory": labels.Precision(3, 2),
    }


def test_a_rule_stands_once_with_all_its_rows(stored: Bundle) -> None:
    advice, evidence = explain.explain(select([str(stored.path)])).tables[:2]
    rules = [one.cells["rule"] for one in advice.records]
    assert len(rules) == len(set(rules))
    rows = {(one.cells["rule"], one.cells["row"]) for one in evidence.records}
    for record in advice.records:
        names = [row for rule, row in rows if rule == record.cells["rule"]]
        assert record.cells["count"] == len(names) == len(record.origins)
        assert all(name in names for name in str(record.cells["rows"]).partition(" and ")[0].split(", "))
    assert max(record.cells["count"] for record in advice.records) > 1


def test_a_rule_that_is_often_wrong_is_not_shown(stored: Bundle) -> None:
    selection = select([str(stored.path)])
    shown = explain.explain(selection)
    assert "row.reserved_memory" in {one.cells["rule"] for one in shown.tables[0].records}
    found = explain.explain(selection, precision={"row.reserved_memory": labels.Precision(3, 2)})
    assert "row.reserved_memory" not in {one.cells["rule"] for one in found.tables[0].records}
    (left,) = [one for one in found.left_out if one.what.startswith("rule")]
    assert (left.what, left.reason) == (
        "rule row.reserved_memory", "2 of 3 labelled findings are true; a rule needs 80 %"
    )  # fmt: skip


@pytest.mark.parametrize(("found", "true", "enough"), [(5, 4, True), (4, 3, False), (1, 1, True), (10, 7, False)])
def test_enough_precision(found: int, true: int, enough: bool) -> None:
    assert labels.Precision(found, true).enough is enough


def test_wilson_interval() -> None:
    """8 of 10: 49.0 % to 94.3 % (Wilson 1927, without continuity correction)."""
    figure = labels.Precision(10, 8).figure()
    assert (figure.value, round(figure.low or 0, 1), round(figure.high or 0, 1)) == (80, 49.0, 94.3)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((), "'{}' has no [[label]]; its form is in docs/analysis-advice.md."),
        (("label = 1",), "'{}' has no [[label]]; its form is in docs/analysis-advice.md."),
        (("[[label]]\nbundle = 3",), "'{}': label 1 needs the texts bundle, target, implementation."),
        ((label("one", "wide", true=("row.throtled",)),),
         "'{}': label 1 names 'row.throtled', which is no rule. Did you mean 'row.throttled'? All rules: aiperf explain "
         "--rules"),
    ],
)  # fmt: skip
def test_labels_with_a_mistake(texts: tuple[str, ...], message: str, tmp_path: Path) -> None:
    folder = write_labels(tmp_path, *texts)
    with pytest.raises(UsageError) as raised:
        explain.labelled(folder)
    assert str(raised.value) == message.format(folder / "labels.toml")


def test_a_label_of_a_row_that_is_not_believed(stored: Bundle) -> None:
    folder = write_labels(stored.path.parent, label("one", "remembered", true=("row.throttled",)))
    with pytest.raises(UsageError, match="is labelled, and its row is not believed"):
        explain.labelled(folder)


# --- the command


def run(*arguments: object) -> Result:
    return CliRunner().invoke(Shell(PLUGINS), ["explain", *map(str, arguments)])


def test_the_command(stored: Bundle) -> None:
    result = run(f"{stored.path}:ch07.memory_access:strided", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    rules = [row["cells"]["rule"] for row in found["tables"][0]["records"]]
    assert rules == ["row.far_from_memory_light", "row.faster_known", "row.reserved_memory", "ncu.scattered_loads"]
    assert found["tables"][0]["records"][0]["origins"][0]["row"] == "strided"
    assert found["tables"][0]["records"][0]["cells"]["precision"]["reason"] == "precision not measured"
    assert result.stdout == run(f"{stored.path}:ch07.memory_access:strided", "--json").stdout


def test_without_a_profile_it_says_how_to_take_one(stored: Bundle) -> None:
    result = run(f"{stored.path}:ch07.memory_access:wide")
    assert result.exit_code == 0
    assert (
        "1 row without a profile, so kernel and counter rules were skipped. Take one: aiperf profile "
        "ch07.memory_access --device cuda --size cuda --tool ncu\n"
    ) in result.stdout


def test_it_says_where_the_best_implementation_stops(stored: Bundle, tmp_path: Path) -> None:
    """By its share of its bound, and by the bytes that it moves where a profile has them."""
    address = f"{stored.path}:ch07.memory_access:wide"
    said = "ch07.memory_access:wide, the best, reaches 82 % of its bound (memory)"
    assert f"{said}, by the declared bytes; a profile by ncu counts those that it moves." in " ".join(
        run(address).stdout.split()
    )
    profile = evolve(profiled("ncu", {"dram_bytes": 1.1 * BYTES}), implementation="wide")
    store.write(tmp_path / "more", profile, tmp_path)
    found = run(address, "--profiles", tmp_path / "more")
    reached = f"{said}, and moves 1.10 times the declared bytes, with which 91 % is the most that it can reach."
    assert reached in " ".join(found.stdout.split())
    assert "the best, reaches" not in run(f"{stored.path}:ch07.memory_access:strided").stdout


def test_a_kernel_in_c_is_profiled_by_perf() -> None:
    """The profiler of torch sees operators, and a kernel in C is none."""
    python, in_c = (subject(clean(requires=needs), device="cpu") for needs in ([], ["compiler"]))
    assert [one.endswith("--tool perf") for one in explain._commands([python])] == [False]
    assert [one.endswith("--tool perf") for one in explain._commands([python, in_c])] == [True]
    assert [one.endswith("--tool perf") for one in explain._commands([in_c, python])] == [True]


def test_rows_that_are_not_believed_get_no_advice(stored: Bundle) -> None:
    result = run(f"{stored.path}:ch07.memory_access:remembered")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "aiperf: there is no believed row in 1 bundle. Left out: INVALID: sample 17 does not match the reference of "
        "its own seed. Run more targets: aiperf run PATTERN\n"
    )
    names = {one["what"] for one in json.loads(run(stored.path, "--json").stdout)["left_out"]}
    assert "ch07.memory_access:remembered" in names


def test_profiles_from_another_folder(stored: Bundle, tmp_path: Path) -> None:
    profile = evolve(profiled("perf", {"branch_miss_share": 0.2}), implementation="wide")
    store.write(tmp_path / "more", profile, tmp_path)
    result = run(f"{stored.path}:ch07.memory_access:wide", "--profiles", tmp_path / "more")
    assert "perf.branches" in result.stdout


def test_a_profile_of_another_size_is_left_out(stored: Bundle, tmp_path: Path) -> None:
    profile = evolve(profiled("perf", {"branch_miss_share": 0.2}), implementation="wide", params={"n": 13})
    store.write(tmp_path / "more", profile, tmp_path)
    result = run(f"{stored.path}:ch07.memory_access:wide", "--profiles", tmp_path / "more")
    assert "perf.branches" not in result.stdout
    assert "it is of another device or another size than the row" in result.stdout


def test_the_rules_are_listed() -> None:
    result = run("--rules")
    assert result.exit_code == 0
    assert all(rule.name in result.stdout for rule in RULES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a TERM or a BUNDLE, or give --rules or --terms alone. The bundles: aiperf results"),
        (("--rules", "x"), "name a TERM or a BUNDLE, or give --rules or --terms alone. The bundles: aiperf results"),
        (
            ("--rules", "--terms"),
            "name a TERM or a BUNDLE, or give --rules or --terms alone. The bundles: aiperf results",
        ),
    ],
)
def test_bad_input(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"aiperf: {message}\n")


def test_nothing_to_explain() -> None:
    with pytest.raises(AiperfError):
        explain.explain(select([], folder=Path("/nowhere")))


# --- terms


def test_a_term_is_explained_by_any_of_its_names(aiperf: Callable[..., Any]) -> None:
    shown = aiperf("explain", "host", "share")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[0] == "host share"
    assert "formula: 1 - device time / wall time" in shown.out
    assert aiperf("explain", "speed of light").out == aiperf("explain", "SOL").out
    assert json.loads(aiperf("explain", "sol", "--json").out)["title"] == "SOL"


def test_the_terms_are_listed(aiperf: Callable[..., Any]) -> None:
    shown = aiperf("explain", "--terms", columns=80)
    assert shown.code == 0
    assert shown.out.startswith("Glossary\n")
    assert "\nBounds\n" in shown.out


def test_a_misspelt_term_has_a_hint(
    aiperf: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = aiperf("explain", "goodpt")
    assert shown.code == 2
    assert shown.err.startswith("aiperf: 'goodpt' names no bundle.")
    assert shown.err.endswith("Nor is it a term. Did you mean 'goodput'? The terms: aiperf explain --terms\n")


def test_a_bundle_of_the_name_of_a_term_is_explained_instead(
    aiperf: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, example_runs: Path
) -> None:
    shutil.copytree(example_runs / "whole", tmp_path / "artifacts" / "runs" / "warp")
    monkeypatch.chdir(tmp_path)
    assert "32 threads" not in aiperf("explain", "warp").out
    (tmp_path / "artifacts").rename(tmp_path / "elsewhere")
    assert "32 threads" in aiperf("explain", "warp").out
