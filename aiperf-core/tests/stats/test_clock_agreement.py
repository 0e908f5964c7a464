"""When the clocks of a run agree, and what the events' own cost is taken off."""

from types import SimpleNamespace

import pytest
from attrs import evolve

from aiperf_core.described import DescribedImplementation
from aiperf_core.harness.isolation import process_monitor
from aiperf_core.harness.run.implementation_run import ImplementationRun
from aiperf_core.harness.run.sampler import Sampler
from aiperf_core.measurements import Audit, Steady, Work
from aiperf_core.results.models import Verdict
from aiperf_core.stats import clock_agreement

OVERHEAD_S = 2e-6


def observed(device_s: float, *, hidden: bool = True, bracket_s: float = 1e-3) -> ImplementationRun:
    declared = DescribedImplementation("wide", "variant", "cuda", "wide.py:1")
    one = ImplementationRun(declared, "wide", clock_cost_s={"device": OVERHEAD_S}, calls=1)
    for block in range(5):
        one.record((0, block, block), sample(device_s=device_s, bracket_s=bracket_s, hidden=hidden), judged=False)
    return one


def sample(**values: object) -> dict[str, object]:
    nothing = {"device_s": None, "wall_s": None, "cpu_s": 1e-3, "hidden": False, "answered_s": 1e-3}
    nothing |= {"begun_s": 0.0, "stopped_s": None, "replied_s": None, "ahead_s": None}
    return {**nothing, "voluntary_switches": 0, "involuntary_switches": 0, **values}


def waited_for(wall_s: float, bracket_s: float, *, calls: int = 1, cost_s: float = 0.0) -> ImplementationRun:
    declared = DescribedImplementation("wide", "variant", "cpu", "wide.py:1")
    one = ImplementationRun(declared, "wide", clock_cost_s={"wall": cost_s}, calls=calls)
    for block in range(5):
        one.record((0, block, block), sample(wall_s=wall_s, bracket_s=bracket_s), judged=False)
    return one


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
    clock_agreement.compare(one, one, audit(event_s, span_s), lambda: None)
    assert one.active
    assert one.findings == []


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
    clock_agreement.compare(one, one, audit(event_s, span_s), lambda: None)
    assert one.ended is Verdict.UNTRUSTED
    assert one.reason == (
        f"the clocks disagree by more than 5% and 1 us: samples {(sampled_s - OVERHEAD_S) * 1e6:.2f} us, audited calls by "
        f"events {(event_s - OVERHEAD_S) * 1e6:.2f} us, audited calls by CUPTI {span_s * 1e6:.2f} us"
    )
    assert [one.issue for one in one.findings] == ["timing.clocks_disagree"]


def test_calls_that_wait_by_themselves_are_warned_of() -> None:
    one = observed(300e-6, hidden=False)
    clock_agreement.compare(one, one, audit(300e-6, 100e-6), None)
    assert one.active
    assert [(one.issue, one.severity) for one in one.findings] == [("timing.launch_not_hidden", "warning")]


def test_waiting_calls_whose_samples_say_less_than_cupti_are_not_believed() -> None:
    one = observed(50e-6, hidden=False)
    clock_agreement.compare(one, one, audit(300e-6, 100e-6), None)
    assert one.ended is Verdict.UNTRUSTED


WAITS = {"event_s": 492e-6, "span_s": 470e-6, "busy_s": 60e-6}


@pytest.mark.parametrize("trusted", [True, False])
def test_a_profiler_may_lengthen_waiting_calls(trusted: bool) -> None:
    baseline, one = observed(82e-6), observed(107e-6, hidden=False)
    one.steady = [Steady(100, 100 * 115e-6)]
    clock_agreement.compare(baseline, one, audit(**WAITS), (lambda: None) if trusted else None)
    assert one.active
    assert [(one.issue, one.severity) for one in one.findings] == [("timing.launch_not_hidden", "warning")]


@pytest.mark.parametrize(
    ("sampled_s", "steady_s", "usual_s"),
    [
        (52e-6, 60e-6, 82e-6),  # less than the work of which CUPTI knows
        (107e-6, 300e-6, 82e-6),  # the supervisor's runs without pauses say more, of code that nobody trusts
        (107e-6, 115e-6, 600e-6),  # and so do its brackets of the samples
    ],
)
def test_of_waiting_calls_more_is_not_believed(sampled_s: float, steady_s: float, usual_s: float) -> None:
    baseline, one = observed(usual_s), observed(sampled_s, hidden=False)
    one.steady = [Steady(100, 100 * steady_s)]
    clock_agreement.compare(baseline, one, audit(**WAITS), None)
    assert one.ended is Verdict.UNTRUSTED


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
    clock_agreement.compare(baseline, one, audit(10.17e-3, 10.17e-3), (lambda: 1.0) if trusted else None)
    assert one.ended is ended
    assert [one.issue for one in one.findings] == ["timing.not_audited" if ended is None else "timing.clocks_disagree"]


