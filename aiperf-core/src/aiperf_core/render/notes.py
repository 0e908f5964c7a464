"""The notes below a table: why the best variant is best, why a row is not believed, and how the run went.

A run shows the notes that ask for something and a last line; `-v` shows all of them.

Every note is a label with a paragraph beside it.
"""

import math
from collections.abc import Iterable, Iterator

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from aiperf_core import units
from aiperf_core.measurements import Energy, Estimate
from aiperf_core.names import lines, words
from aiperf_core.render.grid import labelled
from aiperf_core.render.look import LABEL, VERDICT_STYLES, Look
from aiperf_core.report.machine_notes import is_machine_wide
from aiperf_core.report.metrics import METRICS
from aiperf_core.results.models import Finding, Overhead, Row, TargetResult, Verdict
from aiperf_core.stats.best import best_gain
from aiperf_core.stats.claims import NO_GAIN, Predicted, gain_of, predictions

LOG_LINES = 5
# Why sampling ended, in the words of a run's last line.
_STOPPED = {
    "intervals narrow enough": "precise enough",
    "sampling budget spent": "sampling budget used up",
}
# An interval of few samples, or with ends this far apart, is no ground for a forecast.
FEWEST_SAMPLES, WIDEST_FORECAST = 10, 10.0
MANY_FAULTS = 1000  # page faults of a call; their time is then a part of a millisecond


def reasons_of(result: TargetResult, look: Look) -> Table:
    """Why the best variant is best, and why rows are not believed, did not run or were not compared."""
    grid = labelled(LABEL)
    best = best_gain(result)
    if best is not None:
        grid.add_row(Text("why", "bold"), Text.assemble((words(best.name), "bold"), f": {words(best.why or '')}"))
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in result.rows:
        if not row.is_believed or row.reason:
            # What only one row has is told with its name alone.
            own = () if row.is_believed else (row.name,) if row.findings or row.log else ()
            alike.setdefault((row.verdict, row.reason, *own), []).append(row)
    for rows in alike.values():
        if grid.row_count:
            grid.add_row()
        _add_reason(grid, rows, look)
    return grid


def _add_reason(grid: Table, rows: list[Row], look: Look) -> None:
    row, names = rows[0], ", ".join(words(row.name) for row in rows)
    label = Text(row.verdict.value, VERDICT_STYLES[row.verdict])
    grid.add_row(label, Text.assemble((names, "bold"), f": {lines(row.reason or '')}"))
    if row.is_believed:
        return
    for finding in row.findings:
        message = words(finding.message)
        # The reason of a row with a single finding is its message.
        told = message and message in words(row.reason or "")
        grid.add_row("", _indented(Text(finding.issue + ("" if told else f": {message}"))))
    for line in row.log[-LOG_LINES:]:
        grid.add_row("", _indented(Text(f"{look.bar} {words(line)}", "dim")))


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2))


def grid_of(pairs: Iterable[tuple[str, str]], look: Look) -> Table:
    """Notes as labels with paragraphs beside them."""
    grid = labelled(LABEL)
    for label, note in pairs:
        grid.add_row(Text(label, "yellow" if label == "warning" else "dim"), look.text(note))
    return grid


def where_of(path: str, look: Look, width: int) -> Text:
    """The path of the results. It stays on one line where it fits: a path with a line break cannot be copied."""
    return _labelled("results", path, width)


def details_of(address: str, width: int) -> Text:
    """The command that shows all figures and notes."""
    return _labelled("all details", f"aiperf show {address} -v", width)


def _labelled(label: str, text: str, width: int) -> Text:
    before = f"{label:<{LABEL}}  "
    return Text.assemble((before, "dim") if len(before) + len(text) <= width else "", text, overflow="fold")


def brief_notes(result: TargetResult) -> Iterator[tuple[str, str]]:
    """The notes that ask for something: what no verdict, a warning or an interruption needs; and how the run ended."""
    if result.no_gain:
        yield "no gain", no_gain(result.device, result.no_gain)
    yield from _lost_steps(result)
    yield from _refuted(result)
    yield from _warnings(result.rows)
    yield from _few_samples(result)
    yield from undecided(result)
    verified = [note for _, note in _verified(result.rows)]
    yield "run", "; ".join([*verified, stopped(result), units.span(result.wall_s)])


