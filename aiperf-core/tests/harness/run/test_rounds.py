"""The rounds of a run: the checks of the last one serve comparisons."""

from types import SimpleNamespace
from typing import Any

import pytest

from aiperf_core.harness.run import rounds
from aiperf_core.harness.run.bench import Bench
from aiperf_core.harness.run.rounds import Rounds


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
