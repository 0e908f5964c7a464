"""Who is first on a target, as far as the intervals tell, among the rows that keep the rules of an entry."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from attrs import asdict, frozen

from aiperf_analysis import joint
from aiperf_analysis.selection import Entry, Selection
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.report.result import (
    Axis,
    Column,
    Drawing,
    Figure,
    LeftOut,
    Point,
    Record,
    Result,
    Series,
    Table,
)
from aiperf_core.results.models import Verdict
from aiperf_core.results.signing import SignatureError, verify
from aiperf_core.stats.draws import DRAWS, Floats
from aiperf_core.stats.expectations import module_hash
from aiperf_core.stats.recheck import recheck

SUBMITTER = "submitter"  # the label that names one
TIERS, POLICIES = ("standard", "audit"), ("standard", "strict")
RULES = (
    "the bundle is sealed, and its figures follow from its samples (recheck)",
    "tier standard or audit, policy standard or strict",
    "sources without uncommitted changes",
    "the target's source is that of the newest entry of the board",
    "all rounds were measured",
    "the newest attempt of each submitter counts, not the best",
)
MOST_DRAWINGS = 24


@frozen
class Options:
    """Options of this analysis."""

    goal: str | None = option(
        None, "Only boards of this goal.", metavar="GOAL", choices=("speed", "latency", "throughput", "memory")
    )
    signers: Path | None = option(None, "Show who signed, by this file of allowed signers.", metavar="FILE")
    trust_figures: bool = option(False, "Check the seals of bundles, and do not compute their figures again.")


@frozen
class Board:
    """What the entries of a board have in common. `lossy` names the metric of lossy variants; empty for exact ones."""

    target: str
    hardware: str
    goal: str
    device: str
    params: tuple[tuple[str, float], ...]
    precision: str
    clock: str
    cache: str
    lossy: str

    @property
    def title(self) -> str:
        """The head of the board's table."""
        sizes = units.parameters(dict(self.params))
        kind = f", lossy by {self.lossy}" if self.lossy else ""
        return f"{self.target} on {self.hardware}, {self.precision}{kind}: {self.goal} ({sizes or 'one size'})"


@frozen
class _Scored:
    """An entry with its place on the board."""

    entry: Entry
    score: Figure
    best: int
    worst: int


def analyze(selection: Selection, options: Options) -> Result:
    """Rank the rows of each target that keep the rules of an entry, a board for each kind of machine and size.

    The score is the gain over the baseline: the speedup, or the memory gain where memory is the goal. The rank is the
    range of positions in 95 % of joint draws. Lossy variants have boards of their own. Rows that are INVALID stay
    visible with their finding, without a rank.
    """
    if options.signers is not None and not options.signers.is_file():
        raise UsageError(
            f"--signers '{options.signers}' is not a file; it has lines such as 'ann@example.org ssh-ed25519 AAAA…'."
        )
    signed = _signers(selection, options)
    checked = _Rules(options)
    boards: dict[Board, list[Entry]] = {}
    left_out: list[LeftOut] = []
    for one in sorted(selection.entries, key=lambda one: one.run.created, reverse=True):
        if one.row.role != "variant" or (options.goal and one.result.goal != options.goal):
            continue
        held = boards.get(board_of(one), [])
        reason = checked.broken(one) or _other_source(one, held) or _superseded(one, held, signed)
        reason = reason or ("" if one.gain.value is not None else one.gain.reason or "no score")
        if reason:
            left_out.append(LeftOut(one.name, one.row.verdict.value, reason, one.origin))
        else:
            boards.setdefault(board_of(one), []).append(one)
    if not boards:
        raise AiperfError(_nobody(selection, left_out, options))
    invalid = [
        one for one in selection.every if one.row.verdict is Verdict.INVALID and one.row.role == "variant"
    ]  # shown, never ranked
    tables: list[Table] = []
    drawings: list[Drawing] = []
    tied = 0
    for number, (board, entries) in enumerate(sorted(boards.items(), key=lambda pair: str(pair[0]))):
        scored = _scored(entries, selection)
        tied += any(one.best != one.worst for one in scored)
        below = [one for one in invalid if board_of(one) == board]
        tables.append(_table(f"board{number + 1}", board, scored, below, signed, options))
        drawings.append(_drawing(f"board{number + 1}", board, scored))
    entries_told = units.plural("entry", sum(map(len, boards.values()))).replace("entrys", "entries")
    return Result(
        analysis="leaderboard",
        title="Leaderboards",
        summary=[
            f"{units.plural('board', len(boards))} with {entries_told}; "
            + (f"on {tied} the order of some entries is open." if tied else "the order of all entries is known."),
            *_shown_invalid(invalid, boards),
        ],
        tables=tables,
        drawings=drawings[:MOST_DRAWINGS],
        options=asdict(options),
        assumptions=[*(f"rule: {one}." for one in RULES), f"{joint.SHARED}."],
        left_out=[*selection.left_out, *left_out],
        sources=selection.sources,
    )


