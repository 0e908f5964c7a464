"""Sampling, with a judge and a worker that only say what they are asked."""

import itertools
import random
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from aiperf_core.described import DescribedImplementation
from aiperf_core.harness.isolation import process_monitor
from aiperf_core.harness.run.extra_samples import ExtraSamples
from aiperf_core.harness.run.participant import Pace, Participant
from aiperf_core.harness.run.rounds import LastRound
from aiperf_core.harness.run.sampler import SETTLING_CALLS, Sampler
from aiperf_core.harness.run.setup import Trust
from aiperf_core.harness.run.taking import Method, SampleTaker
from aiperf_core.results.models import Ending, Verdict
from aiperf_core.stats.observations import Clocks
from aiperf_core.validity.checks.repeat_against_fresh import gains


class Judge:
    pid, paused = 0, False

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def ask(self, do: str, *, timeout: float, **arguments: Any) -> Any:
        self.asked.append((do, arguments.get("seed")))
        return [] if do == "changed" else {}

    @property
    def renewed(self) -> list[int]:
        return [seed for do, seed in self.asked if do == "renew"]


class Worker:
    pid, last_s, paused, guarded = 0, 0.0, False, True

    def __init__(
        self, times: Iterable[float] = itertools.repeat(1e-3), says: Iterable[str] = ("start", "stop")
    ) -> None:
        self.times = iter(times)
        self.says = says
        self.fingerprinted: list[bool] = []

    def last_lines(self) -> list[str]:
        return []

    def kill(self) -> None:
        pass

    def ask(self, do: str, *, timeout: float, on_notice: Any = None, **asked: Any) -> Any:
        if do != "sample":
            return None
        self.fingerprinted.append(asked["fingerprinted"])
        for notice in self.says:
            on_notice(notice)
        nothing = {"cpu_s": 0.0, "hidden": False, "voluntary_switches": 0, "involuntary_switches": 0, "output": None}
        return {"device_s": None, "wall_s": next(self.times), **nothing}


class Remembers(Worker):
    """Its calls take so long, and others where the inputs are those of the call before."""

    def __init__(self, judge: Judge, repeated_s: float) -> None:
        super().__init__(repeated_s if judge.renewed[-1] in judge.renewed[:-1] else 1e-3 for _ in itertools.count())


def sampler(judge: Judge, *, untrusting: bool, off: tuple[str, ...] = (), seed: int = 0, **more: bool) -> Sampler:
    usual: dict[str, Any] = {"both_clocks": False, "has_state": False, "cold": False, "fingerprints": False}
    trust = Trust(untrusted=untrusting)
    guards = frozenset(off)
    method = Method(clock="wall", clocks=Clocks(), off=guards, trust=trust, timeout_s=1.0, **{**usual, **more})
    one = Participant(
        DescribedImplementation("wide", "variant", "cpu", "wide.py:1"),
        "wide",
        child=Worker(),  # type: ignore[arg-type]
        pace=Pace(calls=1),
    )
    rng = random.Random(seed)
    taker = SampleTaker(judge, method, rng, 1)  # type: ignore[arg-type]
    return Sampler(taker, [one], lambda _: None)


def test_values_that_repeat_are_written_anew_like_fresh_ones() -> None:
    for untrusting in (False, True):
        judge = Judge()
        sampling = sampler(judge, untrusting=untrusting)
        (one,) = sampling.implementations
        ExtraSamples(sampling.taker).repeat(one)
        assert one.active, one.observed
        assert len(one.process.fresh_s) == len(one.process.repeated_s) == len(set(judge.renewed)) == 5
        groups = [[*alike] for _, alike in itertools.groupby(judge.renewed)]
        assert len(groups) == 5, "repeated inputs are those of the last fresh call"
        assert sum(map(len, groups)) == 10


@pytest.mark.parametrize(("repeated_s", "pairs"), [(1e-3, 5), (0.9e-3, 5), (0.5e-3, 30)])
def test_calls_that_are_faster_on_values_they_have_seen_are_looked_at_again(repeated_s: float, pairs: int) -> None:
    judge = Judge()
    sampling = sampler(judge, untrusting=False)
    (one,) = sampling.implementations
    one.child = Remembers(judge, repeated_s)  # type: ignore[assignment]
    ExtraSamples(sampling.taker).repeat(one)
    assert len(one.process.fresh_s) == len(one.process.repeated_s) == pairs
    assert set(one.process.repeated_s) == {repeated_s}
    assert gains(one.process.repeated_s, one.process.fresh_s) == (repeated_s < 0.7e-3)


