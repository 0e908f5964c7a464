"""Parts of long answers: `limit` and `cursor` of a query, and `next` and `total` of the answer."""

from typing import Any

from attrs import frozen

from aiperf_analysis.dashboard.asked import Asked, whole_number
from aiperf_core.errors import UsageError

DEFAULT, MOST = 100, 1000


@frozen
class Part:
    """A part of a long answer: `start` to `stop`, of `total`."""

    start: int
    stop: int
    total: int

    @property
    def details(self) -> dict[str, Any]:
        """`total`, and `next`: the cursor of the next part, null at the end."""
        return {"total": self.total, "next": str(self.stop) if self.stop < self.total else None}


def part(asked: Asked, total: int) -> Part:
    """The part that a query asks for. CSV without a limit has everything. Raises UsageError."""
    whole = asked.one("format") == "csv" and not asked.one("limit")
    limit = total if whole else whole_number("limit", asked.one("limit", str(DEFAULT)), MOST)
    if limit < 1 and not whole:
        raise UsageError(f"limit takes a whole number from 1 to {MOST}; got 0.")
    start = min(whole_number("cursor", asked.one("cursor", "0"), 10**8), total)
    return Part(start, min(start + limit, total), total)