# What samples say, and audited calls by events and by CUPTI; without pauses, and by how much CUPTI slows those.
SLOWED = (802e-6, 876e-6, 874e-6, 806e-6, 1.09)
PARTLY_SEEN = (104e-6, 92e-6, 8e-6, 105e-6, None)


@pytest.mark.parametrize(("figures", "told"), [(SLOWED, "slows these calls"), (PARTLY_SEEN, "a part of the work")])
def test_where_cupti_is_wrong_the_supervisor_vouches(figures: tuple[float, ...], told: str) -> None:
    sampled_s, event_s, span_s, steady_s, slowed = figures
    one = observed(sampled_s)
    one.steady = [Steady(100, 100 * steady_s)]
    clock_agreement.compare(one, one, audit(event_s, span_s), lambda: slowed)
    assert one.active
    assert [(one.issue, one.severity) for one in one.findings] == [("timing.not_audited", "warning")]
    assert told in one.findings[0].message


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
    one.steady = [Steady(100, 100 * steady_s)]
    clock_agreement.compare(baseline, one, audit(event_s, span_s), lambda: slowed)
    assert one.ended is Verdict.UNTRUSTED


@pytest.mark.parametrize("figures", [SLOWED, PARTLY_SEEN])
def test_nothing_vouches_for_code_that_nobody_trusts(figures: tuple[float, ...]) -> None:
    sampled_s, event_s, span_s, steady_s, _ = figures
    one = observed(sampled_s)
    one.steady = [Steady(100, 100 * steady_s)]
    clock_agreement.compare(one, one, audit(event_s, span_s), None)
    assert one.ended is Verdict.UNTRUSTED


def test_the_slowest_rank_s_audit_counts_with_the_strays_of_all() -> None:
    fast, slow = evolve(audit(1e-3, 0.9e-3), stray=3), evolve(audit(2e-3, 1.9e-3), threads=2)
    found = clock_agreement.slowest([fast, slow])
    assert (found.event_s, found.stray, found.threads) == (slow.event_s, 3, 2)


def test_how_much_a_profiler_slows() -> None:
    one = observed(1e-3)
    assert clock_agreement.slowed(one, [Steady(10, 12e-3)]) is None
    one.steady = [Steady(10, 11e-3), Steady(10, 10e-3), Steady(10, 2e-3, waited_s=1e-3)]
    assert clock_agreement.slowed(one, [Steady(10, 12e-3), Steady(10, 13e-3)]) == pytest.approx(1.2)
    assert clock_agreement.slowed(one, []) is None


def test_more_runs_without_pauses_are_made_until_one_is_as_fast_as_the_samples() -> None:
    one = waited_for(1e-3, 1.01e-3)
    assert not clock_agreement.fast_without_pauses(one, "wall")
    one.steady = [Steady(10, 11e-3), Steady(10, 9e-3, waited_s=5e-3)]  # the second waited for a processor
    assert not clock_agreement.fast_without_pauses(one, "wall")
    one.steady.append(Steady(10, 9.9e-3))
    assert clock_agreement.fast_without_pauses(one, "wall")


def test_the_clocks_own_cost_is_taken_off_times_and_not_off_samples() -> None:
    one = observed(100e-6)
    assert one.median("device") == pytest.approx(98e-6)
    assert one.blocks("device", 1).times == pytest.approx([98e-6] * 5)
    assert one.samples.device_s == [100e-6] * 5


def test_a_sample_of_several_calls_is_divided() -> None:
    one = waited_for(10.1e-6, 50e-6, calls=100, cost_s=0.1e-6)
    assert one.median("wall") == pytest.approx(0.1e-6)
    assert one.blocks("wall", 1).times == pytest.approx([0.1e-6] * 5)


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
    clock_agreement.compare_with_supervisor([waited_for(5e-3, 5.1e-3), one])
    assert one.active


def test_a_worker_that_says_less_than_the_supervisor_saw() -> None:
    baseline, one = waited_for(1e-3, 1.1e-3), waited_for(1e-6, 1.1e-3)
    clock_agreement.compare_with_supervisor([baseline, one])
    assert baseline.active
    assert one.ended is Verdict.UNTRUSTED
    assert "1.0 us by the implementation's own process and 1,000.0 us by the supervisor's clock" in str(one.reason)
    assert [found.issue for found in one.findings] == ["timing.clocks_disagree"]


