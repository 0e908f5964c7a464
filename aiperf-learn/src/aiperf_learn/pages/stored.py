"""The figures of a target on a kind of machine: of an expectations file of its package, or of a bundle."""

import hashlib
from collections.abc import Iterator, Mapping

from attrs import evolve, frozen

from aiperf_core import units
from aiperf_core.benchmark import Benchmark, Implementation
from aiperf_core.measurements import Estimate
from aiperf_core.prediction import Prediction
from aiperf_core.report.drawings import NO_FIGURE, Rung, ladder
from aiperf_core.report.metrics import BOUND_NAMES, METRICS
from aiperf_core.report.result import Cell, Column, Drawing, Figure, Record, Table, counted, figure
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.hardware import hardware_key, is_gpu
from aiperf_core.results.models import TargetResult
from aiperf_core.stats import expectations
from aiperf_core.stats.claims import NO_GAIN, stored_gain
from aiperf_core.stats.expectations import Expectation, MeasuredRun, Source
from aiperf_core.stats.intervals import verdict
from aiperf_core.stats.verdicts import verdict_on_memory
from aiperf_core.sweep import base_name
from aiperf_core.targets import InstalledTarget


@frozen(kw_only=True)
class Stored:
    """The figures of a target on a kind of machine.

    hardware: the key of the kind of machine.
    figures: the expectations by the names of the implementations.
    runs: the runs that they were measured in, by the names of the implementations.
    """

    hardware: str
    figures: Mapping[str, Expectation]
    runs: Mapping[str, MeasuredRun]

    @property
    def device(self) -> str:
        """The kind of device that was measured."""
        return "cuda" if is_gpu(self.hardware) else "cpu"

    @property
    def date(self) -> str:
        """The date of the newest figure."""
        return max(run.date for run in self.runs.values())


def stored(target: InstalledTarget, source: Source | None) -> list[Stored]:
    """The stored figures of a target: those of GPUs first, then the newest. Raises BundleError for a bad file."""
    kinds = []
    for page in expectations.pages_of(target) if source else ():
        names = {name.partition(":")[2]: name for name in page.expected if name.startswith(f"{target.name}:")}
        if names:
            figures = {own: page.expected[name] for own, name in names.items()}
            runs = {own: page.run_of(name) for own, name in names.items()}
            kinds.append(Stored(hardware=page.hardware, figures=figures, runs=runs))
    return sorted(sorted(kinds, key=lambda kind: kind.date, reverse=True), key=lambda kind: kind.device != "cuda")


def of_result(bundle: Bundle, result: TargetResult) -> Stored:
    """The figures of a target's result in a bundle, in the form of stored ones; of rows that are believed."""
    manifest, target = bundle.manifest, base_name(result.target)
    sources = {target: digest} if (digest := expectations.module_hash(manifest, target)) else {}
    run = evolve(expectations.measured_run(bundle, result.tier), git=manifest.git, sources=sources)
    figures = {
        row.name: expectations.expectation_of(result, row, gain, None, 0, [])
        for row in result.rows
        if row.role in ("variant", "yardstick") and (gain := expectations.figure(result, row)) is not None
    }
    hardware = hardware_key(manifest.machine, result.device, result.problem.params)
    return Stored(hardware=hardware, figures=figures, runs=dict.fromkeys(figures, run))


def picture(target: InstalledTarget, benchmark: Benchmark, kind: Stored, run: str = "") -> Drawing:
    """The speedups on a kind of machine. `run` names the reader's own run in the title."""
    rungs = [_rung(row, kind.figures.get(row.name)) for row in benchmark.implementations_on(kind.device)]
    return ladder(
        rungs, expectations.metric_of(target.goal), f"{target.name} on {kind.hardware}{run and f', run {run}'}"
    )


def _rung(row: Implementation, stored_row: Expectation | None) -> Rung:
    if row.role == "baseline":
        return Rung(name=row.name, role=row.role, ratio=Estimate(1.0, 1.0, 1.0))
    if stored_row is None:
        return Rung(name=row.name, role=row.role)
    sol = stored_row.sol.fraction if stored_row.sol else None
    ratio = Estimate(stored_row.measured, stored_row.low, stored_row.high)
    return Rung(name=row.name, role=row.role, ratio=ratio, sol=sol)


