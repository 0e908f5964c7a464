"""A verdict in words: with its price in time where memory is the goal, and the role of a row that has no verdict."""

from aiperf_core import units
from aiperf_core.results.models import Row, TargetResult, Verdict

_OF_MEMORY = (Verdict.SMALLER, Verdict.LARGER, Verdict.SAME)


def verdict_text(result: TargetResult, row: Row) -> str:
    """The verdict of a row: `FASTER`, `SMALLER, 5.0x slower`; its role where it was only measured."""
    if row.verdict is Verdict.MEASURED:
        return role_text(row)
    return ", ".join(filter(None, (row.verdict.value, price(result, row), "lossy" if row.quality else "")))


def role_text(row: Row) -> str:
    """The role in words: `baseline`, `baseline (naive)`, `A/A control`, `yardstick`; empty for a variant."""
    kind = f" ({row.kind})" if row.kind not in (None, "reasonable") else ""
    return {"baseline": f"baseline{kind}", "control": "A/A control", "yardstick": "yardstick"}.get(row.role, "")


def price(result: TargetResult, row: Row) -> str:
    """The change of the time that a verdict about memory comes with: `5.0x slower`; empty for other verdicts."""
    speedup = row.speedup
    if result.goal != "memory" or row.verdict not in _OF_MEMORY or speedup is None:
        return ""
    if speedup.low > 1 + result.floor:
        return f"{units.number(speedup.value, 2)}x faster"
    if speedup.high < 1 - result.floor:
        return f"{units.number(1 / speedup.value, 2)}x slower"
    same = speedup.low >= 1 - result.floor and speedup.high <= 1 + result.floor
    return "same time" if same else "time undecided"
