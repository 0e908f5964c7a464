"""What untrusted code does to pages costs itself alone: the baseline's page faults are those of its own calls."""

import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from aiperf_core.candidate_format import AIPERF
from aiperf_core.formats.candidate import check_candidate
from aiperf_core.harness.run import sampler, target_run
from aiperf_core.harness.run.observing import ObservedTaker
from aiperf_core.harness.run.participant import Participant
from aiperf_core.harness.run.sampler import MIN_PASSES
from aiperf_core.harness.run.setup import Setup, Trust
from aiperf_core.measurements import Faults
from aiperf_core.results.models import DISBELIEVED, Row, TargetResult, Verdict
from aiperf_core.validity.checks.process_census import BASELINE_FAULTS, LEAST_MINOR_FAULTS
from aiperf_core.validity.evidence import Evidence

# Disturbs when its last output is released, which is before the judge writes new values, and in a thread.
CANDIDATE = """
import ctypes, os, threading, time, weakref
import torch

libc = ctypes.CDLL(None, use_errno=True)
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
libc.mprotect.argtypes = libc.madvise.argtypes
libc.mlock.argtypes = libc.madvise.argtypes[:2]
DONTNEED, REMOVE, COLD, PAGEOUT, POPULATE_WRITE = 4, 9, 20, 21, 23
HOLE = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


def places():
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "aiperf-buffers" in line:
                start, end = (int(one, 16) for one in line.split()[0].split("-"))
                yield start, end - start


def advise(*advices):
    for start, size in places():
        for advice in advices:
            libc.madvise(start, size, advice)


def files():
    for name in os.listdir("/proc/self/fd"):
        try:
            if "aiperf-buffers" in os.readlink("/proc/self/fd/" + name):
                yield int(name), os.fstat(int(name)).st_size
        except OSError:
            pass


def disturb():
    DISTURB


class Implementation:
    def prepare(self, x):
        self.out = torch.empty_like(x)
        THREAD

    def run(self, x):
        y = torch.mul(x, 2, out=self.out).view_as(x)
        weakref.finalize(y, disturb)
        return y
"""
ATTACKS = {
    "holes": "advise(REMOVE, POPULATE_WRITE)",
    "holes by a descriptor": "[libc.fallocate(fd, HOLE, 0, size) for fd, size in files()]",
    "other advice": "advise(COLD, PAGEOUT, DONTNEED)",
    "locks and rights": "[(libc.mlock(*one), libc.mprotect(*one, 1), libc.mprotect(*one, 3)) for one in places()]",
}
IN_THREAD = (
    "threading.Thread(target=lambda: [(disturb(), time.sleep(0.001)) for _ in range(20000)], daemon=True).start()"
)
# The page that it gives back is one of values alone: the first one has the allocator's header.
HONEST = (
    "for size in (1 << 20, 9 << 20): "
    "kept = torch.ones(size); libc.madvise((kept.data_ptr() + 4096) & -4096, 4096, DONTNEED)"
)

Judge = Callable[..., tuple[list[Row], list[Faults]]]


@pytest.fixture
def judge(measure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """The rows of the baseline and of a candidate, and the page faults of the baseline."""
    seen: list[Evidence] = []
    assess = target_run.assess
    monkeypatch.setattr(target_run, "assess", lambda one, *rest: [seen.append(one), assess(one, *rest)][1])

    def judge(disturb: str, thread: str = "pass") -> tuple[list[Row], list[Faults]]:
        file = tmp_path / "candidate.py"
        file.write_text(CANDIDATE.replace("DISTURB", disturb).replace("THREAD", thread))
        result = measure("large_output", candidate=check_candidate(file, AIPERF))
        assert isinstance(result, TargetResult), result
        assert result.rows[0].verdict is Verdict.MEASURED
        return result.rows, seen[0].faults

    return judge


@pytest.mark.parametrize(("name", "thread"), [*((name, "pass") for name in ATTACKS), ("holes", IN_THREAD)])
def test_code_takes_no_pages_from_the_baseline(judge: Judge, name: str, thread: str) -> None:
    _, faults = judge(ATTACKS[name], thread)
    assert len(faults) >= MIN_PASSES
    assert max(one.minor for one in faults) <= LEAST_MINOR_FAULTS, faults


@pytest.mark.parametrize("thread", ["pass", IN_THREAD], ids=["in its calls", "in a thread"])
def test_code_that_uses_much_memory_of_its_own_is_not_accused(judge: Judge, thread: str) -> None:
    (_, row), faults = judge(HONEST, thread)
    assert max(one.minor for one in faults) <= LEAST_MINOR_FAULTS, faults
    assert row.verdict not in DISBELIEVED, row.reason
    assert BASELINE_FAULTS not in {finding.issue for finding in row.findings}


@pytest.mark.quiet
@pytest.mark.parametrize("name", ["holes", "holes by a descriptor"])
def test_code_that_takes_pages_is_not_believed(judge: Judge, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(Setup, "trust", property(lambda _: Trust(untrusted=True, observed=True)))
    # On a fast machine a sample that is not counted precedes each block, and pays for the pages.
    monkeypatch.setattr(sampler, "BLOCK_S", 1e-6)
    (_, row), faults = judge(ATTACKS[name])
    taken = [one.minor for one in faults if not one.after_itself]
    message = (
        f"the baseline had {median(taken):.0f} minor page faults in {len(taken)} of {len(taken)} samples right after turns "
        f"of others, and at most {max(one.minor for one in faults if one.after_itself)} after its own: it paid for pages "
        "that others took"
    )
    assert min(taken) > 100
    assert row.verdict is Verdict.INCONCLUSIVE
    assert row.reason == f"{message}; repeat it on a machine with more free memory"
    assert [(one.severity, one.message) for one in row.findings if one.issue == BASELINE_FAULTS] == [
        ("warning", message)
    ]


def shared(pid: int) -> dict[str, str]:
    """What a process has that others may have too: descriptors and writable shared mappings, by device and inode."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        status = entry.stat()
        found[f"{status.st_dev}:{status.st_ino}"] = str(entry.readlink())
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        _, rights, _, device, inode, *path = line.split(maxsplit=5)
        if rights[1] == "w" and rights[3] == "s":
            major, minor = (int(one, 16) for one in device.split(":"))
            found[f"{os.makedev(major, minor)}:{inode}"] = rights + "".join(path)
    return found


def test_the_baseline_and_the_code_share_no_file_or_memory_that_either_can_write(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, dict[str, str]] = {}
    observe = ObservedTaker._observe

    def looking(self: ObservedTaker, one: Participant, timeout_s: float) -> Any:
        seen[one.name] = shared(one.worker.pid)
        return observe(self, one, timeout_s)

    monkeypatch.setattr(ObservedTaker, "_observe", looking)
    judge("pass")
    ours, theirs = seen["candidate"], seen["kept"]
    assert {ours[one] for one in ours.keys() & theirs.keys()} == {"/dev/null"}
