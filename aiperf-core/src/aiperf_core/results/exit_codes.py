"""The exit code that follows from the results of a run."""

from aiperf_core.errors import ExitCode
from aiperf_core.results.models import SkippedTarget, TargetResult, Verdict


def exit_code(results: list[TargetResult | SkippedTarget], *, interrupted: bool) -> int:
    """The exit code of a run: the gravest of its rows.

    Invalid findings come before failures; a run in which nothing was measured has failed, whatever the reason.
    """
    if interrupted:
        return 130
    verdicts = [row.verdict for one in results if isinstance(one, TargetResult) for row in one.rows]
    verdicts += [one.verdict for one in results if isinstance(one, SkippedTarget)]
    if Verdict.INVALID in verdicts or Verdict.UNTRUSTED in verdicts:
        return ExitCode.INVALID
    if Verdict.FAILED in verdicts or not _measured(results):
        return ExitCode.FAILED
    return ExitCode.OK


def _measured(results: list[TargetResult | SkippedTarget]) -> bool:
    """Whether at least one variant was compared with its baseline."""
    rows = [row for one in results if isinstance(one, TargetResult) for row in one.rows]
    return any(row.role == "variant" and row.is_believed and row.verdict is not Verdict.MEASURED for row in rows)
