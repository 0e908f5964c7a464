"""Sampling: passes over all implementations in the order A B B A.

A pass gives every implementation one block of samples, of one length for all: other work on the machine finds a block
of one sample more often than one in the middle of a long block. Every second pass runs in reverse, so that a drift of
the machine affects all alike. Before each sample the judge renews the inputs. Where blocks have one sample, the
implementations share the input refresh: within a pass all are given the same values.
"""

import math
import time
from collections.abc import Callable

from attrs import define, field

from aiperf_core import units
from aiperf_core.harness.processes.answers import Sample
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.taking import SampleTaker
from aiperf_core.results.models import Sighting, Verdict
from aiperf_core.validity.policy import always

WARMUP_SAMPLES = 2
# An implementation whose calls take so long is warm after the first two.
WARMUP_S = 0.1
# Other work on the machine makes a call of microseconds one of up to RETAKEN_S. Where each sample lost a processor, up
# to MORE_SAMPLES more are taken, since the warm-up decides how long blocks are.
MORE_SAMPLES, RETAKEN_S = 6, 0.03
# Some calls pass until malloc has room for all that a call allocates. Where one after the first still took more than
# FRESH_PAGES from the kernel, more follow until SETTLED in a row did not, for about SETTLING_S, at most SETTLING_CALLS.
FRESH_PAGES, SETTLED, SETTLING_S, SETTLING_CALLS = 16, 3, 0.5, 12
# A sample lasts at least LEAST_COSTS times the cost of its clock; a shorter call is timed several times in a row, at
# most MOST_CALLS times. That is possible only with a warm cache and without state.
LEAST_COSTS, MOST_CALLS = 50, 1000
# The part of a sample that the clock may cost where it cannot be made longer; above the first, a warning.
NOTED_COST, MOST_COST = 0.2, 0.8
# A block lasts about this long for the shortest calls, and at most LONGEST_BLOCK_S for the longest. Longer calls are
# taken one at a time, so that all implementations can share each renewal of the inputs. Before the block of an
# implementation with short calls is a sample that is not counted: a process that has just woken is slow.
BLOCK_S, LONGEST_BLOCK_S = 0.001, 0.02
MAX_BLOCK = 16
# Shorter blocks, down to this length, where the least passes with longer ones would take more than the budget.
SHORTENED_BLOCK = 4
# Passes of a round, whatever the budget.
MIN_PASSES = 4
# The part of the blocks of short calls that have one sample more, with a fingerprint; longer calls all have one.
FINGERPRINTED_BLOCKS, FINGERPRINTED_S = 0.3, 0.01
# A sample is also judged after so many that were not.
LONGEST_UNJUDGED = 12
# A single call may be so many times shorter when others precede it; so many are tried then.
_WOKEN, _TRIED_CALLS = 20, 8


