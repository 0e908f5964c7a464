"""What-if: parts of a time, ranges, limits, refusals and validation, and what the command says."""

import json
import math

import attrs
import pytest
from simulated import Made, bundle, estimate, result

from aiperf_analysis.analyses import whatif
from aiperf_analysis.analyses.held_out import held_out
from aiperf_analysis.analyses.whatif import Options
from aiperf_analysis.models import amounts, parts
from aiperf_analysis.models.parts import Refused
from aiperf_analysis.models.sizes import at_size, largest_size
from aiperf_analysis.selection import select
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Audit, Ceilings, Spread, Work
from aiperf_core.report.result import Figure
from aiperf_core.results import example, structure
from aiperf_core.results.models import Conditions
from aiperf_core.stats.speed_of_light import cost_of, speed_of_light
from aiperf_core.sweep import point_name

NOW = Ceilings("NVIDIA H200", "2026-11-20T09:00:00+00:00", 4e12, 4e12, 4e12, {"fp32": 5e13}, launch_s=2e-6)
GIB = 1 << 30
LIGHT_S = 2 * GIB / 4e12  # of the traffic of the example


def row(time_s=1e-3, kernels=0):
    made = result([Made("plain", time_s)])
    work = [Work("kernel", "kernel", 0, kernels, time_s, 0)] if kernels else []
    audit = Audit([time_s], [time_s], work, 0)
    return made, attrs.evolve(made.rows[0], time_s=estimate(time_s), audit=audit)


def faster(factor):
    return attrs.evolve(NOW, copy_bytes_per_s=4e12 * factor, read_bytes_per_s=4e12 * factor,
                        write_bytes_per_s=4e12 * factor)  # fmt: skip


def found(path, **options):
    return whatif.analyze(select([str(path / "runs")]), Options(**options))


def table(result_, name):
    return next(one for one in result_.tables if one.name == name)


def one(path, *made, ceilings=NOW, name="one", **changes):
    results = made or [result([Made("plain", 1e-3), Made("fast", 6e-4, ("x",))])]
    return bundle(path / "runs" / name, *results, ceilings={"cuda": ceilings} if ceilings else {}, **changes)


# --- parts


def test_parts_add_up_to_the_time():
    made, measured = row(kernels=10)
    split = parts.parts(made, measured, NOW)
    assert split.bound == "memory"
    assert split.roofs["memory"] == pytest.approx(LIGHT_S)
    assert split.roofs["compute"] == pytest.approx((1 << 29) / 5e13)
    assert split.launches == pytest.approx(2e-5)
    assert split.roofs["memory"] + split.launches + split.rest == pytest.approx(1e-3)
    assert max(split.roofs.values()) == speed_of_light(cost_of(made.problem), NOW, "cold", 1e-3).time_s


def test_another_memory_moves_the_memory_part_and_perhaps_the_remainder():
    made, measured = row(kernels=10)
    low, high, bound = parts.moved(made, measured, NOW, faster(2))
    rest = 1e-3 - LIGHT_S - 2e-5
    assert bound == "memory"
    assert high == pytest.approx(LIGHT_S / 2 + 2e-5 + rest)
    assert low == pytest.approx(LIGHT_S / 2 + 2e-5 + rest / 2)


def test_the_bound_may_change():
    made, measured = row()
    low, high, bound = parts.moved(made, measured, NOW, faster(1000))
    compute = (1 << 29) / 5e13
    assert bound == "compute"
    assert high == pytest.approx(compute + 1e-3 - LIGHT_S)
    assert low < high


def test_a_slower_machine_has_its_range_the_other_way_round():
    made, measured = row()
    low, high, _ = parts.moved(made, measured, NOW, faster(0.5))
    assert low == pytest.approx(1e-3 + LIGHT_S)
    assert high == pytest.approx(2e-3)


def test_a_time_below_its_parts_is_refused():
    made, measured = row(time_s=LIGHT_S / 2)
    with pytest.raises(Refused, match="so a ceiling does not hold for it"):
        parts.parts(made, measured, NOW)


def test_a_warm_working_set_that_crosses_the_cache_is_refused():
    made, measured = row()
    warm = attrs.evolve(made, cache="warm")
    small, large = (attrs.evolve(NOW, cache_bytes=size) for size in (50e6, 8e9))
    with pytest.raises(Refused, match="fits the cache of one machine"):
        parts.moved(warm, measured, small, large)
    parts.moved(made, measured, small, large)


def test_a_machine_without_the_ceiling_of_the_precision_is_refused():
    made, measured = row()
    with pytest.raises(Refused, match="no ceiling for fp32"):
        parts.moved(made, measured, NOW, attrs.evolve(NOW, flop_per_s={"bf16": 1e15}))


# --- sizes