def notes(result: TargetResult) -> Iterator[tuple[str, str]]:
    """Labels and sentences: steps, quality of lossy variants, warnings, stop reason, and overhead."""
    if result.no_gain:
        yield "no gain", no_gain(result.device, result.no_gain)
    steps = [row for row in result.rows if row.step_speedup and row.builds_on]
    if steps:
        yield "steps", ", ".join(f"{words(row.name)} over {words(row.builds_on or '')}" for row in steps)
    for row in result.rows:
        gain = gain_of(result, row)
        if row.teaches and gain and gain.high <= NO_GAIN:
            yield "teaches", f"{words(row.name)}: {words(row.teaches)}"
    for predicted in predictions(result):
        yield ("warning" if predicted.outcome == "refuted" else "prediction"), _predicted(predicted)
    yield from _host_shares(result)
    yield from _floors(result)
    yield from _witnesses(result)
    yield from _without_light(result)
    for row in result.rows:
        if row.quality:
            value = "not a number" if row.quality.value is None else f"{row.quality.value:.3g}"
            yield "quality", f"{words(row.name)}: {words(row.quality.metric)} {value}, at most {row.quality.budget:.3g}"
    # A shorter setup is not worth a note.
    slow = [
        f"{words(row.name)} {units.seconds(row.prepare_s)}"
        for row in result.rows
        if row.prepare_s and row.prepare_s >= 1e-3
    ]
    if slow:
        yield "setup", ", ".join(slow) + "; excluded from all timings"
    yield from _beside(result.rows)
    for row in result.rows:
        if row.confined:
            held = ", ".join(map(words, row.confined.applied)) or "nothing"
            missing = ", ".join(f"{words(name)} ({words(why)})" for name, why in row.confined.lacking.items())
            yield "confined", f"{words(row.name)}: {held}" + (f"; not available here: {missing}" if missing else "")
    yield from _energy(result.rows)
    again = [words(row.name) for row in result.rows if row.audit and row.audit.retaken]
    if again:
        yield "audit", f"{', '.join(again)}: audited once more by CUPTI, since the clocks disagreed the first time"
    yield from _warnings(result.rows)
    yield "stopped", stopped(result)
    yield from _few_samples(result)
    yield from undecided(result)
    yield from _verified(result.rows)
    yield "overhead", _overhead(result.overhead)


def stopped(result: TargetResult) -> str:
    """Why sampling ended, and whether the run is whole."""
    return _STOPPED.get(result.stopped, words(result.stopped)) + (
        "" if result.complete else "; the run was interrupted, figures are partial"
    )


def _samples_of_each(result: TargetResult) -> int:
    """The number of samples of an implementation, on average."""
    return result.overhead.samples // max(1, sum(row.time_s is not None for row in result.rows))


def _few_samples(result: TargetResult) -> Iterator[tuple[str, str]]:
    """The number of samples where it is small. A short call may take much less time than renewing its inputs."""
    each = _samples_of_each(result)
    if 0 < each < FEWEST_SAMPLES and not result.simulated:
        yield "samples", f"{each} of each implementation: chance moves figures of so few. More: --budget SECONDS"


def undecided(result: TargetResult) -> Iterator[tuple[str, str]]:
    """Needs of the variants without a verdict; variants with the same need share a note."""
    needs: dict[str, list[str]] = {}
    each = _samples_of_each(result)
    for row in result.rows:
        if row.verdict is Verdict.INCONCLUSIVE and row.speedup and not row.reason:
            seeds = result.simulated.seeds if result.simulated else None
            need = what_would_decide(row.speedup, result.floor, result.overhead.sampling_s, each, seeds)
            needs.setdefault(need, []).append(f"{words(row.name)} {units.ratio_estimate(row.speedup).interval}")
    for need, names in needs.items():
        yield (
            "undecided",
            f'{", ".join(names)}: cannot yet tell from "no change" (within {result.floor * 100:g} %). {need}',
        )


def _lost_steps(result: TargetResult) -> Iterator[tuple[str, str]]:
    """The steps without a gain over the variant that they build on, and what that teaches."""
    for row in result.rows:
        gain = row.step_speedup if row.builds_on and result.goal != "memory" else None
        if gain and gain.high <= NO_GAIN:
            shown = units.ratio_estimate(gain)
            step = f"{words(row.name)} over {words(row.builds_on or '')} {shown.value} {shown.interval}"
            yield "lost step", f"{step}: {words(row.teaches)}" if row.teaches else step


def _refuted(result: TargetResult) -> Iterator[tuple[str, str]]:
    """The predictions that the run refutes."""
    for predicted in predictions(result):
        if predicted.outcome == "refuted":
            yield "warning", _predicted(predicted)


