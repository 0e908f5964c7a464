"""What stands under the table: why the best variant is best, why a row is not believed, how the run went.

Every note is a label and a paragraph beside it, in a grid without lines.
"""

from collections.abc import Iterator

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from aiperf_core import units
from aiperf_core.measurements import Energy, Estimate
from aiperf_core.names import words
from aiperf_core.render.look import VERDICT_STYLES, Look
from aiperf_core.results.models import DISBELIEVED, Finding, Overhead, Row, TargetResult, Verdict

LOG_LINES = 5
# So many pages that a call touches for the first time take a part of a millisecond.
MANY_FAULTS = 1000
LABEL = max(len(verdict.value) for verdict in Verdict)


def reasons_of(result: TargetResult, look: Look) -> Table:
    """Why the best variant is best, and every row's reason for not being believed, not running or not being compared."""
    grid = _grid()
    best = best_of(result)
    if best is not None:
        grid.add_row(Text("why", "bold"), Text.assemble((words(best.name), "bold"), f": {words(best.why or '')}"))
    for row in result.rows:
        if row.verdict in DISBELIEVED or row.reason:
            if grid.row_count:
                grid.add_row()
            _add_reason(grid, row, look)
    return grid


def best_of(result: TargetResult) -> Row | None:
    """The FASTER variant with the lowest time, or the SMALLER one with the lowest peak memory."""
    smaller = [row for row in result.rows if row.role == "variant" and row.verdict is Verdict.SMALLER]
    if smaller:
        return max(smaller, key=lambda row: row.memory_gain or 0.0)
    faster = [row for row in result.rows if row.role == "variant" and row.verdict is Verdict.FASTER]
    return min(faster, key=lambda row: row.time_s.value if row.time_s else float("inf"), default=None)


def _add_reason(grid: Table, row: Row, look: Look) -> None:
    label = Text(row.verdict.value, VERDICT_STYLES[row.verdict])
    grid.add_row(label, Text.assemble((words(row.name), "bold"), f": {words(row.reason or '')}"))
    if row.verdict not in DISBELIEVED:
        return
    for finding in row.findings:
        message = words(finding.message)
        # A row with one finding has its message as reason already.
        told = message and message in words(row.reason or "")
        grid.add_row("", _indented(Text(finding.issue + ("" if told else f": {message}"))))
    for line in row.log[-LOG_LINES:]:
        grid.add_row("", _indented(Text(f"{look.bar} {words(line)}", "dim")))


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 2))


def notes_of(result: TargetResult, look: Look) -> Table:
    """Steps of a ladder, what lossy variants give up, warnings, how sampling ended, what the harness took."""
    grid = _grid()
    for label, note in notes(result):
        grid.add_row(Text(label, "yellow" if label == "warning" else "dim"), look.text(note))
    return grid


def where_of(path: str, look: Look, width: int) -> Text:
    """Where the results lie, on one line as long as that fits: a path with a line break in it cannot be copied."""
    label = f"{'results':<{LABEL}}  "
    return Text.assemble((label, "dim") if len(label) + len(path) <= width else "", path, overflow="fold")


def notes(result: TargetResult) -> Iterator[tuple[str, str]]:
    """What there is to say below a table: labels, and a sentence each."""
    if result.no_gain:
        yield "no gain", no_gain(result.device, result.no_gain)
    for row in result.rows:
        if row.step_speedup and row.builds_on:
            shown = units.ratio_estimate(row.step_speedup)
            yield "step", f"{words(row.name)} over {words(row.builds_on)}: {shown.value} {shown.interval}"
    for row in result.rows:
        if row.quality:
            value = "not a number" if row.quality.value is None else f"{row.quality.value:.3g}"
            yield "quality", f"{words(row.name)}: {words(row.quality.metric)} {value}, at most {row.quality.budget:.3g}"
    # A millisecond is nothing to prepare; below it the note would only be noise.
    slow = [(words(row.name), row.prepare_s) for row in result.rows if row.prepare_s and row.prepare_s >= 1e-3]
    if slow:
        yield "prepare", ", ".join(f"{name} {units.seconds(time)}" for name, time in slow) + "; not in any time"
    yield from _beside(result.rows)
    for row in result.rows:
        if row.confined:
            held = ", ".join(map(words, row.confined.applied)) or "nothing"
            missing = ", ".join(f"{words(name)} ({words(why)})" for name, why in row.confined.lacking.items())
            yield "confined", f"{words(row.name)}: {held}" + (f"; not to be had here: {missing}" if missing else "")
    yield from _energy(result.rows)
    yield from _warnings(result.rows)
    yield "stopped", words(result.stopped) + ("" if result.complete else "; the run was cut short, figures are partial")
    for row in result.rows:
        if row.verdict is Verdict.INCONCLUSIVE and row.speedup:
            yield "", f"{words(row.name)}: {what_would_decide(row.speedup, result.floor)}"
    yield from _judged(result.rows)
    yield "harness", _overhead(result.overhead)