def test_between_sizes_the_range_holds_a_bent_figure():
    places = [1e3, 1e4, 1e5, 1e6, 1e7]
    for time in (lambda n: 1e-6 + 1e-11 * n, lambda n: n * math.log(n), lambda n: 1 / n + 0.01):
        values = [time(n) for n in places]
        for n in (3e4, 3e5):
            there = at_size(places, values, n, extrapolate=False)
            assert there.low <= time(n) <= there.high
            assert there.high < 2.2 * there.low
            assert len(there.used) == 4


def test_beyond_the_sizes_only_within_reach():
    places, values = [1e3, 1e4, 1e5], [1.0, 2.0, 4.0]
    there = at_size(places, values, 2e5, extrapolate=False)
    assert there.low <= 4.0 * 2 ** math.log10(2) <= there.high * (1 + 1e-9)
    with pytest.raises(Refused, match="more than 2 times beyond; measure nearer, or add --extrapolate"):
        at_size(places, values, 3e5, extrapolate=False)
    at_size(places, values, 3e5, extrapolate=True)
    with pytest.raises(Refused, match="3 of them are needed; 2 were measured"):
        at_size(places[:2], values[:2], 1.5e4, extrapolate=False)


def test_the_largest_size_that_fits():
    assert largest_size([1, 2, 4], [10.0, 20.0, 40.0], 30.0) == pytest.approx(3)
    assert largest_size([1, 2, 4], [10.0, 20.0, 40.0], 80.0) == pytest.approx(8)
    with pytest.raises(Refused, match="least measured size does not fit"):
        largest_size([1, 2], [10.0, 20.0], 5.0)


# --- amounts


@pytest.mark.parametrize(
    ("read", "text", "amount"),
    [
        (amounts.bytes_of, "24GiB", 24 * 2**30),
        (amounts.bytes_of, "24GB", 24e9),
        (amounts.bytes_of, "4KiB", 4096),
        (amounts.seconds_of, "100ms", 0.1),
        (amounts.rate_of, "5k/s", 5000),
        (amounts.rate_of, "12", 12),
    ],
)
def test_amounts(read, text, amount):
    assert read(text) == pytest.approx(amount)


@pytest.mark.parametrize("text", ["", "0GiB", "-1GiB", "24furlongs", "1e999GiB", "nan", "1.2.3GiB"])
def test_no_amount(text):
    with pytest.raises(ValueError, match="it takes a number of bytes above 0, such as 24GiB or 24GB"):
        amounts.bytes_of(text)


def test_factors():
    assert amounts.factor_of(amounts.clock_or_factor("x0.8"), None) == 0.8
    assert amounts.factor_of(amounts.clock_or_factor("1GHz"), 2e9) == 0.5
    assert amounts.factor_of(amounts.bandwidth_or_factor("3TB/s"), 4e12) == 0.75
    assert amounts.factor_of("1GHz", None) is None


# --- limits


def test_the_bad_end_must_meet_a_limit():
    found_ = Figure(value=1.0, low=0.9, high=1.1)
    for limit, verdict in ((1.2, "FITS"), (1.0, "MAYBE"), (0.8, "FAILS"), (None, None)):
        assert whatif._judged(found_, limit, at_most=True) == verdict
    for limit, verdict in ((0.8, "FITS"), (1.0, "MAYBE"), (1.2, "FAILS")):
        assert whatif._judged(found_, limit, at_most=False) == verdict
    assert whatif._judged(Figure(value=None), 1.0, at_most=True) == "NOT MEASURED"


def test_limits_on_measured_rows(tmp_path):
    one(tmp_path)
    records = table(found(tmp_path, latency=7e-4), "limits").records
    assert [(each.cells["row"].split(":")[1], each.cells["verdict"]) for each in records] == [
        ("fast", "FITS"),
        ("plain", "FAILS"),
    ]
    assert records[1].cells["why"] == "time"
    whole = found(tmp_path, vram=3 * GIB, throughput=1200.0)
    assert table(whole, "limits").records[0].cells["memory"].value == 3 * GIB
    assert whole.summary[0] == "2 rows: 1 FITS, 1 FAILS."


# --- scenarios


def machine_file(path, ceilings, **more):
    file = path / "machine.json"
    told = {"kind": "aiperf-machine", "ceilings": {"cuda": structure.document(ceilings)}, **more}
    file.write_text(json.dumps(told))
    return file


def test_another_machine_is_a_range_and_not_validated(tmp_path):
    one(tmp_path)
    whole = found(tmp_path, machine=machine_file(tmp_path, faster(2)))
    assert whole.title == (
        "What if: the machine of machine.json. NOT VALIDATED: 0 held-out points of kind 'machine', 5 are needed"
    )
    fast = next(each.cells for each in table(whole, "answers").records if each.cells["row"].endswith(":fast"))
    rest = 6e-4 - LIGHT_S
    assert fast["then"].low <= (LIGHT_S + rest) / 2
    assert fast["then"].high >= LIGHT_S / 2 + rest
    assert fast["then"].certainty == "estimated"
    assert fast["gain"].low < 2.1
    assert fast["bound"] == "memory"


