"""When the clocks of a run agree, and what the events' own cost is taken off."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from aiperf_core.described import DescribedImplementation
from aiperf_core.harness.isolation import process_monitor
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.run.extra_samples import ExtraSamples
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.recorder import Recorder
from aiperf_core.harness.run.setup import Trust
from aiperf_core.measurements import Audit, Batch, Steady, Work
from aiperf_core.results.models import Observations, Verdict
from aiperf_core.stats import clock_agreement
from aiperf_core.stats.observations import Clocks
from aiperf_core.stats.standing import Standing
from aiperf_core.validity.policy import Policy

OVERHEAD_S = 2e-6
CLOCKS = Clocks({"device": OVERHEAD_S})


def recorded(samples: list[Sample], *, calls: int = 1, device: str = "cpu") -> Observations:
    recorder = Recorder.of(DescribedImplementation("wide", "variant", device, "wide.py:1"))
    for block, one in enumerate(samples):
        recorder.record((0, block, block), one, calls=calls, judged=False)
    return recorder.facts


def observed(device_s: float, *, hidden: bool = True, bracket_s: float = 1e-3) -> Observations:
    return recorded([sample(device_s=device_s, bracket_s=bracket_s, hidden=hidden)] * 5, device="cuda")


def compared(baseline: Observations, one: Observations, *more: object) -> Standing:
    """The standing after the comparison with CUPTI."""
    standing = Standing(one, Policy())
    seen = clock_agreement.compare(baseline, one, CLOCKS, *more)  # type: ignore[arg-type]
    if seen:
        standing.find(seen)
    return standing


def by_supervisor(*sides: Observations) -> list[Verdict | None]:
    """The verdicts on those whose clock says less than the supervisor's."""
    found = clock_agreement.compare_with_supervisor(sides, Clocks())
    return [Verdict.UNTRUSTED if each and each.proven else None for each in found]


def sample(**values: Any) -> Sample:
    return Sample(**{"cpu_s": 1e-3, "answered_s": 1e-3, "begun_s": 0.0, **values})


def waited_for(wall_s: float, bracket_s: float, *, calls: int = 1) -> Observations:
    return recorded([sample(wall_s=wall_s, bracket_s=bracket_s)] * 12, calls=calls)


def audit(event_s: float, span_s: float, busy_s: float | None = None) -> Audit:
    busy = Work("kernel", "kernel", 0, 3, span_s if busy_s is None else busy_s, 0)
    return Audit([span_s] * 3, [event_s] * 3, [busy], 0)


@pytest.mark.parametrize(
    ("sampled_s", "event_s", "span_s"),
    [
        (12e-6, 12e-6, 10e-6),  # the events' own cost explains the difference
        (12.9e-6, 12.9e-6, 10e-6),  # within a microsecond
        (1.002e-3, 1.04e-3, 1e-3),  # within five per cent
        (15e-6, 12e-6, 10e-6),  # samples may be slower than calls that repeat their values
    ],
)
def test_clocks_that_agree(sampled_s: float, event_s: float, span_s: float) -> None:
    one = observed(sampled_s)
    standing = compared(one, one, audit(event_s, span_s), lambda: None)
    assert standing.active
    assert standing.findings == []


@pytest.mark.parametrize(
    ("sampled_s", "event_s", "span_s"),
    [
        (102e-6, 102e-6, 200e-6),  # work that the events missed
        (202e-6, 202e-6, 100e-6),  # time that no work explains
        (52e-6, 102e-6, 100e-6),  # samples that do less than audited calls
    ],
)
def test_clocks_that_disagree(sampled_s: float, event_s: float, span_s: float) -> None:
    one = observed(sampled_s)
    standing = compared(one, one, audit(event_s, span_s), lambda: None)
    assert standing.ended is Verdict.UNTRUSTED
    assert standing.reason == (
        f"the clocks disagree by more than 5 % and 1 us: samples {(sampled_s - OVERHEAD_S) * 1e6:.2f} us, audited calls by "
        f"events {(event_s - OVERHEAD_S) * 1e6:.2f} us, audited calls by CUPTI {span_s * 1e6:.2f} us"
    )
    assert [one.issue for one in standing.findings] == ["timing.clocks_disagree"]