def test_other_work_that_slows_every_second_call_is_not_taken_for_memory() -> None:
    accused = 0
    for seed in range(200):
        sampling = sampler(Judge(), untrusting=False, seed=seed)
        (one,) = sampling.implementations
        one.child = Worker(itertools.cycle([7e-3, 0.7e-3]))  # type: ignore[assignment]
        ExtraSamples(sampling.taker).repeat(one)
        accused += gains(one.process.repeated_s, one.process.fresh_s)
    assert accused <= 1


@pytest.mark.parametrize(("repeated_s", "calls"), [(1e-3, 0), (0.8e-3, 0), (0.5e-3, 5)])
def test_the_baseline_repeats_values_only_where_another_is_faster_on_them(repeated_s: float, calls: int) -> None:
    judge = Judge()
    sampling = sampler(judge, untrusting=False)
    baseline, one = *sampler(Judge(), untrusting=False).implementations, *sampling.implementations
    one.child = Remembers(judge, repeated_s)  # type: ignore[assignment]
    told: list[str] = []
    bench: Any = SimpleNamespace(baseline=baseline, extra=ExtraSamples(sampling.taker), setup=None)
    LastRound(bench, lambda step, _: told.append(step)).repeat([one])
    assert len(baseline.process.fresh_s) == len(baseline.process.repeated_s) == calls
    assert told == ["verification: repeat values"] * (1 + bool(calls))


@pytest.mark.parametrize("calls_s", [[1e-3, 1e-3, 1e-3], [0.5, 0.5], [0.5, 1e-3, 1e-3], [1e-3, 0.5]])
def test_neither_the_first_nor_the_second_call_is_counted(calls_s: list[float]) -> None:
    judge = Judge()
    sampling = sampler(judge, untrusting=False, off=("judged_output",))
    (one,) = sampling.implementations
    one.child = Worker(calls_s)  # type: ignore[assignment]
    told: list[Participant] = []
    sampling.warm_up(told.append)
    assert one.observed.warmup_s == calls_s
    assert told == [one] * len(calls_s)
    assert len(judge.renewed) == len(calls_s)
    assert one.observed.samples.wall_s == []


class Busy(Worker):
    """Its samples lose a processor but for those in which it says otherwise."""

    def ask(self, do: str, **asked: Any) -> Any:
        answer = super().ask(do, **asked)
        return answer and {**answer, "involuntary_switches": int(answer["wall_s"] > 1e-3)}


class Touches(Worker):
    """Each call takes the next number of fresh pages, and all calls after those the last one."""

    def __init__(self, *pages: int, call_s: float = 1e-3) -> None:
        super().__init__(itertools.repeat(call_s))
        self.pages = itertools.chain(pages, itertools.repeat(pages[-1]))

    def ask(self, do: str, *, timeout: float, on_notice: Any = None, **asked: Any) -> Any:
        answer = super().ask(do, timeout=timeout, on_notice=on_notice, **asked)
        return answer and {**answer, "beside": {"minor_faults": next(self.pages)}}


@pytest.mark.parametrize(
    ("pages", "samples"),
    [
        ((2048, 0), 3),
        ((2048, 3, 16, 0), 3),
        ((2048, 2048, 0), 5),
        ((2048, 2048, 0, 0, 2048, 2048, 0), 9),
        ((2048, 0, 2048, 0, 0, 17, 0), 9),
        ((2048,), 3 + SETTLING_CALLS),
    ],
)
def test_a_warm_up_goes_on_until_calls_take_no_fresh_pages(pages: tuple[int, ...], samples: int) -> None:
    sampling = sampler(Judge(), untrusting=False, off=("judged_output",))
    (one,) = sampling.implementations
    one.child = Touches(*pages)  # type: ignore[assignment]
    sampling.warm_up(lambda _: None)
    assert len(one.observed.warmup_s) == samples


def test_long_calls_are_not_repeated_for_their_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = sampler(Judge(), untrusting=False, off=("judged_output",))
    (one,) = sampling.implementations
    one.child = Touches(2048, call_s=0.3)  # type: ignore[assignment]
    monkeypatch.setattr(time, "perf_counter", itertools.count(step=0.3).__next__)
    sampling.warm_up(lambda _: None)
    assert len(one.observed.warmup_s) <= 3


@pytest.mark.parametrize(
    ("calls_s", "samples", "length"),
    [
        ([1e-2, 8e-3, 9e-3, 5e-5], 4, 16),
        ([1e-2, 8e-3, 5e-5], 3, 16),
        ([1e-2, *[8e-3] * 20], 9, 1),  # the limit of further samples is reached
        ([1e-2, 5e-2, 5e-2, 5e-5], 3, 1),  # no load makes a short call so long
    ],
)
def test_a_warm_up_in_which_every_sample_lost_a_processor_goes_on(
    calls_s: list[float], samples: int, length: int
) -> None:
    sampling = sampler(Judge(), untrusting=False, off=("judged_output",))
    (one,) = sampling.implementations
    one.child = Busy(calls_s)  # type: ignore[assignment]
    sampling.warm_up(lambda _: None)
    assert one.active, one.observed.ending
    assert (len(one.observed.warmup_s), one.pace.block_length) == (samples, length)