def test_the_document_of_aiperf_ceilings_serves_too(tmp_path):
    one(tmp_path)
    file = tmp_path / "ceilings.json"
    file.write_text(json.dumps({"kept": True, "ceilings": structure.document(faster(2)), "of_datasheet": {}}))
    assert table(found(tmp_path, machine=file), "answers").records[0].cells["then"].value is not None


def test_a_datasheet_becomes_a_range_by_what_measured_machines_reach(tmp_path):
    sheets = dict.fromkeys(("copy_bytes_per_s", "read_bytes_per_s", "write_bytes_per_s"), 5000000000000.0)
    one(tmp_path, ceilings=attrs.evolve(NOW, datasheet={**sheets, "flop_per_s.fp32": 6e13}))
    file = tmp_path / "sheet.json"
    told = {"kind": "aiperf-datasheet", "name": "a GPU", "figures": {"copy_bytes_per_s": 1e13, "flop_per_s.fp32": 6e13}}
    file.write_text(json.dumps(told))
    then = table(found(tmp_path, machine=file), "answers").records[0].cells["then"]
    # 80 % of the sheet is reached, so the memory is twice as fast.
    assert then.low == pytest.approx(1e-3 / 2, rel=0.01)


def test_a_clock_scales_the_arithmetic_alone(tmp_path):
    one(tmp_path)
    plain = table(found(tmp_path, clock="x0.5"), "answers").records[0].cells
    assert plain["then"].value == pytest.approx(1e-3, rel=0.01)
    bounded = result([Made("plain", 1e-3)], problem={"flops": 4e10})
    one(tmp_path / "other", bounded)
    compute = table(found(tmp_path / "other", clock="x0.5"), "answers").records[0].cells
    assert compute["bound"] == "compute"
    assert compute["then"].high == pytest.approx(2e-3, rel=0.01)


def test_a_clock_in_hertz_needs_the_clock_of_now(tmp_path):
    one(tmp_path)
    none = table(found(tmp_path, clock="1GHz"), "answers").records[0].cells["then"]
    assert none.reason == "its clock was not measured; give a factor, such as --clock x0.8"


def test_limits_apply_to_estimated_times(tmp_path):
    one(tmp_path)
    records = table(found(tmp_path, bandwidth="x2", latency=7e-4), "limits").records
    assert {each.cells["row"].split(":")[1]: each.cells["verdict"] for each in records} == {
        "fast": "FITS",
        "plain": "MAYBE",
    }


def swept(path, sizes=(1e4, 1e5, 1e6, 1e7, 1e8, 1e9), time=lambda n: 1e-6 + 1e-11 * n, name="one"):
    made = [
        result([Made("plain", time(n), peak_bytes=int(16 * n))], point_name("ch07.x", {"n": n}), seed=index,
               problem={"params": {"n": n}, "input_bytes": 0, "output_bytes": 0})
        for index, n in enumerate(sizes)
    ]  # fmt: skip
    one(path, *made, name=name)


def test_another_size_is_validated_by_the_sweep_itself(tmp_path):
    swept(tmp_path, sizes=[10 ** (power / 2) for power in range(8, 18)])
    whole = found(tmp_path, size="n=2e6", validate=True)
    title = "What if: n=2e6. Validated on 8 held-out points: 8 lie in the range (100 %), whose ends are 1."
    assert whole.title.startswith(title)
    then = table(whole, "answers").records[0].cells["then"]
    assert then.low <= 1e-6 + 2e-5 <= then.high
    sizes = next(each.cells for each in table(whole, "validation").records if each.cells["kind"] == "size")
    assert (sizes["verdict"], sizes["coverage"].value) == ("VALIDATED", 100)
    assert len(table(whole, "held_out").records) == 8


def test_few_held_out_sizes_validate_nothing(tmp_path):
    swept(tmp_path)
    assert found(tmp_path, size="n=3e6").title == (
        "What if: n=3e6. NOT VALIDATED: 4 held-out points of kind 'size', 5 are needed"
    )


def test_a_size_out_of_reach_is_refused_unless_asked_for(tmp_path):
    swept(tmp_path)
    none = table(found(tmp_path, size="n=1e10"), "answers").records[0].cells["then"]
    assert none.value is None
    assert "more than 2 times beyond" in none.reason
    some = table(found(tmp_path, size="n=1e10", extrapolate=True), "answers").records[0].cells["then"]
    assert some.low <= 1e-11 * 1e10 <= some.high


