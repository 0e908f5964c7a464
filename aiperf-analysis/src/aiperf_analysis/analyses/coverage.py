"""Which installed targets have no run, energy, profile or cost, and how old their last runs are."""

from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from attrs import asdict, frozen

from aiperf_analysis.selection import Entry, Selection
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.report.result import Column, Figure, LeftOut, Origin, Record, Result, Table, counted
from aiperf_core.results.filenames import target_name

DAY = 86_400.0
_ARTICLES = {"run": "a run", "profile": "a profile", "cost": "a cost"}


@frozen
class Options:
    """Options of this analysis."""

    missing: bool = option(False, "Only targets that lack something.")


@frozen
class Covered:
    """What there is of a target.

    last: the newest believed row by kind of machine.
    """

    name: str
    installed: bool
    last: dict[str, Entry]
    energy: bool
    profile: bool
    cost: bool

    @property
    def lacks(self) -> list[str]:
        """What is missing."""
        if not self.last:
            return ["run"]
        found = {"energy": self.energy, "profile": self.profile, "cost": self.cost}
        return [name for name, there in found.items() if not there]


def analyze(selection: Selection, options: Options) -> Result:
    """List the installed targets with what they lack: a believed run, energy, a profile, a declared cost.

    The age of the last run counts from now, for each kind of machine. Targets of bundles that are not installed here
    are listed too.
    """
    found = covered(selection)
    shown = [one for one in found if one.lacks or not options.missing]
    lacking = {what: sum(what in one.lacks for one in found) for what in ("run", "energy", "profile", "cost")}
    told = ", ".join(f"{count} without {_ARTICLES.get(what, what)}" for what, count in lacking.items())
    with_run = sum(bool(one.last) for one in found)
    now = _now()
    return Result(
        analysis="coverage",
        title="Coverage",
        summary=[
            f"{with_run} of {units.plural('target', len(found))} have a believed run; {told}.",
            *_next(found),
        ],
        tables=[_targets(shown), _ages(found, now)],
        options=asdict(options),
        assumptions=["a target without a run is not asked for energy, a profile or a cost."],
        left_out=_unbelieved(selection, found),
        sources=selection.sources,
        details={"lacking": lacking},
    )


def covered(selection: Selection) -> list[Covered]:
    """The installed targets, and those of the bundles, in the order of their names."""
    rows: dict[str, list[Entry]] = {}
    for one in selection.entries:
        rows.setdefault(one.base_target, []).append(one)
    profiled = _profiled(selection)
    installed = {name for name in _installed() if _asked_for(name, selection.patterns)}
    found = []
    for name in sorted(installed | set(rows)):
        entries = rows.get(name, [])
        last: dict[str, Entry] = {}
        for one in sorted(entries, key=lambda one: one.run.created):
            last[one.hardware] = one
        found.append(
            Covered(
                name=name,
                installed=name in installed,
                last=last,
                energy=any(one.row.energy is not None for one in entries),
                profile=name in profiled,
                cost=any(one.result.problem.flops or _bytes(one) for one in entries),
            )
        )
    return found


def _bytes(entry: Entry) -> float:
    return entry.result.problem.bytes_read + entry.result.problem.bytes_written


def _installed() -> list[str]:
    from aiperf_core.plugins import load_plugins

    return [one.name for one in load_plugins().targets]


def _now() -> datetime:
    return datetime.now(UTC)


def _asked_for(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _profiled(selection: Selection) -> set[str]:
    """The targets with a folder of profiles in one of the bundles."""
    found = set()
    for run in selection.runs:
        folder = run.bundle.path / "profiles" if run.bundle else None
        if folder is not None and folder.is_dir():
            found |= {target_name(one.name).partition("@")[0] for one in folder.iterdir() if one.is_dir()}
    return found


def _next(found: Sequence[Covered]) -> list[str]:
    without = [one.name for one in found if not one.last]
    if without:
        return [f"To measure the first of them: aiperf run {without[0]}"]
    profile = [one.name for one in found if "profile" in one.lacks]
    return [f"To take a profile: aiperf run {profile[0]} --profile"] if profile else []


def _targets(found: Sequence[Covered]) -> Table:
    columns = [
        Column("target", "target"),
        Column("installed", "installed"),
        Column("classes", "kinds of machine"),
        Column("energy", "energy"),
        Column("profile", "profile"),
        Column("cost", "cost"),
        Column("lacks", "lacks"),
    ]
    records = [
        Record(
            {
                "target": one.name,
                "installed": one.installed,
                "classes": ", ".join(sorted(one.last)) or None,
                "energy": one.energy if one.last else None,
                "profile": one.profile if one.last else None,
                "cost": one.cost if one.last else None,
                "lacks": ", ".join(one.lacks) or None,
            },
            [entry.origin for entry in one.last.values()],
        )
        for one in found
    ]
    return Table("targets", "targets and what they lack", columns, records)


def _ages(found: Sequence[Covered], now: datetime) -> Table:
    columns = [
        Column("class", "kind of machine"),
        Column("targets", "targets", "figure"),
        Column("newest", "newest run", "figure"),
        Column("oldest", "oldest last run", "figure"),
        Column("which", "of target"),
    ]
    ages: dict[str, list[tuple[float, str, Origin]]] = {}
    for one in found:
        for hardware, entry in one.last.items():
            age = _age(entry, now)
            if age is not None:
                ages.setdefault(hardware, []).append((age, one.name, entry.origin))
    records = []
    for hardware, each in sorted(ages.items()):
        oldest = max(each, key=lambda one: one[0])
        records.append(
            Record(
                {
                    "class": hardware,
                    "targets": counted(len(each), "count"),
                    "newest": _days(min(one[0] for one in each)),
                    "oldest": _days(oldest[0]),
                    "which": oldest[1],
                },
                [oldest[2]],
            )
        )
    return Table("ages", "age of the last runs", columns, records)


def _age(entry: Entry, now: datetime) -> float | None:
    """The age of a run in days; None where its time cannot be read."""
    try:
        created = datetime.fromisoformat(entry.run.created)
    except ValueError:
        return None
    created = created if created.tzinfo else created.replace(tzinfo=UTC)
    return (now - created).total_seconds() / DAY


def _days(value: float) -> Figure:
    return counted(round(value, 2), "days")


def _unbelieved(selection: Selection, found: Sequence[Covered]) -> list[LeftOut]:
    """What was left out of targets without a believed run: of others, it does not matter here."""
    without = {one.name for one in found if not one.last}
    return [
        one
        for one in selection.left_out
        if one.origin is None or (one.origin.target or "").partition("@")[0] in without or not one.origin.target
    ]