def test_calls_that_wait_by_themselves_are_warned_of() -> None:
    one = observed(300e-6, hidden=False)
    standing = compared(one, one, audit(300e-6, 100e-6), None)
    assert standing.active
    assert [(one.issue, one.severity) for one in standing.findings] == [("timing.launch_not_hidden", "warning")]


def test_waiting_calls_whose_samples_say_less_than_cupti_are_not_believed() -> None:
    one = observed(50e-6, hidden=False)
    standing = compared(one, one, audit(300e-6, 100e-6), None)
    assert standing.ended is Verdict.UNTRUSTED


WAITS = {"event_s": 492e-6, "span_s": 470e-6, "busy_s": 60e-6}


@pytest.mark.parametrize("trusted", [True, False])
def test_a_profiler_may_lengthen_waiting_calls(trusted: bool) -> None:
    baseline, one = observed(82e-6), observed(107e-6, hidden=False)
    one.steady[:] = [Steady(100, 100 * 115e-6)]
    standing = compared(baseline, one, audit(**WAITS), (lambda: None) if trusted else None)
    assert standing.active
    assert [(one.issue, one.severity) for one in standing.findings] == [("timing.launch_not_hidden", "warning")]


@pytest.mark.parametrize(
    ("sampled_s", "steady_s", "usual_s"),
    [
        (52e-6, 60e-6, 82e-6),  # less than the work of which CUPTI knows
        (107e-6, 300e-6, 82e-6),  # the supervisor's runs without pauses say more, of untrusted code
        (107e-6, 115e-6, 600e-6),  # and so do its brackets of the samples
    ],
)
def test_of_waiting_calls_more_is_not_believed(sampled_s: float, steady_s: float, usual_s: float) -> None:
    baseline, one = observed(usual_s), observed(sampled_s, hidden=False)
    one.steady[:] = [Steady(100, 100 * steady_s)]
    standing = compared(baseline, one, audit(**WAITS), None)
    assert standing.ended is Verdict.UNTRUSTED


@pytest.mark.parametrize(
    ("usual_s", "trusted", "ended"),
    [
        (9.6e-3, True, None),
        (9.6e-3, False, Verdict.UNTRUSTED),
        (10.0e-3, True, Verdict.UNTRUSTED),  # the supervisor's brackets of the samples say more
    ],
)
def test_calls_at_once_may_be_slower_at_a_limit_of_power(usual_s: float, trusted: bool, ended: Verdict | None) -> None:
    baseline, one = observed(usual_s, bracket_s=10.5e-3), observed(9.6e-3, bracket_s=10.5e-3)
    standing = compared(baseline, one, audit(10.17e-3, 10.17e-3), (lambda: 1.0) if trusted else None)
    assert standing.ended is ended
    assert [one.issue for one in standing.findings] == [
        "timing.not_audited" if ended is None else "timing.clocks_disagree"
    ]


# What samples say, and audited calls by events and by CUPTI; without pauses, and by how much CUPTI slows those.
SLOWED = (802e-6, 876e-6, 874e-6, 806e-6, 1.09)
PARTLY_SEEN = (104e-6, 92e-6, 8e-6, 105e-6, None)


@pytest.mark.parametrize(("figures", "told"), [(SLOWED, "slows these calls"), (PARTLY_SEEN, "a part of the work")])
def test_where_cupti_is_wrong_the_supervisor_vouches(figures: tuple[float, ...], told: str) -> None:
    sampled_s, event_s, span_s, steady_s, slowed = figures
    one = observed(sampled_s)
    one.steady[:] = [Steady(100, 100 * steady_s)]
    standing = compared(one, one, audit(event_s, span_s), lambda: slowed)
    assert standing.active
    assert [(one.issue, one.severity) for one in standing.findings] == [("timing.not_audited", "warning")]
    assert told in standing.findings[0].message