def table(target: InstalledTarget, benchmark: Benchmark, kind: Stored) -> Table:
    """The steps on a kind of machine: the gain of each over the step before and over the baseline, and its bound."""
    gain = METRICS["memory_gain" if target.goal == "memory" else "speedup"]
    columns = [
        Column("implementation", "implementation"),
        Column("over", "over"),
        Column("step", METRICS["step_speedup"].title, "figure"),
        Column("step_verdict", "step verdict", "verdict"),
        Column("gain", gain.title, "figure"),
        Column("verdict", "verdict", "verdict"),
        Column("light", METRICS["speed_of_light_fraction"].title, "figure"),
        Column("bound", "bound"),
        Column("host_share", METRICS["host_share"].title, "figure"),
        Column("predicted", "predicted"),
    ]
    rows = benchmark.implementations_on(kind.device)
    records = [_record(row, kind, rows[0].name) for row in rows]
    optional = ("host_share", "predicted")
    kept = [column for column in columns if column.key not in optional or any(r.cells[column.key] for r in records)]
    return Table(f"steps-{kind.hardware}", f"Steps on {kind.hardware}", kept, records)


def _record(row: Implementation, kind: Stored, baseline: str) -> Record:
    stored_row = kind.figures.get(row.name)
    cells: dict[str, Cell] = dict.fromkeys(("over", "step_verdict", "verdict", "bound", "host_share", "predicted"), "")
    cells["implementation"] = row.name
    if stored_row is None:
        gain = counted(1.0 if row.role == "baseline" else None, reason=NO_FIGURE)
        return Record({**cells, "step": "", "gain": gain, "light": ""})
    step = stored_gain(row, kind.figures)
    cells["over"] = row.builds_on or (baseline if row.role == "variant" else "")
    cells["step"] = _ratio(step, f"no ratio to {row.builds_on} is stored")
    cells["step_verdict"] = _verdict(step, stored_row.metric)
    cells["gain"] = _ratio(Estimate(stored_row.measured, stored_row.low, stored_row.high), "")
    cells["verdict"] = _verdict(Estimate(stored_row.measured, stored_row.low, stored_row.high), stored_row.metric)
    light = stored_row.sol
    cells["light"] = counted(light.fraction * 100 if light else None, "%", "the cost or the ceilings are unknown")
    cells["bound"] = BOUND_NAMES.get(light.bound, light.bound) if light else ""
    if stored_row.host_share is not None:
        cells["host_share"] = counted(stored_row.host_share * 100, "%")
    if row.predict and step:
        prediction = Prediction.parse(row.predict)
        cells["predicted"] = f"{prediction}: {prediction.outcome(step)}"
    return Record(cells)


def _ratio(gain: Estimate | None, reason: str) -> Figure:
    """A gain; one that was counted has no interval."""
    return counted(gain.value) if gain and gain.low == gain.high else figure(gain, reason=reason)


def _verdict(gain: Estimate | None, metric: str) -> str:
    if gain is None:
        return ""
    floor = NO_GAIN - 1
    return (verdict_on_memory(gain.value, floor) if metric == "memory" else verdict(gain, floor)).value


@frozen
class Provenance:
    """The origin of figures of a run: a sentence in Markdown, and whether the file of the target has changed since."""

    text: str
    has_changed: bool


def provenance(target: InstalledTarget, kind: Stored, source: Source | None) -> Iterator[Provenance]:
    """The origin of the figures of each run and size; where there are several, with the implementations."""
    digest = hashlib.sha256(source.file.read_bytes()).hexdigest() if source else None
    names: dict[Provenance, list[str]] = {}
    for name, row in kind.figures.items():
        run = kind.runs[name]
        versions = ", ".join(f"{package} {version}" for package, version in run.versions.items())
        tier = f", tier {run.tier}" if run.tier else ""
        git = f"; git {run.git[:12]}{'-dirty' * run.git.endswith('-dirty')}" if run.git else ""
        when = f"Measured on `{kind.hardware}`, {units.moment(run.date)}{tier}"
        text = f"{when}: {units.parameters(row.sizes)}; {versions}{git}; run `{run.bundle}`."
        names.setdefault(Provenance(text, run.sources.get(target.name) != digest), []).append(name)
    for origin, rows in names.items():
        about = f" ({', '.join(f'`{name}`' for name in rows)})" if len(names) > 1 else ""
        yield evolve(origin, text=f"{origin.text}{about}")
