"""What a report says, whatever it is written in: texts and figures of a bundle, in the order in which they are read.

Nothing here is escaped yet: a bundle may come from anybody, and whoever writes a page makes its words harmless for it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import field, frozen

from aiperf_core import units
from aiperf_core.measurements import Estimate, Spread
from aiperf_core.names import words
from aiperf_core.render import notes as noted
from aiperf_core.render.notes import best_of
from aiperf_core.render.summary import TROUBLED, chosen
from aiperf_core.render.table import APART, less_memory, rate_of
from aiperf_core.results.export import problem_size
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.models import DISBELIEVED, Conditions, Manifest, Row, SkippedTarget, TargetResult, Verdict
from aiperf_core.validity.issues import Issue

ROLES = {"yardstick": "yardstick", "control": "A/A control", "variant": ""}
# Of the notes below a terminal's table; warnings and steps have places of their own in a report.
NOT_NOTES = ("warning", "step")
LOG_LINES = noted.LOG_LINES


@frozen
class Figure:
    """A figure as it is read, and below it what belongs to it: an interval, or what bounds it. Empty where not measured."""

    value: str = ""
    below: str = ""


@frozen(kw_only=True)
class Line:
    """A row of a target's table. `row` is the record that it shows."""

    row: Row
    name: str
    role: str
    verdict: str
    median: Figure
    speedup: Figure
    rate: str
    light: Figure
    memory: str
    energy: str
    best: bool


@frozen(kw_only=True)
class Seen:
    """What a check saw of a target: its messages, each with the rows that it is about, and what the issue means.

    `title` and `meaning` are the registry's, and None for an issue that is not known here.
    """

    issue: str
    title: str | None
    meaning: str | None
    messages: list[tuple[str, list[str]]]


@frozen(kw_only=True)
class Trouble:
    """A row that is not believed or was not measured, with its reason. `number` is its target's section, if it has one."""

    number: int | None
    target: str
    row: str
    verdict: str
    reason: str
    seen: list[Seen]
    log: list[str]


@frozen(kw_only=True)
class Headline:
    """A target at a glance: the variant that stands for it, and how many of its rows are not believed."""

    number: int
    target: str
    summary: str
    row: Row | None
    variant: str
    speedup: Figure
    verdict: str
    troubled: str


@frozen(kw_only=True)
class Section:
    """A target: its table, why the best variant is best, and what was seen. `result` is the record that it shows."""

    number: int
    result: TargetResult
    sizes: str
    how: str
    outcome: str
    lines: list[Line]
    apart: list[Line]
    whys: list[tuple[str, str, bool]]
    steps: list[tuple[str, str, Figure]]
    troubles: list[Trouble]
    warnings: list[Seen]
    conditions: list[list[str]]
    notes: list[tuple[str, str]]


@frozen(kw_only=True)
class Report:
    """The whole. `unread` are targets whose files cannot be read, with the reason."""

    title: str
    command: str
    facts: list[tuple[str, str]]
    counts: list[tuple[str, int]]
    troubles: list[Trouble]
    skipped: list[Trouble]
    headlines: list[Headline]
    sections: list[Section]
    environment: list[tuple[str, str]]
    ceilings: list[tuple[str, str]]
    packages: list[tuple[str, str]]
    files: list[tuple[str, str]]
    seal: str | None
    complete: bool
    unread: list[tuple[str, str]] = field(factory=list)


def report(
    title: str,
    manifest: Manifest,
    results: Sequence[TargetResult],
    issues: Mapping[str, Issue],
    *,
    skipped: Sequence[SkippedTarget] = (),
    unread: Sequence[tuple[str, str]] = (),
) -> Report:
    """What a report of these results says. `issues` are those that are known here, by id."""
    sections = [_section(number, result, issues) for number, result in enumerate(results, 1)]
    troubles = [one for section in sections for one in section.troubles]
    seal = manifest.hashes.get(MANIFEST)
    return Report(
        title=title,
        command=" ".join(manifest.command),
        facts=_facts(manifest, results),
        counts=_counts(results, skipped),
        troubles=[one for one in troubles if one.verdict in TROUBLED],
        skipped=[*(one for one in troubles if one.verdict == Verdict.SKIPPED), *map(_skipped, skipped)],
        headlines=[_headline(section) for section in sections],
        sections=sections,
        environment=_environment(manifest),
        ceilings=_ceilings(manifest),
        packages=[*manifest.packages.items()],
        files=[
            *manifest.files.items(),
            *manifest.sources.items(),
            *((path, one) for path, one in manifest.hashes.items() if path != MANIFEST),
        ],
        seal=seal,
        complete=manifest.complete,
        unread=list(unread),
    )


