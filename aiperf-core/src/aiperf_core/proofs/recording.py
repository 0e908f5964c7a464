"""Recordings: evidence of a real run on a named machine, for issues that code alone cannot commit everywhere."""

import importlib.resources
from collections.abc import Iterable
from functools import cache

from attrs import frozen

from aiperf_core.errors import BundleError
from aiperf_core.results import jsontext, structure
from aiperf_core.results.models import Conditions
from aiperf_core.stats.conditions import findings
from aiperf_core.validity.assess import Assessment, assess
from aiperf_core.validity.check import Check, Seen
from aiperf_core.validity.evidence import Evidence

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
    """Assess a recording by the checks of a guard."""
    if guard != CONDITIONS:
        return assess(recording.evidence, [check for check in checks if check.guard == guard])
    shown = findings(*recording.conditions) if recording.conditions else []
    return Assessment(seen=[Seen(finding.issue, finding.message, finding.evidence) for finding in shown])


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
