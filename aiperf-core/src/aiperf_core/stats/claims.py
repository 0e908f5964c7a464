"""Claims of authors about gains, against measurements: predictions, steps, and titles."""

import re
from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from aiperf_core import units
from aiperf_core.benchmark import Implementation
from aiperf_core.described import Described, DescribedImplementation
from aiperf_core.measurements import Estimate
from aiperf_core.prediction import Prediction
from aiperf_core.results.models import Row, TargetResult
from aiperf_core.stats.expectations import Expectation, Page
from aiperf_core.stats.witness import HOST_BOUND
from aiperf_core.validity.lint import Outcome, outcome

# A gain whose whole interval lies below this is none.
NO_GAIN = 1.01


@frozen
class Predicted:
    """A prediction of a row, with the gain that was measured."""

    row: Row
    prediction: Prediction
    measured: Estimate

    @property
    def outcome(self) -> str:
        """As of `Prediction.outcome`."""
        return self.prediction.outcome(self.measured)


def predictions(result: TargetResult) -> Iterator[Predicted]:
    """The predictions of rows with a gain. Predictions are about the preset of the device."""
    if result.problem.size != result.device:
        return
    for row in result.rows:
        measured = gain_of(result, row)
        if row.predict and measured is not None:
            yield Predicted(row, Prediction.parse(row.predict), measured)


def gain_of(result: TargetResult, row: Row) -> Estimate | None:
    """The gain over the step before, or over the baseline; of memory where that is the goal."""
    if result.goal == "memory":
        return None if row.memory_gain is None else Estimate(row.memory_gain, row.memory_gain, row.memory_gain)
    return row.step_speedup if row.builds_on else row.speedup


# --- against stored figures


def stored_outcomes(target: str, described: Described, device: str, pages: Iterable[Page]) -> Iterator[Outcome]:
    """Tests of a target's claims against the figures that its package stores for kinds of machines of a device."""
    steps, refuted, titles, hosts = [], [], [], []
    pages = [*pages]
    for page in pages:
        if not page.is_of(device):
            continue
        rows = _stored(target, described, device, page)
        for one in described.on(device):
            gain = stored_gain(one, rows)
            if gain is None:
                continue
            share = rows[one.name].host_share or 0.0
            if one.role == "variant" and share > HOST_BOUND and described.subject != "host":
                hosts.append(f"{one.name}, {units.percent(share)} on {page.hardware}")
            ratio = units.ratio_estimate(gain)
            shown = f"{ratio.value} {ratio.interval} on {page.hardware}"
            if one.builds_on and gain.high <= NO_GAIN and not one.teaches:
                steps.append(f"{one.name} over {one.builds_on}: {shown}")
            if one.predict and (said := Prediction.parse(one.predict)).outcome(gain) == "refuted":
                refuted.append(f"{one.name}, {said}: {shown}")
        best = max((row for row in rows.values() if row.metric == "speedup"), key=lambda row: row.low, default=None)
        if best is not None and best.high <= NO_GAIN and device not in described.no_gain_on:
            titles.append(f"{best.measured:.3g}x on {page.hardware}")
    remedy = "Say in teaches='...' what the loss teaches, or mend the step."
    yield outcome("claims.steps", steps, "steps without a gain in the stored figures: {}", remedy, "note")
    remedy = "Correct predict='...' and the reason that it gives."
    yield outcome("claims.predictions", refuted, "predictions that the stored figures refute: {}", remedy)
    remedy = "Capture it in a graph, time it by the device, or declare Benchmark(subject='host') if that is the lesson."
    yield outcome("claims.host", hosts, "the host takes more than 30 % of the time of {}", remedy, "note")
    remedy = "Measure them with --size, or give the limit a goal at that size: bench.reach(size='...')."
    found = "sizes that the limits name, without stored figures: {}"
    yield outcome("claims.limits", _unmeasured(target, described, device, pages), found, remedy, "note")
    remedy = "Choose sizes at which the title shows, or say in no_gain_on why nothing gains here."
    yield outcome("claims.title", titles, "the best variant gains nothing at the default sizes: {}", remedy)


def _unmeasured(target: str, described: Described, device: str, pages: Iterable[Page]) -> list[str]:
    """The presets that the limits name of which no page has figures, where some page has figures of the target.

    The preset of another device has its figures there.
    """
    rows = [
        row
        for page in pages
        if page.is_of(device)
        for name, row in page.expected.items()
        if name.startswith((f"{target}:", f"{target}@"))
    ]
    kept = {goal.of for row in rows for goal in row.goals}
    by_goals = {goal.preset for goal in described.goals if goal.of in kept}
    others = {implementation.device for implementation in described.implementations} - {device}
    presets = [name for name in described.presets if name not in others]
    named = [name for name in presets if re.search(rf"(`|--size ){re.escape(name)}\b", described.limits)]
    measured = [described.presets[name] in [row.sizes for row in rows] or name in by_goals for name in named]
    return [name for name, known in zip(named, measured, strict=True) if rows and not known]


def _stored(target: str, described: Described, device: str, page: Page) -> dict[str, Expectation]:
    """The stored rows of a target at the preset of the device, by implementation."""
    sizes = described.presets.get(device)
    rows = {one.name: page.expected.get(f"{target}:{one.name}") for one in described.on(device)}
    return {name: row for name, row in rows.items() if row is not None and row.sizes == sizes}


def stored_gain(one: DescribedImplementation | Implementation, rows: Mapping[str, Expectation]) -> Estimate | None:
    """The gain of a step, from the times or the peaks of memory of both in one run, or over the baseline."""
    row = rows.get(one.name)
    if row is None:
        return None
    if not one.builds_on:
        return Estimate(row.measured, row.low, row.high)
    below = rows.get(one.builds_on)
    if below is None or below.run != row.run or below.metric != row.metric:
        return None
    if row.metric == "memory":
        gain = row.measured / below.measured
        return Estimate(gain, gain, gain)
    if below.time_s is None or row.time_s is None:
        return None
    before, after = below.time_s, row.time_s
    return Estimate(before.value / after.value, before.low / after.high, before.high / after.low)