@pytest.mark.parametrize(
    "figures",
    [
        (*SLOWED[:4], 1.01),  # it is not CUPTI that slows
        (*SLOWED[:4], None),
        (402e-6, *SLOWED[1:]),  # or not by so much
        (*PARTLY_SEEN[:3], 200e-6, None),  # the supervisor sees more than the samples say
        (802e-6, 600e-6, 874e-6, 806e-6, 1.5),  # the same call by events, under CUPTI too, is shorter than by CUPTI
    ],
)
def test_where_nothing_vouches_clocks_that_disagree_are_not_believed(figures: tuple[float, ...]) -> None:
    sampled_s, event_s, span_s, steady_s, slowed = figures
    baseline, one = observed(802e-6), observed(sampled_s)
    one.steady[:] = [Steady(100, 100 * steady_s)]
    standing = compared(baseline, one, audit(event_s, span_s), lambda: slowed)
    assert standing.ended is Verdict.UNTRUSTED


@pytest.mark.parametrize("figures", [SLOWED, PARTLY_SEEN])
def test_nothing_vouches_for_code_that_nobody_trusts(figures: tuple[float, ...]) -> None:
    sampled_s, event_s, span_s, steady_s, _ = figures
    one = observed(sampled_s)
    one.steady[:] = [Steady(100, 100 * steady_s)]
    standing = compared(one, one, audit(event_s, span_s), None)
    assert standing.ended is Verdict.UNTRUSTED


def test_the_slowest_rank_s_audit_counts_with_the_strays_of_all() -> None:
    fast, slow = evolve(audit(1e-3, 0.9e-3), stray=3), evolve(audit(2e-3, 1.9e-3), threads=2)
    found = clock_agreement.slowest([fast, slow])
    assert (found.event_s, found.stray, found.threads) == (slow.event_s, 3, 2)


def test_how_much_a_profiler_slows() -> None:
    one = observed(1e-3)
    assert clock_agreement.slowed(one, [Steady(10, 12e-3)]) is None
    one.steady[:] = [Steady(10, 11e-3), Steady(10, 10e-3), Steady(10, 2e-3, waited_s=1e-3)]
    assert clock_agreement.slowed(one, [Steady(10, 12e-3), Steady(10, 13e-3)]) == pytest.approx(1.2)
    assert clock_agreement.slowed(one, []) is None


def test_more_runs_without_pauses_are_made_until_one_is_as_fast_as_the_samples() -> None:
    one = waited_for(1e-3, 1.01e-3)
    assert not clock_agreement.fast_without_pauses(one, Clocks(), "wall")
    one.steady[:] = [Steady(10, 11e-3), Steady(10, 9e-3, waited_s=5e-3)]  # the second waited for a processor
    assert not clock_agreement.fast_without_pauses(one, Clocks(), "wall")
    one.steady.append(Steady(10, 9.9e-3))
    assert clock_agreement.fast_without_pauses(one, Clocks(), "wall")


def test_the_clocks_own_cost_is_taken_off_times_and_not_off_samples() -> None:
    one = observed(100e-6)
    assert CLOCKS.median(one.samples, "device") == pytest.approx(98e-6)
    assert CLOCKS.blocks(one.samples, "device", 1).times == pytest.approx([98e-6] * 5)
    assert one.samples.device_s == [100e-6] * 5


def test_a_sample_of_several_calls_is_divided() -> None:
    one, clocks = waited_for(10.1e-6, 50e-6, calls=100), Clocks({"wall": 0.1e-6})
    assert clocks.median(one.samples, "wall") == pytest.approx(0.1e-6)
    assert clocks.blocks(one.samples, "wall", 1).times == pytest.approx([0.1e-6] * 12)


@pytest.mark.parametrize(
    ("wall_s", "bracket_s"),
    [
        (1e-3, 1.1e-3),  # messages take as long as the baseline's
        (1e-3, 1.14e-3),  # or a little longer
        (100e-3, 104e-3),  # or within five per cent
        (1e-3, 0.9e-3),  # the supervisor may read a message late
    ],
)
def test_a_worker_that_agrees_with_the_supervisor(wall_s: float, bracket_s: float) -> None:
    one = waited_for(wall_s, bracket_s)
    assert by_supervisor(waited_for(5e-3, 5.1e-3), one) == [None, None]


