"""Recordings: evidence of a real run on a named machine, for issues that code alone cannot commit everywhere.

`aiperf selftest --record FOLDER` writes them. It runs an honest implementation on the machine as it is, and once more
while more memory is promised than there is. Then it runs every case of the issues that are still owed, or have been
recorded before. What the checks see in these runs is recorded.
"""

import contextlib
import importlib.resources
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import psutil
from attrs import define, evolve, field, frozen

from aiperf_core import atomic
from aiperf_core.errors import BundleError
from aiperf_core.results import jsontext, structure
from aiperf_core.results.models import Conditions, Row
from aiperf_core.selftest.runs import NotTriedError
from aiperf_core.selftest.support import name_of
from aiperf_core.selftest.trials import ProofPlanner, Trials
from aiperf_core.stats.conditions import findings
from aiperf_core.validity.assess import Assessment, assess, built_in
from aiperf_core.validity.cases import Case, Recorded
from aiperf_core.validity.check import Check, Seen
from aiperf_core.validity.evidence import Evidence
from aiperf_core.validity.issues import Issue

# CUPTI, the probe of the flush and the control runs are part of this tier only.
TIER = "standard"
CONDITIONS = "conditions"


@frozen(kw_only=True)
class Recording:
    """The evidence of one run, as the checks saw it.

    command: the command line that recorded it.
    machine: processor, GPUs, driver, system and hypervisor.
    date: the day, in UTC.
    versions: of the packages that decide a result.
    commit: of the checkout, where there was one.
    run: the implementation and the circumstances.
    evidence: of the implementation, with its baseline's.
    conditions: of the machine beside the implementation's blocks, then beside the baseline's.
    """

    command: str
    machine: dict[str, str]
    date: str
    versions: dict[str, str]
    commit: str | None
    run: str
    evidence: Evidence
    conditions: tuple[Conditions, Conditions] | None = None

    def __str__(self) -> str:
        return f"on {', '.join(filter(None, self.machine.values()))}, {self.date}, by `{self.command}`: {self.run}"


def look_at(recording: Recording, guard: str, checks: Iterable[Check]) -> Assessment:
    """What the checks of a guard say of a recording."""
    if guard != CONDITIONS:
        return assess(recording.evidence, [one for one in checks if one.guard == guard])
    found = findings(*recording.conditions) if recording.conditions else []
    return Assessment(seen=[Seen(one.issue, one.message, one.evidence) for one in found])


@cache
def read(file: str) -> Recording:
    """Read a recording, named as in `Recorded`. Raises `BundleError`."""
    package, _, path = file.partition(":")
    try:
        return parse((importlib.resources.files(package) / path).read_bytes())
    except (OSError, ImportError) as error:
        raise BundleError(f"recording '{file}' cannot be read: {error}") from None


def parse(data: bytes) -> Recording:
    """Return the recording in a file's bytes. Raises `BundleError`."""
    try:
        return structure.structure(jsontext.loads(data), Recording)
    except jsontext.JsonError as error:
        raise BundleError(
            f"this is no recording of this version: {error}. Record it again: aiperf selftest --record"
        ) from None


def to_bytes(recording: Recording) -> bytes:
    """Return a recording as the bytes of its file."""
    return jsontext.to_bytes(structure.document(recording))


# --- recording


@frozen
class Told:
    """What became of an issue: the file that was written, or why there is none."""

    issue: str
    file: Path | None
    reason: str = ""