def test_calls_that_claim_less_than_they_take_without_pauses() -> None:
    baseline, one = waited_for(20e-6, 90e-6), waited_for(1e-6, 80e-6)
    baseline.steady, one.steady = [Steady(1000, 19e-3)], [Steady(1000, 19e-3), Steady(1000, 40e-3)]
    clock_agreement.compare_with_supervisor([baseline, one])
    assert baseline.active
    assert one.ended is Verdict.UNTRUSTED
    assert "1.00 us by the implementation's own process, and 19.00 us in a run without pauses" in str(one.reason)


def test_calls_may_be_faster_without_pauses() -> None:
    one = waited_for(20e-6, 90e-6)
    one.steady = [Steady(1000, 5e-3)]
    clock_agreement.compare_with_supervisor([one])
    assert one.active


def test_a_loaded_machine_slows_the_baseline_as_well() -> None:
    baseline, one = waited_for(20e-6, 90e-6), waited_for(10e-6, 80e-6)
    baseline.steady, one.steady = [Steady(1000, 45e-3)], [Steady(1000, 22e-3)]
    clock_agreement.compare_with_supervisor([baseline, one])
    assert baseline.active
    assert one.active


def test_a_run_that_waited_for_a_processor_says_nothing() -> None:
    one = waited_for(1e-6, 80e-6)
    one.steady = [Steady(1000, 19e-3, waited_s=5e-3)]
    clock_agreement.compare_with_supervisor([waited_for(20e-6, 90e-6), one])
    assert one.active
    one.steady = [Steady(1000, 19e-3, waited_s=1e-3)]
    clock_agreement.compare_with_supervisor([waited_for(20e-6, 90e-6), one])
    assert one.ended is Verdict.UNTRUSTED


def test_one_late_message_is_no_disagreement() -> None:
    one = waited_for(1e-3, 9e-3)
    one.samples.bracket_s[2] = 1.02e-3
    clock_agreement.compare_with_supervisor([waited_for(5e-3, 5.1e-3), one])
    assert one.active


def asked(
    calls: list[tuple[float, float, float]],
    clock: str = "wall_s",
    *,
    replied_s: float | None = None,
    ahead_s: float | None = None,
) -> ImplementationRun:
    """Samples that took so long by the clock, by the bracket, and until they were answered."""
    one = ImplementationRun(DescribedImplementation("wide", "variant", "cpu", "wide.py:1"), "wide", calls=1)
    for block, (taken, bracket, answered) in enumerate(calls):
        values = {
            clock: taken,
            "bracket_s": bracket,
            "answered_s": answered,
            "replied_s": replied_s,
            "ahead_s": ahead_s,
        }
        one.record((0, block, block), sample(**values), judged=False)
    return one


@pytest.mark.parametrize("clock", ["wall_s", "device_s"])
@pytest.mark.parametrize(("beside_s", "ended"), [(0.1e-3, None), (0.25e-3, None), (0.35e-3, Verdict.INVALID)])
def test_work_beside_the_timed_call(beside_s: float, ended: Verdict | None, clock: str) -> None:
    baseline = asked([(1e-3, 1e-3, 1.1e-3)] * 8, clock)
    one = asked([(1e-4, 1e-4, 9e-3), (1e-4, 1e-4, 1e-4 + beside_s), *[(1e-4, 1e-4, 9e-3)] * 6], clock)
    few = asked([(1e-4, 1e-4, 9e-3)] * 7, clock)
    clock_agreement.refuse_work_beside([baseline, one, few])
    assert baseline.active
    assert few.active
    assert one.ended is ended
    assert [found.issue for found in one.findings] == (["location.work_between_calls"] if ended else [])


@pytest.mark.parametrize("clock", ["wall_s", "device_s"])
def test_notices_that_were_read_late_are_no_work_beside_the_call(clock: str) -> None:
    baseline = asked([(1e-3, 1.02e-3, 1.1e-3)] * 8, clock)
    late = asked([*[(1e-3, 1.02e-3, 9e-3)] * 4, *[(1e-3, 2e-6, 1.1e-3)] * 4], clock)
    clock_agreement.refuse_work_beside([baseline, late])
    assert late.active


