"""Cost: rent, own hardware, electricity, tokens, break-even, and what has no price."""

import json
from functools import partial

import pytest
from attrs import evolve

from aiperf_analysis.analyses.cost import Options, analyze
from aiperf_analysis.selection import select
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Energy
from aiperf_core.report.result import Figure
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

PRICES = """
[[price]]
gpu = "nvidia-h200*"
usd_per_hour = 3.6
date = 2026-11-01
source = "https://example.org"
"""


@pytest.fixture(autouse=True)
def no_prices(monkeypatch, tmp_path):
    monkeypatch.setenv("AIPERF_PRICES", str(tmp_path / "none.toml"))


@pytest.fixture
def prices(tmp_path):
    file = tmp_path / "prices.toml"
    file.write_text(PRICES)
    return str(file)


def bundle(path, *, gpu="NVIDIA H200", scale=1.0, tokens=4096.0, beside=None, day=21):
    rows = []
    for row in example.rows():
        if row.time_s:
            time_s = row.time_s.value * scale
            energy = Energy(
                500 * time_s, 420 * time_s, 80.0, time_s, 1.2 * time_s, 100, 100 * time_s, 12, 0.1, "energy counter"
            )
            row = evolve(row, time_s=example.estimate(time_s), energy=energy, beside=beside or {})
        rows.append(row)
    result, manifest = example.result(), example.manifest()
    made = Bundle.create_at(path)
    made.write_target(evolve(result, rows=rows, problem=evolve(result.problem, tokens=tokens)))
    machine = evolve(manifest.machine, gpus=[{**manifest.machine.gpus[0], "name": gpu}])
    made.write_manifest(evolve(manifest, created=f"2026-11-{day}T14:25:30+00:00", machine=machine))
    return str(path)


def cells(result, table="cost"):
    found = {one.name: one for one in result.tables}[table]
    return {record.cells["row"].split(":")[1]: record.cells for record in found.records}


def test_rent_of_a_call_and_of_tokens(tmp_path, prices):
    result = analyze(select([bundle(tmp_path / "a")]), Options(prices=prices, utilisation=0.5))
    found = cells(result)["coalesced"]
    call = 3.6 * 0.6523e-3 / 3600 / 0.5
    assert found["call"].value == pytest.approx(call)
    assert found["call"].high / found["call"].value == pytest.approx(1.003)
    assert found["million_tokens"].value == pytest.approx(call * 1e6 / 4096)
    assert found["savings"].value == pytest.approx(100 * (1 - 1 / 7.992))
    assert cells(result)["strided"]["savings"].reason == "it is the baseline"
    assert result.details["prices"]["nvidia-h200-x1"]["source"] == "https://example.org"
    assert "nvidia-h200-x1: 3.6 USD an hour, by 'nvidia-h200*' of 2026-11-01, https://example.org" in result.assumptions
    assert "utilisation 50 %: this share of the paid time is used" in result.assumptions
    runs = next(one for one in result.tables if one.name == "runs")
    # The clock runs while a target is measured, whatever the utilisation of later use.
    assert runs.records[0].cells["run"].value == pytest.approx(3.6 * 12.3 / 3600)


def test_a_machine_without_price_says_so(tmp_path, prices):
    bundle(tmp_path / "a")
    bundle(tmp_path / "b", gpu="NVIDIA H100", scale=2.0)
    result = analyze(select([str(tmp_path / "a"), str(tmp_path / "b")]), Options(prices=prices))
    table = result.tables[0].records
    without = [record.cells for record in table if record.cells["class"] == "nvidia-h100-x1"]
    assert without
    for one in without:
        assert one["call"] == Figure(value=None, unit="USD", reason=f"no price of nvidia-h100-x1 in '{prices}'")
    assert result.summary[1] == f"No price in '{prices}' for: nvidia-h100-x1. Add one: aiperf prices add"
    assert all(point.x.value is not None for one in result.drawings for line in one.series for point in line.points)


def test_no_price_at_all_is_nothing(tmp_path, prices):
    result = analyze(select([bundle(tmp_path / "b", gpu="NVIDIA H100")]), Options(prices=prices))
    assert result.status == "nothing"


def test_break_even_of_two_machines(tmp_path, prices):
    bundle(tmp_path / "a")
    bundle(tmp_path / "b", gpu="NVIDIA H100", scale=2.0)
    result = analyze(select([str(tmp_path / "a"), str(tmp_path / "b")]), Options(prices=prices))
    found = cells(result, "break_even")["coalesced"]
    assert (found["class"], found["other"]) == ("nvidia-h100-x1", "nvidia-h200-x1")
    # Calls of the other take half the time, so it may cost twice as much.
    assert found["ratio"].value == pytest.approx(2.0)
    assert found["even"].value is None
    assert found["paid"].value == 3.6
    swapped = analyze(select([str(tmp_path / "a"), str(tmp_path / "b")]), Options(prices="seed"))
    even = cells(swapped, "break_even")["coalesced"]
    assert even["even"].value == pytest.approx(7.0)
    assert even["even"].low < 7.0 < even["even"].high