def test_a_worker_that_says_less_than_the_supervisor_saw() -> None:
    baseline, one = waited_for(1e-3, 1.1e-3), waited_for(1e-6, 1.1e-3)
    usual, found = clock_agreement.compare_with_supervisor([baseline, one], Clocks())
    assert usual is None
    assert found is not None
    assert found.proven
    assert "1.0 us by the implementation's own process and 1,000.0 us by the supervisor's clock" in found.message


def test_calls_that_claim_less_than_they_take_without_pauses() -> None:
    baseline, one = waited_for(20e-6, 90e-6), waited_for(1e-6, 80e-6)
    baseline.steady[:] = [Steady(1000, 19e-3)]
    one.steady[:] = [Steady(1000, 19e-3), Steady(1000, 40e-3)]
    usual, found = clock_agreement.compare_with_supervisor([baseline, one], Clocks())
    assert usual is None
    assert found is not None
    assert found.proven
    assert "1.00 us by the implementation's own process, and 19.00 us in a run without pauses" in found.message


def test_calls_may_be_faster_without_pauses() -> None:
    one = waited_for(20e-6, 90e-6)
    one.steady[:] = [Steady(1000, 5e-3)]
    assert by_supervisor(one) == [None]


def test_a_loaded_machine_slows_the_baseline_as_well() -> None:
    baseline, one = waited_for(20e-6, 90e-6), waited_for(10e-6, 80e-6)
    baseline.steady[:] = [Steady(1000, 45e-3)]
    one.steady[:] = [Steady(1000, 22e-3)]
    assert by_supervisor(baseline, one) == [None, None]


def test_a_run_that_waited_for_a_processor_says_nothing() -> None:
    one = waited_for(1e-6, 80e-6)
    one.steady[:] = [Steady(1000, 19e-3, waited_s=5e-3)]
    assert by_supervisor(waited_for(20e-6, 90e-6), one) == [None, None]
    one.steady[:] = [Steady(1000, 19e-3, waited_s=1e-3)]
    assert by_supervisor(waited_for(20e-6, 90e-6), one) == [None, Verdict.UNTRUSTED]


def test_one_late_message_is_no_disagreement() -> None:
    one = waited_for(1e-3, 9e-3)
    one.samples.bracket_s[2] = 1.02e-3
    assert by_supervisor(waited_for(5e-3, 5.1e-3), one) == [None, None]


def asked(
    calls: list[tuple[float, float, float]],
    clock: str = "wall_s",
    *,
    replied_s: float | None = None,
    calls_each: int = 1,
) -> Observations:
    """Samples that took so long by the clock, by the bracket, and until they were answered."""
    samples = [
        sample(**{clock: taken, "bracket_s": bracket, "answered_s": answered, "replied_s": replied_s})
        for taken, bracket, answered in calls
    ]
    return recorded(samples, calls=calls_each)


def resampling(take: Callable[..., object], trust: Trust) -> ExtraSamples:
    method = SimpleNamespace(clock="wall", trust=trust)
    taker: Any = SimpleNamespace(take=take, method=method, inspect=lambda *_: True)
    return ExtraSamples(taker)


def takes_part(calls: list[tuple[float, float, float]]) -> Participant:
    one = Participant(DescribedImplementation("wide", "variant", "cpu", "wide.py:1"), "wide")
    one.recorder.facts = asked(calls)
    return one


def with_column(one: Observations, name: str, values: list[float]) -> Observations:
    return evolve(one, samples=evolve(one.samples, **{name: values}))


@pytest.mark.parametrize("clock", ["wall_s", "device_s"])
@pytest.mark.parametrize(("beside_s", "found"), [(0.1e-3, False), (0.25e-3, False), (0.35e-3, True)])
def test_work_beside_the_timed_call(beside_s: float, found: bool, clock: str) -> None:
    baseline = asked([(1e-3, 1e-3, 1.1e-3)] * 12, clock)
    one = asked([(1e-4, 1e-4, 9e-3), (1e-4, 1e-4, 1e-4 + beside_s), *[(1e-4, 1e-4, 9e-3)] * 10], clock)
    few = asked([(1e-4, 1e-4, 9e-3)] * 7, clock)
    assert clock_agreement.work_beside(baseline, few) is None
    suspected = clock_agreement.work_beside(baseline, one)
    assert (suspected is not None and suspected.proven) == found


