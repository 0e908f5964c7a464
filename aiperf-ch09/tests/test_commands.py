"""`aiperf ch09 ridge`: points by hand, the two documents that have ceilings, bundles, and mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aiperf_ch09.cli import ch09
from aiperf_core.errors import UsageError
from aiperf_core.plugins import load_plugins

MADE_UP = {
    "device": "a GPU",
    "read_bytes_per_s": 4e12,
    "cache_bytes_per_s": 8e12,
    "flop_per_s": {"bf16": 800e12, "fp8": 1600e12},
    "multiply_add_flop_per_s": {"fp32": 40e12},
}


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(ch09, ["ridge", *arguments], obj=load_plugins(), standalone_mode=False)


@pytest.fixture
def machine(tmp_path: Path) -> Any:
    def written(document: Any) -> str:
        file = tmp_path / "machine.json"
        file.write_text(json.dumps(document))
        return str(file)

    return written


def test_ridge_points(machine: Any) -> None:
    found = json.loads(invoke("--machine", machine({"ceilings": MADE_UP}), "--json").output)
    bf16, fp8, fma = found["a GPU"]
    # 200 operations a byte: 2 n^3 / (3 x 2 n^2) = 200 at n = 600, and 2 b k n / (2 k n) at b = 200.
    assert (bf16["per_byte"], bf16["square"], bf16["batch"]) == ({"memory": 200, "last-level cache": 100}, 600, 200)
    assert (fp8["square"], fp8["batch"]) == (600, 200)  # twice the rate, half the bytes
    assert (fma["unit"], fma["per_byte"]["memory"], fma["square"]) == ("FMA", 10, None)


def test_a_table_of_each_device(machine: Any) -> None:
    both = {"cuda": MADE_UP, "cpu": {"device": "a processor", "read_bytes_per_s": 1e10, "flop_per_s": {"fp32": 1e11}}}
    shown = [line.split() for line in invoke("--machine", machine({"ceilings": both})).output.splitlines()]
    assert ["bf16", "matrix", "800", "TFLOP/s", "200", "100", "600", "200"] in shown
    assert ["fp32", "FMA", "40.0", "TFLOP/s", "10", "5.0", "-", "-"] in shown
    assert ["fp32", "matrix", "100", "GFLOP/s", "10", "60", "20"] in shown


@pytest.mark.parametrize("document", [{}, {"ceilings": {}}, {"ceilings": {"cuda": 1}}, [1], {"ceilings": {"cuda": {}}}])
def test_a_file_without_ceilings(machine: Any, document: Any) -> None:
    error = invoke("--machine", machine(document)).exception
    assert isinstance(error, UsageError)
    assert str(error).endswith("accepted is what 'aiperf ceilings --json' or 'aiperf probe --json' printed")


def test_ceilings_without_rates(machine: Any) -> None:
    error = invoke("--machine", machine({"ceilings": {"cuda": {"device": "x", "flop_per_s": {}}}})).exception
    assert isinstance(error, UsageError)
    assert str(error).startswith("these ceilings have no rate of a memory or of arithmetic")


def test_nothing_and_both_are_refused() -> None:
    error = invoke().exception
    assert isinstance(error, UsageError)
    assert str(error).startswith("name a BUNDLE, such as latest, or a --machine FILE")
