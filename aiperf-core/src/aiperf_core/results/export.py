"""Results for other programs and for readers without aiperf: tables of implementations and of samples.

Numbers are SI, as on disk, and their names carry the units. All text of a bundle is escaped for the format. Control
characters are removed, except in JSON, which spells them.
"""

import csv
import html
import importlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import asdict, fields, frozen

from aiperf_core import units
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Samples
from aiperf_core.names import words
from aiperf_core.results import jsontext
from aiperf_core.results.models import DISBELIEVED, Manifest, Problem, Row, TargetResult

FORMATS = ("csv", "markdown", "html", "json", "parquet")
# A spreadsheet runs a cell that begins with one of these as a formula.
FORMULA = ("=", "+", "-", "@")
CSS = """\
body { font: 16px/1.4 system-ui, sans-serif; margin: 2rem; color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; white-space: nowrap; }
.interval { color: #555; font-size: .85em; display: block; }
.FASTER, .SMALLER { color: #04680f; font-weight: bold; }
.INVALID, .UNTRUSTED, .FAILED { color: #a30000; font-weight: bold; }
"""


@frozen
class Exported:
    """An implementation as a row of a table. A figure that was not measured, or is not believed, is None."""

    target: str
    device: str
    sizes: str
    implementation: str
    role: str
    kind: str | None
    verdict: str
    reason: str | None
    clock: str
    cache: str
    time_s: float | None
    time_low_s: float | None
    time_high_s: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    bytes_per_s: float | None
    flop_per_s: float | None
    speed_of_light_fraction: float | None
    speed_of_light_bound: str | None
    peak_bytes: int | None
    joules_per_call: float | None
    tokens: float
    wire_bytes: float
    disk_read_bytes: float
    disk_written_bytes: float
    world_size: int
    mechanisms: str
    findings: str
    why: str | None
    complete: bool


COLUMNS = tuple(one.name for one in fields(Exported))


@frozen
class ExportedSample:
    """A sample as a row of a table. A clock that did not time it is None. A time covers all calls of the sample."""

    target: str
    implementation: str
    verdict: str
    round: int
    block: int
    step: int
    device_s: float | None
    wall_s: float | None
    cpu_s: float | None
    bracket_s: float
    hidden: bool
    judged: bool
    calls: int
    voluntary_switches: int
    involuntary_switches: int
    throttled: bool
    begun_s: float | None
    answered_s: float | None
    replied_s: float | None
    stopped_s: float | None
    done_s: float | None
    own_s: float | None


SAMPLE_FORMATS = ("csv", "json", "parquet")


def table(results: Iterable[TargetResult]) -> list[Exported]:
    """The rows of all results, in their order."""
    return [_row(result, row) for result in results for row in result.rows]


def sample_table(results: Iterable[TargetResult]) -> Iterator[ExportedSample]:
    """Every sample of all results, in their order."""
    for result in results:
        for row in result.rows:
            columns = (getattr(row.samples, one.name) for one in fields(Samples))
            for values in zip(*columns, strict=True):
                yield ExportedSample(result.target, row.name, row.verdict.value, *values)


def _row(result: TargetResult, row: Row) -> Exported:
    believed = row.verdict not in DISBELIEVED
    time, speedup = (one if believed else None for one in (row.time_s, row.speedup))
    light = row.speed_of_light if believed else None
    return Exported(
        target=result.target,
        device=result.device,
        sizes=problem_size(result.problem),
        implementation=row.name,
        role=row.role,
        kind=row.kind,
        verdict=row.verdict.value,
        reason=row.reason,
        clock=result.clock,
        cache=result.cache,
        time_s=time.value if time else None,
        time_low_s=time.low if time else None,
        time_high_s=time.high if time else None,
        speedup=speedup.value if speedup else None,
        speedup_low=speedup.low if speedup else None,
        speedup_high=speedup.high if speedup else None,
        bytes_per_s=row.bytes_per_s if believed else None,
        flop_per_s=row.flop_per_s if believed else None,
        speed_of_light_fraction=light.fraction if light else None,
        speed_of_light_bound=light.bound if light else None,
        peak_bytes=row.memory.most_bytes if row.memory else None,
        joules_per_call=row.energy.joules_per_call if row.energy and believed else None,
        tokens=result.problem.tokens,
        wire_bytes=result.problem.wire_bytes,
        disk_read_bytes=result.problem.disk_read_bytes,
        disk_written_bytes=result.problem.disk_written_bytes,
        world_size=result.problem.world_size,
        mechanisms=" ".join(row.mechanisms),
        findings=" ".join(one.issue for one in row.findings),
        why=row.why,
        complete=result.complete,
    )