@pytest.mark.parametrize("clock", ["wall_s", "device_s"])
def test_notices_that_were_read_late_are_no_work_beside_the_call(clock: str) -> None:
    baseline = asked([(1e-3, 1.02e-3, 1.1e-3)] * 8, clock)
    late = asked([*[(1e-3, 1.02e-3, 9e-3)] * 4, *[(1e-3, 2e-6, 1.1e-3)] * 4], clock)
    assert clock_agreement.work_beside(baseline, late) is None


def test_a_clock_that_leaves_out_work_shows_beside_the_call() -> None:
    baseline = asked([(1e-3, 1.02e-3, 1.1e-3)] * 12)
    liar = asked([(0.5e-3, 1.02e-3, 1.1e-3)] * 12)
    found = clock_agreement.work_beside(baseline, liar)
    assert found is not None
    assert found.proven


@pytest.mark.parametrize(("begun_s", "seen"), [(0.45e-3, False), (0.9e-3, True)])
def test_work_before_the_clock_starts_is_not_made_up_for_afterwards(begun_s: float, seen: bool) -> None:
    """It skips what the harness does behind the clock's stop, so that the answer is there as soon as the baseline's."""
    baseline, one = asked([(1e-3, 1e-3, 3e-3)] * 12), asked([(0.5e-3, 0.5e-3, 2.5e-3)] * 12)
    baseline, one = (with_column(side, "begun_s", [begun] * 12) for side, begun in ((baseline, 0.3e-3), (one, begun_s)))
    found = clock_agreement.work_beside(baseline, one)
    assert (found is not None and found.proven) is seen
    if found:
        assert "600 us more than the baseline's between the request and the start of the timed call" in found.message


def test_samples_of_one_code_are_told_apart_by_their_least_but_not_by_chance() -> None:
    """On a busy machine an answer comes late by milliseconds, and the least of two sides differ by hundreds of us."""
    rng = random.Random(28)
    proven = suspected = 0
    for _ in range(300):
        sides = []
        for _ in range(2):
            calls = [rng.expovariate(1 / 8e-3) for _ in range(24)]
            sides.append(asked([(call, call, call + rng.expovariate(1 / 8e-3)) for call in calls]))
        found = clock_agreement.work_beside(*sides)
        suspected += found is not None
        proven += found is not None and found.proven
    assert suspected > 20
    assert proven == 0


@pytest.mark.parametrize(
    ("stopped_s", "seen", "proven"),
    [
        ([0.0] * 7 + [4e-3] * 5, False, False),
        ([0.0] * 5 + [1e-3] * 7, True, False),  # as late stops may look on a busy machine
        ([1e-3] * 12, True, True),
    ],
)
def test_a_process_that_is_stopped_uses_no_processor(stopped_s: list[float], seen: bool, proven: bool) -> None:
    baseline, one = asked([(1e-3, 1e-3, 1.1e-3)] * 12), asked([(0.5e-3, 0.5e-3, 0.6e-3)] * 12)
    sides = with_column(baseline, "stopped_s", [0.0] * 12), with_column(one, "stopped_s", stopped_s)
    found = clock_agreement.work_beside(*sides)
    assert (found is not None) is seen
    if found:
        assert found.proven is proven
        assert found.message.startswith("its process used 1,000 us of processor time while it was stopped")


def test_late_stops_of_one_code_are_no_proof() -> None:
    """On a busy machine a process that was sent a stop goes on for a while."""
    rng = random.Random(5)
    proven = suspected = 0
    for _ in range(300):
        sides = []
        for _ in range(2):
            late = [rng.choice((0.0, rng.expovariate(1 / 2e-3))) for _ in range(24)]
            sides.append(with_column(asked([(1e-3, 1e-3, 1.1e-3)] * 24), "stopped_s", late))
        found = clock_agreement.work_beside(*sides)
        suspected += found is not None
        proven += found is not None and found.proven
    assert suspected > 20
    assert proven == 0


