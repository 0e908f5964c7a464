"""The document of a machine: complete, readable again, and told in a terminal."""

import json
from functools import cache

import pytest
from click.testing import CliRunner

from aiperf_analysis import machine
from aiperf_core.cli.main import Shell
from aiperf_core.harness.run.planner import Planner
from aiperf_core.measurements import Ceilings
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example

CPU = Ceilings("AMD EPYC", "2026-11-20T09:00:00+00:00", 5.6e10, 4.0e10, 5.4e10, {"fp32": 1.5e11})
GPU = Ceilings(
    "NVIDIA H200", "2026-11-20T09:00:00+00:00", 4.34e12, 4.5e12, 4.4e12, {"bf16": 7.2e14},
    datasheet={"copy_bytes_per_s": 4.8e12, "flop_per_s.bf16": 9.9e14}, datasheet_name="H200",
)  # fmt: skip


def document(ceilings, missing=None):
    return machine.document(example.manifest().machine, {"torch": "2.13.0"}, ceilings, missing or {})


def test_the_document_has_the_machine_and_fractions_of_the_data_sheet():
    found = json.loads(json.dumps(document({"cpu": CPU, "cuda": GPU})))
    assert found["kind"] == "aiperf-machine"
    assert found["hardware"] == {"cpu": "amd-epyc-9654-96-core-processor-x16", "cuda": "nvidia-h200-x1"}
    assert found["of_datasheet"]["cuda"] == {
        "copy_bytes_per_s": pytest.approx(4.34 / 4.8), "flop_per_s.bf16": pytest.approx(7.2 / 9.9),
    }  # fmt: skip
    assert Ceilings(**found["ceilings"]["cuda"]) == GPU
    assert found["machine"]["gpus"][0]["name"] == "NVIDIA H200"


def test_it_is_shown_with_units_and_a_machine_without_gpu_says_so():
    result = machine.shown(document({"cpu": CPU}, {"cuda": "no GPU: only the processor is described"}))
    assert result.summary[1] == "No GPU: only the processor is described."
    units = {record.cells["figure"]: record.cells["value"].unit for record in result.tables[0].records}
    assert units == {"copy_bytes_per_s": "B/s", "read_bytes_per_s": "B/s", "write_bytes_per_s": "B/s",
                     "flop_per_s.fp32": "FLOP/s"}  # fmt: skip


@cache
def plugins():
    return load_plugins()


def probe(*arguments):
    return CliRunner().invoke(Shell(plugins()), ["probe", *map(str, arguments)])


def test_the_command(monkeypatch, tmp_path):
    told = document({"cpu": CPU}, {"cuda": "no GPU: only the processor is described"})
    monkeypatch.setattr(machine, "probe", lambda plugins, device, refresh, stack: told)
    found = probe("--json", "--out", tmp_path / "m.json")
    assert (found.exit_code, found.stderr) == (0, f"written: {tmp_path / 'm.json'}\n")
    assert json.loads(found.stdout) == json.loads((tmp_path / "m.json").read_text()) == json.loads(json.dumps(told))
    assert "56.0 GB/s" in probe().stdout
    refused = probe("--out", tmp_path / "m.txt")
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"aiperf: '{tmp_path / 'm.txt'}' is no place for the document; --out takes FILE.json in a folder that exists.\n"
    )
    assert probe("--device", "tpu").exit_code == 2


def test_peak_rates_come_from_the_planner(monkeypatch):
    asked = []

    def all_ceilings(planner, device=None, refresh=False, tell=None):
        asked.append((device, refresh))
        return CPU, not refresh

    monkeypatch.setattr(Planner, "all_ceilings", all_ceilings)
    found = probe("--device", "cpu", "--refresh", "--json")
    assert (found.exit_code, found.stderr) == (0, "")
    document = json.loads(found.stdout)
    assert (document["missing"], list(document["ceilings"])) == ({}, ["cpu"])
    assert Ceilings(**document["ceilings"]["cpu"]) == CPU
    assert document["packages"]["torch"]
    assert asked == [("cpu", True)]
    refused = probe("--device", "abacus")
    assert (refused.exit_code, refused.stderr) == (
        2, "aiperf: 'abacus' is not a device; known are cpu, cuda. See what provides them: aiperf plugins\n",
    )  # fmt: skip
