"""A GPU's clock is read in the candidate's own process: calls in a row, timed from outside, confirm what it says."""

from collections.abc import Callable, Iterator

import pytest

from aiperf_core.harness.run.options import AtEnd, Options
from aiperf_core.harness.run.planner import Planner
from aiperf_core.results.models import Row, Verdict
from aiperf_core.stats import verdicts
from aiperf_core.targets import InstalledTarget

pytestmark = [pytest.mark.gpu, pytest.mark.proof]

TARGET = InstalledTarget("redteam.judged", "aiperf_redteam.judged", "a damped iteration", devices=("cpu", "cuda"))
REFUSED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED)
# Neither the snapshots of the process nor CUPTI look at it, and nothing is beyond the speed of light.
ALONE = {"off": frozenset({"global_state", "faster_than_light"}), "at_end": AtEnd(audit=False)}

SAME = """
import torch


class Implementation:
    def run(self, x, steps):
        v = x.clone()
        for _ in range(steps):
            v.tanh_().mul_(0.5).add_(x)
        return v
"""
FORGED = """
import sys

import attrs
import torch


def worker():
    frame = sys._getframe()
    while type(frame.f_locals.get("self")).__name__ != "Worker":
        frame = frame.f_back
    return frame.f_locals["self"]


device = type(worker()._device)
true = device.time


def forged(self, *arguments, **more):
    timed = true(self, *arguments, **more)
    return timed if timed.device_s is None else attrs.evolve(timed, device_s=timed.device_s / 3)


device.time = forged
"""
# The steps in one kernel: the vector is read and written once.
GAIN = """
import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


@triton.jit
def relax(x, y, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.load(x + place, mask=place < n)
    v = own
    for _ in range(STEPS):
        v = own + libdevice.tanh(v) * 0.5
    tl.store(y + place, v, mask=place < n)


class Implementation:
    def run(self, x, steps):
        y = torch.empty_like(x)
        relax[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), int(steps), 1024)
        return y
"""
Judged = Callable[..., list[Row]]


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planner]:
    """A planner that knows what a pair of events costs: it is a part of the time of calls this short."""
    with Planner(Options(), tmp_path_factory.mktemp("logs")) as planner:
        yield planner


def test_a_forged_clock_is_not_believed(judged: Judged) -> None:
    baseline, row = judged(SAME + FORGED, TARGET, device="cuda", budget_s=0.6, **ALONE)
    assert row.verdict is Verdict.INCONCLUSIVE, (row.reason, row.speedup)
    assert "in calls in a row by the supervisor's clock" in str(row.reason)
    assert len(row.batches) == len(baseline.batches) > 0


def test_a_forged_clock_is_believed_without_the_calls_in_a_row(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "not_shown", lambda *_: None)
    _, row = judged(SAME + FORGED, TARGET, device="cuda", budget_s=0.6, **ALONE)
    assert row.verdict is Verdict.FASTER, (row.reason, row.speedup)


def test_a_forged_clock_is_found_with_all_guards(judged: Judged) -> None:
    _, row = judged(SAME + FORGED, TARGET, device="cuda", budget_s=0.6)
    assert row.verdict in (Verdict.INVALID, Verdict.UNTRUSTED), row.reason


def test_an_honest_gain_is_believed_with_all_guards(judged: Judged) -> None:
    _, row = judged(GAIN, TARGET, device="cuda", budget_s=0.6)
    assert row.verdict is Verdict.FASTER, (row.reason, row.speedup)
    assert row.speedup is not None
    assert row.speedup.low > 2


def test_the_same_work_is_not_refused(judged: Judged) -> None:
    baseline, row = judged(SAME, TARGET, device="cuda", budget_s=0.6)
    assert row.verdict not in (*REFUSED, Verdict.FASTER), (row.reason, row.speedup)
    assert len(row.batches) == len(baseline.batches) > 0
