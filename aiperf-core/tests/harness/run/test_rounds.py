"""The rounds of a run: the checks of the last one serve comparisons."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from aiperf_core.described import DescribedImplementation
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.processes.child import ChildError
from aiperf_core.harness.run import rounds
from aiperf_core.harness.run.bench import Bench
from aiperf_core.harness.run.from_python import Silent
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.planner import Planner
from aiperf_core.harness.run.rounds import LastRound, Rounds
from aiperf_core.results.models import TargetResult
from aiperf_core.stats.observations import Clocks
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


class Audited:
    """A worker that answers audits with given times by CUPTI in microseconds, and fails where there are no more.

    Its calls take 100 us by events.
    """

    guarded = True
    ended = False
    last_s = None

    def __init__(self, spans_us: list[float]) -> None:
        self.spans_us, self.started = spans_us, 0

    def post(self, do: str) -> None:
        assert do == "start_audit"
        self.started += 1

    def collect(self, *, timeout: float) -> None:
        assert timeout > 0

    def ask(self, do: str, *, timeout: float, calls: int, flush: bool) -> dict[str, Any]:
        assert do == "audit"
        if not self.spans_us:
            raise ChildError("skip", "CUPTI dropped the records of a kernel")
        seconds = self.spans_us.pop(0) * 1e-6
        work = {"name": "k", "kind": "kernel", "stream": 0, "count": 1, "seconds": seconds, "bytes": 0}
        times = {"span_s": [seconds] * calls, "event_s": [100e-6] * calls}
        return {**times, "work": [work], "stray": self.started, "threads": self.started}

    def last_lines(self) -> list[str]:
        return []

    def kill(self) -> None:
        self.ended = True


def audited(spans_us: list[float], *, untrusted: bool = False) -> Participant:
    """An implementation whose samples take 100 us by events, after its audit."""
    worker: Any = Audited(spans_us)
    one = Participant(DescribedImplementation("wide", "variant", "cuda", "wide.py:1"), "wide", child=worker)
    one.pace.calls = 1
    for block in range(5):
        sample = Sample(device_s=100e-6, cpu_s=1e-4, bracket_s=1e-4, answered_s=1e-3, begun_s=0.0, hidden=True)
        one.record((0, block, block), sample, judged=False)
    setup = SimpleNamespace(
        guards=lambda *_: True,
        source_of=lambda _: "a candidate" if untrusted else None,
        cold=True,
        options=SimpleNamespace(timeout_s=1.0),
        plan=SimpleNamespace(world_size=0),
    )
    method = SimpleNamespace(clocks=Clocks())
    bench: Any = SimpleNamespace(
        setup=setup,
        active=[one],
        baseline=one,
        taker=SimpleNamespace(method=method),
        extra=SimpleNamespace(run_profiled=lambda _: []),
    )
    LastRound(bench, lambda *_: None)._audit()
    return one


def test_calls_whose_clocks_agree_are_audited_once() -> None:
    one = audited([100.0, 100.0])
    audit = one.observed.audit
    assert audit is not None
    assert (one.active, audit.retaken, audit.stray, audit.threads) == (True, 0, 1, 1)


def test_calls_whose_clocks_disagree_are_audited_once_more_and_what_strayed_stays() -> None:
    one = audited([200.0, 100.0])
    audit = one.observed.audit
    assert audit is not None
    assert (one.active, one.observed.seen) == (True, [])
    assert (round(audit.span_s[0] * 1e6), audit.retaken, audit.stray, audit.threads) == (100, 1, 1 + 2, 2)


@pytest.mark.parametrize(
    ("spans_us", "untrusted", "left"),
    [
        ([200.0, 200.0, 100.0], False, 1),  # a second disagreement
        ([200.0], False, 0),  # CUPTI has no second record
        ([200.0, 100.0], True, 1),  # a candidate has one try
    ],
)
def test_clocks_that_disagree_again_refuse_the_row(spans_us: list[float], untrusted: bool, left: int) -> None:
    one = audited(spans_us, untrusted=untrusted)
    assert not one.active
    assert "timing.clocks_disagree" in [seen.issue for seen in one.observed.seen]
    assert len(spans_us) == left


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
