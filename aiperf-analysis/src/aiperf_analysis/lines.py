"""Lists of runs and rows, of which a page or an answer shows a part: the same lines from bundles and from a store."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from attrs import frozen

from aiperf_analysis import sizes
from aiperf_analysis.documents import sealed_names
from aiperf_analysis.filters import Filters
from aiperf_analysis.selection import Entry, Measured, Selection
from aiperf_core.profiling.store import FOLDER as PROFILES
from aiperf_core.report.metrics import SUMMARY
from aiperf_core.report.result import Figure, LeftOut, Origin
from aiperf_core.results.models import DOCUMENT_KINDS, Verdict
from aiperf_core.stats.best import rank

Line = TypeVar("Line")
NO_REASON = "no reason was recorded"
RECENT = 24  # newest runs of a series, of which a list shows the course


@frozen
class Lines(Generic[Line]):
    """A list.

    total: the number of its lines.
    part: the lines from one place to another.
    left_out: bundles that cannot be read.
    """

    total: int
    part: Callable[[int, int], Sequence[Line]]
    left_out: Sequence[LeftOut] = ()


@frozen
class RowLine:
    """A row in a list.

    series: the digest of the key of its series.
    params: the sizes of the workload.
    figures: of each metric of `SUMMARY`, by its key.
    """

    bundle: str
    created: str
    target: str
    row: str
    hardware: str
    device: str
    params: Mapping[str, float]
    goal: str
    role: str
    verdict: Verdict
    reason: str | None
    series: str
    figures: Mapping[str, Figure]

    @property
    def origin(self) -> Origin:
        """Where its figures come from."""
        return Origin(self.bundle, self.target, self.row)


@frozen(kw_only=True)
class RunLine:
    """A run in a list.

    bundle: its seal, or its path where it has none.
    name: the name of its folder.
    ending: how it ended: empty where all is well.
    verdicts: the counts of verdicts of its variants, the most frequent first.
    distrusted: how many rows a finding or a failure speaks against.
    skipped: how many rows this machine cannot run.
    loads, fleets: how many loads on servers and fleets of machines it holds.
    """

    bundle: str
    name: str
    created: str
    hardware: str
    targets: tuple[str, ...]
    rows: int
    verdicts: tuple[tuple[str, int], ...]
    distrusted: int
    skipped: int
    ending: str
    labels: tuple[tuple[str, str], ...]
    loads: int
    fleets: int

    @property
    def id(self) -> str:
        """Its id in addresses."""
        return run_id(self.bundle)


def run_id(bundle: str) -> str:
    """The id of a run, from the seal or the path that an `Origin` has."""
    return bundle if is_seal(bundle) else f"open-{hashlib.sha256(bundle.encode(errors='replace')).hexdigest()[:24]}"


def is_seal(text: str) -> bool:
    """True for a text that has the form of a seal."""
    return re.fullmatch("[0-9a-f]{64}", text) is not None


@frozen(kw_only=True)
class Distrusted:
    """A row of a newest result that is not trusted."""

    bundle: str
    target: str
    row: str
    params: Mapping[str, float]
    verdict: str
    reason: str


@frozen(kw_only=True)
class Newest:
    """The newest results of each target, device, kind of machine and size.

    verdicts: the counts of the verdicts of variants, in the order of `Verdict`.
    distrusted: the first rows that are not trusted, of `every_distrusted`.
    skipped: how many rows did not run, because their machines cannot run them.
    targets: the names of the targets.
    best: of each target, device and kind of machine the best variant of the newest run, in the order of names.
    courses: the times in the last `RECENT` runs of the series of `best`, in seconds, the oldest first, by its digest.
    """

    verdicts: Sequence[tuple[str, int]]
    distrusted: Sequence[Distrusted]
    every_distrusted: int
    skipped: int
    targets: Sequence[str]
    best: Sequence[RowLine]
    courses: Mapping[str, Sequence[float]]


def in_order(verdicts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Counts of verdicts in the order of `Verdict`."""
    return [(verdict.value, verdicts[verdict.value]) for verdict in Verdict if verdicts.get(verdict.value)]


