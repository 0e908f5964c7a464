"""`aiperf ch01`: the studies measure what they say, and print it for people and for programs."""

import json
import os
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner, Result

from aiperf_ch01.batch_size import batch_at_ridge, intensity
from aiperf_ch01.goodput import Prices
from aiperf_ch01.pitfalls import Way
from aiperf_core.cli.main import Shell
from aiperf_core.devices.probe import has_cuda_device
from aiperf_core.measurements import Energy, Estimate
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Problem

two_processors = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
no_gpu = pytest.mark.skipif(has_cuda_device(), reason="needs a machine without a GPU")


def ch01(*arguments: str) -> Result:
    return CliRunner().invoke(Shell(load_plugins()), ["ch01", *arguments])


def test_pitfalls_as_json() -> None:
    result = ch01("pitfalls", "--device", "cpu", "--samples", "5", "--size", "32", "--json")
    found = json.loads(result.stdout)
    assert (found["device"], found["dtype"], found["rows"]) == ("cpu", "float32", 32)
    assert [one["name"] for one in found["ways"]] == ["first call", "cold", "warm", "warm, zeros", "in a row"]
    assert [len(one["samples_s"]) for one in found["ways"]] == [1, 5, 5, 5, 3]
    assert all(0 < min(one["samples_s"]) <= one["median_s"] <= max(one["samples_s"]) for one in found["ways"])


def test_pitfalls_for_people() -> None:
    result = ch01("pitfalls", "--device", "cpu", "--samples", "3", "--size", "8")
    lines = result.stdout.splitlines()
    assert lines[0] == "8 x 8 matrix product in float32 on cpu, 3 calls a way"
    assert lines[2].split()[:4] == ["way", "median", "mean", "spread"]
    assert " 1.00x " in next(line for line in lines if line.startswith("cold "))


@pytest.mark.gpu
def test_pitfalls_on_a_gpu() -> None:
    ways = {one["name"]: one for one in json.loads(ch01("pitfalls", "--device", "cuda", "--json").stdout)["ways"]}
    assert ways["unsynchronised"]["median_s"] < ways["warm"]["median_s"]
    assert len(ways["events, idle"]["samples_s"]) == 50


@no_gpu
@pytest.mark.parametrize("command", ["pitfalls", "scaling"])
def test_a_gpu_that_is_not_there(command: str) -> None:
    result = ch01(command, "--device", "cuda")
    assert result.exit_code == 2
    assert result.stderr.startswith("aiperf: 'cuda' was requested, but this machine has no CUDA GPU.")


