"""What was measured of a machine is found again in the same state only."""

from pathlib import Path

import attrs
import pytest

from aiperf_core.devices import kept
from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.measurements import Ceilings
from aiperf_core.requirements import Hardware

BASIC = Ceilings("A CPU", "today", 100.0, 80.0, 50.0, {"fp32": 10.0})
STATE = {"torch": "2.0", "format": "2"}
BOUND = FlushBound(1 << 26, 1 << 30, 30e-6, "all of 15 reads were displaced after 32 MiB")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    return tmp_path / "ceilings"


def test_ceilings_are_found_again_in_the_same_state_only(cache: Path) -> None:
    one = attrs.evolve(BASIC, state=STATE)
    kept.write("cpu", one)
    assert kept.read("cpu", STATE) == one
    assert kept.read("cpu", {**STATE, "torch": "2.1"}) is None
    assert kept.read("cuda", STATE) is None
    kept.write("cpu", attrs.evolve(one, state={**STATE, "torch": "2.1"}))
    assert kept.read("cpu", STATE) == one, "two states do not disturb each other"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"device": 3}'])
def test_ceilings_that_cannot_be_read_are_measured_again(cache: Path, text: str) -> None:
    kept.write("cpu", attrs.evolve(BASIC, state=STATE))
    (file,) = cache.iterdir()
    file.write_text(text)
    assert kept.read("cpu", STATE) is None


def test_a_cache_that_cannot_be_written_costs_only_time(cache: Path) -> None:
    cache.write_text("a file where a folder belongs")
    kept.write("cpu", attrs.evolve(BASIC, state=STATE))
    assert kept.read("cpu", STATE) is None


def test_the_state_of_a_processor() -> None:
    state = kept.state_of("cpu", Hardware())
    assert {"torch", "processor", "cpus", "threads", "memory_bytes"} <= state.keys()
    assert state == kept.state_of("cpu", Hardware())


def test_the_state_of_a_gpu_has_its_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    boards = [
        {"name": "NVIDIA H200", "power_limit_w": 700.0, "sm_clock_max_hz": 1.98e9, "memory_clock_max_hz": None},
        {"name": "NVIDIA H200", "power_limit_w": 650.0, "sm_clock_max_hz": 1.98e9},
        {"name": "another", "power_limit_w": 75.0},
    ]
    monkeypatch.setattr(kept, "gpus", lambda: (boards, "570"))
    state = kept.state_of("cuda", Hardware("NVIDIA H200", 90, 2))
    assert state["gpu"] == "NVIDIA H200"
    assert state["gpus"] == "2"
    assert state["power_limit_w"] == "650, 700"
    assert state["sm_clock_max_hz"] == "1980000000"
    assert state["memory_clock_max_hz"] == ""


def test_a_flush_bound_is_found_again_in_the_same_state_only(cache: Path) -> None:
    kept.write_flush_bound("cpu", STATE, BOUND)
    assert kept.read_flush_bound("cpu", STATE) == BOUND
    assert kept.read_flush_bound("cpu", {"torch": "2.1"}) is None
    (file,) = cache.iterdir()
    assert file.name.startswith("flush-cpu-")
    assert BOUND.reason in file.read_text()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"state": {"torch": "2.0", "format": "2"}, "bound": {"size_bytes": 3}}']
)
def test_a_flush_bound_that_cannot_be_read_is_measured_again(cache: Path, text: str) -> None:
    kept.write_flush_bound("cpu", STATE, BOUND)
    (file,) = cache.iterdir()
    file.write_text(text)
    assert kept.read_flush_bound("cpu", STATE) is None


def test_a_flush_bound_that_cannot_be_written_costs_only_time(cache: Path) -> None:
    cache.write_text("a file where a folder belongs")
    kept.write_flush_bound("cpu", STATE, BOUND)
    assert kept.read_flush_bound("cpu", STATE) is None


def test_the_quiet_time_of_the_witness(cache: Path) -> None:
    assert kept.read_quiet_s(STATE) is None
    kept.write_quiet_s(STATE, 2e-5)
    assert kept.read_quiet_s(STATE) == 2e-5
    assert kept.read_quiet_s({**STATE, "torch": "2.1"}) is None
    (file,) = cache.iterdir()
    file.write_text(file.read_text().replace("2e-05", "-1.0"))
    assert kept.read_quiet_s(STATE) is None