def most_frequent(verdicts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Counts of verdicts, the most frequent first."""
    return tuple(sorted(in_order(verdicts), key=lambda pair: -pair[1]))


def name_of(run: Measured) -> str:
    """The name of the folder of a run."""
    return run.path.rstrip("/").rpartition("/")[2] or run.path


# --- of bundles that were read


def row_of(entry: Entry) -> RowLine:
    """A row of a bundle."""
    return RowLine(
        bundle=entry.run.id,
        created=entry.run.created,
        target=entry.result.target,
        row=entry.row.name,
        hardware=entry.hardware,
        device=entry.result.device,
        params=entry.result.problem.params,
        goal=entry.result.goal,
        role=entry.row.role,
        verdict=entry.row.verdict,
        reason=entry.row.reason,
        series=entry.key.digest,
        figures={metric.key: metric.of(entry.result, entry.row) for metric in SUMMARY},
    )


def rows_of_selection(selection: Selection, words: Sequence[str]) -> Lines[RowLine]:
    """The rows of a selection whose texts contain all words."""
    entries = [entry for entry in selection.every if not words or _contains(_text(entry), words)]
    return Lines(
        len(entries), lambda start, stop: [row_of(entry) for entry in entries[start:stop]], selection.unreadable
    )


def _contains(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)


def _text(entry: Entry) -> str:
    row, size = entry.row, sizes.text_of(entry.result.problem.params)
    texts = (entry.result.target, row.name, size, entry.hardware, row.role, row.verdict.value, row.reason or "")
    return " ".join(texts).lower()


def runs_of_selection(selection: Selection, filters: Filters) -> Lines[RunLine]:
    """The runs of a selection. Where rows were selected, runs without any are left out."""
    entries: dict[int, list[Entry]] = {id(run): [] for run in selection.runs}
    for entry in selection.every:
        entries[id(entry.run)].append(entry)
    kept = [run for run in selection.runs if entries[id(run)] or not filters.narrows_rows]
    return Lines(
        len(kept),
        lambda start, stop: [_run_line(run, entries[id(run)]) for run in kept[start:stop]],
        selection.unreadable,
    )


def _run_line(run: Measured, entries: Sequence[Entry]) -> RunLine:
    variants = Counter(entry.row.verdict.value for entry in entries if entry.row.role == "variant")
    return RunLine(
        bundle=run.id,
        name=name_of(run),
        created=run.created,
        hardware=", ".join(dict.fromkeys(entry.hardware for entry in entries)),
        targets=tuple(dict.fromkeys(entry.result.target for entry in entries)),
        rows=len(entries),
        verdicts=most_frequent(variants),
        distrusted=sum(entry.row.verdict.is_distrusted for entry in entries),
        skipped=sum(entry.row.is_skipped for entry in entries),
        ending="" if run.manifest.complete else "not complete",
        labels=tuple(sorted(run.manifest.labels.items())),
        loads=len(sealed_names(run.manifest, "load")),
        fleets=len(sealed_names(run.manifest, "fleet")),
    )


def newest_of_selection(selection: Selection, most: int) -> Newest:
    """The newest results of a selection, with at most `most` rows that are not trusted."""
    every = selection.latest().every
    distrusted = [entry for entry in every if entry.row.verdict.is_distrusted]
    best = best_of(row_of(entry) for entry in every if entry.row.role == "variant" and entry.row.is_believed)
    return Newest(
        verdicts=in_order(Counter(entry.row.verdict.value for entry in every if entry.row.role == "variant")),
        distrusted=[_distrusted(entry) for entry in distrusted[:most]],
        every_distrusted=len(distrusted),
        skipped=sum(entry.row.is_skipped for entry in every),
        targets=sorted({entry.result.target for entry in every}),
        best=best,
        courses=_courses(selection, {one.series for one in best}),
    )


def _courses(selection: Selection, wanted: Collection[str]) -> dict[str, list[float]]:
    series = ((key.digest, entries) for key, entries in selection.series().items())
    return {
        digest: [one.row.time_s.value for one in entries if one.row.time_s is not None][-RECENT:]
        for digest, entries in series
        if digest in wanted
    }


def contents_of(selection: Selection) -> frozenset[str]:
    """The tiers of the results, and which of `energy`, `profiles` and the kinds of documents there are."""
    runs = selection.runs
    found = {kind for kind in DOCUMENT_KINDS if any(sealed_names(run.manifest, kind) for run in runs)}
    found |= {entry.result.tier for entry in selection.every}
    found |= {"energy"} if any(entry.row.energy for entry in selection.every) else set()
    return frozenset(found | with_profiles(run.path for run in runs))


def with_profiles(folders: Iterable[str]) -> set[str]:
    """`profiles` where one of these bundles has some."""
    return {PROFILES} if any(os.path.isdir(f"{folder}/{PROFILES}") for folder in folders) else set()


def best_of(variants: Iterable[RowLine]) -> list[RowLine]:
    """The best variant of each target, device and kind of machine, of its newest run; all of these are believed."""
    groups: dict[tuple[str, str, str], list[RowLine]] = {}
    for one in variants:
        groups.setdefault((one.target, one.hardware, one.device), []).append(one)
    return [max(groups[key], key=_place) for key in sorted(groups)]


def _place(one: RowLine) -> tuple[str, tuple[bool, float, float]]:
    """The time of the run and the rank within its target; the goal of memory is reached by the least memory."""
    has_memory = one.goal == "memory"
    gain = None if has_memory else one.figures["speedup"].value
    return one.created, rank(one.verdict, one.goal, gain, one.figures["peak_bytes" if has_memory else "time_s"].value)


def _distrusted(entry: Entry) -> Distrusted:
    return Distrusted(
        bundle=entry.run.id,
        target=entry.result.target,
        row=entry.row.name,
        params=entry.result.problem.params,
        verdict=entry.row.verdict.value,
        reason=entry.row.reason or NO_REASON,
    )
