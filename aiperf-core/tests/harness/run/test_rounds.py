"""The rounds of a run: the checks of the last one serve comparisons."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from aiperf_core.harness.run import rounds
from aiperf_core.harness.run.bench import Bench
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.rounds import Rounds
from aiperf_core.results.models import TargetResult
from aiperf_core.targets import InstalledTarget, Selection


def participant(where: str, active: bool) -> Any:
    return SimpleNamespace(declared=SimpleNamespace(where=where), active=active)


@pytest.mark.parametrize(
    ("participants", "refused"),
    [
        ([participant("target.py:1", True), participant("candidate.py", True)], False),
        ([participant("target.py:1", True), participant("candidate.py", False)], True),
        ([participant("target.py:1", True), participant("target.py:9", False)], False),
    ],
)
def test_all_is_refused_where_no_untrusted_code_is_left(participants: list[Any], refused: bool) -> None:
    bench = Bench.__new__(Bench)
    bench.participants = participants
    bench.setup = SimpleNamespace(source_of=lambda one: one if one.where == "candidate.py" else None)  # type: ignore[assignment]
    assert bench.all_refused is refused


@pytest.mark.parametrize("refused", [False, True])
def test_the_last_checks_are_left_out_where_all_is_refused(monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    looked: list[bool] = []
    monkeypatch.setattr(rounds, "LastRound", lambda *_: SimpleNamespace(look=lambda: looked.append(True)))
    ignore = SimpleNamespace(note_state=lambda _: None, end=lambda _: None, enter=lambda _: None)
    bench: Any = SimpleNamespace(
        active=[],
        setup=SimpleNamespace(options=SimpleNamespace(controls=False)),
        note_memory=lambda: None,
        conditions=SimpleNamespace(telemetry=None),
        sampler=None,
        participants=[],
        workers=ignore,
        all_refused=refused,
    )
    progress: Any = SimpleNamespace(left=ignore, tell=None)
    Rounds(bench, progress, SimpleNamespace())._verify(last=True)  # type: ignore[arg-type]
    assert bool(looked) is not refused


def test_the_time_of_sampling_starts_when_the_phase_has_been_told(
    measure: Callable[..., TargetResult], shared_planner: Planner
) -> None:
    """A reporter may have the run wait for a device."""
    told: list[str] = []

    class Waits(Silent):
        def phase(self, text: str, implementation: str | None = None) -> None:
            if text == "sampling" and text not in told:
                time.sleep(2.0)
            told.append(text)

    assert measure("features", "scaled").overhead.sampling_s < 2.0
    plans, _ = shared_planner.plan([Selection(InstalledTarget("tests.features", "features"), frozenset({"scaled"}))])
    result = shared_planner.run(plans[0], lambda _, name: shared_planner.log_folder / f"{name}.log", Waits())
    assert isinstance(result, TargetResult)
    assert "sampling" in told
    assert result.overhead.sampling_s < 2.0