def test_electricity_needs_no_price(tmp_path):
    result = analyze(select([bundle(tmp_path / "a")]), Options(tariff=0.16, pue=1.5))
    found = cells(result)["coalesced"]
    joules = 500 * 0.6523e-3
    assert found["electricity"].value == pytest.approx(joules * 1.5 * 0.16 / 3.6e6)
    assert found["electricity_tokens"].value == pytest.approx(joules * 1.5 * 0.16 / 3.6 / 4096)
    assert found["call"].reason == "electricity alone is priced"
    assert result.status == "ok"


def test_the_published_check_by_a_row():
    # 800 W at 1500 tokens/s, 0.16 USD a kWh, PUE 1.5: see test_calc for the same by the formula.
    from aiperf_calc import cost

    assert round(1e6 * cost.electricity(800 / 1500, 0.16, 1.5), 4) == 0.0356


def test_own_hardware(tmp_path):
    options = Options(own_price=8766 * 4 * 2.0, life=4.0, utilisation=0.5, overhead=8766.0)
    found = cells(analyze(select([bundle(tmp_path / "a")]), options))["coalesced"]
    # 2 USD an hour of depreciation and 1 USD of overhead, at half the time used.
    assert found["call"].value == pytest.approx((2.0 + 1.0) / 0.5 * 0.6523e-3 / 3600)


def test_of_a_server_only_answers_in_time_count(tmp_path, prices):
    result = analyze(select([bundle(tmp_path / "a", beside={"goodput_per_s": 50.0})]), Options(prices=prices))
    found = cells(result)["coalesced"]
    assert found["million_tokens"].value is None
    assert found["million_in_time"].value == pytest.approx(1e6 * 3.6 / 3600 / 50)


def test_columns_without_figures_are_left_out_with_the_reason(tmp_path, prices):
    result = analyze(select([bundle(tmp_path / "a", tokens=0.0)]), Options(prices=prices))
    assert "million_tokens" not in [column.key for column in result.tables[0].columns]
    assert "no USD/1M tokens: the target declares no tokens" in result.assumptions
    assert "no electricity/op: no tariff; give --tariff USD" in result.assumptions


def test_gpu_and_top(tmp_path, prices):
    bundle(tmp_path / "a")
    selection = select([str(tmp_path / "a")])
    assert len(analyze(selection, Options(prices=prices, gpu="H200", top=2)).tables[0].records) == 2
    with pytest.raises(UsageError) as caught:
        analyze(selection, Options(prices=prices, gpu="B200"))
    assert str(caught.value) == (
        "--gpu 'B200': no kind of machine of these bundles has this in its name. They have: nvidia-h200-x1."
    )


@pytest.fixture
def cost(aiperf):
    return partial(aiperf, "analyze", "cost")


def test_the_command(cost, tmp_path, prices):
    bundle(tmp_path / "a")
    found = cost(tmp_path / "a", "--prices", prices, "--json")
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out)["analysis"] == "cost"
    seed = cost(tmp_path / "a", "--prices", "seed")
    assert seed.code == 1
    assert "No price in the example 'seed' for: nvidia-h200-x1." in seed.out
    for kind in ("csv", "html", "svg"):
        assert cost(tmp_path / "a", "--prices", prices, "--out", tmp_path / f"cost.{kind}").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there are no prices: '{none}' does not exist. Write one with: aiperf prices add; or give --prices FILE, "
             "--own-price USD for own hardware, or --tariff USD for electricity alone."),
        (("--prices", "seed", "--utilisation", "1.5"), "--utilisation must be above 0 and at most 1; got 1.5."),
        (("--prices", "seed", "--own-price", "5"), "--own-price is for own hardware and --prices for rented machines; "
                                                   "give one of them."),
        (("--tariff", "0"), "the tariff must be a number above 0; got 0."),
        (("--own-price", "5", "--residual", "6"), "the residual value must lie between 0 and the price, 5; got 6."),
        (("--prices", "gone.toml"), "cannot read the price file 'gone.toml': No such file or directory. Write one with: "
                                    "aiperf prices add. An example without date and source: --prices seed"),
    ],
)  # fmt: skip
def test_bad_input(cost, tmp_path, arguments, message):
    found = cost(bundle(tmp_path / "a"), *arguments)
    assert found.code == 2
    assert found.err == f"aiperf: {message.format(none=tmp_path / 'none.toml')}\n"


def test_max_age(cost, tmp_path, prices):
    found = cost(bundle(tmp_path / "a"), "--prices", prices, "--max-age", "0")
    assert found.code == 2
    assert "--max-age accepts 0 days. Read the price again and add it: aiperf prices add" in found.err