def _predicted(predicted: Predicted) -> str:
    gain, shown = predicted.prediction, units.ratio_estimate(predicted.measured)
    expected = f"{words(predicted.row.name)}: predicted {gain} ({words(gain.why)})"
    return f"{expected}, measured {shown.value} {shown.interval}: {predicted.outcome}"


def no_gain(device: str, why: str) -> str:
    """The note for a device on which no variant is expected to be better."""
    return f"expected on {words(device)}, where the run only checks the results: {words(why)}"


def _host_shares(result: TargetResult) -> Iterator[tuple[str, str]]:
    """The device's time of rows by the caller's clock, and the host's share of their time."""
    rows = [(row, METRICS["host_share"].of(result, row).value) for row in result.rows if row.is_believed]
    shares = [
        f"{words(row.name)} {units.percent(share / 100)} (device {units.seconds(row.device_s.value)})"
        for row, share in rows
        if row.device_s and share is not None
    ]
    if shares:
        yield "host share", ", ".join(shares)


def _floors(result: TargetResult) -> Iterator[tuple[str, str]]:
    """The host floor of rows: their program on the smallest tensors."""
    at = ", ".join(f"{words(name)}={size:g}" for name, size in result.problem.floor.items())
    pairs = [(row.name, row.floor_s, row.time_s) for row in result.rows if row.is_believed]
    floors = [
        f"{words(name)} {'all' if floor.value >= time.value else units.seconds(floor.value)} of "
        f"{units.seconds(time.value)}"
        for name, floor, time in pairs
        if floor and time
    ]
    if floors:
        yield "host floor", f"{', '.join(floors)} is the host's: what the same calls take at {at}"
    for row in result.rows:
        if row.is_believed and row.no_floor:
            yield "host floor", f"{words(row.name)}: {METRICS['floor_s'].of(result, row).reason}"


def _witnesses(result: TargetResult) -> Iterator[tuple[str, str]]:
    """How much longer than on a quiet host the witness took before the samples."""
    figures = [(row, METRICS["witness"].of(result, row)) for row in result.rows]
    told = [
        f"{words(row.name)} {units.number(one.value)}x ({units.number(one.low)}x to {units.number(one.high)}x)"
        for row, one in figures
        if one.value is not None and one.low is not None and one.high is not None
    ]
    if told:
        yield "witness", f"{', '.join(told)} of the quiet time of a fixed loop on the host, before each sample"


def _without_light(result: TargetResult) -> Iterator[tuple[str, str]]:
    """Why rows with a bound have no fraction of the speed of light."""
    reasons: dict[str, list[str]] = {}
    for row in result.rows:
        figure = METRICS["speed_of_light_fraction"].of(result, row)
        if row.is_believed and row.speed_of_light and figure.value is None:
            reasons.setdefault(figure.reason or "", []).append(words(row.name))
    for reason, names in reasons.items():
        yield "SOL", f"{', '.join(names)}: {reason}"


