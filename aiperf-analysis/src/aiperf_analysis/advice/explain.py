"""Advice on the rows of bundles: each rule that applies, with its evidence, and the targets that prove the advice."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from aiperf_analysis.advice import labels
from aiperf_analysis.advice.labels import Precision
from aiperf_analysis.advice.rules import RULES, Evidence, Rule, Subject
from aiperf_analysis.advice.rules.rule import counted, share
from aiperf_analysis.selection import Entry, Selection, required, select
from aiperf_core import units
from aiperf_core.errors import BundleError, UsageError
from aiperf_core.profiling import store
from aiperf_core.profiling.models import Profile
from aiperf_core.report.metrics import bound_name
from aiperf_core.report.result import Column, LeftOut, Record, Result, Table
from aiperf_core.stats.best import best_variant

_MOST_COMMANDS = 3
_MOST_ROWS = 3  # that a rule names
_MOST_LIMITS = 3  # in the summary


@frozen(eq=False)
class Finding:
    """A rule that applies to a row."""

    subject: Subject
    rule: Rule
    evidence: Evidence


def explain(
    selection: Selection, *, profiles: Sequence[Path] = (), precision: Mapping[str, Precision] | None = None
) -> Result:
    """Apply all rules to the believed rows.

    profiles: folders of `aiperf profile`, beside the profiles in the bundles.
    precision: of rules on labelled rows. A rule below 80 % is left out.

    Raises AiperfError where no row is believed.
    """
    required(selection.entries, selection)
    measured = precision or {}
    weak = {name for name, one in measured.items() if not one.enough}
    subjects, broken = _subjects(selection.entries, profiles)
    found = [one for subject in subjects for one in findings(subject) if one.rule.name not in weak]
    bare = [one for one in subjects if not one.profiles]
    return Result(
        analysis="explain",
        title="Explanation of results",
        summary=_summary(subjects, found, bare),
        options={"profiles": [str(path) for path in profiles]},
        tables=[_advice(found, measured), _evidence(found), *_missing(bare), *_limits(subjects)],
        assumptions=[
            "A rule is a condition on figures: it names what to try, and does not show that this is the cause. Measure "
            "the change.",
            "The interval of a quotient holds all quotients of the two intervals; it is wider than that of a contrast.",
            "Figures of profiles are averages over a few calls under a tool; they have no interval.",
        ],
        left_out=[*selection.left_out, *_weak(weak, measured), *broken],
        sources=selection.sources,
    )


def findings(subject: Subject) -> list[Finding]:
    """The rules that apply to a row, in the order of the rules."""
    found = ((rule, rule.find(subject)) for rule in RULES)
    return [Finding(subject, rule, evidence) for rule, evidence in found if evidence]


def labelled(folder: Path) -> dict[str, Precision]:
    """The precision of the rules on the labelled bundles of a folder.

    Raises UsageError where `labels.toml` is missing or wrong, or names a row that no bundle has.
    """
    found = []
    for label in labels.read(folder):
        address = f"{folder / label.bundle}:{label.target}:{label.implementation}"
        selection = select([address])
        if not selection.entries:
            raise UsageError(f"'{address}' is labelled, and its row is not believed. Remove the label.")
        subjects, _ = _subjects(selection.entries, ())
        found += [(label, [one.rule for one in findings(subject)]) for subject in subjects]
    return labels.precision(found)


def rules_table(measured: Mapping[str, Precision]) -> Result:
    """All rules with their precision."""
    records = [
        Record(
            {
                "rule": rule.name,
                "needs": " or ".join(rule.needs),
                "precision": labels.shown(rule.name, measured),
                "targets": ", ".join(rule.targets) or None,
                "fact": rule.fact,
                "advice": rule.advice,
            }
        )
        for rule in RULES
    ]
    on_rows = sum(rule.needs == ("row",) for rule in RULES)
    columns = [Column("rule", "rule"), Column("needs", "needs"), Column("precision", "precision", "figure"),
               Column("targets", "proven by"), Column("fact", "fact"), Column("advice", "what to try")]  # fmt: skip
    return Result(
        analysis="explain",
        title="Rules of aiperf explain",
        summary=[f"{on_rows} rules on rows, {len(RULES) - on_rows} on profiles."],
        tables=[Table("rules", "rules", columns, records)],
        left_out=_weak({name for name, one in measured.items() if not one.enough}, measured),
    )


def _subjects(entries: Sequence[Entry], folders: Sequence[Path]) -> tuple[list[Subject], list[LeftOut]]:
    """The rows with their profiles, in the order of bundles, and profiles that cannot be read."""
    subjects, broken = [], []
    for entry in entries:
        found: dict[str, Profile] = {}
        roots = [*([entry.run.bundle.path] if entry.run.bundle else []), *folders]
        for root in roots:
            folder = store.folder_of(root, entry.result.target, entry.row.name)
            if not folder.is_dir():
                continue
            try:
                profile = store.read(folder)
            except BundleError as error:
                broken.append(LeftOut(f"profile of {entry.name}", "", str(error), entry.origin))
                continue
            if (profile.device, profile.params) == (entry.result.device, entry.result.problem.params):
                found[profile.tool] = profile
            else:
                why = "it is of another device or another size than the row"
                broken.append(LeftOut(f"profile of {entry.name}", "", why, entry.origin))
        subjects.append(Subject(entry, found))
    return subjects, broken


def _weak(names: set[str], measured: Mapping[str, Precision]) -> list[LeftOut]:
    """The rules that are not precise enough to be shown."""
    return [
        LeftOut(
            f"rule {name}",
            "",
            f"{measured[name].true} of {measured[name].found} labelled findings are true; a rule needs "
            f"{units.percent(labels.LEAST)}",
        )
        for name in sorted(names)
    ]


def _summary(subjects: Sequence[Subject], found: Sequence[Finding], bare: Sequence[Subject]) -> list[str]:
    advised = len({id(one.subject) for one in found})
    sentences = [
        f"{units.plural('rule', len({one.rule.name for one in found}))} of {len(RULES)} "
        f"{'applies' if len({one.rule.name for one in found}) == 1 else 'apply'} to {advised} of "
        f"{units.plural('row', len(subjects))}."
    ]
    if not found:
        sentences.append("No figure of these rows calls for advice.")
    best = _best(subjects)
    sentences += [sentence for sentence in map(_stops, best) if sentence] if len(best) <= _MOST_LIMITS else []
    if bare:
        commands = _commands(bare)
        more = len(commands) - _MOST_COMMANDS
        sentences.append(
            f"{units.plural('row', len(bare))} without a profile, so kernel and counter rules were skipped. "
            f"Take one: {'; '.join(commands[:_MOST_COMMANDS])}{f'; {more} more below' if more > 0 else ''}"
        )
    return sentences


def _best(subjects: Sequence[Subject]) -> list[Subject]:
    """The best implementations of the targets, where they have a speed of light."""
    return [one for one in subjects if one.row is best_variant(one.result) and one.row.speed_of_light]


def _moved(subject: Subject) -> float | None:
    """The DRAM bytes that a call moved, as a multiple of the declared bytes; None without a profile by ncu."""
    profile = subject.profiles.get("ncu")
    moved = profile.observed.figures.get("dram_bytes") if profile else None
    return moved / profile.cost_bytes if profile and moved and profile.cost_bytes else None


def _stops(subject: Subject) -> str:
    """Why the best implementation of a target is not faster: its share of its bound, and the bytes that it moves."""
    light, moved = subject.row.speed_of_light, _moved(subject)
    if light is None:
        return ""
    bound = bound_name(subject.result, subject.row)
    said = f"{subject.entry.name}, the best, reaches {units.percent(light.fraction)} of its bound ({bound})"
    if light.bound != "memory":
        return f"{said}."
    if moved is None:
        hint = "; a profile by ncu counts those that it moves" if subject.result.device == "cuda" else ""
        return f"{said}, by the declared bytes{hint}."
    rest = f", with which {units.percent(min(1.0, 1 / moved))} is the most that it can reach" if moved > 1 else ""
    return f"{said}, and moves {units.number(moved)} times the declared bytes{rest}."


def _limits(subjects: Sequence[Subject]) -> list[Table]:
    records = [
        Record(
            {
                "row": one.entry.name,
                "bound": bound_name(one.result, one.row),
                "share": share(one.row.speed_of_light.fraction) if one.row.speed_of_light else None,
                "declared": counted(problem.bytes_read + problem.bytes_written, "B"),
                "moved": counted(moved) if (moved := _moved(one)) is not None else None,
            },
            [one.entry.origin],
        )
        for one in _best(subjects)
        for problem in [one.result.problem]
    ]
    columns = [
        Column("row", "best implementation"),
        Column("bound", "bound"),
        Column("share", "share of it", "figure"),
        Column("declared", "declared", "figure"),
        Column("moved", "moved / declared", "figure"),
    ]
    return [Table("limits", "where the best implementation stops", columns, records)] if records else []


def _commands(bare: Sequence[Subject]) -> list[str]:
    """The commands that take the missing profiles, one for each target."""
    commands = {}
    for one in bare:
        tool = " --tool ncu" if one.result.device == "cuda" else ""
        if one.result.device == "cpu" and "compiler" in one.row.requires:  # no operator of torch has its time
            tool = " --tool perf"
        target = one.entry.base_target
        device, size = one.result.device, one.result.problem.size
        if tool or target not in commands:
            commands[target] = f"aiperf profile {target} --device {device} --size {size}{tool}"
    return list(commands.values())


def _advice(found: Sequence[Finding], measured: Mapping[str, Precision]) -> Table:
    """Each rule that applies once, with its rows: advice is the same for all of them."""
    of_rule: dict[str, list[Finding]] = {}
    for one in found:
        of_rule.setdefault(one.rule.name, []).append(one)
    records = []
    for rule in RULES:
        findings_of = of_rule.get(rule.name)
        if findings_of is None:
            continue
        names = [one.subject.entry.name for one in findings_of]
        more = len(names) - _MOST_ROWS
        records.append(
            Record(
                {
                    "rule": rule.name,
                    "count": len(names),
                    "rows": f"{', '.join(names[:_MOST_ROWS])}{f' and {more} more' if more > 0 else ''}",
                    "precision": labels.shown(rule.name, measured),
                    "targets": ", ".join(rule.targets) or None,
                    "fact": rule.fact,
                    "advice": rule.advice,
                },
                [one.subject.entry.origin for one in findings_of],
            )
        )
    columns = [
        Column("rule", "rule"),
        Column("count", "rows", "figure"),
        Column("rows", "of"),
        Column("precision", "precision", "figure"),
        Column("targets", "proven by"),
        Column("fact", "fact"),
        Column("advice", "what to try"),
    ]
    return Table("advice", "what to try next", columns, records)


def _evidence(found: Sequence[Finding]) -> Table:
    records = [
        Record(
            {"row": one.subject.entry.name, "rule": one.rule.name, "figure": name, "value": figure},
            [one.subject.entry.origin],
        )
        for one in found
        for name, figure in one.evidence.items()
    ]
    columns = [Column("row", "row"), Column("rule", "rule"), Column("figure", "figure"),
               Column("value", "value", "figure")]  # fmt: skip
    return Table("evidence", "evidence", columns, records)


def _missing(bare: Sequence[Subject]) -> list[Table]:
    if not bare:
        return []
    commands = _commands(bare)
    rows = [Record({"command": command}) for command in commands]
    note = f"{units.plural('target', len(commands))} with rows without a profile. Read new ones with --profiles FOLDER."
    return [Table("profiles", "how to take the missing profiles", [Column("command", "command")], rows, note)]