# --- the page's top


def _facts(manifest: Manifest, results: Sequence[TargetResult]) -> list[tuple[str, str]]:
    """Where, when and how the run was: what a reader wants to know before any figure."""
    machine = manifest.machine
    gpus = Counter(str(gpu.get("name") or "unnamed GPU") for gpu in machine.gpus)
    ran = f"{_plural(len(results), 'target')} in {units.span(sum(one.wall_s for one in results))}"
    tiers = ", ".join(dict.fromkeys(f"{one.tier} ({_plural(one.rounds, 'round')})" for one in results))
    facts = [
        ("GPU", ", ".join(f"{count} × {name}" if count > 1 else name for name, count in gpus.items())),
        ("processor", f"{machine.cpu}, {machine.cores} logical CPUs"),
        ("when", moment(manifest.created)),
        ("measured", ran),
        ("tier", tiers),
    ]
    return [(label, value) for label, value in facts if value]


def _counts(results: Sequence[TargetResult], skipped: Sequence[SkippedTarget]) -> list[tuple[str, int]]:
    """How often each verdict was reached by variants, as a run's last line has it."""
    counted = Counter(row.verdict for result in results for row in result.rows if row.role == "variant")
    counted.update(one.verdict for one in skipped)
    return [(verdict.value, counted[verdict]) for verdict in Verdict if counted[verdict]]


def _headline(section: Section) -> Headline:
    row = chosen(section.result)
    troubled = Counter(
        one.verdict for one in section.troubles if one.verdict in TROUBLED and (not row or one.row != row.name)
    )
    return Headline(
        number=section.number,
        target=section.result.target,
        summary=section.result.summary,
        row=row,
        variant=row.name if row else "no variant ran",
        speedup=_estimate(row.speedup) if row else Figure(),
        verdict=row.verdict.value if row else "",
        troubled=", ".join(f"{count} {verdict}" for verdict, count in troubled.items()),
    )


def _skipped(one: SkippedTarget) -> Trouble:
    return Trouble(
        number=None, target=one.target, row="", verdict=one.verdict.value, reason=one.reason, seen=[], log=[]
    )


# --- a target


def _section(number: int, result: TargetResult, issues: Mapping[str, Issue]) -> Section:
    best = best_of(result)
    return Section(
        number=number,
        result=result,
        sizes=problem_size(result.problem),
        how=(
            f"{result.device}, {result.clock} clock, {result.cache} cache, answer {result.problem.tolerance}, "
            f"{result.tier} tier"
        ),
        outcome=_outcome(result, best),
        lines=[_line(row, best) for row in result.rows if row.role not in APART],
        apart=[_line(row, best) for row in result.rows if row.role in APART],
        whys=[(row.name, row.why, row is best) for row in result.rows if row.why and row.verdict not in DISBELIEVED],
        steps=[
            (row.name, row.builds_on, _estimate(row.step_speedup))
            for row in result.rows
            if row.builds_on and row.step_speedup
        ],
        troubles=[_trouble(number, result, row, issues) for row in result.rows if row.verdict in DISBELIEVED],
        warnings=_seen([row for row in result.rows if row.verdict not in DISBELIEVED], issues),
        conditions=_conditions(result.rows),
        notes=[note for note in noted.notes(result) if note[0] not in NOT_NOTES],
    )


def _outcome(result: TargetResult, best: Row | None) -> str:
    """The lesson in a sentence, with its figures."""
    baseline = next((row for row in result.rows if row.role == "baseline"), None)
    if baseline is None or baseline.time_s is None or baseline.verdict in DISBELIEVED:
        return "There is no baseline to compare with."
    takes = f"{baseline.name} takes {units.time_estimate(baseline.time_s).value}"
    if best is None or best.time_s is None or best.speedup is None:
        return f"{takes}; no variant is surely faster."
    shown = units.ratio_estimate(best.speedup)
    return f"{takes}, {best.name} {units.time_estimate(best.time_s).value}: {shown.value} {shown.interval}."


def _line(row: Row, best: Row | None) -> Line:
    # The time of a row that is not believed is evidence, not a result: it is shown, but nothing derived from it.
    believed = row.verdict not in DISBELIEVED
    time = units.time_estimate(row.time_s) if row.time_s else units.Shown("", "")
    peak = row.memory.most_bytes if row.memory else None
    light = row.speed_of_light
    return Line(
        row=row,
        name=row.name,
        role=f"{row.kind} baseline" if row.kind else ROLES.get(row.role, row.role),
        verdict="" if row.verdict is Verdict.MEASURED else row.verdict.value,
        median=Figure(time.value, time.interval),
        speedup=_estimate(row.speedup),
        rate=rate_of(row) if believed else "",
        light=Figure(units.percent(light.fraction), light.bound) if light and believed else Figure(),
        memory=" ".join(filter(None, ("" if peak is None else units.size(peak), less_memory(row) if believed else ""))),
        energy=units.joules(row.energy.joules_per_call) if row.energy and believed else "",
        best=row is best,
    )