def no_gain(device: str, why: str) -> str:
    """What is said of a device on which no variant is expected to be better."""
    return f"expected on {words(device)}, where it shows that answers are right: {words(why)}"


def _beside(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """What calls have besides their times, where it is worth a line."""
    told = [(words(row.name), row.beside) for row in rows if row.beside and row.verdict not in DISBELIEVED]
    done = [f"{name} {units.seconds(one['until_done_s'])}" for name, one in told if "until_done_s" in one]
    if done:
        yield (
            "until done",
            ", ".join(done) + " from the start of the call; what is timed is how long the caller is held up",
        )
    for name, one in told:
        if "latency_p99_s" in one:
            parts = (f"{percent} % within {units.seconds(one[f'latency_p{percent}_s'])}" for percent in (50, 90, 99))
            yield "latency", f"{name} {', '.join(parts)}; in time {units.rate(one['goodput_per_s'], 'requests/s')}"
    if any(one.get("minor_faults", 0) >= MANY_FAULTS for _, one in told):
        faults = [f"{name} {one['minor_faults']:,.0f}" for name, one in told if "minor_faults" in one]
        yield "page faults", ", ".join(faults) + " a call, without reading from disk"


def _energy(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """Joules a call, or why there are none."""
    for row in rows:
        if row.energy and row.verdict not in DISBELIEVED:
            whole = units.joules(row.energy.joules_per_call)
            yield "energy", f"{words(row.name)} {whole} a call, {_above_idle(row.energy)}"
    reasons = {words(row.no_energy): None for row in rows if row.no_energy}
    for reason in reasons:
        yield "energy", f"not measurable: {reason}"


def _above_idle(energy: Energy) -> str:
    """What a call takes above idle, as far as that can be told."""
    net, resolution = energy.net_joules_per_call, energy.net_resolution_j
    if net > resolution:
        return f"{units.joules(net)} of it above idle"
    if net >= -resolution:
        return f"at most {units.joules(net + resolution)} of it above idle"
    return "less than the idle device took in the same time before: other work used it then"


def _judged(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """How much of what is believed was compared with the reference."""
    judgements = [row.judgement for row in rows if row.judgement and row.verdict not in DISBELIEVED]
    if not judgements:
        return
    samples = sum(one.samples for one in judgements)
    worst = max((one.worst for one in judgements if one.worst is not None), default=None)
    error = "" if worst is None else ", bit-exact" if worst == 0 else f", largest error {worst:.2g} of what is allowed"
    yield "judged", f"{samples} timed samples against the reference{error}"


def _warnings(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """Warnings about rows that are believed, each once with the rows that it is about."""
    concerned: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for finding in row.findings:
            if row.verdict not in DISBELIEVED:
                concerned.setdefault(_key(finding), []).append(words(row.name))
    measured = sum(1 for row in rows if row.time_s)
    for (issue, message), names in concerned.items():
        about = "" if len(names) >= measured > 1 else f" ({', '.join(names)})"
        yield "warning", f"{issue}{about}: {message}"


def _key(finding: Finding) -> tuple[str, str]:
    return finding.issue, words(finding.message)


def what_would_decide(speedup: Estimate, floor: float) -> str:
    """What would narrow an interval enough for a verdict. Its width falls with the square root of the samples."""
    half = (speedup.high - speedup.low) / 2
    distance = abs(speedup.value - 1)
    # FASTER needs the interval clear of 1 + floor, SAME all of it within; whichever is nearer to come true.
    needed = abs(distance - floor)
    shown = units.ratio_estimate(speedup).interval
    crossing = f"the interval {shown} neither clears nor stays within {floor * 100:g} % of 1"
    if needed < half / 30:
        return f"{crossing}. The value lies at that very floor: more samples will hardly decide."
    factor = (half / needed) ** 2
    more = f"about {factor:.0f} times the samples" if factor >= 1.5 else "somewhat more samples"
    return f"{crossing}. It takes {more}: give it a longer --budget."


def _overhead(overhead: Overhead) -> str:
    """What the harness took a sample, for what, and how much of the sampling it was."""
    beside = max(0.0, overhead.sampling_s - overhead.timed_s)
    if not overhead.samples or not overhead.sampling_s:
        return f"{units.seconds(overhead.start_s)} to start; no samples were taken"
    share = units.percent(beside / overhead.sampling_s)
    parts = {"new values": overhead.renew_s, "judging": overhead.judge_s, "rest": overhead.other_s}
    each = ", ".join(f"{name} {units.seconds(value / overhead.samples)}" for name, value in parts.items() if value > 0)
    return (
        f"{units.seconds(beside / overhead.samples)} a sample{f' ({each})' if each else ''}, none of it in any time. "
        f"That is {share} of {units.span(overhead.sampling_s)} of sampling; {units.span(overhead.start_s)} to start"
    )


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=LABEL)
    grid.add_column(overflow="fold")
    return grid
