"""Hold the newest run of a suite to the runs before it, gate by gate."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from attrs import evolve, field, frozen

from aiperf_analysis.ci.suite import Gate, Suite
from aiperf_analysis.history.newest import Standing, newest
from aiperf_analysis.history.noise import logs
from aiperf_analysis.history.series import Border, RunSeries, series_of
from aiperf_analysis.selection import Entry, Selection, select
from aiperf_core.errors import ExitCode
from aiperf_core.report.metrics import STORED
from aiperf_core.report.result import Origin
from aiperf_core.results.models import Verdict

# The runs of a decision's course.
COURSE = 24
_RED, _YELLOW, _GREEN = "#c0392b", "#b7791f", "#2f7d32"


@frozen
class Word:
    """A word of a gate: its text, its exit code, the colour of a badge, and the element of JUnit beside its case."""

    text: str
    code: ExitCode
    colour: str = _GREEN
    element: str = ""


# In the order of gravity.
WORDS = {
    "DISTRUSTED": Word("distrusted", ExitCode.INVALID, _RED, "failure"),
    "REGRESSION": Word("regression", ExitCode.BELOW_EXPECTATION, _RED, "failure"),
    "FAILED": Word("failed", ExitCode.FAILED, _RED, "error"),
    "SUSPECT": Word("suspect", ExitCode.INCONCLUSIVE, _YELLOW),
    "INCONCLUSIVE": Word("inconclusive", ExitCode.INCONCLUSIVE, element="skipped"),
    "ACCEPTED": Word("accepted", ExitCode.OK),
    "IMPROVED": Word("improved", ExitCode.OK),
    "NEW": Word("new", ExitCode.OK),
    "FINE": Word("no change", ExitCode.OK),
    "TOO NOISY": Word("too noisy", ExitCode.OK),
}


@frozen
class Decision:
    """What a gate says of a row, or why a row was not held to it.

    word: a key of `WORDS`.
    metric: empty where the row itself is not believed.
    change_percent: the newest figure relative to the expected one; null where nothing was expected.
    low_percent, high_percent: the prediction interval in the same way.
    now: the newest figure in the metric's unit; null where the row has none.
    before: the expected figure; with too few runs for a level, the median of the earlier ones.
    course: the figures of the latest runs, the newest last.
    agree: the runs in a row that agree.
    borders: what changed in the software or the machine since the runs before.
    cause: the class of a change's cause with its evidence: `hardware`, `environment`, `method`, `code`, `noise` or
        `unknown`; empty without a change.
    """

    target: str
    row: str
    hardware: str
    metric: str
    word: str
    reason: str
    change_percent: float | None = None
    low_percent: float | None = None
    high_percent: float | None = None
    agree: int = 0
    runs: int = 0
    borders: list[str] = field(factory=list)
    origin: Origin | None = None
    now: float | None = None
    before: float | None = None
    course: list[float] = field(factory=list)
    cause: str = ""

    @property
    def name(self) -> str:
        """`target:implementation`."""
        return f"{self.target}:{self.row}" if self.row else self.target


@frozen
class Gated:
    """The decisions on the newest run.

    newest: the id of the newest bundle.
    before: the number of the bundles before it.
    """

    decisions: list[Decision]
    newest: str | None = None
    before: int = 0

    @property
    def suspects(self) -> list[Decision]:
        """The suspects, which another run confirms or refutes."""
        return [one for one in self.decisions if one.word == "SUSPECT"]

    @property
    def word(self) -> str:
        """The gravest word."""
        words = {one.word for one in self.decisions}
        return next((word for word in WORDS if word in words), "NEW")

    def exit_code(self, *, conclusive: bool) -> ExitCode:
        """The exit code; 5 only where a conclusion is demanded."""
        code = WORDS[self.word].code
        return ExitCode.OK if code == ExitCode.INCONCLUSIVE and not conclusive else code


def history(suite: Suite, bundles: Sequence[str] = ()) -> Selection:
    """The rows of a suite's runs, and of further bundles."""
    texts = [*([str(suite.runs)] if _has_bundles(suite.runs) else []), *bundles]
    return select(texts, hardware=suite.machine) if texts else Selection([], [])


def _has_bundles(folder: Path) -> bool:
    from aiperf_core.results.listing import bundles

    return bool(bundles(folder))


def decide(suite: Suite, selection: Selection) -> Gated:
    """Gate the newest run of a selection.

    It is held to the runs of the branch `base`, or of its own branch. Runs of the newest commit belong to it: they
    confirm or refute it. A bundle that was changed after its run is distrusted, and not compared with.
    """
    selection = _of_branch(suite, selection)
    decisions = [Decision(one.what, "", "", "", "DISTRUSTED", one.reason) for one in selection.changed]
    if not selection.runs:
        return Gated(decisions)
    last = selection.runs[0]
    decisions += _distrusted(selection, last.id)
    series = [
        (gate, one)
        for gate in suite.gates
        for one in series_of(selection, STORED[gate.metric], gate.floor, "created")
        if gate.is_for(one.key.target, one.key.implementation) and one.runs[-1].entry.run.id == last.id
    ]
    decisions += [_decision(gate, one, len(series)) for gate, one in series]
    decisions += _silent(suite, selection, last.id)
    return Gated(decisions, last.id, len(selection.runs) - 1)


