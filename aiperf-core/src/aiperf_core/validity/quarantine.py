"""Quarantine: untrusted code that was found invalid several times, by the hash of its content.

Kept in one file of the cache folder. It only saves the time of judging again: no verdict depends on it, and a file that
cannot be read or written is ignored.
"""

import contextlib
import json
from datetime import UTC, datetime
from pathlib import Path

import cattrs
from attrs import asdict, frozen

from aiperf_core import atomic
from aiperf_core.errors import AiperfError, ExitCode
from aiperf_core.folders import cache_folder
from aiperf_core.formats.candidate import CandidateSource
from aiperf_core.results.models import SkippedTarget, TargetResult

# After so many findings the code is not judged again. A single one may be an error of the machine.
OFFENCES = 3
# The oldest records are dropped first.
MOST_KEPT = 1000


class QuarantineError(AiperfError):
    """Code is in quarantine."""

    exit_code = ExitCode.INVALID


@frozen
class Record:
    """The record of one content.

    times: how often it was found invalid.
    issues: by which issues.
    day: the last time, as a date in UTC.
    """

    times: int
    issues: list[str]
    day: str


def refuse_known(source: CandidateSource) -> None:
    """Raise `QuarantineError` for a candidate whose content was found invalid `OFFENCES` times."""
    known = _read().get(source.sha256)
    if known is not None and known.times >= OFFENCES:
        raise QuarantineError(
            f"'{source.path}' is in quarantine: the same content (sha256 {source.sha256[:12]}) was found invalid "
            f"{known.times} times, last on {known.day}: {', '.join(known.issues)}. Change the file to have it judged "
            f"again, or remove its record from {_file()}."
        )


def note(source: CandidateSource, result: TargetResult | SkippedTarget) -> None:
    """Record a candidate if a finding made it invalid. Where the baseline is not believed, the workload is at fault."""
    baseline, *others = getattr(result, "rows", None) or (None,)
    if baseline is None or not baseline.is_believed:
        return
    rows = (one for one in others if one.role == "variant")
    issues = [finding.issue for one in rows for finding in one.findings if finding.severity == "invalid"]
    if not issues:
        return
    records = _read()
    before = records.pop(source.sha256, Record(0, [], ""))
    day = datetime.now(UTC).date().isoformat()
    records[source.sha256] = Record(before.times + 1, list(dict.fromkeys([*before.issues, *issues])), day)
    kept = dict(list(records.items())[-MOST_KEPT:])
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        atomic.write(_file(), json.dumps({sha256: asdict(one) for sha256, one in kept.items()}, indent=1).encode())


def _file() -> Path:
    return cache_folder() / "quarantine.json"


def _read() -> dict[str, Record]:
    try:
        return cattrs.structure(json.loads(_file().read_text()), dict[str, Record])
    except (OSError, ValueError, TypeError, AttributeError, cattrs.BaseValidationError):
        return {}
