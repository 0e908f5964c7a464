"""What was measured, as plain records: samples, memory, energy, audits, and what a device reaches.

Units are SI and stand in the names: `_s` seconds, `_bytes` bytes, `_per_s` a rate, `_hz` a frequency. A figure that was not
measured is `None`, never zero. Devices make these records, results keep them.
"""

from attrs import field, frozen


@frozen
class Samples:
    """Every sample of one implementation in the order taken; one entry a sample in every list, none dropped.

    `round` numbers the fresh processes, `block` the run of consecutive samples of this implementation within the target's
    run (a pass over all rows, in the order of the rows, takes as many numbers as there are rows), `step` the renewal of
    the inputs: two implementations that share a step were given the same values. `device_s` is the GPU's time for the
    call, `wall_s` what the caller waits for, `cpu_s` the processor time of the worker's process (all threads),
    `bracket_s` the time between the worker's announcements of start and stop by the supervisor's own clock, which may be
    late in reading either. A device sample hides the launch behind a blocking kernel (`hidden`), which would spoil the
    wall clock, so a sample on a GPU has one or the other. A call too short for the clock is timed several times in a row:
    `calls` are in a sample, and all its times are of them together. `voluntary_switches` and `involuntary_switches` count
    how often a thread of the process gave up its processor and how often one was taken from it. `throttled` says whether
    the clocks were held down when the machine was asked after the sample's block.
    """

    round: list[int] = field(factory=list)
    block: list[int] = field(factory=list)
    step: list[int] = field(factory=list)
    device_s: list[float | None] = field(factory=list)
    wall_s: list[float | None] = field(factory=list)
    cpu_s: list[float | None] = field(factory=list)
    bracket_s: list[float] = field(factory=list)
    hidden: list[bool] = field(factory=list)
    judged: list[bool] = field(factory=list)
    calls: list[int] = field(factory=list)
    voluntary_switches: list[int] = field(factory=list)
    involuntary_switches: list[int] = field(factory=list)
    throttled: list[bool] = field(factory=list)


@frozen
class Memory:
    """What an implementation took beyond the harness's inputs, from a reset after `prepare` until the last sample.

    The device's figures are those of torch's allocator; `host_peak_bytes` is the growth of the process's resident set.
    """

    peak_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    host_peak_bytes: int | None = None

    @property
    def most_bytes(self) -> int | None:
        """The peak of the device's memory, or of the host's where the device has none of its own."""
        return self.host_peak_bytes if self.peak_bytes is None else self.peak_bytes


@frozen
class Work:
    """What the GPU did in a call, by name: kernels, copies and fills on one stream.

    `seconds` and `bytes` are sums over `count` pieces; streams are numbered as they first appear in the call.
    """

    name: str
    kind: str
    stream: int
    count: int
    seconds: float
    bytes: int


@frozen
class Audit:
    """A few untimed calls under CUPTI, which is independent of the events that time the samples.

    For each call, `span_s` is the time from the start of its first piece of work to the end of its last by CUPTI,
    `event_s` the same call by events. `work` is that of the last call, launched by so many `threads`. `stray` counts
    pieces of work that belong to no call and are not the harness's.
    """

    span_s: list[float]
    event_s: list[float]
    work: list[Work]
    stray: int
    threads: int = 1


@frozen
class Flush:
    """What the flush before a sample does in an implementation's own process: seconds that a read of a buffer takes.

    `hot_s` just after it was read, `cold_s` after reading other memory had displaced it, `flushed_s` after a flush, which
    must be like `cold_s`.
    """

    hot_s: float
    cold_s: float
    flushed_s: float


@frozen
class Steady:
    """So many calls one after the other, with the values of one sample, timed by the supervisor.

    `waited_s` is how long threads of the process were ready to run and had no processor; None where the kernel does not say.
    """

    calls: int
    bracket_s: float
    waited_s: float | None = None


@frozen
class Spread:
    """The least, the median and the largest of some figures."""

    low: float
    median: float
    high: float


@frozen
class Energy:
    """Energy of one call, in joules.

    joules_per_call: all that the device took while it ran; net_joules_per_call: less what it takes when idle, which is
    `idle_watts`. resolution_j and net_resolution_j: how far off they may be for the steps of the counter alone.
    calls, seconds: the run. updates, update_s: steps of the counter that were used, and the usual time between two.
    method: always `energy counter`.
    """

    joules_per_call: float
    net_joules_per_call: float
    idle_watts: float
    resolution_j: float
    net_resolution_j: float
    calls: int
    seconds: float
    updates: int
    update_s: float
    method: str


