"""Results as CSV, Markdown, HTML, JSON and Parquet: tables of implementations and of samples.

Numbers are SI, as on disk, and their names carry the units. All text of a bundle is escaped for the format. Control
characters are removed, except in JSON, which spells them.
"""

import csv
import html
import importlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from attrs import fields

from aiperf_core import units
from aiperf_core.cost import FURTHER
from aiperf_core.errors import UsageError
from aiperf_core.measurements import Estimate, Samples
from aiperf_core.names import words
from aiperf_core.report.metrics import BOUND_NAMES, METRICS, STORED, Metric
from aiperf_core.results import jsontext
from aiperf_core.results.hardware import hardware_key
from aiperf_core.results.models import Manifest, Problem, Row, TargetResult

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


# Columns of an implementation before and after its metrics, with the kind of each.
_BEFORE = {
    **dict.fromkeys(("run", "commit", "machine", "created", "target", "device"), "str"),
    "sizes": "object",
    **dict.fromkeys(("implementation", "role", "kind", "verdict", "reason", "clock", "cache"), "str"),
}
_AFTER = {
    "speed_of_light_bound": "str",
    **dict.fromkeys(("input_bytes", "output_bytes"), "int"),
    **dict.fromkeys(("tokens", *FURTHER), "float"),
    "world_size": "int",
    **dict.fromkeys(("mechanisms", "findings", "why"), "str"),
    "complete": "bool",
}


def _ends(metric: Metric) -> tuple[str, ...]:
    """The columns of the ends of a metric's interval: `time_low_s` of `time_s`; none where it has no interval."""
    if not metric.has_interval:
        return ()
    seconds = metric.unit == "s"
    name = metric.key.removesuffix("_s") if seconds else metric.key
    return tuple(f"{name}_{end}{'_s' if seconds else ''}" for end in ("low", "high"))


def _kind(hint: Any) -> str:
    """The name of a type, without None."""
    return str(getattr(hint, "__name__", None) or hint).partition(" ")[0]


KINDS = {
    **_BEFORE,
    **{
        name: "int" if metric.unit == "B" else "float"
        for metric in STORED.values()
        for name in (metric.key, *_ends(metric))
    },
    **_AFTER,
}
COLUMNS = tuple(KINDS)
# An implementation as a row of a table, by `COLUMNS`. A figure that was not measured, or is not believed, is None. The
# sizes are an object, which CSV and Parquet hold as JSON.
Exported = dict[str, Any]


# Columns of a sample. A clock that did not time it is None. A time covers all calls of the sample.
SAMPLE_KINDS = dict.fromkeys(("target", "implementation", "verdict"), "str") | {
    column.name: _kind(get_args(column.type)[0]) for column in fields(Samples)
}
SAMPLE_FORMATS = ("csv", "json", "parquet")


def table(run: str, manifest: Manifest, results: Iterable[TargetResult]) -> list[Exported]:
    """The rows of all results of a run, in their order."""
    return [_row(run, manifest, result, row) for result in results for row in result.rows]


def sample_table(results: Iterable[TargetResult]) -> Iterator[Exported]:
    """Every sample of all results, in their order."""
    for result in results:
        for row in result.rows:
            columns = (getattr(row.samples, one.name) for one in fields(Samples))
            for values in zip(*columns, strict=True):
                yield dict(zip(SAMPLE_KINDS, (result.target, row.name, row.verdict.value, *values), strict=True))


def _row(run: str, manifest: Manifest, result: TargetResult, row: Row) -> Exported:
    problem, light = result.problem, row.speed_of_light
    exported: Exported = {
        "run": run,
        "commit": manifest.git,
        "machine": hardware_key(manifest.machine, result.device, problem.params),
        "created": manifest.created,
        "target": result.target,
        "device": result.device,
        "sizes": sizes(problem),
        "implementation": row.name,
        "role": row.role,
        "kind": row.kind,
        "verdict": row.verdict.value,
        "reason": row.reason,
        "clock": result.clock,
        "cache": result.cache,
    }
    for metric in STORED.values():
        figure = metric.of(result, row)
        values: tuple[float | None, ...] = (figure.value, figure.low, figure.high)
        if metric.unit == "%":
            values = tuple(value if value is None else value / 100 for value in values)
        exported |= zip((metric.key, *_ends(metric)), values, strict=False)
    return exported | {
        "speed_of_light_bound": light.bound if light and exported["speed_of_light_fraction"] is not None else None,
        **{name: getattr(problem, name) for name in ("input_bytes", "output_bytes", "tokens", *FURTHER)},
        "world_size": problem.world_size,
        "mechanisms": " ".join(row.mechanisms),
        "findings": " ".join(finding.issue for finding in row.findings),
        "why": row.why,
        "complete": result.complete,
    }


def render(kind: str, name: str, manifest: Manifest, rows: Sequence[Exported]) -> bytes:
    """The table in a format of `FORMATS`. Raises UsageError for parquet without PyArrow."""
    if kind in ("markdown", "html"):
        return _encoded({"markdown": _markdown, "html": _html}[kind](name, manifest, rows))
    return _data(kind, name, manifest, rows, KINDS)