def sampler_of(*warmups_s: list[float]) -> Sampler:
    """A sampler after a warm-up in which the calls of its implementations took so long."""
    sampling = sampler(Judge(), untrusting=False, off=("judged_output",))
    (pattern,) = sampling.implementations
    sampling.implementations = [
        Participant(pattern.declared, str(number), child=Worker(calls_s), pace=Pace(calls=1))  # type: ignore[arg-type]
        for number, calls_s in enumerate(warmups_s)
    ]
    sampling.warm_up(lambda _: None)
    return sampling


@pytest.mark.parametrize(
    ("warmups_s", "length", "wakes"),
    [
        ([[1e-2, 5e-5, 5e-5], [1e-2, 5e-5, 5e-5]], 16, [True, True]),
        # Other work on the machine disturbed the last sample of a side, or two of them.
        ([[1e-2, 5e-5, 8e-3], [1e-2, 5e-5, 5e-5]], 16, [True, True]),
        ([[1e-2, 5e-5, 5e-5], [1e-2, 2e-2, 5e-5]], 16, [True, True]),
        ([[1e-2, 5e-3, 5e-3], [1e-2, 5e-5, 5e-5]], 4, [False, True]),
        ([[5e-2, 5e-2, 5e-2], [1e-2, 5e-5, 5e-5]], 1, [False, True]),
        ([[1e-2, 9e-4, 9e-4], [1e-2, 1e-3, 1e-3]], 1, [False, False]),
    ],
)
def test_the_blocks_of_all_implementations_have_one_length(
    warmups_s: list[list[float]], length: int, wakes: list[bool]
) -> None:
    implementations = sampler_of(*warmups_s).implementations
    assert [one.pace.block_length for one in implementations] == [length] * len(warmups_s)
    assert [one.pace.wakes for one in implementations] == wakes


@pytest.mark.parametrize(
    ("budget_s", "block", "shortened"),
    [(60.0, 16, 16), (3.0, 16, 7), (0.3, 16, 4), (0.3, 4, 4), (0.3, 2, 2), (0.3, 1, 1)],
)
def test_blocks_are_shortened_where_the_least_passes_exceed_the_budget(
    budget_s: float, block: int, shortened: int
) -> None:
    sampling = sampler(Judge(), untrusting=False)
    (one,) = sampling.implementations
    one.pace.block_length, one.pace.wakes, one.pace.whole_sample_s = block, block > 1, 0.06
    # A block of several samples has one more, which is not counted.
    assert sampling.shorten_blocks(budget_s, 6) == pytest.approx(0.06 * (shortened + (shortened > 1)))
    assert one.pace.block_length == shortened


def test_a_warm_up_sample_is_timed_with_all_that_belongs_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = sampler(Judge(), untrusting=False, off=("judged_output",))
    renew = Judge.ask

    def slow(self: Judge, do: str, **arguments: Any) -> Any:
        time.sleep(0.01 if do == "renew" else 0.0)
        return renew(self, do, **arguments)

    monkeypatch.setattr(Judge, "ask", slow)
    sampling.warm_up(lambda _: None)
    assert sampling.implementations[0].pace.whole_sample_s >= 0.01


def test_the_overhead_is_split_by_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = sampler(Judge(), untrusting=False, off=("judged_output",), cold=True)
    sampling.implementations[0].pace.block_length = 1
    ask, worker_ask = Judge.ask, Worker.ask
    took_s = {"renew": 0.01, "flush": 0.02, "changed": 0.03}

    def slow(self: Judge, do: str, **arguments: Any) -> Any:
        time.sleep(took_s.get(do, 0.0))
        return ask(self, do, **arguments)

    def slow_worker(self: Worker, do: str, **arguments: Any) -> Any:
        time.sleep(0.04 if do == "ready" else 0.0)
        return worker_ask(self, do, **arguments)

    monkeypatch.setattr(Judge, "ask", slow)
    monkeypatch.setattr(Worker, "ask", slow_worker)
    sampling.run_pass(0, lambda _: None)
    spent = sampling.taker.clockwork
    assert spent.samples == 1
    for seconds, least in zip(
        (spent.refresh_s, spent.flush_s, spent.verification_s, spent.messages_s), (0.01, 0.02, 0.03, 0.04), strict=True
    ):
        assert seconds >= least
    assert spent.stopping_s == 0.0