def render(kind: str, name: str, manifest: Manifest, rows: Sequence[Exported]) -> bytes:
    """The table in a format of `FORMATS`. Raises UsageError for parquet without PyArrow."""
    match kind:
        case "parquet":
            return _parquet(rows, Exported)
        case "csv":
            return _encoded(_csv(rows, Exported))
    return _encoded({"markdown": _markdown, "html": _html, "json": _json}[kind](name, manifest, rows))


def render_samples(kind: str, name: str, manifest: Manifest, rows: Sequence[ExportedSample]) -> bytes:
    """The samples in a format of `SAMPLE_FORMATS`. Raises UsageError for parquet without PyArrow."""
    if kind == "parquet":
        return _parquet(rows, ExportedSample)
    return _encoded(_csv(rows, ExportedSample) if kind == "csv" else _json(name, manifest, rows))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="backslashreplace")


def _csv(rows: Sequence[Any], record: type) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [one.name for one in fields(record)]
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(getattr(row, name)) for name in names])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        plain = words(value)
        return f"'{plain}" if plain.startswith(FORMULA) else plain
    return {None: "", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else value


def _json(name: str, manifest: Manifest, rows: Sequence[Any]) -> str:
    facts = dict(_facts(manifest))
    return jsontext.dumps({"bundle": name, "run": facts, "rows": [asdict(row) for row in rows]})


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    machine = manifest.machine
    gpus = ", ".join(str(gpu.get("name") or "unnamed") for gpu in machine.gpus)
    packages = ", ".join(f"{name} {version}" for name, version in manifest.packages.items())
    found = [
        ("created", manifest.created),
        ("command", " ".join(manifest.command)),
        ("ended", f"{'complete' if manifest.complete else 'not complete'}, exit code {manifest.exit_code}"),
        ("machine", f"{machine.hostname}, {machine.system}"),
        ("processor", f"{machine.cpu}, {machine.cores} logical CPUs"),
        ("GPU", f"{gpus}, driver {machine.driver}" if gpus else "none"),
        ("software", f"aiperf {manifest.aiperf}, {machine.python}, {packages}"),
        ("git", manifest.git or "none"),
    ]
    seal = manifest.hashes.get("manifest.json")
    return [*found, ("seal", seal)] if seal else found


HEADS = ("target", "implementation", "median", "speedup", "verdict", "SOL", "peak memory", "why, or why not")


def _shown(row: Exported) -> tuple[tuple[str, str], ...]:
    """A row for readers: each cell with the smaller text below it."""
    from aiperf_core.measurements import Estimate

    def estimate(value: float | None, low: float | None, high: float | None, show: Any) -> tuple[str, str]:
        if value is None or low is None or high is None:
            return "", ""
        shown = show(Estimate(value, low, high))
        return shown.value, shown.interval

    return (
        (row.target, row.sizes),
        (row.implementation, f"{row.kind} {row.role}" if row.kind else row.role),
        estimate(row.time_s, row.time_low_s, row.time_high_s, units.time_estimate),
        estimate(row.speedup, row.speedup_low, row.speedup_high, units.ratio_estimate),
        (row.verdict, ""),
        (
            "" if row.speed_of_light_fraction is None else units.percent(row.speed_of_light_fraction),
            row.speed_of_light_bound or "",
        ),
        ("" if row.peak_bytes is None else units.size(row.peak_bytes), ""),
        (row.reason or row.why or "", row.findings),
    )


def _markdown(name: str, manifest: Manifest, rows: Sequence[Exported]) -> str:
    lines = [f"# {_plain(name)}", "", *(f"- {label}: {_plain(value)}" for label, value in _facts(manifest)), ""]
    lines += [f"| {' | '.join(HEADS)} |", f"|{' --- |' * len(HEADS)}"]
    for row in rows:
        cells = [" ".join(filter(None, map(_plain, cell))) for cell in _shown(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is: neither markup nor HTML nor the end of a cell."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&])", r"\\\1", words(text))


def _html(name: str, manifest: Manifest, rows: Sequence[Exported]) -> str:
    facts = "\n".join(f"<tr><th>{label}</th><td>{_safe(value)}</td></tr>" for label, value in _facts(manifest))
    heads = "".join(f"<th>{head}</th>" for head in HEADS)
    lines = "\n".join(_line(row) for row in rows)
    # The page loads nothing and runs nothing, whatever the bundle holds.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{_safe(name)}</title>
<style>
{CSS}</style>
</head>
<body>
<h1>{_safe(name)}</h1>
<table>
{facts}
</table>
<table>
<thead><tr>{heads}</tr></thead>
<tbody>
{lines}
</tbody>
</table>
</body>
</html>
"""


def _line(row: Exported) -> str:
    cells = []
    for head, (text, below) in zip(HEADS, _shown(row), strict=True):
        kind = "number" if head in ("median", "speedup", "SOL", "peak memory") else ""
        kind = row.verdict if head == "verdict" else kind
        small = f'<span class="interval">{_safe(below)}</span>' if below else ""
        cells.append(f'<td class="{_safe(kind)}">{_safe(text)}{small}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _safe(text: str) -> str:
    return html.escape(words(text))


def _parquet(rows: Sequence[Any], record: type) -> bytes:
    columns = {one.name: [getattr(row, one.name) for row in rows] for one in fields(record)}
    table = arrow_table(columns, kinds_of(record))
    buffer = io.BytesIO()
    importlib.import_module("pyarrow.parquet").write_table(table, buffer)
    return buffer.getvalue()


def arrow_table(columns: dict[str, list[Any]], kinds: dict[str, str]) -> Any:
    """An Arrow table of columns, each `float`, `int`, `bool` or `str`. Raises UsageError where PyArrow is missing."""
    try:
        arrow = importlib.import_module("pyarrow")
    except ImportError:
        raise UsageError(
            "Arrow tables and --format parquet need PyArrow, which is not installed. "
            "Install it: pip install 'aiperf-core[arrow]'"
        ) from None
    types = {"float": arrow.float64(), "int": arrow.int64(), "bool": arrow.bool_(), "str": arrow.string()}
    shown = {
        name: [_text(value) for value in column] if kinds[name] == "str" else column for name, column in columns.items()
    }
    return arrow.table(shown, schema=arrow.schema([(name, types[kinds[name]]) for name in columns]))


def kinds_of(record: type) -> dict[str, str]:
    """The kind of each column of a table of these records."""
    return {one.name: _kind(one.type) for one in fields(record)}


def _text(value: Any) -> Any:
    return words(value) if isinstance(value, str) else value


def _kind(hint: Any) -> str:
    """The name of a field's type, without None."""
    return str(getattr(hint, "__name__", None) or hint).partition(" ")[0]


def problem_size(problem: Problem) -> str:
    """The sizes of a workload and of its data: `n=33,554,432 (128 MiB in, 128 MiB out)`."""
    sizes = words(units.parameters(problem.params))
    data = f"({units.size(problem.input_bytes)} in, {units.size(problem.output_bytes)} out)"
    return f"{sizes} {data}".strip()
