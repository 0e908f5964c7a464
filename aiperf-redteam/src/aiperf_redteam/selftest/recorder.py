"""Recording: evidence of issues that code alone cannot commit everywhere, written for `aiperf_recordings`.

`aiperf selftest --record FOLDER` runs an honest implementation on the machine as it is, and once more while more memory
is promised than there is. Then it runs every case of the issues that are still owed, or have been recorded before. What
the checks see in these runs is recorded.
"""

import contextlib
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from attrs import define, evolve, field, frozen

from aiperf_core import atomic
from aiperf_core.git import git_commit
from aiperf_core.proofs.outcomes import Outcome
from aiperf_core.proofs.recording import CONDITIONS, Recording, look_at, to_bytes
from aiperf_core.proofs.support import name_of
from aiperf_core.results.machine import machine, packages
from aiperf_core.validity.assess import built_in
from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.check import Check, Seen
from aiperf_core.validity.evidence import Evidence
from aiperf_core.validity.issues import Issue
from aiperf_core.version import SOURCES
from aiperf_redteam.selftest.runs import NotTriedError, RunKey
from aiperf_redteam.selftest.trials import Trials

# CUPTI, the probe of the flush and the control runs are part of this tier only.
TIER = "standard"


@frozen
class Written:
    """The outcome of a recording: the file that was written, or why there is none."""

    issue: str
    file: Path | None
    reason: str = ""


@define(eq=False)
class Recorder:
    """Runs what it takes and writes the evidence.

    wanted: the issues to record, by id.
    header: of every recording: `command`, `machine`, `versions` and `commit`.
    known: the recordings that are there already.
    """

    trials: Trials
    folder: Path
    wanted: Mapping[str, Issue]
    header: Mapping[str, Any]
    known: Sequence[Recorded]
    _kept: dict[tuple[str, str], Evidence] = field(factory=dict, init=False)

    def record(self, cases: Sequence[Case]) -> Iterator[Written]:
        """Record every situation and every case that this machine offers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.trials.checks = (*self.trials.checks, Check("recorder", self._keep))
        attacked = {case.issue for case in cases if not case.honest}
        # Code alone cannot commit these: either the machine shows them, or they are excluded.
        shown = [issue for issue in self.wanted.values() if issue.id not in attacked and not issue.excluded]
        for case in self._ordinary(cases) if shown else ():
            yield from self._as_it_is(case, shown)
        for case in cases:
            issue = self.wanted.get(case.issue)
            if issue is not None and (issue.owed or self._has(issue.id)):
                yield self._record_case(case, issue)

    def _keep(self, evidence: Evidence) -> list[Seen]:
        self._kept[evidence.role, evidence.name] = evidence
        return []

    def _ordinary(self, cases: Iterable[Case]) -> list[Case]:
        """An honest implementation of ordinary work for each device."""
        by_device: dict[str, Case] = {}
        for case in cases:
            issue = self.trials.issues.get(case.issue)
            if case.honest and not case.candidate and issue is not None and issue.category == "output":
                by_device.setdefault(case.device, case)
        return list(by_device.values())

    def _as_it_is(self, case: Case, shown: Sequence[Issue]) -> Iterator[Written]:
        """The machine as it is, then with more memory promised than there is."""
        written = set[str]()
        for situation, circumstances in (
            ("", contextlib.nullcontext()),
            ("more memory promised than there is", _promised()),
        ):
            with circumstances:
                try:
                    recording = self._run(case, situation)
                except NotTriedError as error:
                    yield Written(name_of(case), None, str(error))
                    continue
            for issue in [issue for issue in shown if issue.id not in written]:
                is_there = self._sees(recording, issue)
                if is_there or (not situation and self._has(issue.id) and issue.guard in (CONDITIONS, "machine")):
                    written |= {issue.id} if is_there else set()
                    yield self._write(issue, recording, honest=not is_there)

    def _record_case(self, case: Case, issue: Issue) -> Written:
        try:
            recording = self._run(case)
        except NotTriedError as error:
            return Written(issue.id, None, str(error))
        shown = self._sees(recording, issue)
        if shown == case.honest:
            return Written(issue.id, None, f"{name_of(case)} was {'flagged' if shown else 'not seen'}")
        return self._write(issue, recording, honest=case.honest)

    def _run(self, case: Case, situation: str = "") -> Recording:
        self.trials.plan(case)
        self._kept.clear()
        names = frozenset({case.implementation})
        key = RunKey(module=case.module, device=case.device, names=names, candidate=case.candidate, tier=TIER)
        run = self.trials.run(case, key, fresh=True)
        evidence = next((evidence for (role, _), evidence in self._kept.items() if role == "variant"), None)
        if evidence is None:
            why = f": {run.row.reason}" if run.row.reason else ""
            raise NotTriedError(Outcome.ERROR, f"no check looked at {run.row.name}, which is {run.row.verdict}{why}")
        sides = run.row.conditions, run.baseline.conditions
        return Recording(
            **self.header,
            date=datetime.now(UTC).date().isoformat(),
            run="; ".join(filter(None, [f"{name_of(case)} on {case.device}", situation])),
            evidence=_trimmed(evidence),
            conditions=sides if sides[0] and sides[1] else None,  # type: ignore[arg-type]  # none is None
        )

    def _sees(self, recording: Recording, issue: Issue) -> bool:
        """Whether the checks of its guard tell of the issue, under its own id or one that its protection names."""
        ids = (name.issue for name in look_at(recording, issue.guard, built_in()).seen)
        return any(name == issue.id or f"`{name}`" in issue.protection for name in ids)

    def _has(self, issue: str) -> bool:
        """Whether there is a recording that shows the issue."""
        return (self.folder / f"{issue}.json").exists() or any(
            recorded.issue == issue and not recorded.honest for recorded in self.known
        )

    def _write(self, issue: Issue, recording: Recording, *, honest: bool) -> Written:
        file = self.folder / f"{issue.id}{'.honest' if honest else ''}.json"
        atomic.write(file, to_bytes(recording))
        return Written(issue.id, file)


def _trimmed(evidence: Evidence) -> Evidence:
    """The evidence without what no recorded issue needs: most of its bytes, and all paths of the machine."""
    beside = _trimmed(evidence.baseline) if evidence.baseline else None
    bare = evolve(evidence, state_before=None, state_after=None, self_check=None, baseline=beside)
    return evolve(bare, libraries=None, server_libraries=None)


@contextlib.contextmanager
def _promised() -> Iterator[None]:
    """Have the kernel promise more memory than there is. No page of it is touched, so that it costs nothing."""
    share = psutil.virtual_memory().total // 2 // mmap.PAGESIZE * mmap.PAGESIZE
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            try:
                stack.enter_context(mmap.mmap(-1, share, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            except OSError:
                break
        yield


def header(command: Sequence[str]) -> dict[str, Any]:
    """The parts that every recording of this machine has."""
    here = machine()
    return {
        "command": " ".join(command),
        "machine": {
            "cpu": f"{os.cpu_count()} x {here.cpu}",
            "gpus": ", ".join(str(gpu.get("name", "GPU")) for gpu in here.gpus),
            "driver": here.driver or "",
            "system": here.system,
            "hypervisor": f"hypervisor: {here.hypervisor}" if here.hypervisor else "",
        },
        "versions": {name: version for name, version in packages().items() if not re.match(r"aiperf-(ch|labs)", name)},
        "commit": git_commit(SOURCES),
    }