def test_a_clock_that_leaves_out_work_shows_beside_the_call() -> None:
    baseline = asked([(1e-3, 1.02e-3, 1.1e-3)] * 8)
    liar = asked([(0.5e-3, 1.02e-3, 1.1e-3)] * 8)
    clock_agreement.refuse_work_beside([baseline, liar])
    assert liar.ended is Verdict.INVALID


@pytest.mark.parametrize(("begun_s", "ended"), [(0.45e-3, None), (0.9e-3, Verdict.INVALID)])
def test_work_before_the_clock_starts_is_not_made_up_for_afterwards(begun_s: float, ended: Verdict | None) -> None:
    """It skips what the harness does behind the clock's stop, so that the answer is there as soon as the baseline's."""
    baseline, one = asked([(1e-3, 1e-3, 3e-3)] * 8), asked([(0.5e-3, 0.5e-3, 2.5e-3)] * 8)
    for side, begun in ((baseline, 0.3e-3), (one, begun_s)):
        side.answered = [evolve(answer, begun_s=begun) for answer in side.answered]
    clock_agreement.refuse_work_beside([baseline, one])
    assert one.ended is ended
    if ended:
        assert "600 us more than the baseline's between the request and the start of the timed call" in str(one.reason)


@pytest.mark.parametrize(
    ("stopped_s", "ended"), [([0.0] * 5 + [4e-3] * 3, None), ([0.0] * 3 + [1e-3] * 5, Verdict.INVALID)]
)
def test_a_process_that_is_stopped_uses_no_processor(stopped_s: list[float], ended: Verdict | None) -> None:
    baseline, one = asked([(1e-3, 1e-3, 1.1e-3)] * 8), asked([(0.5e-3, 0.5e-3, 0.6e-3)] * 8)
    one.stopped_s = stopped_s
    clock_agreement.refuse_work_beside([baseline, one])
    assert one.ended is ended
    if ended:
        assert str(one.reason).startswith("its process used 1,000 us of processor time while it was stopped")


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
    baseline, one = asked([(1e-3, 1e-3, 1.1e-3)] * 8), asked([(1e-3, 1e-3, 9e-3)] * 8)
    beside = iter([*[looks[0]] * 20, *[looks[1]] * 1000])

    def look(_: object, asked: ImplementationRun, *__: object, **___: object) -> dict[str, object]:
        took = busy_s if asked is baseline else next(beside)
        waited = (0.0 if asked is baseline else waits_s, 0.0)
        return sample(wall_s=0.9e-3, bracket_s=1e-3, answered_s=1e-3 + took, kept_waiting_s=waited)

    for number, child in enumerate((baseline, one)):
        child.child = SimpleNamespace(pid=number)  # type: ignore[assignment]
    standing = SimpleNamespace(standing=lambda: None)
    monkeypatch.setattr(process_monitor, "ProcessMonitor", lambda _: standing)
    monkeypatch.setattr(Sampler, "_sample", look)
    monkeypatch.setattr(Sampler, "_inspect", lambda *_: True)
    monkeypatch.setattr(Sampler, "_new_seed", lambda _: 1)
    sampler = Sampler.__new__(Sampler)
    sampler.clock, sampler.untrusting = "wall", True
    sampler.resample(baseline, one, lambda: clock_agreement.work_beside(baseline, one))
    baseline.child = one.child = None
    assert len(one.samples.wall_s) == 8, "looking again adds no sample"
    clock_agreement.refuse_work_beside([baseline, one])
    assert one.ended is ended


@pytest.mark.parametrize(("call_s", "active"), [(3.3e-3, True), (100e-6, False)])
def test_of_long_calls_single_samples_tell_more_than_runs_without_pauses(call_s: float, active: bool) -> None:
    one = waited_for(call_s, call_s + 50e-6)
    one.steady = [Steady(200, 200 * 1.4 * call_s, None)]
    clock_agreement.compare_with_supervisor([waited_for(call_s, call_s + 50e-6), one])
    assert one.active is active


