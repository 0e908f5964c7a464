"""From observations to rows: intervals, speedups, verdicts, fractions of the speed of light."""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import evolve, frozen

from aiperf_core.measurements import Ceilings, Estimate
from aiperf_core.results.models import Finding, Judgement, Quality, RankTime, Row, SpeedOfLight, Verdict
from aiperf_core.stats.clock_agreement import unseen_gain
from aiperf_core.stats.conditions import findings, summary
from aiperf_core.stats.intervals import Blocks, median_interval, ratio_interval, verdict
from aiperf_core.stats.observations import Observations
from aiperf_core.stats.speed_of_light import BEYOND, speed_of_light

# A relative difference between samples with and without others in between that is worth a warning.
INTERFERENCE = 0.05
# Peaks of memory differ by less than this through pages and the host's allocator alone.
LEAST_BYTES = 1 << 20
# Ceilings are measured again this often before a row is called faster than light.
REMEASURED = 2
_DISAGREE = "timing.clocks_disagree"


@frozen
class Scoring:
    """The rules by which a target's observations become rows.

    goal: the target's; if it is `memory`, verdicts are on peaks of memory.
    cost: what `speed_of_light.cost_of` makes of the problem.
    ceilings: returns the device's ceilings, measured anew if its argument is true.
    off: guards that are switched off.
    """

    observations: Sequence[Observations]
    clock: str
    cache: str
    cost: dict[str, Any]
    tolerance: str
    floor: float
    ceilings: Callable[[bool], Ceilings | None]
    goal: str = "speed"
    off: frozenset[str] = frozenset()

    def rows(self) -> list[Row]:
        """The rows, in the order of the observations. Implementations faster than light are taken out."""
        if "faster_than_light" not in self.off:
            self._refuse_what_is_faster_than_light()
        for one in self.observations:
            self._note_interference(one)
            if "conditions" not in self.off:
                self._note_conditions(one)
        return [self._row(one) for one in self.observations]

    @property
    def _baseline(self) -> Observations:
        return self.observations[0]

    def _blocks(self, one: Observations, clock: str | None = None) -> Blocks:
        return one.blocks(clock or self.clock, len(self.observations))

    def _time(self, one: Observations, clock: str | None = None) -> Estimate | None:
        return median_interval(self._blocks(one, clock))

    def _row(self, one: Observations) -> Row:
        declared = one.declared
        said, reason = self._say(one)
        median = one.median(self.clock)
        trusted = one.active and median is not None
        return Row(
            name=declared.name,
            role=declared.role,
            device=declared.device,
            verdict=said,
            kind=declared.kind,
            why=declared.why or None,
            builds_on=declared.builds_on,
            mechanisms=list(declared.mechanisms),
            requires=list(declared.requires),
            reason=reason,
            findings=one.findings,
            clock=self.clock if one.samples.block else None,
            time_s=self._possible(one, self._time(one)) if trusted else None,
            wall_s=self._possible(one, self._time(one, "wall")) if trusted else None,
            speedup=self._ratio(self._baseline, one) if declared.role in ("variant", "control") else None,
            step_speedup=self._step(one),
            memory_gain=self._memory_gain(one) if declared.role in ("variant", "control") else None,
            bytes_per_s=self._rate(median, "bytes_read", "bytes_written") if trusted else None,
            flop_per_s=self._rate(median, "flops") if trusted else None,
            wire_bytes_per_s=self._rate(median, "wire_bytes") if trusted else None,
            disk_bytes_per_s=self._rate(median, "disk_read_bytes", "disk_written_bytes") if trusted else None,
            speed_of_light=self._light(one, median) if trusted else None,
            prepare_s=one.prepare_s,
            beside=one.figures(),
            memory=one.memory,
            judgement=Judgement(one.judged, self.tolerance, one.worst) if one.judged else None,
            quality=_quality(one),
            isolated_s=self._isolated(one) if trusted else None,
            audit=one.audit,
            flush=one.flush,
            steady=one.steady,
            conditions=summary(one.readings) if one.readings else None,
            energy=one.energy if trusted else None,
            no_energy=one.no_energy,
            samples=one.samples,
            isolated_samples_s=one.isolated_samples_s,
            warmup_s=one.warmup_s,
            log=one.log,
            confined=one.confined,
            not_observed=one.not_observed,
            ranks=_ranks(one),
        )

    # --- verdicts

    def _say(self, one: Observations) -> tuple[Verdict, str | None]:
        """The verdict, with its reason where there is one."""
        if one.ended is not None:
            return one.ended, one.reason
        if one.declared.role == "variant":
            return self._compare(one)
        if one.samples.block:
            return Verdict.MEASURED, None
        return Verdict.INCONCLUSIVE, "no sample was taken before the run ended"

    def _compare(self, one: Observations) -> tuple[Verdict, str | None]:
        baseline = self._baseline
        if not baseline.active:
            return Verdict.INCONCLUSIVE, (
                f"there is no trusted baseline to compare with ({baseline.name}: {baseline.ended})"
            )
        if self.goal == "memory":
            return self._compare_memory(one)
        speedup = self._ratio(baseline, one)
        if speedup is None:
            return Verdict.INCONCLUSIVE, "too few passes for an interval; give it more time with --budget"
        said, spread = verdict(speedup, self.floor), self._spread()
        if said in (Verdict.FASTER, Verdict.SLOWER) and abs(speedup.value - 1) <= spread:
            return Verdict.INCONCLUSIVE, (
                f"the difference of {abs(speedup.value - 1):.1%} is not above the A/A difference of the baseline here, "
                f"up to {spread:.1%}"
            )
        if said is Verdict.FASTER and (doubt := self._doubt(one)):
            return Verdict.INCONCLUSIVE, doubt
        return said, None

    def _doubt(self, one: Observations) -> str | None:
        """Why a gain of untrusted code is not believed; None where it is."""
        known = next((found.message for found in one.findings if found.issue == _DISAGREE), None)
        asked = known is None and self.clock == "wall" and "clocks_agree" not in self.off and one.untrusted
        if asked and (found := unseen_gain(self._baseline, one)):
            known, evidence = found
            one.findings.append(Finding(_DISAGREE, "warning", known, evidence))
        return known

    def _compare_memory(self, one: Observations) -> tuple[Verdict, str | None]:
        gain = self._memory_gain(one)
        if gain is None:
            return Verdict.INCONCLUSIVE, "its peak memory, or that of the baseline, was not measured"
        ours, theirs = (_peak(side) or 0 for side in (one, self._baseline))
        if abs(ours - theirs) < LEAST_BYTES and one.declared.device == "cpu":
            return Verdict.SAME, None
        said = verdict_on_memory(gain, self.floor)
        control = next((other for other in self.observations if other.declared.role == "control"), None)
        spread = abs(((control and self._memory_gain(control)) or 1.0) - 1)
        if said is not Verdict.SAME and abs(gain - 1) <= spread:
            return Verdict.INCONCLUSIVE, (
                f"the difference of {abs(gain - 1):.1%} is not above the A/A difference of the baseline's peak, "
                f"{spread:.1%}"
            )
        return said, None

    def _memory_gain(self, one: Observations) -> float | None:
        """The baseline's peak memory by an implementation's."""
        if not (one.active and self._baseline.active):
            return None
        return memory_gain(_peak(self._baseline), _peak(one))

    def _spread(self) -> float:
        """How far from 1 the baseline's ratio to itself may be, at the ends of its interval; 0 without a control."""
        for one in self.observations:
            if one.declared.role == "control":
                ratio = self._ratio(self._baseline, one)
                return max(abs(ratio.low - 1), abs(ratio.high - 1)) if ratio else 0.0
        return 0.0

    def _ratio(self, top: Observations, bottom: Observations) -> Estimate | None:
        if not (top.active and bottom.active):
            return None
        return ratio_interval(self._blocks(top), self._blocks(bottom))

    def _step(self, one: Observations) -> Estimate | None:
        """The gain over the rung below."""
        below = next((other for other in self.observations if other.name == one.declared.builds_on), None)
        return self._ratio(below, one) if below else None

    # --- speed of light

    def _light(self, one: Observations, median: float | None) -> SpeedOfLight | None:
        lossy = one.declared.lossy is not None
        return speed_of_light(self.cost, self.ceilings(False), self.cache, median, lossy=lossy) if median else None

    def _possible(self, one: Observations, time: Estimate | None) -> Estimate | None:
        """A time whose interval does not begin below the speed of light."""
        found = self._light(one, time.value) if time else None
        if time is None or found is None:
            return time
        return evolve(time, low=max(time.low, min(found.time_s, time.value)))

    def _rate(self, median: float | None, *parts: str) -> float | None:
        amount = sum(self.cost[part] for part in parts)
        return amount / median if amount and median else None

    def _refuse_what_is_faster_than_light(self) -> None:
        suspects = [one for one in self.observations if self._is_too_fast(one)]
        # A ceiling measured in a bad moment is too low, so ceilings are measured again before a row becomes INVALID.
        for _ in range(REMEASURED):
            if suspects:
                self.ceilings(True)
            suspects = [one for one in suspects if self._is_too_fast(one)]
        for one in suspects:
            self._refuse_as_too_fast(one)

    def _is_too_fast(self, one: Observations) -> bool:
        """Whether an implementation is faster than light by the present ceilings.

        The slow end of the interval counts: on a machine with varying speed the median proves nothing.
        """
        if not one.active:
            return False
        interval = self._time(one)
        found = self._light(one, interval.high if interval else one.median(self.clock))
        return found is not None and found.fraction > BEYOND

    def _refuse_as_too_fast(self, one: Observations) -> None:
        median = one.median(self.clock)
        found = self._light(one, median)
        assert median is not None
        assert found is not None
        message = (
            f"{median:.3g} s is {found.fraction:.2f} times as fast as this machine's {found.bound} allows "
            f"({found.time_s:.3g} s); the cost, the clock or the implementation is wrong"
        )
        evidence = {"median_s": median, "light_s": found.time_s, "fraction": found.fraction}
        one.find("timing.faster_than_light", message, evidence)

    # --- what disturbed

    def _note_conditions(self, one: Observations) -> None:
        """Warn if the machine was hot, loaded or shared, or ran at other clocks for the baseline."""
        baseline = summary(self._baseline.readings) if one is not self._baseline else None
        if one.active and one.readings:
            for found in findings(summary(one.readings), baseline):
                one.find(found.issue, found.message, found.evidence)
            for rank, readings in one.rank_readings.items():
                for found in findings(summary(readings)):
                    one.find(found.issue, f"rank {rank}: {found.message}", {**found.evidence, "rank": rank})

    def _isolated(self, one: Observations) -> Estimate | None:
        """The median of the samples without others in between. Each counts as a block of its own."""
        times = one.isolated_samples_s
        return median_interval(Blocks.of(times, list(range(len(times)))))

    def _note_interference(self, one: Observations) -> None:
        """Warn if taking turns with others changed the times."""
        taking_turns, alone = self._time(one), self._isolated(one)
        if not (one.active and taking_turns and alone):
            return
        apart = alone.high < taking_turns.low or alone.low > taking_turns.high
        change = taking_turns.value / alone.value - 1
        if apart and abs(change) > INTERFERENCE:
            message = (
                f"{one.name} takes {abs(change):.0%} {'more' if change > 0 else 'less'} time in alternation with "
                "the others than alone"
            )
            evidence = {"taking_turns_s": taking_turns.value, "alone_s": alone.value}
            one.find("timing.interference", message, evidence)