def test_the_largest_size_that_a_memory_holds(tmp_path):
    swept(tmp_path)
    cells = table(found(tmp_path, memory=8e9), "answers").records[0].cells
    assert cells["size"].value == pytest.approx(5e8)
    assert cells["then"].low <= 5e-3 <= cells["then"].high


# --- validation


def test_machines_are_held_out_both_ways(tmp_path):
    one(tmp_path)
    gpu = {**example.manifest().machine.gpus[0], "name": "NVIDIA H100"}
    other = attrs.evolve(example.manifest().machine, gpus=[gpu])
    slower = result([Made("plain", 2e-3 - 1e-4), Made("fast", 1.2e-3 - 5e-5, ("x",))])
    one(tmp_path, slower, name="two", ceilings=faster(0.5), machine=other)
    held = held_out(select([str(tmp_path / "runs")]))
    assert [each.kind for each in held] == ["machine"] * 4
    assert all(each.inside for each in held)
    assert max(each.error for each in held) < 0.25


def test_clocks_are_held_out_where_conditions_differ(tmp_path):
    for name, clock, time in (("a", 2e9, 1e-3), ("b", 1e9, 1.9e-3)):
        made = result([Made("plain", time)], problem={"flops": 4e10})
        rows = [attrs.evolve(each, conditions=Conditions(readings=3, sm_clock_hz=Spread(clock, clock, clock)))
                for each in made.rows]  # fmt: skip
        created = f"2026-11-2{1 + (name == 'b')}T00:00:00+00:00"
        ceilings = parts.scaled(NOW, clock=clock / 2e9)
        one(tmp_path, attrs.evolve(made, rows=rows), name=name, created=created, ceilings=ceilings)
    held = held_out(select([str(tmp_path / "runs")]))
    assert [each.kind for each in held] == ["clock", "clock"]
    assert all(each.inside for each in held)


def test_a_wrong_prediction_lies_outside(tmp_path):
    swept(tmp_path, time=lambda n: 1e-3 if n == 1e6 else 1e-6)
    held = held_out(select([str(tmp_path / "runs")]))
    wrong = next(each for each in held if each.name.endswith("n=1,000,000"))
    assert not wrong.inside
    assert wrong.error > 0.9


# --- the command


def test_the_command_in_every_form(tmp_path, analyze):
    one(tmp_path)
    shown = analyze("whatif", "--in", tmp_path / "runs", "--vram", "24GiB", "--latency", "0.7ms")
    assert shown.exit_code == 0, shown.output
    assert "2 rows: 1 FITS, 1 FAILS." in shown.output
    first = analyze("whatif", "--in", tmp_path / "runs", "--clock", "x0.8").output.splitlines()[0]
    assert "NOT VALIDATED" in first
    document = json.loads(analyze("whatif", "--in", tmp_path / "runs", "--clock", "x0.8", "--json").output)
    assert "NOT VALIDATED" in document["details"]["validation"]
    for ending in ("svg", "html", "csv"):
        done = analyze("whatif", "--in", tmp_path / "runs", "--clock", "x0.8", "-o", tmp_path / f"out.{ending}")
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "whatif needs a question."),
        (["--vram", "lots"], "--vram got 'lots'; it takes a number of bytes above 0, such as 24GiB or 24GB."),
        (["--latency", "0s"], "--latency got '0s'; it takes a time above 0 with its unit, such as 100ms or 2s."),
        (["--size", "n=1e5", "--memory", "8GiB"], "--memory and --size contradict each other"),
        (["--size", "m=1e5"], "no selected target has a parameter 'm'."),
        (["--machine", "none.json"], "cannot read --machine 'none.json': No such file or directory"),
    ],
)
def test_bad_input_exits_2(tmp_path, analyze, arguments, message):
    one(tmp_path)
    shown = analyze("whatif", "--in", tmp_path / "runs", *arguments)
    assert shown.exit_code == 2
    assert message in " ".join(shown.output.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "is no JSON object"),
        ("{}", "has no ceilings; accepted is a document of aiperf probe --json"),
        ('{"ceilings": {"cuda": {"device": 1}}}', "has ceilings that do not fit"),
        ('{"kind": "aiperf-datasheet", "figures": {"copy_bytes_per_s": -1}}', "is a datasheet without 'name'"),
        ('{"kind": "aiperf-datasheet", "name": "x", "figures": {"copy_bytes_per_s": 1}}', "tells which share"),
    ],
)
def test_bad_documents_are_refused(tmp_path, text, message):
    one(tmp_path)
    file = tmp_path / "machine.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        found(tmp_path, machine=file)


def test_no_ceilings_are_a_mistake_of_use(tmp_path):
    one(tmp_path, ceilings=None)
    with pytest.raises(UsageError, match="no bundle has ceilings, which a prediction needs"):
        found(tmp_path, clock="x0.8")
