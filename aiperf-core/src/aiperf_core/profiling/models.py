"""A profile on disk: the observations of a tool about one implementation, per call, in SI units."""

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

    cost_bytes: the least that the work must move in a call.
    calls: the number of calls under the tool.
    in_a_row: the calls of a window, without a pause.
    taken_s: the seconds of a call by the host's clock, an entry for each window.
    created: local time with its zone.
    aiperf: the version.
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
    """An implementation without a profile. `failed` is False when this machine lacks something."""

    target: str
    implementation: str
    reason: str
    failed: bool
