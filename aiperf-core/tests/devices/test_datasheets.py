"""What makers promise."""

import re
import tomllib

import pytest

from aiperf_core.cost import PRECISIONS
from aiperf_core.devices.datasheets import FILE, datasheet

ENTRIES = tomllib.loads(FILE.read_text())["gpu"]


def test_a_gpu_is_found_by_its_whole_name() -> None:
    keys = ["copy_bytes_per_s", "flop_per_s.bf16", "flop_per_s.int4", "peer_bytes_per_s.0-1", "launch_s"]
    assert datasheet("NVIDIA H200", keys) == (
        "NVIDIA H200 Tensor Core GPU datasheet, H200 SXM",
        {"copy_bytes_per_s": 4.8e12, "flop_per_s.bf16": 989.5e12, "peer_bytes_per_s.0-1": 450e9},
    )


@pytest.mark.parametrize("name", ["NVIDIA H200 NVL", "NVIDIA H200 MIG 1g.18gb", "Some CPU, 2 threads"])
def test_a_part_or_another_model_has_none(name: str) -> None:
    assert datasheet(name, ["copy_bytes_per_s"]) == (None, {})


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_every_entry_is_whole(entry: dict[str, object]) -> None:
    assert {"name", "sheet", "memory_bytes_per_s", "flop_per_s", "vector_flop_per_s"} <= entry.keys()
    re.compile(str(entry["name"]))
    rates = entry["flop_per_s"]
    assert isinstance(rates, dict)
    assert rates.keys() <= set(PRECISIONS)
    assert rates["fp16"] == rates["bf16"]
    assert rates["fp32"] <= rates["tf32"] < rates["bf16"] < rates["int8"]
