"""The content of a report, independent of its format: texts and figures of a bundle in the order of reading.

Nothing is escaped here. A bundle is foreign input: each format makes its words harmless.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate, Spread
from aiperf_core.names import words
from aiperf_core.render import notes as noted
from aiperf_core.render.manifest import ending, gpu_name, processor, rates, set_aside
from aiperf_core.render.row_columns import less_memory, peak_of, rate_of, ratio_of
from aiperf_core.render.summary import chosen, counts, others_distrusted, verdicts
from aiperf_core.render.table import APART
from aiperf_core.report.machine_notes import is_machine_wide, machine_notes
from aiperf_core.report.metrics import METRICS, bound_name
from aiperf_core.report.text import problem_size
from aiperf_core.report.verdict_text import price, role_text
from aiperf_core.results.filenames import MANIFEST, file_name
from aiperf_core.results.models import Conditions, Manifest, Row, SkippedTarget, TargetResult, Verdict
from aiperf_core.simulated import how_taken
from aiperf_core.stats.best import best_gain
from aiperf_core.validity.issues import Issue

# Warnings and steps have sections of their own in a report.
NOT_NOTES = ("warning", "steps")
LOG_LINES = noted.LOG_LINES


@frozen
class Figure:
    """A figure, and below it its interval or what bounds it. Empty where not measured."""

    value: str = ""
    below: str = ""


@frozen(kw_only=True)
class Line:
    """A row of the table of a target, as texts."""

    name: str
    role: str
    verdict: str
    price: str = ""
    median: Figure
    speedup: Figure
    rate: str
    speed_of_light: Figure
    memory: str
    energy: str
    best: bool


@frozen
class Seen:
    """The findings of one issue. `known` is its entry in the registry, if there is one.

    messages: each with the rows that it is about.
    """

    issue: str
    known: Issue | None
    messages: list[tuple[str, list[str]]]


@frozen(kw_only=True)
class Trouble:
    """A row that is not trusted or did not run. `number` is the section of its target, if there is one."""

    number: int | None = None
    target: str
    row: str = ""
    verdict: str
    reason: str
    seen: list[Seen] = field(factory=list)
    log: list[str] = field(factory=list)


@frozen(kw_only=True)
class Section:
    """A target.

    headline: the row of the variant that stands for the target; None where no variant ran.
    troubled: the counts of other rows that are not trusted.
    troubles, skipped: the rows that are not trusted, and those that this machine cannot run.
    lines, apart: the rows of the comparison, and the other rows.
    whys: implementation and its mechanism.
    steps: implementation, the implementation that it builds on, and the speedup between them.
    conditions: a table; the first line has the headings.
    """

    number: int
    result: TargetResult
    sizes: str
    how: str
    outcome: str
    headline: Line | None
    troubled: str
    lines: list[Line]
    apart: list[Line]
    whys: list[tuple[str, str]]
    steps: list[tuple[str, str, Figure]]
    troubles: list[Trouble]
    skipped: list[Trouble]
    warnings: list[Seen]
    conditions: list[list[str]]
    notes: list[tuple[str, str]]


@frozen(kw_only=True)
class Report:
    """The whole report. `unread` are targets whose files cannot be read, with the reason."""

    title: str
    manifest: Manifest
    facts: list[tuple[str, str]]
    counts: list[tuple[str, int]]
    troubles: list[Trouble]
    skipped: list[Trouble]
    sections: list[Section]
    environment: list[tuple[str, str]]
    ceilings: list[tuple[str, str]]
    files: list[tuple[str, str]]
    other_files: int
    seal: str | None
    unread: list[tuple[str, str]]


def report(
    title: str,
    manifest: Manifest,
    results: Sequence[TargetResult],
    issues: Mapping[str, Issue],
    *,
    skipped: Sequence[SkippedTarget] = (),
    unread: Sequence[tuple[str, str]] = (),
) -> Report:
    """The content of a report of these results. `issues` are the known issues by id."""
    sections = [_section(number, result, issues) for number, result in enumerate(results, 1)]
    hashes = dict(manifest.hashes)
    seal = hashes.pop(MANIFEST, None)
    every = [*manifest.files.items(), *manifest.sources.items(), *hashes.items()]
    files = [one for one in every if _is_of(one[0], results[0].target)] if len(results) == 1 else every
    return Report(
        title=title,
        manifest=manifest,
        facts=_facts(manifest, results),
        counts=[(verdict.value, count) for verdict, count in counts(verdicts([*results, *skipped]))],
        troubles=[one for section in sections for one in section.troubles],
        skipped=[*(one for section in sections for one in section.skipped), *map(_skipped, skipped)],
        sections=sections,
        environment=[*_environment(manifest), *machine_notes(results)],
        ceilings=_ceilings(manifest),
        files=files,
        other_files=len(every) - len(files),
        seal=seal,
        unread=list(unread),
    )


def _is_of(path: str, target: str) -> bool:
    """True for a hash of a package, or of a module, kernel or result that has the name of the target.

    The hash of a package covers the kernels of other names.
    """
    name = path.rpartition("/")[2]
    base = target.partition("@")[0].rpartition(".")[2]
    if path.startswith("targets/"):
        return name.startswith(f"{file_name(target)}.")
    if "/" in path:
        return name.partition(".")[0] == base
    return "." not in path or name.rpartition(".")[2] == base


# --- the page's top


def _facts(manifest: Manifest, results: Sequence[TargetResult]) -> list[tuple[str, str]]:
    """Where, when and how the run was made."""
    machine = manifest.machine
    gpus = Counter(str(gpu.get("name") or "unnamed GPU") for gpu in machine.gpus)
    ran = f"{units.plural('target', len(results))} in {units.span(sum(one.wall_s for one in results))}"
    tiers = ", ".join(dict.fromkeys(f"{one.tier} ({units.plural('round', one.rounds)})" for one in results))
    facts = [
        ("GPU", ", ".join(f"{count} × {name}" if count > 1 else name for name, count in gpus.items())),
        ("processor", f"{machine.cpu}, {machine.cores} logical CPUs"),
        ("when", units.moment(manifest.created)),
        ("measured", ran),
        ("tier", tiers),
    ]
    return [(label, value) for label, value in facts if value]


def _skipped(one: SkippedTarget) -> Trouble:
    return Trouble(target=one.target, verdict=one.verdict.value, reason=one.reason)


# --- a target


def _section(number: int, result: TargetResult, issues: Mapping[str, Issue]) -> Section:
    best, row = best_gain(result), chosen(result)
    troubled = others_distrusted(result, row)
    return Section(
        number=number,
        result=result,
        sizes=problem_size(result.problem),
        how=(
            f"{result.device}, {how_taken(result.simulated, result.clock, result.cache)}, verified "
            f"{result.problem.tolerance}, {result.tier} tier"
        ),
        outcome=_outcome(result, best),
        headline=_line(result, row, best) if row else None,
        troubled=", ".join(f"{count} {verdict.value}" for verdict, count in troubled.items()),
        lines=[_line(result, row, best) for row in result.rows if row.role not in APART],
        apart=[_line(result, row, best) for row in result.rows if row.role in APART],
        whys=[(row.name, row.why) for row in result.rows if row.why and row.is_believed],
        steps=[
            (row.name, row.builds_on, _speedup(row.step_speedup))
            for row in result.rows
            if row.builds_on and row.step_speedup
        ],
        troubles=[_trouble(number, result, row, issues) for row in result.rows if row.verdict.is_distrusted],
        skipped=[_trouble(number, result, row, issues) for row in result.rows if row.is_skipped],
        warnings=_seen([_of_itself(row) for row in result.rows if row.is_believed], issues),
        conditions=_conditions(result.rows),
        notes=[note for note in noted.notes(result) if note[0] not in NOT_NOTES],
    )


def _outcome(result: TargetResult, best: Row | None) -> str:
    """The result in a sentence."""
    baseline = next((row for row in result.rows if row.role == "baseline"), None)
    if baseline is None or baseline.time_s is None or not baseline.is_believed:
        return "There is no baseline to compare with."
    takes = f"{baseline.name} takes {units.time_estimate(baseline.time_s).value}"
    if best is None or best.time_s is None or best.speedup is None:
        return f"{takes}; no significant speedup."
    shown = units.ratio_estimate(best.speedup)
    return f"{takes}, {best.name} {units.time_estimate(best.time_s).value}: {shown.value} {shown.interval}."


def _line(result: TargetResult, row: Row, best: Row | None) -> Line:
    # The time of a row that is not believed is evidence, not a result: figures derived from it are not shown.
    time = units.time_estimate(row.time_s) if row.time_s else units.Shown()
    light = METRICS["speed_of_light_fraction"].of(result, row).value
    return Line(
        name=row.name,
        role=role_text(row),
        verdict="" if row.verdict is Verdict.MEASURED else row.verdict.value,
        price=price(result, row),
        median=Figure(time.value, time.interval),
        speedup=_speedup(row.speedup) if row.speedup else Figure(ratio_of(result, row)),
        rate=rate_of(row) if row.is_believed else "",
        speed_of_light=Figure(units.percent(light / 100), bound_name(result, row)) if light else Figure(),
        memory=" ".join(filter(None, (peak_of(row), less_memory(row) if row.is_believed else ""))),
        energy=units.joules(row.energy.joules_per_call) if row.energy and row.is_believed else "",
        best=row is best,
    )


def _speedup(estimate: Estimate | None) -> Figure:
    shown = units.speedup(estimate)
    return Figure(shown.value, shown.interval)


def _trouble(number: int, result: TargetResult, row: Row, issues: Mapping[str, Issue]) -> Trouble:
    return Trouble(
        number=number,
        target=result.target,
        row=row.name,
        verdict=row.verdict.value,
        reason=row.reason or "no reason was recorded",
        seen=_seen([row], issues),
        log=row.log[-LOG_LINES:],
    )


def _of_itself(row: Row) -> Row:
    """The row without findings about the machine, which the report tells once."""
    return evolve(row, findings=[one for one in row.findings if not is_machine_wide(one)])


def _seen(rows: Sequence[Row], issues: Mapping[str, Issue]) -> list[Seen]:
    """The findings of these rows by issue. A message of several rows is told once."""
    messages: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for finding in row.findings:
            messages.setdefault(finding.issue, {}).setdefault(words(finding.message), []).append(row.name)
    return [Seen(issue, issues.get(issue), [*told.items()]) for issue, told in messages.items()]


CONDITIONS = ("implementation", "SM clock", "processor clock", "hottest", "power", "throttled", "others' load")


def _conditions(rows: Sequence[Row]) -> list[list[str]]:
    """A table of the readings after the blocks of each row, without empty columns."""
    told = [[row.name, *_condition(row.conditions)] for row in rows if row.conditions]
    told = [line for line in told if any(line[1:])]
    kept = [0, *(index for index in range(1, len(CONDITIONS)) if any(line[index] for line in told))]
    if len(kept) == 1:
        return []
    return [[line[index] for index in kept] for line in ([*CONDITIONS], *told)]


def _condition(one: Conditions) -> list[str]:
    held = "" if one.throttled_share is None else f"{units.percent(one.throttled_share)} of blocks"
    reasons = ", ".join(f"{name} {units.percent(share)}" for name, share in one.throttled.items())
    return [
        _clock(one.sm_clock_hz),
        _clock(one.cpu_clock_hz),
        "" if one.temperature_max_c is None else f"{one.temperature_max_c:.0f} °C",
        "" if one.power_median_w is None else f"{one.power_median_w:.0f} W",
        f"{held} ({reasons})" if reasons else held,
        "" if one.background is None else units.percent(one.background.median),
    ]


def _clock(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f"{spread.median / 1e6:,.0f} MHz ({spread.low / 1e6:,.0f} to {spread.high / 1e6:,.0f})"


# --- the machine


def _environment(manifest: Manifest) -> list[tuple[str, str]]:
    machine = manifest.machine
    found = [
        ("command", " ".join(manifest.command)),
        ("ended", ending(manifest)),
        ("machine", machine.hostname),
        ("system", machine.system),
        ("processor", processor(machine)),
        *(("GPU", gpu_name(gpu)) for gpu in machine.gpus),
        ("driver", machine.driver or ""),
        ("hypervisor", machine.hypervisor or ""),
        ("Python", machine.python),
        ("aiperf", manifest.aiperf),
        ("git", manifest.git or ""),
        *_course(manifest),
        *set_aside(manifest),
    ]
    return [(label, value) for label, value in found if value]


def _course(manifest: Manifest) -> list[tuple[str, str]]:
    """The request of a run, whether the run was resumed, and the run that it repeats."""
    found = []
    if manifest.request:
        budget = f", budget {manifest.request.budget_s:g} s a target" if manifest.request.budget_s is not None else ""
        found.append(("asked for", f"tier {manifest.request.tier}, policy {manifest.request.policy}{budget}"))
    if len(manifest.stretches) > 1:
        stretches = [f"{units.moment(one.started)} ({one.ending or 'going on'})" for one in manifest.stretches]
        found.append(("resumed", f"measured in {len(stretches)} stretches, from {', '.join(stretches)}"))
    if manifest.reproduces:
        seal = f", seal {manifest.reproduces.seal}" if manifest.reproduces.seal else ""
        found.append(("repeats", f"{manifest.reproduces.path}{seal}"))
    return found


def _ceilings(manifest: Manifest) -> list[tuple[str, str]]:
    lines = []
    for one in manifest.ceilings.values():
        copy, *products = rates(one)
        figures = [copy, f"read {units.rate(one.read_bytes_per_s, 'B/s')}", *products]
        lines.append((f"{one.device}, measured {units.moment(one.measured)}", ", ".join(figures)))
    return lines