def board_of(entry: Entry) -> Board:
    """The board of a row."""
    key, quality = entry.key, entry.row.quality
    return Board(
        target=key.target,
        hardware=key.hardware,
        goal=entry.result.goal,
        device=key.device,
        params=key.params,
        precision=key.precision,
        clock=key.clock,
        cache=key.cache,
        lossy=quality.metric if quality else "",
    )


# --- the rules of an entry


class _Rules:
    """Whether rows may enter. What holds for a bundle is found once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._bundles: dict[str, str] = {}

    def broken(self, entry: Entry) -> str:
        """The rule that a row breaks; empty for an entry."""
        result, manifest = entry.result, entry.run.manifest
        policy = manifest.request.policy if manifest.request else None
        if result.tier not in TIERS:
            return f"the tier is {result.tier}; an entry takes {' or '.join(TIERS)}"
        if policy is not None and policy not in POLICIES:
            return f"the policy is {policy}; an entry takes {' or '.join(POLICIES)}"
        if (manifest.git or "").endswith("-dirty"):
            return "it was measured with uncommitted changes"
        if not result.complete:
            return "not all of its rounds were measured"
        if entry.run.id not in self._bundles:
            self._bundles[entry.run.id] = self._of_bundle(entry)
        return self._bundles[entry.run.id]

    def _of_bundle(self, entry: Entry) -> str:
        run = entry.run
        if not run.manifest.hashes:
            return "its bundle has no seal"
        if self._options.trust_figures:
            return ""
        if run.bundle is None:
            return "its bundle is gone, so it cannot be rechecked; --trust-figures takes it all the same"
        found = recheck(run.bundle)
        if found.holds:
            return ""
        one = found.differences[0]
        return f"its bundle does not hold: {words(one.where)}, {words(one.what)}"


def _other_source(entry: Entry, held: Sequence[Entry]) -> str:
    """Whether the target's source differs from the board's, which is that of its newest entry."""
    if not held:
        return ""
    mine, board = (module_hash(one.run.manifest, entry.base_target) for one in (entry, held[0]))
    if mine == board:
        return ""
    return f"the target's source ({(mine or 'unknown')[:8]}) is not that of the board ({(board or 'unknown')[:8]})"


def _superseded(entry: Entry, held: Sequence[Entry], signed: dict[str, str]) -> str:
    """Whether the same submitter has a newer attempt. `held` are the newer entries."""
    mine = submitter(entry, signed)
    if any(one.row.name == entry.row.name and submitter(one, signed) == mine for one in held):
        return f"{words(mine)} has a newer attempt"
    return ""


def submitter(entry: Entry, signed: dict[str, str]) -> str:
    """Who submitted a row: the signer of its bundle, else the label `submitter`, else the machine's name."""
    manifest = entry.run.manifest
    return signed.get(entry.run.id) or manifest.labels.get(SUBMITTER) or manifest.machine.hostname


def _signers(selection: Selection, options: Options) -> dict[str, str]:
    """The signer of each bundle that has a valid signature."""
    found: dict[str, str] = {}
    if options.signers is None:
        return found
    for run in selection.runs:
        if run.bundle is not None:
            try:
                found[run.id] = verify(run.bundle, options.signers).identity
            except SignatureError:
                continue
    return found


def _nobody(selection: Selection, left_out: Sequence[LeftOut], options: Options) -> str:
    """Why there is no board, and what to do."""
    count = units.plural("bundle", len(selection.runs))
    if not left_out:
        what = f"variant with the goal {options.goal}" if options.goal else "believed variant"
        return (
            f"there is no {what} in {count}, so there is no board. Run more targets: aiperf run PATTERN --tier standard"
        )
    reasons = Counter(one.reason for one in left_out)
    told = "; ".join(f"{number} x {words(reason)}" for reason, number in reasons.most_common(5))
    return (
        f"no leaderboard yet: no result of {count} meets its rules: {told}. Measure entries with committed sources: "
        "aiperf run PATTERN --tier standard"
    )


# --- scores and ranks


