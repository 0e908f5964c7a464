"""`aiperf ch06`: what limits the blocks of numbers and of compiled kernels, and the sweep of block sizes."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aiperf_ch06 import blocks
from aiperf_ch06.cli import ch06
from aiperf_core.errors import SkipError, UsageError
from aiperf_core.plugins import load_plugins


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(ch06, list(arguments), obj=load_plugins(), standalone_mode=False)


def lines(*arguments: str) -> list[list[str]]:
    return [line.split() for line in invoke(*arguments).output.splitlines()]


def test_registers_limit_the_blocks() -> None:
    found = lines("occupancy", "--registers", "80", "--shared-bytes", "49152")
    assert ["this", "block", "256", "80", "49152", "8", "32", "3", "4"] in found
    assert found[-1] == ["this", "block", "3", "38", "%", "registers"]


def test_kernels_of_a_target_have_their_own_needs() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings")
    rows = json.loads(
        invoke("occupancy", "ch06.launch_bounds", "--arch", "sm_90a", "--threads", "128", "--json").output
    )
    needs = {row["kernel"]: row for row in rows}
    assert needs["three_blocks"]["threads"] == needs["four_blocks"]["threads"] == 256  # of their launch bounds
    assert needs["unbounded"]["threads"] == 128
    assert (needs["three_blocks"]["blocks"], needs["four_blocks"]["blocks"]) == (3, 4)
    assert needs["four_blocks"]["limiters"] == ["registers"]


def test_dynamic_shared_memory_is_added() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings")
    rows = json.loads(invoke("occupancy", "ch06.vector_add", "--shared-bytes", "60000", "--json").output)
    assert {row["blocks"] for row in rows} == {3}
    assert rows[0]["limiters"] == ["shared memory"]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["--arch", "hopper"], UsageError, "'hopper' is not an architecture"),
        (["--threads", "0"], UsageError, "0 threads are none that a kernel can have; accepted are 1 to 1024"),
        (["ch06.unified_memory"], SkipError, "'ch06.unified_memory' has no kernel for sm_90: it has none for a GPU"),
    ],
)
def test_mistakes_are_named(arguments: list[str], kind: type[Exception], message: str) -> None:
    error = invoke("occupancy", *arguments).exception
    assert isinstance(error, kind)
    assert str(error).startswith(message)


def test_block_sizes_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    found = lines("block-size")
    assert ["32", "32", "50", "%", "blocks"] in found
    assert " ".join(found[-1]) == "rates were not measured: that needs a GPU, and torch finds none"


def test_block_sizes_with_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: Any = {threads: {"thread_per_element": 3e12, "wide": 4e12} for threads in blocks.SIZES}
    monkeypatch.setattr(blocks, "rates", lambda size_bytes: measured)
    found = lines("block-size", "--arch", "sm_86", "--registers", "40")
    assert ["1024", "1", "67", "%", "threads", "and", "registers", "3000", "4000"] in found
    document = json.loads(invoke("block-size", "--json").output)
    assert document["sizes"][0]["bytes_per_s"] == {"thread_per_element": 3e12, "wide": 4e12}


@pytest.mark.gpu
def test_rates_on_a_gpu() -> None:
    rates = blocks.rates(64 << 20)
    assert all(rate > 0 for found in rates.values() for rate in found.values())
    assert rates[256]["wide"] > rates[32]["thread_per_element"]
