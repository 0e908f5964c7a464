"""The page of a plan and its runs: what was predicted, what was measured, and what surprised."""

from collections.abc import Iterator, Sequence
from typing import Any

from aiperf_core import units
from aiperf_core.errors import BenchmarkError
from aiperf_core.measurements import Estimate
from aiperf_core.prediction import Prediction
from aiperf_core.report import drawings
from aiperf_core.report.picture import render_svg
from aiperf_core.report.result import Figure, Origin
from aiperf_core.report.text import markdown_text
from aiperf_core.results.models import Row, TargetResult
from aiperf_labs.one_model import runner, screen
from aiperf_labs.one_model.plan import SCREEN
from aiperf_labs.one_model.switches import BY_NAME, LADDERS

Found = dict[str, tuple[TargetResult, str]]
HEADS = ("rung", "predicted", "step", "so far", "times as long without it", "memory", "quality", "bound", "verdict")


def markdown(document: dict[str, Any], digest: str, found: Found, pictures: dict[str, str]) -> str:
    """The page as Markdown. `pictures` are the files of pictures by ladder."""
    made = document["trained"]
    lines = [
        f"# One model, every technique a switch: size {document['size']}, {document['device']}",
        "",
        f"Plan `{digest[:16]}` of {document['made']}, written before the runs. The corpus has an entropy of "
        f"{document['entropy']:.1f} nats in a document of {document['words']:.0f} words: the floor of the held-out "
        f"texts is {made['floor']:.3f} nats a token. The model ends {made['above_floor']:.3f} above it, and recalls "
        f"{units.percent(made['recall'])} of what was said before.",
        "",
        *_table(
            ("step of training", "seconds", "nats a token above the floor"),
            [(f"{step:.0f}", f"{seconds:.1f}", f"{above:.3f}") for step, seconds, above in made["milestones"]],
        ),
        "",
    ]
    for name, rungs in document["ladders"].items():
        lines += _ladder(name, rungs, found, pictures.get(name))
    if SCREEN in found:
        lines += _screened(document, found)
    lines += _surprises(document, found)
    return "\n".join(lines) + "\n"


def picture(name: str, rungs: Sequence[dict[str, Any]], found: Found) -> str | None:
    """The picture of a ladder as SVG: the gains of its rungs over the baseline. None without figures."""
    ratios = [
        (
            Origin(seal, result.target, row.name),
            _figure(row.speedup),
            row.verdict,
        )
        for result, row, seal in _rows(name, rungs, found)
        if row.speedup is not None
    ]
    if not ratios:
        return None
    best = max(ratios, key=lambda one: one[1].value or 0.0)
    message = f"Of {len(ratios)} rungs, {best[0].row} is {best[1].value:.2f} times as fast as the baseline."
    axis = "the baseline's time divided by the rung's"
    drawing = drawings.of_ratios(f"one-model-{name}", f"Ladder: {LADDERS[name]}", message, axis, ratios)
    return render_svg(drawing)


def _rows(name: str, rungs: Sequence[dict[str, Any]], found: Found) -> Iterator[tuple[TargetResult, Row, str]]:
    """The rows of a ladder's rungs, each from the part that measures it, but for the guards."""
    for rung in rungs:
        part = f"{name}-steps" if rung["role"] == "step" else f"{name}-without"
        if part in found and rung["role"] in ("step", "without", "degraded"):
            result, seal = found[part]
            row = runner.row_of(result, rung["name"])
            if row is not None:
                yield result, row, seal


def _ladder(name: str, rungs: Sequence[dict[str, Any]], found: Found, picture: str | None) -> list[str]:
    lines = [f"## {LADDERS[name].capitalize()}", ""]
    parts = {part: found[part] for part in (f"{name}-steps", f"{name}-without") if part in found}
    if not parts:
        return [*lines, f"Not measured yet: `aiperf labs one-model run --ladder {name}`.", ""]
    for part, (result, seal) in parts.items():
        wrong = runner.broken(result)
        guards = "; ".join(wrong) if wrong else "the placebo reads SAME, the sabotage INVALID"
        lines.append(f"- `{part}`, seal `{seal[:16]}`, {result.started[:10]}: {guards}.")
    rows = {row.name: row for _, row, _ in _rows(name, rungs, found)}
    steps = [_step(rung, rows) for rung in rungs if rung["role"] == "step"]
    lines += ["", *_table(HEADS, steps), ""]
    worse = [_degraded(rung, rows) for rung in rungs if rung["role"] == "degraded"]
    if worse:
        heads = ("taken from the whole", "predicted", "times as long", "quality", "verdict")
        lines += [
            "What one mechanism of the model's own code is worth to the whole ladder:",
            "",
            *_table(heads, worse),
            "",
        ]
    return [*lines, *([f"![Gains of the ladder]({picture})", ""] if picture else [])]


