"""What a run leaves behind, as plain records.

Units are SI and stand in the names: `_s` seconds, `_bytes` bytes, `_per_s` a rate. A figure that was not measured is
`None`, never zero. The records do no I/O; `results.bundle` writes and reads them, and `results.schema` describes them.
"""

from enum import StrEnum
from typing import Any

from attrs import field, frozen

from aiperf_core.measurements import Audit, Ceilings, Energy, Estimate, Flush, Memory, Samples, Spread, Steady

SCHEMA_VERSION = 3
# Files of this version hold the samples as lists.
SAMPLES_IN_JSON = 1


class Verdict(StrEnum):
    """What a run says about one implementation.

    The first six compare it with the baseline: its time, or its peak memory where the goal is `memory` (`SMALLER` takes less,
    `LARGER` more). `MEASURED` is a trusted time without a comparison (the baseline itself,
    a yardstick). The others carry a reason instead of a speedup: `INVALID` for a finding, `UNTRUSTED` where the clocks
    disagree, `FAILED` and `SKIPPED` for what did not run.
    """

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SMALLER = "SMALLER"
    LARGER = "LARGER"
    SAME = "SAME"
    INCONCLUSIVE = "INCONCLUSIVE"
    MEASURED = "MEASURED"
    INVALID = "INVALID"
    UNTRUSTED = "UNTRUSTED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


@frozen
class Finding:
    """What a check saw. `issue` is a stable id such as `output.wrong_values`; `severity` is `invalid` or `warning`."""

    issue: str
    severity: str
    message: str
    evidence: dict[str, Any] = field(factory=dict)


@frozen
class Column:
    """How a column of samples is stored: numpy's name of its type, and of a time the unit (`s`, `ms` or `ns`)."""

    dtype: str
    unit: str | None


@frozen
class SampleFile:
    """The file beside a target's that holds the samples of all its rows, one row after the other.

    `name` begins with the target's and the SHA-256, so that a target is never read with the samples of another time.
    """

    name: str
    sha256: str
    columns: dict[str, Column]


@frozen
class Light:
    """The least time that cost and ceilings allow. `bound` is `memory` or `compute`, `fraction` is `time_s` / median."""

    bound: str
    time_s: float
    fraction: float


@frozen
class Judgement:
    """How many timed samples were compared with the reference, and the largest error relative to what is allowed.

    `worst` is 1.0 at the limit of the tolerance, 0.0 where the output was bit-exact, and None where an output was NaN or
    infinite or of the wrong shape, so that no error could be computed.
    """

    samples: int
    tolerance: str
    worst: float | None


@frozen
class Quality:
    """What a lossy variant gives up: the worst value of its metric over the judged samples, and its budget.

    `value` is None where the metric came out NaN or infinite.
    """

    metric: str
    value: float | None
    budget: float


@frozen(kw_only=True)
class Conditions:
    """A summary of readings. What no reading has is None; shares are of the readings that have the figure.

    throttled: for each reason, the share of blocks after which it was seen. throttled_share: the share with any that
    nobody chose. background: busy processors other than ours, as a share of all, and `steal` what a hypervisor took.
    other_pids: everybody else seen on the GPU.
    """

    readings: int = 0
    sm_clock_hz: Spread | None = None
    memory_clock_hz: Spread | None = None
    cpu_clock_hz: Spread | None = None
    temperature_max_c: float | None = None
    power_median_w: float | None = None
    throttled: dict[str, float] = field(factory=dict)
    throttled_share: float | None = None
    background: Spread | None = None
    steal: Spread | None = None
    other_pids: list[int] | None = None


@frozen
class RankTime:
    """One rank of several: its device, the seconds that it was at work in a call (median), and what it sends in one.

    On a processor they are of processor time, so that waiting for other ranks does not count; on a GPU its own clock's.
    `collectives` counts operations of torch.distributed by name, `wire_bytes` those of the tensors handed to them. `audit` is
    what CUPTI saw of its calls, and `conditions` the state of its device, where it is not that of the first rank.
    """

    rank: int
    device: str
    time_s: float
    collectives: dict[str, int] = field(factory=dict)
    wire_bytes: float = 0.0
    audit: Audit | None = None
    conditions: Conditions | None = None