def render_samples(kind: str, name: str, manifest: Manifest, rows: Sequence[Exported]) -> bytes:
    """The samples in a format of `SAMPLE_FORMATS`. Raises UsageError for parquet without PyArrow."""
    return _data(kind, name, manifest, rows, SAMPLE_KINDS)


def _data(kind: str, name: str, manifest: Manifest, rows: Sequence[Exported], kinds: Mapping[str, str]) -> bytes:
    if kind == "parquet":
        return parquet({name: [row[name] for row in rows] for name in kinds}, kinds)
    return _encoded(_csv(rows, kinds) if kind == "csv" else _json(name, manifest, rows))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="backslashreplace")


def _csv(rows: Sequence[Exported], names: Iterable[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in names])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        plain = words(value)
        return f"'{plain}" if plain.startswith(FORMULA) else plain
    if isinstance(value, dict):
        return _text(value)
    return {None: "", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else value


def _json(name: str, manifest: Manifest, rows: Sequence[Exported]) -> str:
    return jsontext.dumps({"bundle": name, "run": dict(_facts(manifest)), "rows": list(rows)})


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

    def estimate(key: str, show: Callable[[Estimate], units.Shown]) -> tuple[str, str]:
        metric = METRICS[key]
        value, low, high = (row[name] for name in (key, *_ends(metric)))
        shown = units.Shown() if value is None else show(Estimate(value, low, high))
        return shown.value, shown.interval

    light, peak = row["speed_of_light_fraction"], row["peak_bytes"]
    bound = row["speed_of_light_bound"] or ""
    return (
        (row["target"], _size_text(row["sizes"], row["input_bytes"], row["output_bytes"])),
        (row["implementation"], f"{row['kind']} {row['role']}" if row["kind"] else row["role"]),
        estimate("time_s", units.time_estimate),
        estimate("speedup", units.ratio_estimate),
        (row["verdict"], ""),
        ("" if light is None else units.percent(light), BOUND_NAMES.get(bound, bound)),
        ("" if peak is None else units.size(peak), ""),
        (row["reason"] or row["why"] or "", row["findings"]),
    )


def _markdown(name: str, manifest: Manifest, rows: Sequence[Exported]) -> str:
    lines = [
        f"# {markdown_text(name)}",
        "",
        *(f"- {label}: {markdown_text(value)}" for label, value in _facts(manifest)),
        "",
    ]
    lines += [f"| {' | '.join(HEADS)} |", f"|{' --- |' * len(HEADS)}"]
    for row in rows:
        cells = [" ".join(filter(None, map(markdown_text, cell))) for cell in _shown(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def markdown_text(text: str) -> str:
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
        kind = row["verdict"] if head == "verdict" else kind
        small = f'<span class="interval">{_safe(below)}</span>' if below else ""
        cells.append(f'<td class="{_safe(kind)}">{_safe(text)}{small}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _safe(text: str) -> str:
    return html.escape(words(text))


def parquet(columns: Mapping[str, list[Any]], kinds: Mapping[str, str]) -> bytes:
    """A Parquet file of columns, as `arrow_table` takes them. Raises UsageError where PyArrow is missing."""
    table, buffer = arrow_table(columns, kinds), io.BytesIO()
    importlib.import_module("pyarrow.parquet").write_table(table, buffer)
    return buffer.getvalue()


def arrow_table(columns: Mapping[str, list[Any]], kinds: Mapping[str, str]) -> Any:
    """An Arrow table of columns, each `float`, `int`, `bool`, `str`, or `object`, which becomes JSON.

    Raises UsageError where PyArrow is missing.
    """
    try:
        arrow = importlib.import_module("pyarrow")
    except ImportError:
        raise UsageError(
            "Arrow tables and --format parquet need PyArrow, which is not installed. "
            "Install it: pip install 'aiperf-core[arrow]'"
        ) from None
    types = {"float": arrow.float64(), "int": arrow.int64(), "bool": arrow.bool_()}
    types |= dict.fromkeys(("str", "object"), arrow.string())
    shown = {
        name: [_text(value) for value in column] if kinds[name] in ("str", "object") else column
        for name, column in columns.items()
    }
    return arrow.table(shown, schema=arrow.schema([(name, types[kinds[name]]) for name in columns]))


def _text(value: Any) -> Any:
    if isinstance(value, dict):
        value = json.dumps(value, ensure_ascii=False)
    return words(value) if isinstance(value, str) else value


def sizes(problem: Problem) -> dict[str, float]:
    """The sizes of a problem by name, whole numbers as such."""
    return {name: int(size) if size == int(size) else size for name, size in problem.params.items()}


def problem_size(problem: Problem) -> str:
    """The sizes of a workload and of its data: `n=33,554,432 (128 MiB in, 128 MiB out)`."""
    return _size_text(problem.params, problem.input_bytes, problem.output_bytes)


def _size_text(sizes: Mapping[str, float], input_bytes: int, output_bytes: int) -> str:
    data = f"({units.size(input_bytes)} in, {units.size(output_bytes)} out)"
    return f"{words(units.parameters(sizes))} {data}".strip()
