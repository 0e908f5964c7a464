"""A profile on disk: what a tool saw of one implementation, per call, in SI units."""

from attrs import frozen

from aiperf_core.profiler import Observed

PROFILE_VERSION = 1


@frozen(kw_only=True)
class Artifact:
    """A file beside the profile: its name, size and SHA-256."""

    name: str
    bytes: int
    sha256: str


@frozen(kw_only=True)
class Profile:
    """One implementation under one tool.

    calls: how many the tool saw, so many `in_a_row` without anything between them. taken_s: the seconds of a call by the host's
    clock, an entry for each row of calls. cost_bytes: the least that the work must move in a call. created: local time with its
    zone.
    """

    target: str
    implementation: str
    role: str
    why: str
    device: str
    size: str
    params: dict[str, float]
    cache: str
    cost_bytes: float
    tool: str
    metrics: list[str]
    calls: int
    in_a_row: int
    taken_s: list[float]
    created: str
    aiperf: str
    observed: Observed
    artifacts: list[Artifact]
    schema_version: int = PROFILE_VERSION


@frozen(kw_only=True)
class NotProfiled:
    """An implementation of which there is no profile. `failed` tells a failure from something that this machine lacks."""

    target: str
    implementation: str
    reason: str
    failed: bool
