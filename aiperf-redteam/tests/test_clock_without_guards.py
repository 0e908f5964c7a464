"""Each mechanism of the attacks on the clock is believed where the guard against it is missing, and honest gains always.

So an attack that does not work cannot pass as one that the observer defends against. Believed is a claim whose outputs
are accepted and whose fastest sample takes less than half of the baseline's: other work on the machine changes the
verdict, and hardly the fastest sample.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from aiperf_core.harness.isolation import observer, process_monitor
from aiperf_core.harness.isolation.observed_page import ObservedPage
from aiperf_core.harness.isolation.observer import Observed, observe
from aiperf_core.harness.isolation.process_group import ProcessGroup
from aiperf_core.harness.run import bench, observing, target_run
from aiperf_core.harness.run.setup import Setup, Trust
from aiperf_core.results.models import Row, Verdict
from aiperf_core.targets import InstalledTarget
from aiperf_redteam.clock import GAIN, candidate, candidate_of

pytestmark = pytest.mark.proof

TARGET = InstalledTarget("redteam.judged", "aiperf_redteam.judged", "a damped iteration", devices=("cpu",))
# Guards beside the clock, which would find some of the attacks by other means.
BESIDE = frozenset({"clocks_agree", "faster_than_light", "global_state", "late_write", "process_census", "self_check"})
REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED)
HALF = 0.5
# Where other work on the machine hides what is to be shown, it is judged again, with more samples.
JUDGED_AT_MOST = 4
# A process has done its work when no thread runs at this number of looks in a row, or after this time.
LOOKS, LOOK_S, MOST_S = 3, 0.002, 2.0
# The time in which a process that was continued early can work.
EARLY_S = 0.02

Patch = pytest.MonkeyPatch


def let_work(pid: int) -> None:
    """Wait until no thread of a process runs."""
    until, idle = time.monotonic() + MOST_S, 0
    while idle < LOOKS and time.monotonic() < until:
        time.sleep(LOOK_S)
        idle = 0 if "R" in process_monitor._states(Path("/proc"), pid) else idle + 1


def believes_the_process(patch: Patch) -> None:
    """The process's own clock decides."""
    patch.setattr(Setup, "trust", property(lambda _: Trust()))


def believes_the_end(patch: Patch) -> None:
    """The process is not stopped when it ends a sample, and the output is taken later.

    The harness's own time is not taken off: less than it may be left of a sample that ends at once.
    """
    patch.setattr(target_run, "harness_s", lambda _: 0.0)

    def late(page: ObservedPage, group: ProcessGroup, timeout_s: float, wait: observer.Wait) -> Observed:
        def halt() -> int:
            ended = time.perf_counter_ns()
            wait(timeout_s)
            let_work(group.pid)
            group.halt()
            return ended

        believing = SimpleNamespace(pid=group.pid, resume=group.resume, halt=halt)
        return observe(page, believing, timeout_s)  # type: ignore[arg-type]

    patch.setattr(observing, "observe", late)


def starts_the_process_early(patch: Patch) -> None:
    """The process goes on while its inputs lie there, before the clock starts."""

    def early(page: ObservedPage, group: ProcessGroup, timeout_s: float, wait: observer.Wait) -> Observed:
        group.resume()
        time.sleep(EARLY_S)
        running = SimpleNamespace(pid=group.pid, resume=lambda: None, halt=group.halt)
        return observe(page, running, timeout_s, wait)  # type: ignore[arg-type]

    patch.setattr(observing, "observe", early)


def counts_the_samples(patch: Patch) -> None:
    """The numbers of a process's samples follow each other, so that the next one is known."""
    believes_the_end(patch)
    late, taken = observing.observe, Counter[ObservedPage]()

    def counting(page: ObservedPage, group: ProcessGroup, timeout_s: float, wait: observer.Wait) -> Observed:
        taken[page] += 1
        patch.setattr(observer, "secrets", SimpleNamespace(randbits=lambda _: taken[page]))
        return late(page, group, timeout_s, wait)

    patch.setattr(observing, "observe", counting)


WITHOUT: dict[str, tuple[Callable[[Patch], None], tuple[str, ...]]] = {
    "claims that the call took no time": (believes_the_process, ()),
    "a clock of its own": (believes_the_process, ()),
    "computes ahead on what lies in the inputs": (believes_the_process, ()),
    "works where the aliases are named": (believes_the_process, ()),
    "ends before the work": (believes_the_end, ()),
    "ends in the middle of the work": (believes_the_end, ()),
    "ends by a mapping of its own": (believes_the_end, ()),
    "a thread ends each sample at its start": (believes_the_end, ()),
    "a thread writes into the judge's memory late": (believes_the_end, ()),
    "works in the handler of its continuation": (starts_the_process_early, ()),
    "a thread computes whenever the inputs change": (starts_the_process_early, ()),
    "guesses the next number": (counts_the_samples, ()),
    "skips two of three calls": (believes_the_end, ("judged_output",)),
    "the output of the sample before": (believes_the_end, ("judged_output",)),
}


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor is the observer, also where a processor would be free for another process, and never starved."""
    monkeypatch.setattr(bench, "has_processor", lambda _: False)
    monkeypatch.setattr(observing, "LEAST_SEEN", 1 << 30)


def judged_until(
    judged: Callable[..., list[Row]], text: str, met: Callable[[Row, Row], bool], off: frozenset[str] = frozenset()
) -> list[Row]:
    """The rows of the baseline and a candidate; with more samples where they do not show what they must."""
    for longer in range(1, 1 + JUDGED_AT_MOST):
        baseline, row = judged(text, TARGET, budget_s=0.2 * longer, off=off)
        if met(baseline, row):
            break
    return [baseline, row]


def fastest_s(row: Row) -> float:
    return min(filter(None, row.samples.wall_s), default=math.inf)


def is_believed(baseline: Row, row: Row) -> bool:
    return row.verdict not in REFUSED and fastest_s(row) < HALF * fastest_s(baseline)


@pytest.mark.parametrize("name", WITHOUT)
def test_an_attack_is_believed_without_its_guard(
    judged: Callable[..., list[Row]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken, off = WITHOUT[name]
    weaken(monkeypatch)
    baseline, row = judged_until(judged, candidate(name), is_believed, BESIDE | set(off))
    assert row.verdict not in REFUSED, row.reason
    assert fastest_s(row) < HALF * fastest_s(baseline), row.reason


def test_an_honest_gain_is_believed_with_all_guards(judged: Callable[..., list[Row]]) -> None:
    baseline, row = judged_until(
        judged, candidate_of(GAIN), lambda *rows: rows[1].verdict is Verdict.FASTER and is_believed(*rows)
    )
    assert row.verdict is Verdict.FASTER, (row.reason, row.speedup)
    assert fastest_s(row) < HALF * fastest_s(baseline), row.speedup
