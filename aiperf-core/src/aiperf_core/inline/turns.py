"""Sides that take turns, block by block, in an order that is drawn anew for each pass, until a budget is spent."""

import gc
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from attrs import define, frozen

from aiperf_core.stats.intervals import MIN_PASSES

# Passes that a budget is divided into, and the most samples of a side in one.
_PASSES, _MOST_IN_BLOCK = 40, 64
# Part of the budget that warming up takes.
_WARM_UP = 0.15
# The most time for the passes without which nothing can be said, in budgets.
_OVERTIME = 10


@frozen
class Sample:
    """A timed sample: its side, its pass, and the time of one call in seconds."""

    side: str
    number: int
    time_s: float


@define
class Turns:
    """The turns of some sides.

    passes: the number of passes so far.
    took_s: the seconds that they took.
    """

    sides: Sequence[str]
    budget_s: float
    passes: int = 0
    took_s: float = 0.0

    def warmed(self, call_s: Callable[[], float]) -> float:
        """The shortest time of a side's call in seconds, once calls are warm."""
        end, shortest, calls = time.monotonic() + _WARM_UP * self.budget_s / len(self.sides), float("inf"), 0
        while calls < 2 or time.monotonic() < end:
            shortest, calls = min(shortest, call_s()), calls + 1
        return shortest

    def take(
        self,
        pass_s: float,
        block: Callable[[str, int], Iterable[Sample]],
        begin: Callable[[], None] = lambda: None,
    ) -> list[Sample]:
        """Take passes until the budget is spent and an interval can be made.

        pass_s: the seconds of one sample of every side.
        block: yields the given number of samples of a side.
        begin: is called before each pass.
        """
        each = max(1, min(_MOST_IN_BLOCK, int(self.budget_s / _PASSES / max(pass_s, 1e-9))))
        generator, samples, started = random.Random(), list[Sample](), time.monotonic()
        while (spent := time.monotonic() - started) < self.budget_s or self.passes < MIN_PASSES:
            if spent > _OVERTIME * self.budget_s:
                break
            begin()
            order = list(self.sides)
            generator.shuffle(order)
            for side in order:
                with _undisturbed():
                    samples += block(side, each)
            self.passes += 1
        self.took_s = time.monotonic() - started
        return samples


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage is collected meanwhile."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