def _of_branch(suite: Suite, selection: Selection) -> Selection:
    """The runs of the base branch, and those of the newest run's commit."""
    if not selection.runs:
        return selection
    last = selection.runs[0].manifest.labels
    branch = suite.base or last.get("branch")
    own = (last.get("branch"), last.get("commit"))

    def belongs(labels: dict[str, str]) -> bool:
        of_commit = own[1] is not None and (labels.get("branch"), labels.get("commit")) == own
        return branch is None or labels.get("branch") in (branch, None) or of_commit

    runs = [one for one in selection.runs if belongs(one.manifest.labels)]
    kept = {id(one) for one in runs}
    return evolve(selection, runs=runs, every=[one for one in selection.every if id(one.run) in kept])


def _decision(gate: Gate, series: RunSeries, family: int) -> Decision:
    values, within = logs(series.estimates)
    # A change that stops is worse: upwards where lower is better.
    better = "up" if gate.stops == "down" else "down"
    standing = newest(values, within, series.floor, better, confirm=gate.confirm, family=family)  # type: ignore[arg-type]
    word = "REGRESSION" if standing.word == "IMPROVED" and gate.stops == "both" else standing.word
    if word == "SUSPECT" and not standing.worse and gate.stops != "both":
        word = "FINE"
    return _told(gate, series, standing, word)


def _told(gate: Gate, series: RunSeries, standing: Standing, word: str) -> Decision:
    expected, last = standing.expected, len(series.runs) - 1
    figures = [one.value for one in series.estimates]
    earlier = median(figures[:-1]) if last else None
    first = max(1, last - max(standing.agree, 1) + 1)
    near = series.near(first, last)
    return Decision(
        series.key.target,
        series.key.implementation,
        series.key.hardware,
        gate.metric,
        word,
        standing.reason,
        None if standing.change is None else 100 * (standing.change - 1),
        None if expected is None else 100 * (expected.low / expected.value - 1),
        None if expected is None else 100 * (expected.high / expected.value - 1),
        standing.agree,
        standing.runs,
        [one.told for one in near],
        series.runs[last].entry.origin,
        figures[-1],
        expected.value if expected else earlier,
        figures[-COURSE:],
        _cause(series, near, first, word),
    )


# The class of the cause by what changed beside a figure, the first that holds.
_CAUSES = {
    "hardware": ("processor", "GPUs"),
    "environment": ("driver", "torch", "triton", "python", "system"),
    "method": ("aiperf",),
}


def _cause(series: RunSeries, near: Sequence[Border], first: int, word: str) -> str:
    """The class of a change's cause with its evidence; empty without a change."""
    if word not in ("REGRESSION", "SUSPECT", "IMPROVED"):
        return ""
    for cause, whats in _CAUSES.items():
        if found := [one.told for one in near if one.what in whats]:
            return f"{cause}: {'; '.join(found)}"
    before, after = series.runs[first - 1].commit, series.runs[-1].commit
    if before and after and before != after:
        return f"code: {before} to {after}, with the same software and machine"
    if word == "SUSPECT":
        return "noise, unless another run agrees: nothing else is known to have changed"
    return "unknown: neither commit, software nor machine is known to have changed"


def _distrusted(selection: Selection, run: str) -> list[Decision]:
    """The rows of the newest run that are not trusted, and its targets that did not start."""
    found = []
    for one in _of_run(selection, run):
        verdict = one.row.verdict
        if not verdict.is_distrusted:
            continue
        word = "FAILED" if verdict is Verdict.FAILED else "DISTRUSTED"
        reason = f"{verdict.value}: {one.row.reason}"
        found.append(Decision(one.result.target, one.row.name, one.hardware, "", word, reason, origin=one.origin))
    manifest = next(one for one in selection.runs if one.id == run).manifest
    for skipped in manifest.skipped:
        if skipped.verdict is Verdict.FAILED:
            found.append(Decision(skipped.target, "", "", "", "FAILED", skipped.reason, origin=Origin(run)))
    return found


def _of_run(selection: Selection, run: str) -> list[Entry]:
    return [one for one in selection.every if one.run.id == run and one.row.role != "control"]


def _silent(suite: Suite, selection: Selection, run: str) -> list[Decision]:
    """The believed rows of the newest run without the figure of a gate that they had before."""
    found = []
    for gate in suite.gates:
        metric = STORED[gate.metric]
        had = {
            one.key
            for one in selection.entries
            if one.run.id != run and metric.estimate(one.result, one.row) is not None
        }
        for one in selection.entries:
            if (
                one.run.id == run
                and gate.is_for(*_names(one))
                and metric.estimate(one.result, one.row) is None
                and one.key in had
            ):
                reason = f"the newest run has no {gate.metric}: {one.row.reason or 'too few passes'}"
                named = (*_names(one), one.hardware, gate.metric)
                found.append(Decision(*named, "INCONCLUSIVE", reason, origin=one.origin))
    return found


def _names(entry: Entry) -> tuple[str, str]:
    return entry.result.target, entry.row.name