@frozen
class Confined:
    """What held in the process of code that nobody trusts, and what the machine could not give, with the reason."""

    applied: list[str] = field(factory=list)
    lacking: dict[str, str] = field(factory=dict)


@frozen
class Row:
    """One implementation of a target.

    `role` is `baseline`, `variant`, `yardstick`, or `control`: the baseline once more, in a process of its own, whose
    speedup shows what the machine makes of no difference. `isolated_s` is the median of samples taken one after the
    other, without the other implementations in between, and `steady` has calls without a pause by the supervisor's own clock,
    some a round where a call is short. `conditions` sum up what the machine told after each block, and
    `no_energy` says why there is no `energy`. `confined` is there for a candidate;
    `not_observed` names guards that could not look, with the reason. `ranks` are those of a workload of several; the row's
    times are the slowest rank's. `memory_gain` is the baseline's peak memory by its own, of a variant or control. `beside` has medians of what a call has besides its time: `minor_faults`, the pages that the
    kernel gave it on first access, and, of work that goes on after the call, `until_done_s` from the call's start; of a call
    that serves requests, the percentiles `latency_p50_s`, `latency_p90_s` and `latency_p99_s` of all its samples' requests, from
    arrival until the answer lay in the harness's memory, and `goodput_per_s`, the median of answers in time a second.
    """

    name: str
    role: str
    device: str
    verdict: Verdict
    kind: str | None = None
    why: str | None = None
    builds_on: str | None = None
    requires: list[str] = field(factory=list)
    reason: str | None = None
    findings: list[Finding] = field(factory=list)
    clock: str | None = None
    time_s: Estimate | None = None
    wall_s: Estimate | None = None
    speedup: Estimate | None = None
    step_speedup: Estimate | None = None
    memory_gain: float | None = None
    bytes_per_s: float | None = None
    flop_per_s: float | None = None
    light: Light | None = None
    prepare_s: float | None = None
    beside: dict[str, float] = field(factory=dict)
    memory: Memory | None = None
    judgement: Judgement | None = None
    quality: Quality | None = None
    isolated_s: Estimate | None = None
    audit: Audit | None = None
    flush: Flush | None = None
    steady: list[Steady] = field(factory=list)
    conditions: Conditions | None = None
    energy: Energy | None = None
    no_energy: str | None = None
    samples: Samples = field(factory=Samples)
    isolated_samples_s: list[float] = field(factory=list)
    warmup_s: list[float] = field(factory=list)
    log: list[str] = field(factory=list)
    confined: Confined | None = None
    not_observed: dict[str, str] = field(factory=dict)
    ranks: list[RankTime] = field(factory=list)


@frozen
class Overhead:
    """What the harness itself took while a target ran, none of which is counted in a time.

    `sampling_s` is the wall time of the sampling loop, of which `timed_s` were timed calls, `renew_s` new input values,
    `judge_s` comparisons with the reference and `other_s` the rest (poison, flush, messages, statistics).
    `start_s` came before: processes, compilation, `prepare` and warm-up.
    """

    samples: int
    start_s: float
    sampling_s: float
    timed_s: float
    renew_s: float
    judge_s: float
    other_s: float


@frozen
class Problem:
    """The work of a target at one size: least traffic and arithmetic, and how an answer is judged."""

    size: str
    params: dict[str, float]
    bytes_read: float
    bytes_written: float
    flops: float
    precision: str
    tolerance: str
    input_bytes: int
    output_bytes: int