@define(eq=False)
class Sampler:
    """Takes samples of a target's implementations and has them judged.

    after_block: called while the device is as the block left it.
    order: the implementation of each block.
    """

    taker: SampleTaker
    implementations: list[Participant]
    after_block: Callable[[Participant], None]
    round_number: int = 0
    order: list[str] = field(factory=list)
    _surely: int = field(init=False)
    _steps: int = 0

    def __attrs_post_init__(self) -> None:
        """Draw the pass of which a sample is judged for certain."""
        self._surely = self.taker.rng.randrange(MIN_PASSES)

    @property
    def active(self) -> list[Participant]:
        """The implementations that are still measured."""
        return [one for one in self.implementations if one.active]

    def warm_up(self, on_sample: Callable[[Participant], None]) -> None:
        """Take samples that are not counted; the first one of each implementation is judged."""
        every = self.taker.method.answers_only
        method = self.taker.method
        cold_start = "warm_up" in method.off or method.is_simulated
        for index in range(0 if cold_start else 1 + WARMUP_SAMPLES):
            seed = self.taker.new_seed()
            for one in self.active:
                # The first call may compile, and malloc keeps memory only after it. The second one is like the rest.
                if index <= 1 or _quickest(one) < WARMUP_S:
                    on_sample(one)
                    self._warm_up_once(one, seed, judged=index == 0 or every, first=index == 0)
        self._settle_memory()
        self._retake_disturbed()
        for one in self.active:
            if not one.observed.warmup_s:
                one.pace.calls = 1
            elif not one.pace.calls:
                self._choose_calls(one)
        if not self.taker.method.answers_only:
            self._choose_blocks([one for one in self.active if one.observed.warmup_s])

    def _settle_memory(self) -> None:
        """Warm up until calls take no fresh pages: how many do so differs from process to process of one code."""
        if self.taker.method.clock != "wall":
            return
        for one in self.active:
            start = time.perf_counter()
            for _ in range(SETTLING_CALLS):
                settled = one.pace.since_fresh is None or one.pace.since_fresh >= SETTLED
                if settled or not one.active or time.perf_counter() - start > SETTLING_S:
                    break
                self._warm_up_once(one)

    def _retake_disturbed(self) -> None:
        """Warm up until a sample of short calls has lost no processor, or for `MORE_SAMPLES`.

        Not beside calls so long that blocks have one sample in any case.
        """
        warm = [one for one in self.active if one.observed.warmup_s]
        long = (one for one in warm if not one.pace.disturbed or _quickest(one) > RETAKEN_S)
        if self.taker.method.clock != "wall" or any(2 * _quickest(one) > LONGEST_BLOCK_S for one in long):
            return
        for one in warm:
            for _ in range(MORE_SAMPLES):
                if one.active and one.pace.disturbed and _quickest(one) <= RETAKEN_S:
                    self._warm_up_once(one)

    def _choose_blocks(self, warm: list[Participant]) -> None:
        """Give all implementations blocks of one length, by the shortest and the longest of their samples."""
        samples_s = [max(one.pace.calls * _quickest(one), 1e-9) for one in warm]
        for one, sample_s in zip(warm, samples_s, strict=True):
            one.pace.block_length = max(
                1, min(MAX_BLOCK, round(BLOCK_S / min(samples_s)), int(LONGEST_BLOCK_S / max(samples_s)))
            )
            one.pace.wakes = round(BLOCK_S / sample_s) > 1

    def shorten_blocks(self, budget_s: float, passes: int) -> float:
        """Shorten the blocks so that the passes fit into the budget, as far as possible; return the seconds of a pass.

        A sample of a short call takes much longer than the call: the warm-up has shown how long.
        """
        wanted_s = budget_s / max(1, passes)
        share = min(1.0, wanted_s / max(self._pass_s, 1e-9))
        for one in self.active:
            if one.pace.block_length > SHORTENED_BLOCK:
                one.pace.block_length = max(SHORTENED_BLOCK, int(share * one.pace.block_length))
        return self._pass_s

    @property
    def _pass_s(self) -> float:
        """The time of a pass, by that of the last samples of the warm-up. A longer block has one sample more."""
        paces = [one.pace for one in self.active]
        return sum((pace.block_length + pace.wakes) * pace.whole_sample_s for pace in paces)

    def _choose_calls(self, one: Participant) -> None:
        """Decide how many calls a sample has, or that they are too short for the clock."""
        method, one.pace.calls = self.taker.method, 1
        if method.cold or method.has_state:
            self._refuse_short_calls(one)
        elif _quickest(one) < _WOKEN * LEAST_COSTS * method.clock_cost_s:
            self._take_in_a_row(one)

    def _take_in_a_row(self, one: Participant) -> None:
        """Find how many calls make a sample long enough. A single call after a pause says too little."""
        least, pace = LEAST_COSTS * self.taker.method.clock_cost_s, one.pace
        pace.calls = _TRIED_CALLS
        self._warm_up_once(one)
        while one.active and pace.calls < MOST_CALLS and (taken := pace.calls * _quickest(one)) < least:
            pace.calls = min(MOST_CALLS, max(2 * pace.calls, math.ceil(pace.calls * least / max(taken, least / 100))))
            self._warm_up_once(one)
        if one.active and _quickest(one) >= least:
            pace.calls = 1

    def _refuse_short_calls(self, one: Participant) -> None:
        """Warn of calls that are too short for the clock and cannot be taken in a row, or refuse them."""
        call_s, cost = _quickest(one), self.taker.method.clock_cost_s
        share = cost / (max(call_s, 0.0) + cost)
        if share <= NOTED_COST or "clocks_agree" in self.taker.method.off:
            return
        message = (
            f"a call takes {max(call_s, 0.0) * 1e6:.3g} us and timing it {cost * 1e6:.3g} us, which is "
            f"{units.percent(share)} of a sample: make the workload larger, or declare cache='warm' for work without "
            "state, whose calls are then timed several at a time"
        )
        evidence = {"call_s": call_s, "clock_cost_s": cost}
        effects = always("invalid" if share > MOST_COST else "warning")
        one.find(Sighting("timing.timer_granularity", message, evidence, Verdict.UNTRUSTED, effects))

    def _warm_up_once(
        self, one: Participant, seed: int | None = None, *, judged: bool = False, first: bool = False
    ) -> None:
        start = time.perf_counter()
        sample = self.taker.take(one, seed, fingerprinted=judged, first=first)
        if sample is not None:
            one.observed.warmup_s.append(self.taker.method.call_s(sample, one.pace.calls or 1))
            if not first and (sample.minor_faults or 0.0) > FRESH_PAGES:
                one.pace.since_fresh = 0
            elif one.pace.since_fresh is not None:
                one.pace.since_fresh += 1
            one.pace.disturbed = first or (one.pace.disturbed and sample.involuntary_switches > 0)
            self.taker.inspect(one, sample if judged else None)
        one.pace.whole_sample_s = time.perf_counter() - start

    def run_pass(
        self, number: int, on_block: Callable[[Participant], None], *, only: Participant | None = None
    ) -> None:
        """Give every active implementation one block, or `only` one of them."""
        places = list(enumerate(self.implementations))
        seeds = [self.taker.new_seed() for _ in range(max(one.pace.block_length for one in self.active))]
        method = self.taker.method
        # Of untrusted code every sample is judged; of all other code some by chance, and one of the first for certain.
        judged = [method.answers_only or method.trust.is_judged(self.taker.rng) for _ in seeds]
        if number == self._surely:
            judged[0] = True
        first_step, self._steps = self._steps, self._steps + len(seeds)
        for place, one in places if number % 2 == 0 else reversed(places):
            if one.active and only in (None, one):
                on_block(one)
                self.order.append(one.name)
                block = number * len(places) + place
                self._run_block(one, block, first_step, seeds[: one.pace.block_length], judged)
                self.after_block(one)

    def _run_block(self, one: Participant, block: int, first_step: int, seeds: list[int], judged: list[bool]) -> None:
        if one.pace.wakes:
            self._warm_up_once(one)
        method, rng = self.taker.method, self.taker.rng
        long = bool(one.observed.warmup_s) and _quickest(one) >= FINGERPRINTED_S
        extra = method.fingerprints and not long and rng.random() < FINGERPRINTED_BLOCKS
        fingerprinted = rng.randrange(len(seeds)) if extra else None
        for index, seed in enumerate(seeds):
            if index == fingerprinted and one.active:
                self._warm_up_once(one, judged=True)
            if not one.active:
                return
            sample = self.taker.take(one, seed, fingerprinted=long)
            if sample is None:
                return
            chosen = judged[index] or one.pace.since_judged >= LONGEST_UNJUDGED
            self._record(one, block, first_step + index, sample, judged=chosen)
            if not self.taker.is_plausible(one, sample) or not self.taker.inspect(one, sample if chosen else None):
                return
        if method.both_clocks:  # one more sample by the other clock, so that both are recorded
            sample = self.taker.take(one, clock="wall" if method.clock == "device" else "device")
            if sample is not None:
                self._record(one, block, first_step, sample, judged=False)
                self.taker.inspect(one, None)

    def _record(self, one: Participant, block: int, step: int, sample: Sample, *, judged: bool) -> None:
        one.record((self.round_number, block, step), sample, judged=judged)
        self.taker.clockwork.samples += 1
        self.taker.clockwork.timed_s += sample.bracket_s


def _quickest(one: Participant) -> float:
    """The shortest call of the warm-up but for the first, in seconds: other work on the machine makes calls longer."""
    return min(one.observed.warmup_s[1:] or one.observed.warmup_s)
