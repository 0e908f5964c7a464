"""Prediction: the gain that an author expects of a variant, before it is measured."""

import re

from attrs import frozen

from aiperf_core.errors import BenchmarkError
from aiperf_core.measurements import Estimate

_NUMBER = r"\d+(?:\.\d+)?"
_FORM = re.compile(rf"(?:at least ({_NUMBER})|at most ({_NUMBER})|({_NUMBER}) to ({_NUMBER}))x: (\S.*)", re.DOTALL)


@frozen
class Prediction:
    """A range of gains over the step before, or over the baseline where a variant builds on none.

    low, high: the least and the largest gain; None where the range is open.
    why: the arithmetic behind it.
    """

    low: float | None
    high: float | None
    why: str

    @classmethod
    def parse(cls, text: str) -> "Prediction":
        """Read `1.6 to 1.9x: why`, `at least 2x: why` or `at most 1.1x: why`. Raises `BenchmarkError`."""
        found = _FORM.fullmatch(text)
        least, most, low, high, why = found.groups() if found else (None,) * 5
        ends = [None if end is None else float(end) for end in (least or low, most or high)]
        if why is None or 0.0 in ends or (low and high and float(low) > float(high)):
            raise BenchmarkError(
                f"predicts {text!r}; accepted is a range of gains with its reason, such as '1.6 to 1.9x: 1.2 ms of "
                "copies beside 1.0 ms of products', 'at least 2x: ...' or 'at most 1.1x: ...'"
            )
        return cls(ends[0], ends[1], why)

    def outcome(self, measured: Estimate) -> str:
        """`borne out` where the whole interval is in the range, `refuted` where none of it is, else `undecided`."""
        low, high = self.low or 0.0, self.high or float("inf")
        if measured.high < low or measured.low > high:
            return "refuted"
        return "borne out" if low <= measured.low and measured.high <= high else "undecided"

    def __str__(self) -> str:
        if self.low is None:
            return f"at most {self.high:g}x"
        return f"at least {self.low:g}x" if self.high is None else f"{self.low:g} to {self.high:g}x"
