"""From observations to rows: intervals, speedups, verdicts, fractions of the speed of light."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from attrs import evolve, fields, frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate
from aiperf_core.results.models import Conditions, Observations, Row, Sighting, SpeedOfLight, Verdict
from aiperf_core.simulated import CLOCK
from aiperf_core.stats.clock_agreement import DISAGREE, not_shown, not_sooner
from aiperf_core.stats.conditions import findings
from aiperf_core.stats.intervals import Blocks, median_interval, ratio_interval, unclear_order, verdict
from aiperf_core.stats.load import Side, explained_by_load
from aiperf_core.stats.observations import is_observed, is_untrusted
from aiperf_core.stats.speed_of_light import BEYOND, own_cost, speed_of_light
from aiperf_core.stats.standing import Rules, Standing
from aiperf_core.stats.witness import is_host_bound, never_quiet

# A relative difference between samples with and without others in between that is worth a warning.
INTERFERENCE = 0.05
# Peaks of memory differ by less than this through pages and the host's allocator alone.
LEAST_BYTES = 1 << 20
FASTER_THAN_LIGHT = "timing.faster_than_light"
_OBSERVED = tuple(one.name for one in fields(Observations))


@frozen
class Scoring:
    """The figures and verdicts of a target's implementations, the baseline first."""

    standings: Sequence[Standing]
    rules: Rules

    def rows(self) -> list[Row]:
        """The rows, in the order of the standings. Implementations faster than light are taken out."""
        if self.rules.guards("faster_than_light"):
            for one in self.standings:
                self._refuse_faster_than_light(one)
        for one in self.standings:
            self._note_interference(one)
            if self.rules.guards("conditions"):
                self._note_conditions(one)
        return [self._row(one) for one in self.standings]

    @property
    def _baseline(self) -> Standing:
        return self.standings[0]

    @cached_property
    def _by_name(self) -> dict[str, Standing]:
        return {one.name: one for one in self.standings}

    def _blocks(self, one: Standing, clock: str | None = None) -> Blocks:
        return self.rules.clocks.blocks(one.observed.samples, clock or self.rules.clock, len(self.standings))

    def _time(self, one: Standing, clock: str | None = None) -> Estimate | None:
        return median_interval(self._blocks(one, clock))

    def _on_device(self, one: Standing) -> Estimate | None:
        """The device's time of a call where the caller's clock counts; None without samples by the device's."""
        return self._time(one, "device") if self.rules.clock == "wall" else None

    def _median(self, one: Standing) -> float | None:
        return self.rules.clocks.median(one.observed.samples, self.rules.clock)

    def _row(self, one: Standing) -> Row:
        observed = one.observed
        said, reason = self._say(one)
        median = self._median(one)
        trusted = one.active and median is not None
        compared = observed.role in ("variant", "control")
        figures: dict[str, Any] = {
            "verdict": said,
            "reason": reason,
            "findings": one.findings,
            "clock": self.rules.clock if observed.samples.block else None,
            "speedup": self._ratio(self._baseline, one) if compared else None,
            "step_speedup": self._step(one),
            "memory_gain": self._memory_gain(one) if compared else None,
            "energy": observed.energy if trusted else None,
        }
        if trusted:
            figures |= {
                "time_s": self._possible(one, self._time(one)),
                "wall_s": self._possible(one, self._time(one, "wall")),
                "device_s": self._possible(one, self._on_device(one)),
                "bytes_per_s": self._rate(median, "bytes_read", "bytes_written"),
                "flop_per_s": self._rate(median, "flops"),
                "wire_bytes_per_s": self._rate(median, "wire_bytes"),
                "disk_bytes_per_s": self._rate(median, "disk_read_bytes", "disk_written_bytes"),
                "speed_of_light": self._light(one, median),
                "isolated_s": self._isolated(one),
                "floor_s": self._each_its_block(observed.floor_samples_s),
            }
        return Row(**{name: getattr(observed, name) for name in _OBSERVED} | figures)

    # --- verdicts

    def _say(self, one: Standing) -> tuple[Verdict, str | None]:
        """The verdict, with its reason where there is one."""
        if one.ended is not None:
            return one.ended, one.reason
        if one.observed.role == "variant":
            return self._compare(one)
        if one.observed.samples.block:
            return Verdict.MEASURED, None
        return Verdict.INCONCLUSIVE, "no sample was taken before the run ended"

    def _compare(self, one: Standing) -> tuple[Verdict, str | None]:
        baseline = self._baseline
        if not baseline.active:
            return Verdict.INCONCLUSIVE, (
                f"there is no trusted baseline to compare with ({baseline.name}: {baseline.ended})"
            )
        if self.rules.goal == "memory":
            return self._compare_memory(one)
        speedup = self._ratio(baseline, one)
        if speedup is None:
            return Verdict.INCONCLUSIVE, f"too few passes for an interval; {self._more}"
        said, spread = verdict(speedup, self.rules.floor), self._spread()
        if said in (Verdict.FASTER, Verdict.SLOWER) and abs(speedup.value - 1) <= spread:
            return Verdict.INCONCLUSIVE, (
                f"the difference of {100 * abs(speedup.value - 1):.1f} % is not above the A/A difference of the "
                f"baseline here, up to {100 * spread:.1f} %"
            )
        if seeds := self._other_seeds(one):
            return Verdict.INCONCLUSIVE, seeds
        if chance := self._by_chance(one, said):
            return Verdict.INCONCLUSIVE, chance
        if load := self._load(one, said):
            return Verdict.INCONCLUSIVE, load
        if said is Verdict.FASTER and (doubt := self._doubt(one)):
            return Verdict.INCONCLUSIVE, doubt
        return said, None

    @property
    def _more(self) -> str:
        """The way to more samples."""
        if self.rules.clock == CLOCK:
            return "simulate more seeds: bench.simulated(seeds=...)"
        return "give it more time with --budget"

    def _other_seeds(self, one: Standing) -> str | None:
        """Why a simulated implementation cannot be compared: its seeds are not the baseline's; None where they are."""
        if self.rules.clock != CLOCK:
            return None
        own, theirs = (set(side.observed.samples.step) for side in (one, self._baseline))
        if own == theirs:
            return None
        return (
            f"it was simulated for {len(own)} seeds, of which {len(own & theirs)} are among the {len(theirs)} of "
            f"{self._baseline.name}: both need the same"
        )

    def _by_chance(self, one: Standing, said: Verdict) -> str | None:
        """Why chance may explain a difference whose interval excludes 1; None where it does not."""
        chance = unclear_order(self._blocks(self._baseline), self._blocks(one), said)
        if chance is None:
            return None
        return (
            f"the times of {one.name} and of {self._baseline.name} overlap: those of one code would be as far apart by "
            f"chance in {100 * chance:.2g} % of runs; {self._more}"
            f"{'' if self.rules.clock == CLOCK else ', or repeat it on a quiet machine'}"
        )

    def _load(self, one: Standing, said: Verdict) -> str | None:
        """Why other work on the machine may explain a difference by the wall clock; None where it does not."""
        if self.rules.clock != "wall" or not self.rules.guards("conditions"):
            return None
        conditions = [side.observed.conditions for side in (self._baseline, one)]
        return explained_by_load(self._side(self._baseline), self._side(one), said, self.rules.floor, conditions)

    def _side(self, one: Standing) -> Side:
        return Side.of(one.name, self._blocks(one), one.observed.samples)

    def _doubt(self, one: Standing) -> str | None:
        """Why a gain is not believed; None where it is."""
        known = next((found.message for found in one.findings if found.issue == DISAGREE), None)
        baseline = self._baseline.observed
        if known is not None or not self.rules.guards("clocks_agree") or not is_untrusted(one.observed.samples):
            return known
        if self.rules.clock == "wall":
            return not_sooner(baseline.samples, one.observed.samples)
        return not_shown(baseline, one.observed, self.rules.clocks)

    def _compare_memory(self, one: Standing) -> tuple[Verdict, str | None]:
        gain = self._memory_gain(one)
        if gain is None:
            return Verdict.INCONCLUSIVE, "its peak memory, or that of the baseline, was not measured"
        ours, theirs = (_peak(side) or 0 for side in (one, self._baseline))
        if abs(ours - theirs) < LEAST_BYTES and one.observed.device == "cpu":
            return Verdict.SAME, None
        said = verdict_on_memory(gain, self.rules.floor)
        control = next((other for other in self.standings if other.observed.role == "control"), None)
        spread = abs(((control and self._memory_gain(control)) or 1.0) - 1)
        if said is not Verdict.SAME and abs(gain - 1) <= spread:
            return Verdict.INCONCLUSIVE, (
                f"the difference of {100 * abs(gain - 1):.1f} % is not above the A/A difference of the baseline's "
                f"peak, {100 * spread:.1f} %"
            )
        return said, None

    def _memory_gain(self, one: Standing) -> float | None:
        """The baseline's peak memory by an implementation's."""
        if not (one.active and self._baseline.active):
            return None
        return memory_gain(_peak(self._baseline), _peak(one))

    def _spread(self) -> float:
        """How far from 1 the baseline's ratio to itself may be, at the ends of its interval; 0 without a control."""
        for one in self.standings:
            if one.observed.role == "control":
                ratio = self._ratio(self._baseline, one)
                return max(abs(ratio.low - 1), abs(ratio.high - 1)) if ratio else 0.0
        return 0.0

    def _ratio(self, top: Standing, bottom: Standing) -> Estimate | None:
        if not (top.active and bottom.active):
            return None
        return ratio_interval(self._blocks(top), self._blocks(bottom))

    def _step(self, one: Standing) -> Estimate | None:
        """The gain over the rung below."""
        below = self._by_name.get(one.observed.builds_on or "")
        return self._ratio(below, one) if below else None

    # --- speed of light

    def _light(self, one: Standing, median: float | None) -> SpeedOfLight | None:
        if not median:
            return None
        rules, lossy = self.rules, one.observed.quality is not None
        return speed_of_light(own_cost(rules.cost, one.observed), rules.ceilings, rules.cache, median, lossy=lossy)

    def _possible(self, one: Standing, time: Estimate | None) -> Estimate | None:
        """A time whose interval does not begin below the speed of light."""
        found = self._light(one, time.value) if time else None
        if time is None or found is None:
            return time
        return evolve(time, low=max(time.low, min(found.time_s, time.value)))

    def _rate(self, median: float | None, *parts: str) -> float | None:
        amount = sum(self.rules.cost[part] for part in parts)
        return amount / median if amount and median else None

    def _refuse_faster_than_light(self, one: Standing) -> None:
        """Find that an implementation is faster than light, unless the run has found it by its ceilings at the time.

        The slow end of the interval counts: on a machine with varying speed the median proves nothing.
        """
        if not one.active or any(known.issue == FASTER_THAN_LIGHT for known in one.findings):
            return
        interval, median = self._time(one), self._median(one)
        slow = self._light(one, interval.high if interval else median)
        found = self._light(one, median)
        if slow is None or found is None or slow.fraction <= BEYOND:
            return
        message = (
            f"{median:.3g} s is {found.fraction:.2f} times as fast as this machine's {found.bound} allows "
            f"({found.time_s:.3g} s); the cost, the clock or the implementation is wrong"
        )
        evidence = {"median_s": median, "light_s": found.time_s, "fraction": found.fraction}
        one.find(Sighting(FASTER_THAN_LIGHT, message, evidence))

    # --- what disturbed

    def _note_conditions(self, one: Standing) -> None:
        """Warn if the machine was hot, loaded or shared, or ran at other clocks for the baseline."""
        own = one.observed.conditions
        if not one.active or self.rules.clock == CLOCK:
            return
        baseline = None if one is self._baseline else self._baseline.observed.conditions or Conditions()
        for found in findings(own, baseline) if own else ():
            one.find(found)
        if slow := self._never_quiet(one):
            one.find(slow)
        for rank in one.observed.ranks:
            for found in findings(rank.conditions) if rank.conditions else ():
                evidence = {**found.evidence, "rank": rank.rank}
                one.find(evolve(found, message=f"rank {rank.rank}: {found.message}", evidence=evidence))

    def _never_quiet(self, one: Standing) -> Sighting | None:
        """A warning where the host decides the times, and its processor was slow before most samples."""
        samples, rules = one.observed.samples, self.rules
        if rules.clock != "wall" or not is_host_bound(samples, rules.clocks):
            return None
        return never_quiet(samples, rules.witness_quiet_s)

    def _isolated(self, one: Standing) -> Estimate | None:
        """The median of the samples without others in between. Each counts as a block of its own.

        None where the harness's own time hides one of them: it is that of other samples, which a busy machine slowed.
        """
        cost_s = self.rules.clocks.cost_s.get(self.rules.clock, 0.0) if is_observed(one.observed.samples) else 0.0
        return self._each_its_block([time - cost_s for time in one.observed.isolated_samples_s])

    def _each_its_block(self, times: list[float]) -> Estimate | None:
        """The median of times of which each is a block of its own; None where one is not positive."""
        if min(times, default=0.0) <= 0:
            return None
        return median_interval(Blocks.of(times, list(range(len(times))), exact=self.rules.clocks.exact))

    def _note_interference(self, one: Standing) -> None:
        """Warn if taking turns with others changed the times."""
        taking_turns, alone = (self._time(one), self._isolated(one)) if one.active else (None, None)
        if not (taking_turns and alone):
            return
        apart = alone.high < taking_turns.low or alone.low > taking_turns.high
        change = taking_turns.value / alone.value - 1
        if apart and abs(change) > INTERFERENCE:
            message = (
                f"{one.name} takes {units.percent(abs(change))} {'more' if change > 0 else 'less'} time in alternation "
                "with the others than alone"
            )
            evidence = {"taking_turns_s": taking_turns.value, "alone_s": alone.value}
            one.find(Sighting("timing.interference", message, evidence))


def _peak(one: Standing) -> int | None:
    return one.observed.memory.most_bytes if one.observed.memory else None


def memory_gain(baseline_bytes: int | None, own_bytes: int | None) -> float | None:
    """The baseline's peak memory divided by an implementation's; None where either is unknown or 0."""
    return baseline_bytes / own_bytes if baseline_bytes and own_bytes else None


def verdict_on_memory(gain: float, floor: float) -> Verdict:
    """The verdict on a gain of memory. Memory is counted, not sampled, so there is no interval."""
    if gain > 1 + floor:
        return Verdict.SMALLER
    return Verdict.LARGER if gain < 1 / (1 + floor) else Verdict.SAME