@pytest.mark.parametrize("untrusting", [False, True])
def test_looks_that_waiting_explains_are_no_doubt_against_who_is_trusted(
    monkeypatch: pytest.MonkeyPatch, untrusting: bool
) -> None:
    """Of the others nothing can be told by them."""
    baseline, one = asked([(1e-3, 1e-3, 1.1e-3)] * 8), asked([(1e-3, 1e-3, 9e-3)] * 8)

    def look(*_: object, **__: object) -> dict[str, object]:
        return sample(wall_s=1e-3, bracket_s=1e-3, answered_s=9e-3, kept_waiting_s=(9e-3, 0.0))

    for number, child in enumerate((baseline, one)):
        child.child = SimpleNamespace(pid=number)  # type: ignore[assignment]
    monkeypatch.setattr(process_monitor, "ProcessMonitor", lambda _: None)
    monkeypatch.setattr(Sampler, "_sample", look)
    monkeypatch.setattr(Sampler, "_inspect", lambda *_: True)
    monkeypatch.setattr(Sampler, "_new_seed", lambda _: 1)
    sampler = Sampler.__new__(Sampler)
    sampler.clock, sampler.untrusting = "wall", untrusting
    sampler.resample(baseline, one, lambda: clock_agreement.work_beside(baseline, one))
    baseline.child = one.child = None
    assert one.looks is not None
    assert [answer.beside_s for answer in one.looks[1][:1]] == ([] if untrusting else [0.0])
    clock_agreement.refuse_work_beside([baseline, one])
    assert one.active


FORGED = [(0.8e-3, 1.1e-3, 1.6e-3)] * 12
USUAL = [(1e-3, 1.1e-3, 1.6e-3)] * 12


@pytest.mark.parametrize(
    "told",
    [
        FORGED,
        [*FORGED, *[(0.8e-3, 0.1e-3, 1.6e-3)] * 12],  # the supervisor often read the start late
        [(0.8e-3, 0.1e-3, 1.6e-3)] * 12,  # it always did, and the answers tell
    ],
)
def test_a_gain_that_only_its_own_clock_has_is_unseen(told: list[tuple[float, float, float]]) -> None:
    found = clock_agreement.unseen_gain(asked(USUAL), asked(told))
    assert found is not None
    assert found[0] == (
        "by its own clock a sample takes 200 us less than the baseline's, by the supervisor's only 0 us less"
    )
    assert found[1]["gain_s"] == pytest.approx(200e-6)


@pytest.mark.parametrize(
    "told",
    [
        [(0.8e-3, 0.9e-3, 1.4e-3)] * 12,
        [(0.8e-3, 0.99e-3, 1.6e-3)] * 12,  # a part of it is seen, more than half
        [(0.8e-3, 0.1e-3, 1.45e-3)] * 12,
        [(1.2e-3, 1.5e-3, 2e-3)] * 12,  # no gain
    ],
)
def test_a_gain_that_the_supervisor_sees_too(told: list[tuple[float, float, float]]) -> None:
    assert clock_agreement.unseen_gain(asked(USUAL), asked(told)) is None


def test_samples_of_more_calls_are_compared_by_calls() -> None:
    twice = asked([(1.6e-3, 2.1e-3, 2.6e-3)] * 12)
    twice.calls = 2
    found = clock_agreement.unseen_gain(asked(USUAL), twice)
    assert found is not None
    assert found[1]["gain_s"] == pytest.approx(400e-6)


SEEN = [(0.8e-3, 0.9e-3, 1.4e-3)] * 12
SOONER = "and it has its output, counting what it did before the start, only {} us sooner"


@pytest.mark.parametrize(
    ("replied_s", "ahead_s", "said"),
    [
        (1.8e-3, 0.1e-3, None),
        (1.89e-3, 0.1e-3, None),  # more than half of it is seen
        (2.0e-3, 0.1e-3, SOONER.format(0)),
        (1.95e-3, 0.1e-3, SOONER.format(50)),
        (1.8e-3, 0.19e-3, None),
        (1.8e-3, 0.25e-3, SOONER.format(50)),
        (1.7e-3, 0.4e-3, SOONER.format(0)),
        (1.95e-3, 0.0, None),
    ],
)
def test_a_gain_is_seen_until_the_output_is_there_and_not_made_before(
    replied_s: float, ahead_s: float, said: str | None
) -> None:
    baseline, one = asked(USUAL, replied_s=2e-3, ahead_s=0.1e-3), asked(SEEN, replied_s=replied_s, ahead_s=ahead_s)
    found = clock_agreement.unseen_gain(baseline, one)
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert found[0] == f"by its own clock a sample takes 200 us less than the baseline's, {said}"


def test_what_chance_can_do_is_no_doubt() -> None:
    baseline, one = asked(USUAL, replied_s=2e-3), asked(SEEN, replied_s=1.95e-3)
    for spread_s, doubted in ((0.0, True), (0.5e-3, False)):
        for side, replied_s in ((baseline, 2e-3), (one, 1.95e-3)):
            side.answered = [
                evolve(answer, replied_s=replied_s + spread_s * (index % 3 - 1))
                for index, answer in enumerate(side.answered)
            ]
        assert (clock_agreement.unseen_gain(baseline, one) is not None) == doubted