@frozen
class Ceilings:
    """What this device was measured to reach, and when: each figure is the best of several runs.

    `flop_per_s` holds the rates of matrix products by precision (integer operations for int8), `vector_flop_per_s` those of
    fused multiply-adds outside matrix units. `event_overhead_s` is what a pair of events counts beyond the kernel between
    them, `event_step_s` the least difference between two such times. A run measures these; the rest belongs to the whole page (`whole`): `stream_bytes_per_s` by kind of loop,
    `cache_bytes_per_s` from the last-level cache, whose size is `cache_bytes` where the device tells it, `shared_bytes_per_s` from all shared memories together, `launch_s` from one
    empty kernel to the next, `launch_wait_s` for one that is waited for, `graph_launch_s` from one to the next within a
    graph, `transfer_bytes_per_s` between host and device, `peer_bytes_per_s` from GPU to GPU (`0-1`),
    `all_reduce_bytes_per_s` by number of GPUs (bus bandwidth), and what the clocks of a processor cost.

    `how` says by figure (`flop_per_s.bf16`) in a few words how it was measured, `missing` why it was not, `datasheet` what
    the maker promises in the document `datasheet_name`. `state` is what the figures depend on. `others_busy` is the share of
    the processors that other processes took meanwhile: figures of a busy machine are too low.
    """

    device: str
    measured: str
    copy_bytes_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    flop_per_s: dict[str, float]
    vector_flop_per_s: dict[str, float] = field(factory=dict)
    event_overhead_s: float | None = None
    event_step_s: float | None = None
    cache_bytes: float | None = None
    sm_clock_hz: float | None = None
    whole: bool = False
    stream_bytes_per_s: dict[str, float] = field(factory=dict)
    cache_bytes_per_s: float | None = None
    shared_bytes_per_s: float | None = None
    launch_s: float | None = None
    launch_wait_s: float | None = None
    graph_launch_s: float | None = None
    transfer_bytes_per_s: dict[str, float] = field(factory=dict)
    peer_bytes_per_s: dict[str, float] = field(factory=dict)
    all_reduce_bytes_per_s: dict[str, float] = field(factory=dict)
    timer_resolution_s: float | None = None
    timer_call_s: dict[str, float] = field(factory=dict)
    how: dict[str, str] = field(factory=dict)
    missing: dict[str, str] = field(factory=dict)
    datasheet: dict[str, float] = field(factory=dict)
    datasheet_name: str | None = None
    state: dict[str, str] = field(factory=dict)
    others_busy: float | None = None
    took_s: float | None = None


@frozen(kw_only=True)
class Reading:
    """The machine at one moment. What is not known, or was left out of a light reading, is None.

    at_s: by `time.monotonic`.
    sm_clock_hz, memory_clock_hz: of the GPU.
    temperature_c: of the GPU, or of the processor's package where no GPU is measured.
    power_w: of the GPU, as its driver averages it, which may be over the last second.
    energy_j: a running total from an arbitrary origin, of the GPU or of the processor's packages and their memory.
    throttled: what holds the clocks down now (GPU), or did so since the last reading (`cpu_thermal`, `cpu_quota`).
    other_pids: processes that compute on this GPU and are not among those named as ours.
    cpu_clock_hz: the fastest of the processors that this process may use; idle ones would hide it.
    cpu_busy, cpu_own, steal: of all processors' time since the last reading that has these figures, the parts that were
    worked, worked by the processes named as ours, and taken by a hypervisor for its other guests.
    """

    at_s: float
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    energy_j: float | None = None
    throttled: tuple[str, ...] | None = None
    other_pids: tuple[int, ...] | None = None
    cpu_clock_hz: float | None = None
    cpu_busy: float | None = None
    cpu_own: float | None = None
    steal: float | None = None


@frozen(kw_only=True)
class Census:
    """A worker's process as the supervisor saw it from outside, between two samples. Linux only; None is what was refused.

    busy_s: processor time that the process and its children spent since the call before ended, in seconds.
    """

    children: int | None = None
    threads: int | None = None
    busy_s: float | None = None
    nice: int | None = None
    scheduler: str | None = None
    affinity: tuple[int, ...] | None = None
    swapped_bytes: int | None = None
    major_faults: int | None = None
    gpus: tuple[str, ...] | None = None


@frozen(kw_only=True)
class Rank:
    """What one rank of several did in a call.

    rank: its number.
    device: what torch calls its device.
    work_s: how long it was at work in a call.
    waited_s: from the end of its work to the end of the slowest rank's.
    collectives: operations of torch.distributed that it entered, by name.
    wire_bytes: of the tensors that it handed to them.
    buckets: of the tensors that it handed to each reduction, in their order.
    processors: those that its process may use, as the kernel says; None of a rank on another machine.
    gpus: the UUIDs of those that the driver lists its process on; None where the driver lists it nowhere.
    """

    rank: int
    device: str
    work_s: float
    waited_s: float = 0.0
    collectives: dict[str, int] = field(factory=dict)
    wire_bytes: float = 0.0
    buckets: tuple[int, ...] = ()
    processors: tuple[int, ...] | None = None
    gpus: tuple[str, ...] | None = None


@frozen
class Estimate:
    """A median (or a ratio of medians) with its 95 % interval."""

    value: float
    low: float
    high: float
