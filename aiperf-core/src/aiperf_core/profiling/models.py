"""A profile on disk: what a tool saw of one implementation, per call, in SI units."""

from attrs import field, frozen

PROFILE_VERSION = 1


@frozen(kw_only=True)
class Hot:
    """Something that takes time: a kernel, a copy, a fill, an operator or a symbol, all of one name together.

    count, seconds, bytes: in one call, on average. share: of the seconds of all, from 0 to 1. by: the operator that launched it.
    metrics: of the tool's, by the names of `figures`, or by the tool's own where it has none there.
    """

    name: str
    kind: str
    count: float | None = None
    seconds: float | None = None
    share: float | None = None
    bytes: float | None = None
    by: str | None = None
    metrics: dict[str, float] = field(factory=dict)


@frozen(kw_only=True)
class Observed:
    """What a tool saw.

    version: the tool's. hot: the longest first. figures: of one call, by the names of `figures`. words: what is no number,
    such as `occupancy_limiter`. missing: what it does not offer, or could not tell here, with the reason. files: what it left in
    its folder that is worth keeping. notes: what a reader must know to read the figures.
    """

    version: str
    hot: list[Hot] = field(factory=list)
    figures: dict[str, float] = field(factory=dict)
    words: dict[str, str] = field(factory=dict)
    missing: dict[str, str] = field(factory=dict)
    files: list[str] = field(factory=list)
    notes: list[str] = field(factory=list)


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
