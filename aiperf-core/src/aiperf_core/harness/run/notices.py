"""The times of a worker's notices by the supervisor's clock."""

import time

from attrs import define, field

from aiperf_core.harness.processes.child import ChildError

# A worker's notices during a sample, in their order.
_NOTICES = ("start", "stop", "fingerprinted")


@define
class Notices:
    """The times of a worker's notices by the supervisor's clock: start, stop, fingerprint of the output.

    _guarded: whether each notice may come once, in this order. Otherwise the first of each counts.
    """

    _guarded: bool
    _seen: dict[str, int] = field(factory=dict)

    def note(self, notice: str) -> None:
        """Raises `ChildError` for one that does not come next."""
        if self._guarded and notice not in _NOTICES[len(self._seen) : len(self._seen) + 1]:
            raise ChildError("protocol", f"sent the notice {notice!r} after {', '.join(self._seen) or 'none'}")
        self._seen.setdefault(notice, time.perf_counter_ns())

    @property
    def bracket_s(self) -> float:
        """Seconds from the start to the stop. Raises `KeyError` where one of them is missing."""
        return (self._seen["stop"] - self._seen["start"]) / 1e9

    def fingerprinted(self, answered: float) -> float:
        """When the output was ready, by `time.perf_counter`: before it was delivered, or with the answer."""
        return self._seen["fingerprinted"] / 1e9 if "fingerprinted" in self._seen else answered

    def begun_s(self, asked: float) -> float:
        """Seconds from a time of `time.perf_counter` to the start."""
        return self._seen["start"] / 1e9 - asked