def _beside(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """Measurements beside the time of a call: end of asynchronous work, latencies, page faults."""
    told = [(words(row.name), row.beside) for row in rows if row.beside and row.is_believed]
    done = [f"{name} {units.seconds(one['until_done_s'])}" for name, one in told if "until_done_s" in one]
    if done:
        yield (
            "until done",
            ", ".join(done) + " from the start of the call; timed is only how long the call blocks its caller",
        )
    for name, one in told:
        if "latency_p99_s" in one:
            parts = (f"{percent} % within {units.seconds(one[f'latency_p{percent}_s'])}" for percent in (50, 90, 99))
            yield "latency", f"{name} {', '.join(parts)}; in time {units.rate(one['goodput_per_s'], 'requests/s')}"
    if any(one.get("minor_faults", 0) >= MANY_FAULTS for _, one in told):
        faults = [f"{name} {one['minor_faults']:,.0f}" for name, one in told if "minor_faults" in one]
        yield "page faults", ", ".join(faults) + " a call, without reading from disk"


def _energy(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """The energy of a call."""
    for row in rows:
        if row.energy and row.is_believed:
            whole = units.joules(row.energy.joules_per_call)
            yield "energy", f"{words(row.name)} {whole} a call, {_above_idle(row.energy)}"


def _above_idle(energy: Energy) -> str:
    """The energy of a call above idle, within the resolution of the counter."""
    net, resolution = energy.net_joules_per_call, energy.net_resolution_j
    if net > resolution:
        return f"{units.joules(net)} of it above idle"
    if net >= -resolution:
        return f"at most {units.joules(net + resolution)} of it above idle"
    return "less than the idle device used in the same time before: other work was using the device then"


def _verified(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """The number of samples that were compared with the reference, and their largest error."""
    judgements = [row.judgement for row in rows if row.judgement and row.is_believed]
    if not judgements:
        return
    samples = sum(one.samples for one in judgements)
    worst = max((one.worst for one in judgements if one.worst is not None), default=None)
    error = "" if worst is None else ", bit-exact" if worst == 0 else f", max error {units.percent(worst)} of tolerance"
    yield "verified", f"{samples} timed samples match the reference{error}"


def _warnings(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """The warnings of rows that are believed, each once, with its rows; those of the machine are told once a run.

    Warnings of disturbed samples differ in their shares alone: the largest is told.
    """
    concerned: dict[tuple[str, str], list[tuple[str, Finding]]] = {}
    for row in rows:
        for finding in row.findings:
            if row.is_believed and not is_machine_wide(finding):
                kind = "disturbed" if "witness" in finding.evidence else words(finding.message)
                concerned.setdefault((finding.issue, kind), []).append((words(row.name), finding))
    measured = sum(1 for row in rows if row.time_s)
    for (issue, _), found in concerned.items():
        about = "" if len(found) >= measured > 1 else f" ({', '.join(name for name, _ in found)})"
        worst = max((finding for _, finding in found), key=_share)
        at_worst = "at worst " if len({finding.message for _, finding in found}) > 1 else ""
        yield "warning", f"{issue}{about}: {at_worst}{words(worst.message)}"


def _share(finding: Finding) -> float:
    """The share in a finding's evidence, of samples for instance; 0 without one."""
    share = finding.evidence.get("share")
    return float(share) if isinstance(share, float | int) else 0.0


def what_would_decide(
    speedup: Estimate, floor: float, sampling_s: float, samples: int, seeds: int | None = None
) -> str:
    """How long a verdict needs. The width of an interval falls with the square root of the samples.

    sampling_s: how long sampling took. samples: the number of samples of an implementation.
    seeds: of a simulated target, for how many it was simulated.
    """
    if samples < FEWEST_SAMPLES or speedup.low <= 0 or speedup.high / speedup.low > WIDEST_FORECAST:
        return "Too noisy to say how many samples a verdict needs: use a quiet machine, or --until-decided."
    # The interval of a ratio is symmetric on the logarithmic scale.
    half = math.log(speedup.high / speedup.low) / 2
    distance = abs(math.log(speedup.value))
    # FASTER needs the whole interval above 1 + floor, SAME needs it inside the floor; the nearer of both counts.
    needed = abs(distance - math.log1p(floor))
    if needed < half / 30:
        return "The value is at the floor itself: more samples will hardly decide."
    factor = max(1.5, (half / needed) ** 2)
    if seeds is not None:
        return f"A verdict needs about {math.ceil(min(factor * seeds, 1e9)):,} seeds."
    budget = max(1, math.ceil(min(factor * sampling_s, 1e9)))
    times = units.number(factor, 2)
    return f"A verdict needs about {times} times the samples: --budget {budget}, or --until-decided."


def _overhead(overhead: Overhead) -> str:
    """The overhead of the harness for each sample by purpose, its share of sampling, and the time beside sampling."""
    beside = max(0.0, overhead.sampling_s - overhead.timed_s)
    phases = {"setup": overhead.setup_s, "warm-up": overhead.warmup_s, "final checks": overhead.checks_s}
    others = ", ".join(f"{name} {units.seconds(value)}" for name, value in phases.items() if value > 0)
    if not overhead.samples or not overhead.sampling_s:
        return f"{others}; no samples were taken"
    share = units.percent(beside / overhead.sampling_s)
    parts = {
        "input refresh": overhead.refresh_s,
        "cache flush": overhead.flush_s,
        "verification": overhead.verification_s,
        "stopping processes": overhead.stopping_s,
        "messages": overhead.messages_s,
        "other": overhead.other_s,
    }
    each = ", ".join(f"{name} {units.seconds(value / overhead.samples)}" for name, value in parts.items() if value > 0)
    return (
        f"{units.seconds(beside / overhead.samples)} a sample{f' ({each})' if each else ''}, excluded from all "
        f"timings: {share} of {units.span(overhead.sampling_s)} of sampling; {others}"
    )