def _scored(entries: Sequence[Entry], selection: Selection) -> list[_Scored]:
    """The entries with the range of their ranks, the best first."""
    ranges = joint.ranks(_draws(entries, selection)) if len(entries) > 1 else [(1, 1)]
    found = [_Scored(entry, entry.gain, best, worst) for entry, (best, worst) in zip(entries, ranges, strict=True)]
    return sorted(found, key=lambda one: (one.best, one.worst, -(one.score.value or 0.0)))


def _draws(entries: Sequence[Entry], selection: Selection) -> Floats:
    """Joint draws of the scores: (draws, entries)."""
    if entries[0].result.goal == "memory":
        return np.array([[one.row.memory_gain or 0.0 for one in entries]])
    baselines = {
        (one.run.id, one.result.target): one for one in selection.every if one.row.role == "baseline" and one.believed
    }
    with_times = [one for one in entries if one.row.time_s is not None]
    needed = {(one.run.id, one.result.target) for one in with_times}
    rows = [*with_times, *(baselines[key] for key in needed if key in baselines)]
    times = joint.times([one for one in rows if one.row.time_s is not None])
    column = {_identity(one): place for place, one in enumerate(one for one in rows if one.row.time_s is not None)}
    rng = np.random.default_rng(0)
    found = np.empty((DRAWS, len(entries)))
    for place, one in enumerate(entries):
        mine, base = column.get(_identity(one)), baselines.get((one.run.id, one.result.target))
        other = column.get(_identity(base)) if base else None
        if mine is not None and other is not None:
            found[:, place] = times[:, other] / times[:, mine]
        elif one.row.speedup is not None:
            found[:, place] = joint.lognormal(one.row.speedup, rng, DRAWS)
    return found


def _identity(entry: Entry) -> tuple[str, str, str]:
    return entry.run.id, entry.result.target, entry.row.name


# --- what is shown


def _table(
    name: str,
    board: Board,
    scored: Sequence[_Scored],
    invalid: Iterable[Entry],
    signed: dict[str, str],
    options: Options,
) -> Table:
    columns = [
        Column("row", "row"),
        Column("rank", "rank"),
        Column("score", "memory gain" if board.goal == "memory" else "speedup", "figure"),
        Column("verdict", "verdict", "verdict"),
        Column("submitter", "submitter"),
        *([Column("signed", "signed by")] if options.signers else []),
        Column("date", "date"),
        Column("finding", "finding"),
    ]
    records = [
        Record(
            {
                "row": one.entry.row.name,
                "rank": f"{one.best}" if one.best == one.worst else f"{one.best} to {one.worst}",
                "best_rank": one.best,
                "worst_rank": one.worst,
                "score": one.score,
                "verdict": one.entry.row.verdict.value,
                "submitter": submitter(one.entry, signed),
                "signed": signed.get(one.entry.run.id),
                "date": one.entry.run.created[:10],
                "finding": None,
            },
            [one.entry.origin],
        )
        for one in scored
    ]
    for entry in invalid:
        found = entry.row.findings
        issue = next((one.issue for one in found if one.severity == "invalid"), "")
        records.append(
            Record(
                {
                    "row": entry.row.name,
                    "rank": None,
                    "score": Figure(value=None, reason="a row that is not believed has no score"),
                    "verdict": entry.row.verdict.value,
                    "submitter": submitter(entry, signed),
                    "signed": signed.get(entry.run.id),
                    "date": entry.run.created[:10],
                    "finding": ": ".join(filter(None, (issue, entry.row.reason))),
                },
                [entry.origin],
            )
        )
    return Table(name, board.title, columns, records)


def _drawing(name: str, board: Board, scored: Sequence[_Scored]) -> Drawing:
    first = [one.entry.row.name for one in scored if one.best == 1]
    told = f"{first[0]} is first" if len(first) == 1 else f"{', '.join(first)} may be first"
    points = [
        Point(
            label=one.entry.row.name,
            x=one.score,
            y=Figure(value=float(place), unit="count", certainty="counted"),
            mark=one.entry.row.verdict.value,
            origin=one.entry.origin,
        )
        for place, one in enumerate(scored)
    ]
    return Drawing(
        name=name,
        title=board.title,
        kind="intervals",
        message=f"{board.title}: {told}.",
        x=Axis(title="gain over the baseline (more is better)", log=True),
        y=Axis(title="entry", unit="count"),
        series=[Series(name="entries", points=points)],
    )


def _shown_invalid(invalid: Sequence[Entry], boards: dict[Board, list[Entry]]) -> list[str]:
    count = sum(board_of(one) in boards for one in invalid)
    return [f"{units.plural('row', count)} INVALID: shown with the finding, without a rank."] if count else []