def _step(rung: dict[str, Any], rows: dict[str, Row]) -> tuple[str, ...]:
    row = rows.get(rung["name"])
    left = rows.get(f"without_{rung['name']}")
    low, high = rung["predicted"]["step"]
    said = f"{low:.2f} to {high:.2f}x"
    if row is None:
        return rung["name"], said, *["-"] * 6, "not measured"
    return (
        rung["name"],
        said,
        _ratio(gain_of(row)),
        _ratio(row.speedup),
        _ratio(_inverse(left.step_speedup) if left else None),
        units.size(row.memory.most_bytes) if row.memory and row.memory.most_bytes else "-",
        _quality(row),
        row.speed_of_light.bound if row.speed_of_light else "-",
        _verdict(row),
    )


def _degraded(rung: dict[str, Any], rows: dict[str, Row]) -> tuple[str, ...]:
    row = rows.get(rung["name"])
    low, high = rung["predicted"]["step"]
    said = f"{low:.2f} to {high:.2f}x"
    if row is None:
        return rung["adds"], said, "-", "-", "not measured"
    return rung["adds"], said, _ratio(_inverse(row.step_speedup)), _quality(row), _verdict(row)


def gain_of(row: Row) -> Estimate | None:
    """The gain of a step over the one below, or over the baseline."""
    return row.step_speedup if row.builds_on else row.speedup


def _figure(found: Estimate) -> Figure:
    return Figure(value=found.value, low=found.low, high=found.high)


def _quality(row: Row) -> str:
    """The loss of a lossy rung by its metric: nats a token of serving."""
    given_up = row.quality
    if given_up is None:
        return "exact"
    return "-" if given_up.value is None else f"{given_up.value:.4f} {given_up.metric}"


def _inverse(found: Estimate | None) -> Estimate | None:
    return Estimate(1 / found.value, 1 / found.high, 1 / found.low) if found else None


def _ratio(found: Estimate | None) -> str:
    return f"{found.value:.2f}x [{found.low:.2f}, {found.high:.2f}]" if found else "-"


def _verdict(row: Row) -> str:
    return row.verdict.value if row.is_believed else f"{row.verdict.value}: {row.reason or 'no reason'}"


# --- the screen


def _screened(document: dict[str, Any], found: Found) -> list[str]:
    result, seal = found[SCREEN]
    times = {number: _time(result, f"screen_{number:02d}") for number in range(len(screen.runs()))}
    times[len(times)] = _time(result, "baseline")
    gains = screen.gains({number: taken for number, taken in times.items() if taken is not None})
    lines = ["## The order's credit", "", f"Twelve switches of serving in twenty runs, seal `{seal[:16]}`.", ""]
    if gains is None:
        missing = [f"run {number}" for number, taken in times.items() if taken is None]
        return [*lines, f"No effect can be told: {', '.join(missing)} has no time.", ""]
    rungs = {rung["name"]: rung for rung in document["ladders"].get("serve", ())}
    rows = {row.name: row for _, row, _ in _rows("serve", [*rungs.values()], found)}
    table = []
    for name, mean in gains.items():
        step, left = rows.get(name), rows.get(f"without_{name}") or rows.get(f"degraded_{name}")
        alone = gain_of(step) if step else None
        loss = _inverse(left.step_speedup) if left else None
        credit = f"{max(alone.value / mean, mean / alone.value):.2f}x" if alone and alone.value else "-"
        table.append((BY_NAME[name].adds, f"{mean:.2f}x", _ratio(alone), _ratio(loss), credit))
    heads = ("switch", "mean gain over all others", "as a step", "times as long without it", "credit by order")
    return [*lines, *_table(heads, table), ""]


def _time(result: TargetResult, name: str) -> float | None:
    row = runner.row_of(result, name)
    return row.time_s.value if row is not None and row.is_believed and row.time_s else None


# --- what surprised


def surprises(document: dict[str, Any], found: Found) -> Iterator[str]:
    """Predictions that the measurement refutes, and steps that gain nothing, in sentences."""
    for name, rungs in document["ladders"].items():
        rows = {row.name: row for _, row, _ in _rows(name, rungs, found)}
        for rung in rungs:
            row = rows.get(rung["name"])
            if row is None or "step" not in rung["predicted"]:
                continue
            measured = gain_of(row) if rung["role"] == "step" else _inverse(row.step_speedup)
            if measured is None:
                continue
            said = predicted(rung)
            if said is not None and said.outcome(measured) == "refuted":
                what = "gains" if rung["role"] == "step" else "takes"
                note = f" It teaches: {rung['teaches']}." if rung["teaches"] and measured.high < 1 else ""
                yield f"`{name}:{rung['name']}` was predicted at {said} and {what} {_ratio(measured)}.{note}"


def predicted(rung: dict[str, Any]) -> Prediction | None:
    """The stored prediction of a rung."""
    low, high = rung["predicted"]["step"]
    try:
        return Prediction.parse(f"{low:.2f} to {high:.2f}x: the cost of its work")
    except BenchmarkError:
        return None


def _surprises(document: dict[str, Any], found: Found) -> list[str]:
    told = [*surprises(document, found)]
    return [
        "## What surprised",
        "",
        *(f"- {line}" for line in told or ["No measured figure refutes its prediction."]),
        "",
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [f"| {' | '.join(markdown_text(cell) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |", *cells]
