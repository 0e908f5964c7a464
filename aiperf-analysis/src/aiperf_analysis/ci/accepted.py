"""Accepted regressions, with name and reason: a level that was accepted is not flagged again."""

import getpass
import json
import math
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from attrs import asdict, evolve, frozen

from aiperf_analysis.ci.gating import Decision, Gated
from aiperf_analysis.ci.suite import Suite
from aiperf_core import atomic
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.report.metrics import STORED
from aiperf_core.report.result import Result
from aiperf_core.results import jsontext

_FLAGGED = ("REGRESSION", "SUSPECT")


@frozen(kw_only=True)
class Accepted:
    """An accepted figure of a row.

    series: `target:implementation`.
    figure: the newest one when it was accepted, in the metric's unit.
    bundle: its run.
    """

    series: str
    hardware: str
    metric: str
    figure: float
    bundle: str
    when: str
    who: str
    because: str

    @property
    def sentence(self) -> str:
        """The name of the person, the day and the reason."""
        return f"accepted by {self.who} on {self.when[:10]}: {self.because}"

    def covers(self, decision: Decision) -> bool:
        """Tell whether a decision is on this row, and its figure no worse than this one beyond the usual interval."""
        same = (decision.name, decision.hardware, decision.metric) == (self.series, self.hardware, self.metric)
        if not same or decision.now is None or decision.now <= 0:
            return False
        worse = math.log(decision.now / self.figure) * (1 if STORED[self.metric].better == "down" else -1)
        return worse <= math.log1p((decision.high_percent or 0) / 100)


def place(suite: Suite) -> Path:
    """The file with what was accepted of a suite."""
    return suite.home / "accepted.json"


def read(suite: Suite) -> list[Accepted]:
    """The accepted regressions of a suite. Raises AiperfError for a file that cannot be read."""
    path = place(suite)
    try:
        return [Accepted(**one) for one in json.loads(path.read_bytes())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise AiperfError(f"cannot read '{words(str(path))}', the accepted regressions: {error}.") from error


def accept(suite: Suite, gated: Gated, series: str, because: str) -> list[Accepted]:
    """Accept the regressions of a row, and keep that in the suite's folder.

    Raises UsageError where the newest run has none of this name.
    """
    flagged = [one for one in gated.decisions if one.word in _FLAGGED]
    found = [
        Accepted(
            series=one.name,
            hardware=one.hardware,
            metric=one.metric,
            figure=one.now,
            bundle=gated.newest or "",
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            who=_who(),
            because=because,
        )
        for one in flagged
        if one.name == series and one.now
    ]
    if not found:
        there = ", ".join(sorted({words(one.name) for one in flagged})) or "none"
        raise UsageError(f"the newest run has no regression of {words(series)!r}. Regressions and suspects: {there}.")
    path = place(suite)
    try:
        atomic.write(path, jsontext.dumps([asdict(one) for one in [*read(suite), *found]]).encode())
    except OSError as error:
        raise AiperfError(f"cannot write '{words(str(path))}': {error.strerror or error}.") from error
    return found


def _who() -> str:
    """The name that git has, or else that of the user."""
    try:
        done = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, check=False)
    except OSError:
        return getpass.getuser()
    return done.stdout.strip() or getpass.getuser()


def applied(gated: Gated, accepted: Sequence[Accepted]) -> Gated:
    """The decisions, with those that were accepted under a word of their own."""

    def decision(one: Decision) -> Decision:
        covering = [each for each in accepted if one.word in _FLAGGED and each.covers(one)]
        return evolve(one, word="ACCEPTED", reason=covering[-1].sentence) if covering else one

    return evolve(gated, decisions=[decision(one) for one in gated.decisions])


def shown(history: Result, gated: Gated) -> Result:
    """A history of the suite's rows, with what was accepted in place of a regression, and who accepted it."""
    reasons = {(one.name, one.hardware): one.reason for one in gated.decisions if one.word == "ACCEPTED"}
    (series, *others), flagged, told = history.tables, False, list[str]()
    records = []
    for record in series.records:
        cells, key = record.cells, (str(record.cells["series"]), str(record.cells["class"]))
        if cells["newest"] in _FLAGGED and key in reasons:
            cells = {**cells, "newest": "ACCEPTED", "why": reasons[key]}
            told.append(f"{words(key[0])}: {reasons[key]}.")
        flagged = flagged or cells["newest"] == "REGRESSION"
        records.append(evolve(record, cells=cells))
    if not told:
        return history
    status = history.status if flagged or history.status != "regression" else "ok"
    summary = [*told, *history.summary]
    return evolve(history, tables=[evolve(series, records=records), *others], summary=summary, status=status)