def test_mean_median_and_spread() -> None:
    way = Way("", "", [1.0, 2.0, 3.0, 4.0, 100.0])
    assert (way.median_s, way.mean_s) == (3.0, 22.0)
    assert way.spread == (52.0 - 1.5) / 3.0


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Results of `ch01.batch_size` with 512 requests a call in 2 ms, and 3 J counted of one row."""
    bundle = Bundle.create_at(tmp_path / "bundle")
    bundle.write_manifest(example.manifest())
    first, second, *_ = example.result().rows
    wall = Estimate(2e-3, 1.9e-3, 2.1e-3)
    energy = Energy(3.0, 2.0, 100.0, 0.01, 0.01, 1000, 2.0, 20, 0.1, "energy counter")
    rows = [evolve(first, name="batch_4", wall_s=wall, energy=energy), evolve(second, name="whole", wall_s=wall)]
    sizes = {"requests": 512, "width": 256, "hidden": 1024, "element_bytes": 4}
    work = Problem("cpu", sizes, 1, 1, 1, "bf16", "bf16", 1, 1)
    others = evolve(
        example.result(), target="acme.gone", rows=[evolve(first, wall_s=wall), evolve(second, wall_s=None)]
    )
    for result in (evolve(example.result(), target="ch01.batch_size", problem=work, rows=rows), others):
        bundle.write_target(result)
    return bundle.path


def test_goodput_counts_units_energy_and_price(bundle: Path) -> None:
    result = ch01("goodput-report", str(bundle), "--price-per-hour", "3.6", "--price-per-kwh", "0.36", "--json")
    third, first, second = json.loads(result.stdout)["results"]
    assert (first["target"], first["implementation"], first["unit"]) == ("ch01.batch_size", "batch_4", "items")
    assert first["units_per_s"] == pytest.approx(512 / 2e-3)
    assert first["goodput"] == pytest.approx(example.LIGHT_S / 2e-3)
    assert first["joules_per_unit"] == pytest.approx(3 / 512)
    # An hour costs 3.6, so a second 0.001; 3.6 MJ cost 0.36, so a joule 1e-7.
    assert first["price_per_million"] == pytest.approx(1e6 * (2e-3 * 1e-3 + 3 * 1e-7) / 512)
    # Energy has a price and was not counted: then there is no price at all, rather than one that lacks it.
    assert (second["implementation"], second["joules_per_unit"], second["price_per_million"]) == ("whole", None, None)
    # A target that is not installed here counts calls; a row without a trusted time is left out.
    assert (third["target"], third["unit"], third["units_per_s"]) == ("acme.gone", "calls", pytest.approx(500))


def test_goodput_for_people(bundle: Path) -> None:
    lines = ch01("goodput-report", str(bundle), "--price-per-hour", "3.6").stdout.splitlines()
    assert lines[0].startswith("result")
    assert lines[2].split() == ["ch01.batch_size:batch_4", "256", "k", "items", "25", "%", "5.86", "mJ", "0.00391"]


def test_goodput_of_rows_without_a_trusted_time(bundle: Path) -> None:
    found = ch01("goodput-report", f"{bundle}:acme.gone:coalesced")
    assert found.stdout == ""
    assert f"'{bundle}:acme.gone:coalesced' has no row with a trusted wall-clock time. Run more" in found.stderr


def test_a_price_needs_a_price() -> None:
    assert Prices().of(1.0, 1.0) is None
    assert Prices(per_hour=3600.0).of(2.0, None) == 2.0


def test_goodput_without_a_bundle(tmp_path: Path) -> None:
    result = ch01("goodput-report", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert f"'{tmp_path / 'none'}' does not exist" in result.stderr


@two_processors
def test_scaling() -> None:
    arguments = ("--device", "cpu", "--ranks", "2,4096", "--width", "17", "--samples", "7", "--steps", "3", "--json")
    found = json.loads(ch01("scaling", *arguments).stdout)
    weak, strong = found["points"]
    assert (weak["kind"], weak["ranks"], weak["samples_per_rank"], weak["efficiency"]) == ("weak", 2, 7, 1.0)
    assert (strong["kind"], strong["samples_per_rank"]) == ("strong", 4)
    assert weak["samples_per_s"] == pytest.approx(14 / weak["step_s"])
    assert len(found["left_out"]) == 1
    assert found["left_out"][0].startswith("4096 ranks need as many processors")


@pytest.mark.parametrize("text", ["", "x", "0,1", "-1", "1,,2"])
def test_ranks_that_are_none(text: str) -> None:
    result = ch01("scaling", "--ranks", text)
    assert result.exit_code == 2
    assert result.stderr == (
        f"aiperf: --ranks {text!r} was given; accepted are whole numbers from 1, as in --ranks 1,2,4\n"
    )


def test_no_rank_that_fits() -> None:
    result = ch01("scaling", "--device", "cpu", "--ranks", "4096")
    assert result.exit_code == 2
    assert "4096 ranks are the fewest that were asked for; this machine has" in result.stderr


@pytest.mark.parametrize("ridge", [0.5, 3.0, 190.0])
def test_the_batch_at_the_ridge_is_the_smallest_that_reaches_it(ridge: float) -> None:
    batch = batch_at_ridge(2048, 8192, 2, ridge)
    assert intensity(batch, 2048, 8192, 2) >= ridge
    assert batch == 1 or intensity(batch // 2, 2048, 8192, 2) < ridge


def test_a_ridge_that_no_batch_reaches() -> None:
    assert batch_at_ridge(16, 16, 2, 1e6) == 64