@pytest.mark.parametrize(("call_s", "fingerprints"), [(1e-4, True), (1e-4, False), (0.02, True)])
def test_what_is_queued_behind_the_clock_s_stop_is_in_no_short_time(call_s: float, fingerprints: bool) -> None:
    sampling = sampler(Judge(), untrusting=False, off=("judged_output",), fingerprints=fingerprints)
    (one,) = sampling.implementations
    worker = Worker(itertools.repeat(call_s))
    one.child, one.pace.block_length = worker, 4  # type: ignore[assignment]
    sampling.warm_up(lambda _: None)
    one.pace.block_length = 4
    before = len(worker.fingerprinted)
    for number in range(40):
        sampling.run_pass(number, lambda _: None)
    fingerprinted = worker.fingerprinted[before:]
    assert len(one.observed.samples.wall_s) == 4 * 40
    assert worker.fingerprinted[:before] == [fingerprints, *[False] * (before - 1)]
    if call_s > 0.01:
        assert sum(fingerprinted) == 4 * 40
    else:
        # A block has one sample to warm up and four that count; the rest is fingerprinted, at any place behind the first.
        assert sum(fingerprinted) == len(fingerprinted) - 5 * 40
        assert (3 < sum(fingerprinted) < 25) == fingerprints


def test_without_warming_up_no_call_is_made() -> None:
    judge = Judge()
    sampling = sampler(judge, untrusting=False, off=("warm_up",))
    (one,) = sampling.implementations
    sampling.warm_up(lambda _: None)
    assert (one.observed.warmup_s, one.pace.calls, one.pace.block_length, judge.asked) == ([], 1, 1, [])


def test_a_stopped_process_that_somebody_continues_is_seen_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is awake when the request comes, so that nobody may wait for it to be stopped again."""
    waits, spent_s = iter([True, False, True]), iter([1.0, 1.004, 1.004])
    monkeypatch.setattr(process_monitor, "wait_stopped", lambda _: next(waits))
    monkeypatch.setattr(process_monitor, "process_s", lambda _: next(spent_s))
    sampling = sampler(Judge(), untrusting=True)
    (one,) = sampling.implementations
    assert one.child is not None
    one.child.paused = True
    taken = sampling.taker.take(one, 7, "wall")
    assert taken is not None
    assert taken.stopped_s == pytest.approx(4e-3)


@pytest.mark.parametrize(
    ("untrusting", "others_s", "excused"),
    [
        (True, 0.0, (0.2, 0.3)),
        (True, 0.1, (0.1, 0.2)),
        (True, 1.0, (0.0, 0.0)),
        (False, 0.1, (0.1, 0.3)),
    ],
)
def test_what_its_own_threads_did_does_not_excuse_a_process(
    monkeypatch: pytest.MonkeyPatch, untrusting: bool, others_s: float, excused: tuple[float, float]
) -> None:
    monkeypatch.setattr(process_monitor, "own_wait_s", lambda: 1.3)
    before, now = process_monitor.Standing(2.0, 1.0, 5.0), process_monitor.Standing(2.5 + others_s, 1.5, 5.2)
    watcher: Any = SimpleNamespace(standing=lambda: now)
    taken = sampler(Judge(), untrusting=untrusting).taker._kept_waiting(watcher, (before, 1.0))
    assert taken == pytest.approx(excused)


@pytest.mark.parametrize("untrusting", [False, True])
def test_what_is_not_trusted_is_watched_while_it_is_stopped(monkeypatch: pytest.MonkeyPatch, untrusting: bool) -> None:
    spent = iter([1.0, 1.5])  # when it was stopped, before it was asked
    monkeypatch.setattr(process_monitor, "process_s", lambda _: next(spent))
    monkeypatch.setattr(process_monitor, "wait_stopped", lambda _: True)
    one = sampler(Judge(), untrusting=untrusting)
    worker = one.implementations[0].child
    assert isinstance(worker, Worker)
    worker.paused = True
    sample = one.taker.take(one.implementations[0], 7, "wall")
    assert sample is not None
    assert (sample.replied_s is not None) == untrusting
    assert (sample.stopped_s == 0.5) == untrusting


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (("start", "start", "stop"), "sent the notice 'start' after start"),
        (("start", "stop", "fingerprinted", "stop"), "sent the notice 'stop' after start, stop, fingerprinted"),
        (("stop",), "sent the notice 'stop' after none"),
        (("start", "later"), "sent the notice 'later' after start"),
    ],
)
def test_notices_that_do_not_come_next_cost_the_row(says: tuple[str, ...], why: str) -> None:
    one = sampler(Judge(), untrusting=False)
    one.implementations[0].child = Worker(says=says)  # type: ignore[assignment]
    assert one.taker.take(one.implementations[0], 7, "wall") is None
    assert one.implementations[0].observed.ending == Ending(Verdict.FAILED, why)
