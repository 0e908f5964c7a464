"""The notes below a table: why the best variant is best, why a row is not believed, and how the run went.

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
from aiperf_core.results.models import Overhead, Row, TargetResult, Verdict
from aiperf_core.stats.best import best_gain
from aiperf_core.stats.claims import NO_GAIN, predictions

LOG_LINES = 5
MANY_FAULTS = 1000  # page faults of a call; their time is then a part of a millisecond


def reasons_of(result: TargetResult, look: Look) -> Table:
    """Why the best variant is best, and why rows are not believed, did not run or were not compared."""
    grid = labelled(LABEL)
    best = best_gain(result)
    if best is not None:
        grid.add_row(Text("why", "bold"), Text.assemble((words(best.name), "bold"), f": {words(best.why or '')}"))
    for row in result.rows:
        if not row.is_believed or row.reason:
            if grid.row_count:
                grid.add_row()
            _add_reason(grid, row, look)
    return grid


def _add_reason(grid: Table, row: Row, look: Look) -> None:
    label = Text(row.verdict.value, VERDICT_STYLES[row.verdict])
    grid.add_row(label, Text.assemble((words(row.name), "bold"), f": {lines(row.reason or '')}"))
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
    label = f"{'results':<{LABEL}}  "
    return Text.assemble((label, "dim") if len(label) + len(path) <= width else "", path, overflow="fold")


def notes(result: TargetResult) -> Iterator[tuple[str, str]]:
    """Labels and sentences: steps, quality of lossy variants, warnings, stop reason, and overhead."""
    if result.no_gain:
        yield "no gain", no_gain(result.device, result.no_gain)
    steps = [row for row in result.rows if row.step_speedup and row.builds_on]
    if steps:
        yield "steps", ", ".join(f"{words(row.name)} over {words(row.builds_on or '')}" for row in steps)
    for row in steps:
        if row.teaches and row.step_speedup and row.step_speedup.high <= NO_GAIN:
            yield "teaches", f"{words(row.name)}: {words(row.teaches)}"
    for predicted in predictions(result):
        label = "warning" if predicted.outcome == "refuted" else "prediction"
        gain, shown = predicted.prediction, units.ratio_estimate(predicted.measured)
        expected = f"{words(predicted.row.name)}: predicted {gain} ({words(gain.why)})"
        yield label, f"{expected}, measured {shown.value} {shown.interval}: {predicted.outcome}"
    yield from _host_shares(result)
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
    yield (
        "stop reason",
        words(result.stopped) + ("" if result.complete else "; the run was interrupted, figures are partial"),
    )
    for row in result.rows:
        if row.verdict is Verdict.INCONCLUSIVE and row.speedup and not row.reason:
            yield "", f"{words(row.name)}: {what_would_decide(row.speedup, result.floor, result.overhead.sampling_s)}"
    yield from _verified(result.rows)
    yield "overhead", _overhead(result.overhead)


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
    error = "" if worst is None else ", bit-exact" if worst == 0 else f", largest error {worst:.2g} of what is allowed"
    yield "verified", f"{samples} timed samples against the reference{error}"


def _warnings(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """The warnings of rows that are believed, each once, with its rows; those of the machine are told once a run."""
    concerned: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for finding in row.findings:
            if row.is_believed and not is_machine_wide(finding):
                concerned.setdefault((finding.issue, words(finding.message)), []).append(words(row.name))
    measured = sum(1 for row in rows if row.time_s)
    for (issue, message), names in concerned.items():
        about = "" if len(names) >= measured > 1 else f" ({', '.join(names)})"
        yield "warning", f"{issue}{about}: {message}"


def what_would_decide(speedup: Estimate, floor: float, sampling_s: float) -> str:
    """How long a verdict needs. The width of an interval falls with the square root of the samples.

    sampling_s: how long sampling took.
    """
    shown = units.ratio_estimate(speedup).interval
    crossing = f"the interval {shown} overlaps the band of {floor * 100:g} % around 1"
    if speedup.low <= 0:
        return f"{crossing}. It has no lower end: a verdict needs many times the samples."
    # The interval of a ratio is symmetric on the logarithmic scale.
    half = math.log(speedup.high / speedup.low) / 2
    distance = abs(math.log(speedup.value))
    # FASTER needs the whole interval above 1 + floor, SAME needs it inside the floor; the nearer of both counts.
    needed = abs(distance - math.log1p(floor))
    if needed < half / 30:
        return f"{crossing}. The value is at the floor itself: more samples will hardly decide."
    factor = max(1.5, (half / needed) ** 2)
    budget = max(1, math.ceil(min(factor * sampling_s, 1e9)))
    times = units.number(factor, 2)
    return f"{crossing}. A verdict needs about {times} times the samples: --budget {budget}, or --until-decided."


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
