"""The records of a run, as plain data.

Units are SI and end a name: `_s` seconds, `_bytes` bytes, `_per_s` a rate. A figure that was not measured is `None`,
never zero. The records do no I/O: `results.bundle` writes and reads them, `results.schema` describes them,
`results.structure` checks them.
"""

from enum import StrEnum
from typing import Any

from attrs import field, frozen

from aiperf_core import units
from aiperf_core.measurements import (
    Audit,
    Batch,
    Ceilings,
    Energy,
    Estimate,
    Flush,
    Memory,
    Resampled,
    Samples,
    Spread,
    Steady,
)
from aiperf_core.simulated import Simulated

SCHEMA_VERSION = 5
MOST_ROWS = 1_000  # of a target


class Verdict(StrEnum):
    """Verdict of a run about one implementation.

    FASTER, SLOWER, SAME and INCONCLUSIVE compare its time with the baseline's. Where the goal is `memory`, SMALLER and
    LARGER compare peak memory. MEASURED is a trusted time without a comparison: of the baseline itself, or of a
    yardstick. The others carry a reason instead of a speedup: INVALID for a finding, UNTRUSTED where clocks disagree,
    FAILED and SKIPPED for code that did not run.
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

    @property
    def is_believed(self) -> bool:
        """Whether figures may be shown and used. This is the only place that decides it."""
        return self not in DISBELIEVED

    @property
    def is_distrusted(self) -> bool:
        """Whether a finding or a failure speaks against the code. Code that was skipped did nothing wrong."""
        return not self.is_believed and self is not Verdict.SKIPPED


DISBELIEVED = (Verdict.INVALID, Verdict.UNTRUSTED, Verdict.FAILED, Verdict.SKIPPED)


@frozen
class Finding:
    """Sighting of a check, with its effect.

    issue: the stable id of a validity issue, such as `output.wrong_values`.
    severity: `invalid` or `warning`.
    """

    issue: str
    severity: str
    message: str
    evidence: dict[str, Any] = field(factory=dict)


@frozen
class Sighting:
    """An issue that was seen of an implementation, before any policy.

    verdict: the verdict of a row that is not believed for it.
    effects: by policy, `invalid`, `warning` or `ignored`; null where the registry of the core decides.
    """

    issue: str
    message: str
    evidence: dict[str, Any] = field(factory=dict)
    verdict: Verdict = Verdict.INVALID
    effects: dict[str, str] | None = None


@frozen
class Ending:
    """Why an implementation left the run, where no issue was seen: its process failed, or does not run here."""

    verdict: Verdict
    reason: str


@frozen
class Judging:
    """Rules by which the observations of a target are judged, beside its clock, goal and floor.

    policy: `strict`, `standard` or `lenient`.
    off: guards that were switched off.
    watches_calls: whether work beside the calls can be found.
    resamples: whether a suspect is resampled before a finding.
    exact_quantiles: whether intervals have the exact quantile of Student's t; an older bundle has its expansion, whose
        intervals of two and three rounds are too narrow.
    """

    policy: str = "standard"
    off: list[str] = field(factory=list)
    watches_calls: bool = False
    resamples: bool = False
    exact_quantiles: bool = False


@frozen
class Column:
    """How a column of samples is stored.

    dtype: numpy's name of the type.
    unit: of a time `s`, `ms` or `ns`; null for other columns.
    """

    dtype: str
    unit: str | None


@frozen
class SampleFile:
    """The file beside a target's that holds the samples of all its rows, row after row.

    name: the target's name, then the start of `sha256`, so that a target is never read with the samples of another run.
    """

    name: str
    sha256: str
    columns: dict[str, Column]


BOUNDS = ("memory", "compute", "wire", "disk", "pcie", "shared", "sectors", "special", "launches", "steps", "optimum")


@frozen
class SpeedOfLight:
    """The least time that cost and ceilings allow.

    bound: the resource that takes longest, one of `BOUNDS`.
    fraction: `time_s` divided by the median.
    """

    bound: str
    time_s: float
    fraction: float


@frozen
class Judgement:
    """How many timed samples were compared with the reference, and how well they agreed.

    worst: the largest error relative to the tolerance: 1.0 at its limit, 0.0 for bit-exact outputs. Null where no error
        could be computed: an output was NaN, infinite or of the wrong shape.
    """

    samples: int
    tolerance: str
    worst: float | None


@frozen
class Quality:
    """Quality that a lossy variant gives up.

    value: the worst value of the metric over the judged samples; null where it came out NaN or infinite.
    budget: the largest value that the variant declared.
    """

    metric: str
    value: float | None
    budget: float


@frozen(kw_only=True)
class Conditions:
    """A summary of readings of the machine. Figures that no reading has are null; shares are of those that have one.

    throttled: for each reason, the share of blocks after which it was seen.
    throttled_share: the share of blocks with a reason that no user chose.
    background: processors that other processes kept busy, as a share of all.
    steal: processor time that a hypervisor took, as a share of all.
    other_pids: foreign processes seen on the GPU.
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
    """One rank of several.

    time_s: the median time that the rank was at work in a call: processor time on a CPU, where waiting for other ranks
        does not count, the device's clock on a GPU.
    collectives: how often each operation of torch.distributed was called.
    wire_bytes: the bytes of the tensors given to collectives in a call.
    audit: CUPTI's view of its calls.
    conditions: the state of its device; null for the first rank, whose row has it.
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
    """The limits on the process of untrusted code.

    applied: the limits in force.
    lacking: the limits that the machine could not give, each with the reason.
    """

    applied: list[str] = field(factory=list)
    lacking: dict[str, str] = field(factory=dict)


@frozen
class Observations:
    """Observations of one implementation, before it is judged. `stats.judge` makes its row of it.

    role: `baseline`, `variant`, `yardstick`, or `control`: the baseline a second time, in a process of its own. A
        control's speedup shows what the machine makes of no difference.
    kind: of a baseline: `reasonable`, `naive` or `antipattern`.
    builds_on: the implementation to which this variant adds a mechanism.
    mechanisms: the mechanisms that a variant combines, as its author declared them.
    predict: the gain that its author expects, in the form of `aiperf_core.prediction`.
    teaches: of a step that gains nothing, the lesson of the loss.
    least_work: amounts of the cost that differ from the problem's, as an author declared them for this implementation.
    precision: of its arithmetic, where it differs from the problem's.
    beside: medians of figures other than times: `minor_faults` (pages that the kernel gave on first access),
        `until_done_s` (of deferred work, from the call's start to its end), and of a workload that serves requests
        `latency_p50_s`, `latency_p90_s`, `latency_p99_s` (arrival to answer) and `goodput_per_s` (answers in time a
        second).
    steady: runs of calls without a pause, timed by the supervisor's clock.
    batches: of a run of untrusted code on a GPU, calls in a row on values of their own, timed by the supervisor.
    conditions: the state of the machine after each block.
    no_energy: why there is no `energy`.
    floor_samples_s: the times of calls at the sizes of the host floor, by the wall clock.
    no_floor: why there are none, where the target declares such sizes.
    confined: the limits on untrusted code; null for trusted code.
    not_observed: guards that could not observe anything, with the reason.
    ranks: each rank of a distributed workload; the row's times are the slowest rank's.
    resampled: samples that were taken for a suspicion; null where there was none.
    seen: the issues that were seen while samples were taken, in their order.
    checked: the issues that the checks saw in the evidence, in their order.
    ending: why it left the run, where no issue was seen.
    """

    name: str
    role: str
    device: str
    kind: str | None = field(default=None, kw_only=True)
    why: str | None = field(default=None, kw_only=True)
    builds_on: str | None = field(default=None, kw_only=True)
    mechanisms: list[str] = field(factory=list, kw_only=True)
    requires: list[str] = field(factory=list, kw_only=True)
    predict: str | None = field(default=None, kw_only=True)
    teaches: str | None = field(default=None, kw_only=True)
    least_work: dict[str, float] = field(factory=dict, kw_only=True)
    precision: str | None = field(default=None, kw_only=True)
    prepare_s: float | None = field(default=None, kw_only=True)
    beside: dict[str, float] = field(factory=dict, kw_only=True)
    memory: Memory | None = field(default=None, kw_only=True)
    judgement: Judgement | None = field(default=None, kw_only=True)
    quality: Quality | None = field(default=None, kw_only=True)
    audit: Audit | None = field(default=None, kw_only=True)
    flush: Flush | None = field(default=None, kw_only=True)
    steady: list[Steady] = field(factory=list, kw_only=True)
    batches: list[Batch] = field(factory=list, kw_only=True)
    conditions: Conditions | None = field(default=None, kw_only=True)
    energy: Energy | None = field(default=None, kw_only=True)
    no_energy: str | None = field(default=None, kw_only=True)
    floor_samples_s: list[float] = field(factory=list, kw_only=True)
    no_floor: str | None = field(default=None, kw_only=True)
    samples: Samples = field(factory=Samples, kw_only=True)
    isolated_samples_s: list[float] = field(factory=list, kw_only=True)
    warmup_s: list[float] = field(factory=list, kw_only=True)
    log: list[str] = field(factory=list, kw_only=True)
    confined: Confined | None = field(default=None, kw_only=True)
    not_observed: dict[str, str] = field(factory=dict, kw_only=True)
    ranks: list[RankTime] = field(factory=list, kw_only=True)
    resampled: Resampled | None = field(default=None, kw_only=True)
    seen: list[Sighting] = field(factory=list, kw_only=True)
    checked: list[Sighting] = field(factory=list, kw_only=True)
    ending: Ending | None = field(default=None, kw_only=True)


@frozen
class Row(Observations):
    """One implementation of a target: the observations, and what they amount to.

    reason: why the row is not believed, or why nothing was concluded.
    speedup: the baseline's time divided by this row's.
    step_speedup: the time of `builds_on` divided by this row's.
    device_s: of a row by the caller's clock, the device's time of a call whose launch is hidden, its clock's cost with
        it.
    floor_s: the host floor: the median time of the same program on the smallest tensors.
    memory_gain: the baseline's peak memory divided by this row's.
    isolated_s: the median of samples taken without other implementations in between.
    """

    verdict: Verdict
    reason: str | None = field(default=None, kw_only=True)
    findings: list[Finding] = field(factory=list, kw_only=True)
    clock: str | None = field(default=None, kw_only=True)
    time_s: Estimate | None = field(default=None, kw_only=True)
    wall_s: Estimate | None = field(default=None, kw_only=True)
    device_s: Estimate | None = field(default=None, kw_only=True)
    speedup: Estimate | None = field(default=None, kw_only=True)
    step_speedup: Estimate | None = field(default=None, kw_only=True)
    memory_gain: float | None = field(default=None, kw_only=True)
    bytes_per_s: float | None = field(default=None, kw_only=True)
    flop_per_s: float | None = field(default=None, kw_only=True)
    wire_bytes_per_s: float | None = field(default=None, kw_only=True)
    disk_bytes_per_s: float | None = field(default=None, kw_only=True)
    speed_of_light: SpeedOfLight | None = field(default=None, kw_only=True)
    isolated_s: Estimate | None = field(default=None, kw_only=True)
    floor_s: Estimate | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        parts = [self.verdict.value]
        if self.time_s is not None:
            parts.append(units.seconds(self.time_s.value))
        if self.speedup is not None:
            parts.append(units.ratio_estimate(self.speedup).value)
        return f"<Row {self.name!r}: {self.role}, {', '.join(parts)}>"

    @property
    def is_believed(self) -> bool:
        """Whether its figures may be shown and used."""
        return self.verdict.is_believed

    @property
    def is_skipped(self) -> bool:
        """Whether it did not run because this machine cannot run it."""
        return self.verdict is Verdict.SKIPPED


@frozen
class Overhead:
    """The harness's own time for a target. It is excluded from all timings.

    setup_s: before the first call of each round: processes, inputs, compilation and `prepare`.
    warmup_s: calls that are not counted, and the verification of the first.
    sampling_s: the wall time of the sampling loop, the sum of `timed_s` to `other_s`.
    timed_s: timed calls.
    refresh_s: drawing new input values and copying them into place.
    flush_s: eviction of the inputs from the caches, before each sample with a cold cache.
    verification_s: checks that inputs are unchanged, and comparisons with the reference.
    stopping_s: waiting until processes have stopped, in a run of untrusted code.
    messages_s: requests to the workers without the timed calls: clearing the last output, waking threads, fingerprints.
    other_s: calls that are not counted, the witness, readings of the machine, statistics.
    checks_s: after sampling: runs without pauses, samples alone, resampling, audits, energy.
    """

    samples: int
    setup_s: float
    warmup_s: float
    sampling_s: float
    timed_s: float
    refresh_s: float
    flush_s: float
    verification_s: float
    stopping_s: float
    messages_s: float
    other_s: float
    checks_s: float


@frozen
class Problem:
    """The work of a target at one size.

    bytes_read, bytes_written, flops: the least traffic and arithmetic of a call.
    precision: the arithmetic that the work declares.
    tokens: tokens, samples or requests that a call delivers; 0 where none are declared.
    wire_bytes: bytes that a rank must send to others in a call, on average over the ranks.
    world_size: the number of ranks.
    nodes: the number of machines with ranks.
    disk_read_bytes: bytes that a call must read from the disk.
    disk_written_bytes: bytes that must be on the disk before a call returns.
    to_device_bytes, from_device_bytes, shared_bytes, sectors, special_functions, launches, serial_steps: as of
        `aiperf_core.Cost`.
    optimum_s: of a simulated target, the least virtual time that any schedule can take.
    floor: the sizes of the host floor, in place of those of `params`; empty where the target declares none.
    """

    size: str
    params: dict[str, float]
    bytes_read: float
    bytes_written: float
    flops: float
    precision: str
    tolerance: str
    input_bytes: int
    output_bytes: int
    tokens: float = 0.0
    wire_bytes: float = 0.0
    world_size: int = 1
    nodes: int = 1
    disk_read_bytes: float = 0.0
    disk_written_bytes: float = 0.0
    to_device_bytes: float = 0.0
    from_device_bytes: float = 0.0
    shared_bytes: float = 0.0
    sectors: float = 0.0
    special_functions: float = 0.0
    launches: float = 0.0
    serial_steps: float = 0.0
    optimum_s: float = 0.0
    floor: dict[str, float] = field(factory=dict)


@frozen
class TargetResult:
    """One target's file in a bundle.

    rows: the implementations, the baseline first. On disk `samples` of a row is their number; `sample_file` holds them.
    order: the implementations in the order in which they took turns.
    stopped: why sampling ended.
    clock_overhead_s: what the clock adds to a sample. Times of rows are without it, samples are with it. If an observer
        timed the samples: the least time that the harness itself took in a sample of the baseline.
    floor: the smallest relative difference that matters in a verdict.
    clock_source: the kind of the device's clock; null where there is none.
    executor: what started the workers.
    no_gain: why the target expects no variant to be better on this device.
    judging: what decided how its observations were judged.
    simulated: of a simulated target, the name of its virtual time, and the number of seeds; null for a measured one.
    witness_quiet_s: the time of a turn of the witness on the quiet machine: the least of all runs of what a tenth of a
        run's turns kept to; null where too few were run.
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
    judging: Judging = field(factory=Judging)
    simulated: Simulated | None = None
    witness_quiet_s: float | None = None
    schema_version: int = SCHEMA_VERSION


@frozen
class SkippedTarget:
    """A target that did not start on this machine, or whose file has a mistake."""

    target: str
    verdict: Verdict
    reason: str


@frozen
class Document:
    """A document of another package in a bundle, sealed and listed like a target's result.

    kind: a name from `DOCUMENT_KINDS`.
    payload: the content, which only that package knows.
    """

    kind: str
    name: str
    created: str
    payload: dict[str, Any]
    schema_version: int = SCHEMA_VERSION


# What measures a load on a server, and what measures a fleet of machines. A bundle has a folder of each kind.
DOCUMENT_KINDS = ("load", "fleet")


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
class RequestedTarget:
    """A target of a request.

    implementations: those to be measured; none stands for all.
    device, size, executor: null leaves the choice to the harness.
    params: single sizes that differ from the preset.
    """

    target: str
    implementations: list[str] = field(factory=list)
    device: str | None = None
    size: str | None = None
    params: dict[str, float] = field(factory=dict)
    executor: str | None = None


@frozen
class RunRequest:
    """Request of a run: everything that is needed to resume it or to repeat it.

    tier: `quick`, `standard` or `audit`.
    policy: `strict`, `standard` or `lenient`.
    budget_s: sampling time of a target; null takes the tier's.
    min_samples: the least number of samples of each implementation, whatever the budget.
    timeout_s: limit for one call.
    """

    targets: list[RequestedTarget]
    tier: str = "quick"
    policy: str = "standard"
    budget_s: float | None = None
    timeout_s: float = 60.0
    min_samples: int = 0


@frozen
class Stretch:
    """A part of a run, from a start to an end. A run that was resumed has several.

    ended: when it ended, or was last written where the end could not be recorded.
    ending: `finished`, `interrupted` (Ctrl-C), `cut off` (a kill, a crash, a full disk, a loss of power), or null while
        it runs.
    targets: the targets that were measured in it.
    state: the machine at the start: load, free memory, and of each GPU its clocks and temperature.
    """

    started: str
    ended: str
    ending: str | None
    targets: list[str]
    state: dict[str, Any]


@frozen
class BundleRef:
    """Another bundle: its path, and its seal if it had one."""

    path: str
    seal: str | None


@frozen
class Manifest:
    """The first page of a bundle: what was run, where, with which software, and whether it finished.

    ceilings: by device, what it was measured to reach.
    files: SHA-256 of the targets' sources, by module.
    git: the commit of the working directory, with `-dirty` where tracked files were changed.
    commit_time: when that commit was made, in ISO 8601.
    exit_code: null while the run goes on.
    hashes: the seal of a closed bundle: SHA-256 of each document and sample file by path, and of this page under its
        own name.
    request: what the run was asked for; null for a run that cannot be resumed.
    stretches: the run's course.
    sources: SHA-256 of the packages that decide a result, harness and kernels included, and of each kernel's file.
    reproduces: the bundle that this run repeats.
    labels: what the user noted with `--label`, such as `branch` or `pool`.
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
    commit_time: str | None = None
    hashes: dict[str, str] = field(factory=dict)
    request: RunRequest | None = None
    stretches: list[Stretch] = field(factory=list)
    sources: dict[str, str] = field(factory=dict)
    reproduces: BundleRef | None = None
    labels: dict[str, str] = field(factory=dict)
    schema_version: int = SCHEMA_VERSION