def _estimate(estimate: Estimate | None) -> Figure:
    if estimate is None:
        return Figure()
    shown = units.ratio_estimate(estimate)
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


def _seen(rows: Sequence[Row], issues: Mapping[str, Issue]) -> list[Seen]:
    """What was seen of these rows, by issue; a message that several have is told once."""
    messages: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for finding in row.findings:
            messages.setdefault(finding.issue, {}).setdefault(words(finding.message), []).append(row.name)
    found = []
    for issue, told in messages.items():
        known = issues.get(issue)
        title, meaning = (known.title, known.happens) if known else (None, None)
        found.append(Seen(issue=issue, title=title, meaning=meaning, messages=[*told.items()]))
    return found


CONDITIONS = ("implementation", "SM clock", "processor clock", "hottest", "power", "clocks held down", "others' load")


def _conditions(rows: Sequence[Row]) -> list[list[str]]:
    """A table of what the machine told after the blocks of each row; columns that nothing has are left out."""
    told = [[row.name, *_condition(row.conditions)] for row in rows if row.conditions]
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
    return (
        ""
        if spread is None
        else f"{spread.median / 1e6:,.0f} MHz ({spread.low / 1e6:,.0f} to {spread.high / 1e6:,.0f})"
    )


# --- the machine


def _environment(manifest: Manifest) -> list[tuple[str, str]]:
    machine = manifest.machine
    code = "" if manifest.exit_code is None else f", exit code {manifest.exit_code}"
    found = [
        ("command", " ".join(manifest.command)),
        ("ended", ("complete" if manifest.complete else "not complete") + code),
        ("machine", machine.hostname),
        ("system", machine.system),
        ("processor", f"{machine.cpu}, {machine.cores} logical CPUs usable, {units.size(machine.memory_bytes)}"),
    ]
    for gpu in machine.gpus:
        memory = gpu.get("memory_bytes")
        parts = (
            str(gpu.get("name") or "unnamed"),
            units.size(memory) if isinstance(memory, int | float) else "",
            f"compute capability {gpu['capability']}" if gpu.get("capability") else "",
        )
        found.append(("GPU", ", ".join(filter(None, parts))))
    found += [
        ("driver", machine.driver or ""),
        ("hypervisor", machine.hypervisor or ""),
        ("Python", machine.python),
        ("aiperf", manifest.aiperf),
        ("git", manifest.git or ""),
    ]
    found += _course(manifest)
    aside = [one for one in manifest.plugins if "set_aside" in one]
    found += [("set aside", f"{one.get('distribution')} {one.get('version')}: {one['set_aside']}") for one in aside]
    return [(label, value) for label, value in found if value]


def _course(manifest: Manifest) -> list[tuple[str, str]]:
    """What a run was asked for, whether it was resumed, and what it repeats."""
    found = []
    if manifest.request:
        budget = f", budget {manifest.request.budget_s:g} s a target" if manifest.request.budget_s is not None else ""
        found.append(("asked for", f"tier {manifest.request.tier}, policy {manifest.request.policy}{budget}"))
    if len(manifest.stretches) > 1:
        stretches = [f"{moment(one.started)} ({one.ending or 'going on'})" for one in manifest.stretches]
        found.append(("resumed", f"measured in {len(stretches)} stretches, from {', '.join(stretches)}"))
    if manifest.reproduces:
        seal = f", seal {manifest.reproduces.seal}" if manifest.reproduces.seal else ""
        found.append(("repeats", f"{manifest.reproduces.path}{seal}"))
    return found


def _ceilings(manifest: Manifest) -> list[tuple[str, str]]:
    lines = []
    for one in manifest.ceilings.values():
        rates = [f"copy {units.rate(one.copy_bytes_per_s, 'B/s')}", f"read {units.rate(one.read_bytes_per_s, 'B/s')}"]
        rates += [f"{precision} {units.rate(value, 'FLOP/s')}" for precision, value in one.flop_per_s.items()]
        lines.append((f"{one.device}, measured {moment(one.measured)}", ", ".join(rates)))
    return lines


def moment(iso: str) -> str:
    """A time as people write it; as it stands where it is none."""
    try:
        return datetime.fromisoformat(iso).strftime("%Y-%m-%d %H:%M %Z").strip()
    except ValueError:
        return iso


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