def test_a_doubt_by_late_stops_hides_no_proof_of_work_beside_the_call() -> None:
    baseline, one = asked([(1e-3, 1e-3, 1.1e-3)] * 12), asked([(1e-3, 1e-3, 3e-3)] * 12)
    late = [0.0] * 5 + [1e-3] * 7
    found = clock_agreement.work_beside(
        with_column(baseline, "stopped_s", [0.0] * 12), with_column(one, "stopped_s", late)
    )
    assert found is not None
    assert found.proven
    assert found.message.startswith("its process is busy for 1,900 us more than the baseline's beside the timed call")


def test_a_busy_machine_stops_the_baseline_late_as_well() -> None:
    baseline, one = asked([(1e-3, 1e-3, 1.1e-3)] * 8), asked([(0.5e-3, 0.5e-3, 0.6e-3)] * 8)
    sides = with_column(baseline, "stopped_s", [0.9e-3] * 8), with_column(one, "stopped_s", [1e-3] * 8)
    assert clock_agreement.work_beside(*sides) is None


@pytest.mark.parametrize(
    ("looks", "busy_s", "waits_s", "ended"),
    [
        ((4e-3, 0.1e-3), 0.1e-3, 0.0, None),
        ((4e-3, 0.4e-3), 0.1e-3, 0.0, Verdict.INVALID),
        ((0.4e-3, 0.4e-3), 0.3e-3, 0.0, None),  # by now the machine is busy, and the baseline takes longer too
        ((4e-3, 4e-3), 0.1e-3, 3.85e-3, None),  # others kept it waiting
        ((4e-3, 4e-3), 0.1e-3, 3e-3, Verdict.INVALID),
        ((4e-3, 4e-3), 0.1e-3, 8e-3, None),  # more than there is to take off: nothing can be told
    ],
)
def test_a_suspect_is_looked_at_again_beside_the_baseline(
    monkeypatch: pytest.MonkeyPatch, looks: tuple[float, float], busy_s: float, waits_s: float, ended: Verdict | None
) -> None:
    baseline, one = takes_part([(1e-3, 1e-3, 1.1e-3)] * 8), takes_part([(1e-3, 1e-3, 9e-3)] * 8)
    beside = iter([*[looks[0]] * 20, *[looks[1]] * 1000])

    def look(asked: Participant, *_: object, **__: object) -> Sample:
        took = busy_s if asked is baseline else next(beside)
        waited = (0.0 if asked is baseline else waits_s, 0.0)
        return sample(wall_s=0.9e-3, bracket_s=1e-3, answered_s=1e-3 + took, kept_waiting_s=waited)

    for number, child in enumerate((baseline, one)):
        child.child = SimpleNamespace(pid=number)  # type: ignore[assignment]
    standing = SimpleNamespace(standing=lambda: None)
    monkeypatch.setattr(process_monitor, "ProcessMonitor", lambda _: standing)
    resampling(look, Trust(untrusted=True)).resample(
        baseline, one, lambda: clock_agreement.work_beside(baseline.observed, one.observed)
    )
    assert len(one.observed.samples.wall_s) == 8, "looking again adds no sample"
    found = clock_agreement.work_beside(baseline.observed, one.observed)
    assert (found is not None and found.proven) is (ended is not None)


@pytest.mark.parametrize(("call_s", "active"), [(3.3e-3, True), (100e-6, False)])
def test_of_long_calls_single_samples_tell_more_than_runs_without_pauses(call_s: float, active: bool) -> None:
    one = waited_for(call_s, call_s + 50e-6)
    one.steady[:] = [Steady(200, 200 * 1.4 * call_s, None)]
    found = by_supervisor(waited_for(call_s, call_s + 50e-6), one)
    assert (found[1] is None) is active


@pytest.mark.parametrize("untrusting", [False, True])
def test_looks_that_waiting_explains_are_no_doubt_against_who_is_trusted(
    monkeypatch: pytest.MonkeyPatch, untrusting: bool
) -> None:
    """Of the others nothing can be told by them."""
    baseline, one = takes_part([(1e-3, 1e-3, 1.1e-3)] * 8), takes_part([(1e-3, 1e-3, 9e-3)] * 8)

    def look(*_: object, **__: object) -> Sample:
        return sample(wall_s=1e-3, bracket_s=1e-3, answered_s=9e-3, kept_waiting_s=(9e-3, 0.0))

    for number, child in enumerate((baseline, one)):
        child.child = SimpleNamespace(pid=number)  # type: ignore[assignment]
    monkeypatch.setattr(process_monitor, "ProcessMonitor", lambda _: None)
    resampling(look, Trust(untrusted=untrusting)).resample(
        baseline, one, lambda: clock_agreement.work_beside(baseline.observed, one.observed)
    )
    assert one.observed.resampled is not None
    assert [answer.beside_s for answer in one.observed.resampled.own[:1]] == ([] if untrusting else [0.0])
    assert clock_agreement.work_beside(baseline.observed, one.observed) is None