def _peak(one: Observations) -> int | None:
    return one.memory.most_bytes if one.memory else None


def memory_gain(baseline_bytes: int | None, own_bytes: int | None) -> float | None:
    """The baseline's peak memory divided by an implementation's; None where either is unknown or 0."""
    return baseline_bytes / own_bytes if baseline_bytes and own_bytes else None


def verdict_on_memory(gain: float, floor: float) -> Verdict:
    """The verdict on a gain of memory. Memory is counted, not sampled, so there is no interval."""
    if gain > 1 + floor:
        return Verdict.SMALLER
    return Verdict.LARGER if gain < 1 / (1 + floor) else Verdict.SAME


def _ranks(one: Observations) -> list[RankTime]:
    """Each rank, with its device, and its machine where there are several."""
    devices = [f"{rank.device} of {place}" for rank, place in zip(one.ranks, one.rank_places, strict=False)]
    audits = dict(enumerate(one.rank_audits))
    return [
        RankTime(
            rank.rank,
            device,
            rank.work_s,
            rank.collectives,
            rank.wire_bytes,
            audit=audits.get(rank.rank),
            conditions=summary(one.rank_readings[rank.rank]) if rank.rank in one.rank_readings else None,
        )
        for rank, device in zip(one.ranks, devices or [rank.device for rank in one.ranks], strict=True)
    ]


def _quality(one: Observations) -> Quality | None:
    if one.declared.lossy is None or one.quality is None:
        return None
    return Quality(one.declared.lossy["metric"], one.quality, one.declared.lossy["budget"])
