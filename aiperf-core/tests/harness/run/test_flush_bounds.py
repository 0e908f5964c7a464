"""How much a flush must write is measured once, and kept by state."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from aiperf_core.devices import cpu_kind
from aiperf_core.devices.device import CPU, CUDA
from aiperf_core.devices.flush_bound import FlushBound
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run.options import Options
from aiperf_core.harness.run.planner import Planner

BOUND = FlushBound(1 << 26, 1 << 30, 30e-6, "all of 15 reads were displaced after 32 MiB")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    return tmp_path / "ceilings"


class Prober:
    """A prober with given answers."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = [*answers], []  # type: ignore[var-annotated]

    def spawn(self, *_: Any) -> "Prober":
        return self

    def ask(self, do: str, *, timeout: float, **arguments: Any) -> Any:
        self.asked.append({"do": do, **arguments})
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return attrs.asdict(answer)

    def kill(self) -> None:
        """Nothing to end."""


def planner(prober: Prober, folder: Path) -> Planner:
    made = Planner.__new__(Planner)
    made.options, made.log_folder, made._server = Options(), folder, prober  # type: ignore[assignment]
    made._kinds, made._flush_bounds, made._probed = {}, {}, {"cuda": "the tests hide it"}
    return made


@pytest.fixture
def large_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_kind, "largest_cache_bytes", lambda _: 480 << 20)


@pytest.mark.usefixtures("large_cache")
def test_a_machine_is_measured_once(tmp_path: Path) -> None:
    prober = Prober(BOUND)
    first = planner(prober, tmp_path)
    assert first.flush_bound("cpu") == first.flush_bound("cpu") == planner(prober, tmp_path).flush_bound("cpu") == BOUND
    assert prober.asked == [{"do": "bound_flush", "device": attrs.asdict(CPU)}]


@pytest.mark.usefixtures("large_cache")
def test_where_measuring_fails_it_is_tried_once_in_a_run(tmp_path: Path) -> None:
    prober = Prober(ChildError("hung", "gave no answer"), BOUND)
    first = planner(prober, tmp_path)
    assert first.flush_bound("cpu") is None
    assert first.flush_bound("cpu") is None
    assert planner(prober, tmp_path).flush_bound("cpu") == BOUND


@pytest.mark.usefixtures("large_cache")
def test_where_nothing_smaller_was_found_the_next_run_measures_again(tmp_path: Path) -> None:
    whole = FlushBound(1 << 30, 1 << 30, 0.0, "too alike")
    prober = Prober(whole, BOUND)
    first = planner(prober, tmp_path)
    assert first.flush_bound("cpu") == first.flush_bound("cpu") == whole
    assert planner(prober, tmp_path).flush_bound("cpu") == BOUND
    assert planner(prober, tmp_path).flush_bound("cpu") == BOUND


@pytest.mark.parametrize("told", [0, 32 << 20, 64 << 20])
def test_a_small_cache_is_written_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: int) -> None:
    monkeypatch.setattr(cpu_kind, "largest_cache_bytes", lambda _: told)
    assert planner(Prober(), tmp_path).flush_bound("cpu") is None


def test_a_gpu_knows_its_cache(tmp_path: Path) -> None:
    assert planner(Prober(), tmp_path).flush_bound(CUDA.name) is None