@pytest.mark.parametrize(
    ("replied_s", "calls", "believed"),
    [
        (0.99e-3, 1, True),
        (1.01e-3, 1, False),  # the gain by its own clock may be time of the harness
        (1.9e-3, 2, True),
        (2.1e-3, 2, False),
    ],
)
def test_a_gain_is_believed_where_the_whole_output_is_there_sooner_than_the_baselines_call_takes(
    replied_s: float, calls: int, believed: bool
) -> None:
    baseline = asked([(1e-3, 1.1e-3, 1.6e-3)] * 12, replied_s=1.6e-3)
    one = asked([(0.5e-3, 1.1e-3, 1.6e-3)] * 12, replied_s=replied_s, calls_each=calls)
    found = clock_agreement.not_sooner(baseline.samples, one.samples)
    assert (found is None) == believed
    if found is not None:
        assert found == (
            "from the release of its inputs until its output was there for good, a call takes "
            f"{replied_s / calls * 1e6:,.0f} us, and the baseline's call alone 1,000 us: the gain may be time of the "
            "harness; make the workload larger"
        )


def test_of_a_baseline_that_an_observer_timed_the_call_alone_counts() -> None:
    baseline = with_column(asked([(1.6e-3, 1.6e-3, 1.6e-3)] * 12), "own_s", [1e-3] * 12)
    one = asked([(0.5e-3, 0.5e-3, 0.5e-3)] * 12, replied_s=1.1e-3)
    assert clock_agreement.not_sooner(baseline.samples, one.samples) is not None


@pytest.mark.parametrize(
    ("batch_us", "believed"),
    [
        (900.0, True),  # 100 us less, as by the GPU's clock
        (920.0, True),
        (930.0, False),  # 70 us less, where the GPU's clock says 100
        (1000.0, False),
        (1200.0, False),
    ],
)
def test_a_gain_by_the_gpus_clock_is_believed_where_batches_show_most_of_it(batch_us: float, believed: bool) -> None:
    baseline, one = observed(200e-6), observed(100e-6)
    baseline.batches[:] = in_batches(1000.0)
    one.batches[:] = in_batches(batch_us)
    found = clock_agreement.not_shown(baseline, one, CLOCKS)
    assert (found is None) == believed
    if found is not None:
        assert found == (
            "by the GPU's clock, which its own process reads, a call takes 100.0 us less than the baseline's, and in "
            f"calls in a row by the supervisor's clock {1000 - batch_us:,.1f} us less: make the workload larger"
        )


def test_batches_that_chance_explains_show_nothing() -> None:
    baseline, one = observed(200e-6), observed(199e-6)
    baseline.batches[:] = in_batches(1000.0, spread_us=50.0, seed=1)
    one.batches[:] = in_batches(998.0, spread_us=50.0, seed=2)
    assert clock_agreement.not_shown(baseline, one, CLOCKS) is not None


@pytest.mark.parametrize("side", [0, 1])
def test_without_batches_no_gain_by_the_gpus_clock_is_believed(side: int) -> None:
    sides = observed(200e-6), observed(100e-6)
    sides[side].batches[:] = in_batches(1000.0)
    found = clock_agreement.not_shown(*sides, CLOCKS)
    assert found == "no calls in a row were timed from outside of its process: repeat it without an interruption"


def in_batches(call_us: float, *, spread_us: float = 5.0, seed: int = 0) -> list[Batch]:
    rng = random.Random(seed)
    return [Batch(20, 20e-6 * (call_us + rng.uniform(-spread_us, spread_us))) for _ in range(20)]