@define(eq=False)
class Recorder:
    """Runs what it takes and writes the evidence.

    wanted: the issues to record, by id.
    issues: all issues, by id.
    header: of every recording: `command`, `machine`, `versions` and `commit`.
    known: the recordings that are there already.
    """

    planner: ProofPlanner
    trials: Trials
    folder: Path
    wanted: Mapping[str, Issue]
    issues: Mapping[str, Issue]
    header: Mapping[str, Any]
    known: Sequence[Recorded]
    _kept: dict[tuple[str, str], Evidence] = field(factory=dict, init=False)

    def record(self, cases: Iterable[Case]) -> Iterator[Told]:
        """Record every situation and every case that this machine offers."""
        cases = list(cases)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.trials.checks = (*self.trials.checks, Check("recorder", self._keep))
        attacked = {one.issue for one in cases if not one.honest}
        # Code alone cannot commit these: either the machine shows them, or they are excluded.
        shown = [one for one in self.wanted.values() if one.id not in attacked and not one.excluded]
        for case in self._ordinary(cases) if shown else ():
            yield from self._as_it_is(case, shown)
        for case in cases:
            issue = self.wanted.get(case.issue)
            if issue is not None and (issue.owed or self._has(issue.id)):
                yield self._one(case, issue)

    def _keep(self, evidence: Evidence) -> list[Seen]:
        self._kept[evidence.role, evidence.name] = evidence
        return []

    def _ordinary(self, cases: Sequence[Case]) -> list[Case]:
        """An honest implementation of ordinary work for each device."""
        found: dict[str, Case] = {}
        for case in cases:
            issue = self.issues.get(case.issue)
            if case.honest and not case.candidate and issue is not None and issue.category == "output":
                found.setdefault(case.device, case)
        return list(found.values())

    def _as_it_is(self, case: Case, shown: Sequence[Issue]) -> Iterator[Told]:
        """The machine as it is, then with more memory promised than there is."""
        written = set[str]()
        for situation, circumstances in (
            ("", contextlib.nullcontext()),
            ("more memory promised than there is", _promised()),
        ):
            with circumstances:
                try:
                    found = self._run(case, self.issues[case.issue], situation)
                except NotTriedError as error:
                    yield Told(name_of(case), None, str(error))
                    continue
            for issue in [one for one in shown if one.id not in written]:
                is_there = self._sees(found, issue)
                if is_there or (not situation and self._has(issue.id) and issue.guard in (CONDITIONS, "machine")):
                    written |= {issue.id} if is_there else set()
                    yield self._write(issue, found, honest=not is_there)

    def _one(self, case: Case, issue: Issue) -> Told:
        try:
            found = self._run(case, issue)
        except NotTriedError as error:
            return Told(issue.id, None, str(error))
        shown = self._sees(found, issue)
        if shown == case.honest:
            return Told(issue.id, None, f"{name_of(case)} was {'flagged' if shown else 'not seen'}")
        return self._write(issue, found, honest=case.honest)

    def _run(self, case: Case, issue: Issue, situation: str = "") -> Recording:
        plan = self.trials.plan(case, issue)
        self._kept.clear()
        run = self.trials.run(case, plan, self.trials.key(case, TIER, frozenset()), fresh=True)
        evidence = next((one for (role, _), one in self._kept.items() if role == "variant"), None)
        if evidence is None:
            raise NotTriedError(*_no_evidence(run.row))
        sides = run.row.conditions, run.baseline.conditions
        return Recording(
            **self.header,
            date=datetime.now(UTC).date().isoformat(),
            run="; ".join(filter(None, [f"{name_of(case)} on {case.device}", situation])),
            evidence=_trimmed(evidence),
            conditions=sides if sides[0] and sides[1] else None,  # type: ignore[arg-type]  # none is None
        )

    def _sees(self, found: Recording, issue: Issue) -> bool:
        """Whether the checks of its guard tell of the issue, under its own id or one that its protection names."""
        told = (one.issue for one in look_at(found, issue.guard, built_in()).seen)
        return any(one == issue.id or f"`{one}`" in issue.protection for one in told)

    def _has(self, issue: str) -> bool:
        """Whether there is a recording that shows the issue."""
        return (self.folder / _name(issue, honest=False)).exists() or any(
            one.issue == issue and not one.honest for one in self.known
        )

    def _write(self, issue: Issue, found: Recording, *, honest: bool) -> Told:
        file = self.folder / _name(issue.id, honest=honest)
        atomic.write(file, to_bytes(found))
        return Told(issue.id, file)


def _name(issue: str, *, honest: bool) -> str:
    return f"{issue}{'.honest' if honest else ''}.json"


def _no_evidence(row: Row) -> tuple[Any, str]:
    from aiperf_core.selftest.outcomes import Outcome

    return Outcome.ERROR, f"no check looked at {row.name}, which is {row.verdict}" + (
        f": {row.reason}" if row.reason else ""
    )


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
    """What stands in every recording of this machine."""
    from aiperf_core.devices import host
    from aiperf_core.devices.gpus import gpus
    from aiperf_core.git import git_commit
    from aiperf_core.results.machine import packages

    found, driver = gpus()
    return {
        "command": " ".join(command),
        "machine": {
            "cpu": f"{os.cpu_count()} x {host.processor_model()}",
            "gpus": ", ".join(str(one.get("name", "GPU")) for one in found),
            "driver": driver or "",
            "system": host.operating_system(),
            "hypervisor": f"hypervisor: {host.hypervisor()}" if host.hypervisor() else "",
        },
        "versions": {name: one for name, one in packages().items() if not re.match(r"aiperf-(ch|labs)", name)},
        "commit": git_commit(Path(__file__).parent),
    }