@frozen
class TargetResult:
    """One target's file in a bundle.

    On disk a row's `samples` are how many there are, and `sample_file` says where they stand.
    `floor` is the smallest relative difference that counted as one in a verdict. `clock_overhead_s` is what the clock
    adds to a sample: a pair of events to the work between them, the monotonic clock to a call on the processor. It was taken
    off the rows' times, and not off the samples. `clock_source` says what the device's clock is, where it has one, and `executor`
    who started the workers. `no_gain` is why no variant is expected to be better on this device, where the target says so.
    `drift_in_times` says whether intervals of times count how slowly a machine drifts; where a file does not say so they do not.
    """

    target: str
    summary: str
    goal: str
    clock: str
    cache: str
    device: str
    problem: Problem
    rows: list[Row]
    order: list[str]
    overhead: Overhead
    seed: int
    started: str
    wall_s: float
    stopped: str
    complete: bool
    tier: str = "quick"
    rounds: int = 1
    clock_overhead_s: float | None = None
    floor: float = 0.01
    clock_source: str | None = None
    executor: str = "here"
    no_gain: str | None = None
    drift_in_times: bool = False
    schema_version: int = SCHEMA_VERSION


@frozen
class SkippedTarget:
    """A target of which nothing could be started here, or whose own file is at fault."""

    target: str
    verdict: Verdict
    reason: str


@frozen
class Machine:
    """Where a run took place."""

    hostname: str
    system: str
    cpu: str
    cores: int
    memory_bytes: int
    python: str
    hypervisor: str | None = None
    gpus: list[dict[str, Any]] = field(factory=list)
    driver: str | None = None


@frozen
class AskedTarget:
    """A target that a run was asked for.

    No implementations stands for all; None for device, size and executor leaves the choice.
    """

    target: str
    implementations: list[str]
    device: str | None
    size: str | None
    params: dict[str, float]
    executor: str | None = None


@frozen
class Asked:
    """What a run was asked for: all that somebody needs who goes on with it or repeats it.

    `budget_s` is None where the tier's was good enough.
    """

    targets: list[AskedTarget]
    tier: str
    policy: str
    budget_s: float | None
    timeout_s: float


@frozen
class Stretch:
    """A run's course from a start to an end; one that was resumed has several.

    `ended` is when it ended, or last wrote something where nobody could note the end. `ending` is `finished`, `interrupted`
    by Ctrl-C, `cut off` (a kill, a crash, a full disk, a loss of power), or None while it goes on. `targets` were measured in it,
    `state` is the machine's at the start: load, free memory, and of each GPU its clocks and temperature.
    """

    started: str
    ended: str
    ending: str | None
    targets: list[str]
    state: dict[str, Any]


@frozen
class BundleRef:
    """Another bundle: where it lay, and its seal if it had one."""

    path: str
    seal: str | None


@frozen
class Manifest:
    """The bundle's first page: what was run, where, with what, and whether it was finished.

    `files` maps the modules of the targets to the SHA-256 of their sources, `ceilings` the devices that were used to what
    they were measured to reach. Device and seed stand with each target. `hashes` seal a bundle that was closed: the SHA-256
    of each target's file by its path, and of this page by its own name. `asked` is None for a run that cannot be resumed.
    `sources` are SHA-256 of the packages that decide a result, harness and kernels included, and of each kernel's file.
    `reproduces` is the bundle that this run was to repeat.
    """

    aiperf: str
    command: list[str]
    created: str
    machine: Machine
    packages: dict[str, str]
    plugins: list[dict[str, str]]
    ceilings: dict[str, Ceilings]
    files: dict[str, str]
    skipped: list[SkippedTarget]
    git: str | None
    complete: bool
    exit_code: int | None
    hashes: dict[str, str] = field(factory=dict)
    asked: Asked | None = None
    stretches: list[Stretch] = field(factory=list)
    sources: dict[str, str] = field(factory=dict)
    reproduces: BundleRef | None = None
    schema_version: int = SCHEMA_VERSION


DISBELIEVED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED, Verdict.SKIPPED)
