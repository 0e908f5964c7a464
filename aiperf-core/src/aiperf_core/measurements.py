"""Measurements as plain records: samples, memory, energy, audits, and the ceilings of a device.

Units are SI and stand in the names: `_s` seconds, `_bytes` bytes, `_per_s` a rate, `_hz` a frequency. A figure that was
not measured is `None`, never zero. Devices make these records, results keep them.
"""

from attrs import field, frozen


@frozen
class Samples:
    """Every sample of one implementation in the order taken. All lists have one entry a sample; no sample is dropped.

    round: the fresh process that took it.
    block: the run of consecutive samples of this implementation within the target's run. A pass over all rows, in the
        order of the rows, takes as many block numbers as there are rows.
    step: the renewal of the inputs. Two implementations with the same step got the same values.
    device_s: the GPU's time for the call.
    wall_s: the time that the caller waits. A sample on a GPU has `device_s` or `wall_s`, since hiding spoils the wall
        clock. If an observer timed the sample: from the release of the inputs to the end, when the output is complete.
    own_s: if an observer timed the sample, the time of the call by the process's own clock. Of untrusted code it is a
        claim that decides nothing.
    cpu_s: processor time of the worker's process, all threads.
    bracket_s: the time between the worker's announcements of start and stop by the supervisor's clock, which may read
        either late. If an observer timed the sample: the same as `wall_s`.
    hidden: whether the launch was hidden behind a blocking kernel.
    judged: whether the output was compared with the reference.
    calls: the number of calls; more than 1 where a call is too short for the clock. All times cover all calls.
    voluntary_switches: how often a thread of the process gave up its processor.
    involuntary_switches: how often a thread of the process lost its processor.
    throttled: whether the clocks were held down after the sample's block.
    begun_s: by the supervisor's clock, from the request to the reported start of the clock; of untrusted code that no
        observer timed.
    answered_s: from the request to the answer, or to the start of its delivery.
    replied_s: of untrusted code, from the request until the whole output was there. If an observer timed the sample:
        from the release of the inputs until all processes had stopped.
    stopped_s: the processor time that the process used before the request, while it was stopped.
    done_s: of deferred work, from the start of the call to the end of the work.
    witness_s: of a sample by the wall clock, the time of a turn of the witness right before it: a fixed loop of integer
        arithmetic on the same processor; None where it was not run.
    simulated_s: of a simulated target, the virtual time that the implementation returned.
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
    begun_s: list[float | None] = field(factory=list)
    answered_s: list[float | None] = field(factory=list)
    replied_s: list[float | None] = field(factory=list)
    stopped_s: list[float | None] = field(factory=list)
    done_s: list[float | None] = field(factory=list)
    own_s: list[float | None] = field(factory=list)
    witness_s: list[float | None] = field(factory=list)
    simulated_s: list[float | None] = field(factory=list)

    def by(self, clock: str) -> list[float | None]:
        """The times by a clock: `device`, `wall` or `simulated`."""
        return {"device": self.device_s, "simulated": self.simulated_s}.get(clock, self.wall_s)


@frozen
class Answer:
    """The course of one sample, from its request to its answer, in seconds.

    held_s: the time on the sample's clock, by the supervisor.
    begun_s: from the request to the reported start of the clock; None if threads of other processes may still have been
        busy.
    answered_s: from the request to the answer, or to the start of its delivery.
    """

    held_s: float
    begun_s: float | None
    answered_s: float

    @property
    def beside_s(self) -> float:
        """The time beside the time on the clock."""
        return self.answered_s - self.held_s


@frozen
class Bracketed:
    """A sample's time by the worker's wall clock and by the supervisor's bracket."""

    wall_s: float
    bracket_s: float


@frozen
class Resampled:
    """Samples that were taken of a suspect and of the baseline in turns, and are not counted.

    baseline, own: how their answers came.
    baseline_brackets, own_brackets: their times by both clocks.
    """

    baseline: list[Answer] = field(factory=list)
    own: list[Answer] = field(factory=list)
    baseline_brackets: list[Bracketed] = field(factory=list)
    own_brackets: list[Bracketed] = field(factory=list)


@frozen
class Memory:
    """Memory of an implementation beyond the harness's inputs, from after `prepare` to the last sample.

    peak_bytes, allocated_bytes, reserved_bytes: by torch's allocator on the device.
    host_peak_bytes: the growth of the process's resident set.
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
    """The GPU's work in a call with one name: kernels, copies or fills on one stream.

    stream: numbered in the order of first appearance in the call.
    count: the number of pieces of work.
    seconds, bytes: sums over these pieces.
    """

    name: str
    kind: str
    stream: int
    count: int
    seconds: float
    bytes: int


@frozen
class Audit:
    """Some untimed calls under CUPTI, which is independent of the events that time the samples.

    span_s: for each call, from the start of its first piece of work to the end of its last, by CUPTI.
    event_s: the time of the same call by events.
    work: the work of the last call.
    stray: pieces of work that belong neither to a call nor to the harness.
    threads: threads that launched the work of the last call.
    retaken: how often its calls were made again, because the clocks disagreed.
    """

    span_s: list[float]
    event_s: list[float]
    work: list[Work]
    stray: int
    threads: int = 1
    retaken: int = 0


@frozen
class Flush:
    """The effect of a cache flush in an implementation's own process, as the time to read a buffer.

    hot_s: just after the buffer was read.
    cold_s: after reading other memory displaced it.
    flushed_s: after a flush, which must be close to `cold_s`.
    """

    hot_s: float
    cold_s: float
    flushed_s: float


@frozen
class Steady:
    """Calls without a pause, with the values of one sample, timed by the supervisor.

    waited_s: the time that threads of the process were ready to run and had no processor; null if the kernel does not
        tell.
    """

    calls: int
    bracket_s: float
    waited_s: float | None = None


@frozen
class Batch:
    """Calls in a row of untrusted code on a GPU, each on values of its own, timed by the supervisor.

    bracket_s: from the release of the inputs until all outputs lay in the judge's memory.
    """

    calls: int
    bracket_s: float

    @property
    def call_s(self) -> float:
        """The time of a call."""
        return self.bracket_s / self.calls


@frozen
class Spread:
    """The least, the median and the largest of several figures."""

    low: float
    median: float
    high: float


@frozen
class Energy:
    """Energy of one call, in joules.

    joules_per_call: the device's energy while the call ran.
    net_joules_per_call: the same without the idle energy.
    idle_watts: the power of the idle device.
    resolution_j, net_resolution_j: the possible error through the steps of the counter alone.
    calls, seconds: the length of the run.
    updates: steps of the counter that were used.
    update_s: the usual time between two steps.
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
    """Measured peak rates of a device. Each figure is the best of several runs.

    measured: when.
    flop_per_s: matrix products by precision; integer operations for int8.
    vector_flop_per_s: fused multiply-adds outside matrix units, by precision, with one operand that varies.
    multiply_add_flop_per_s: those with three registers as operands, by precision: what code that computes has.
    event_overhead_s: what a pair of events counts beyond the kernel between them.
    event_step_s: the least difference between two times by events.
    cache_bytes: the size of the last-level cache, where the device tells it.
    whole: whether the whole page was measured. A run measures the figures above, and of the others those that the
        costs and goals of its targets need.
    stream_bytes_per_s: by kind of loop.
    cache_bytes_per_s: reads from the last-level cache.
    shared_bytes_per_s: reads from all shared memories together.
    sectors_per_s: reads of 32 bytes from random places of memory.
    special_functions_per_s: exponentials of all special function units together.
    serial_step_s: a read from the last cache that the next one waits for.
    launch_s: from one empty kernel to the next.
    launch_wait_s: an empty kernel that the host waits for.
    graph_launch_s: from one empty kernel to the next within a graph.
    transfer_bytes_per_s: between host and device.
    peer_bytes_per_s: from GPU to GPU, such as `0-1`; from one to all others at once, such as `0-all`.
    loopback_bytes_per_s: from one process to another of this machine.
    disk_read_bytes_per_s: from the disk of the temporary folder, past the page cache.
    disk_write_bytes_per_s: to that disk, until the data is on it (fsync).
    all_reduce_bytes_per_s: bus bandwidth by number of GPUs.
    timer_resolution_s, timer_call_s: resolution and cost of the processor's clocks.
    how: by figure (`flop_per_s.bf16`), how it was measured.
    missing: by figure, why it was not measured.
    datasheet: figures of the maker's document `datasheet_name`.
    state: what the figures depend on.
    others_busy: the share of the processors that other processes used meanwhile. A busy machine gives figures that are
        too low.
    """

    device: str
    measured: str
    copy_bytes_per_s: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    flop_per_s: dict[str, float]
    vector_flop_per_s: dict[str, float] = field(factory=dict)
    multiply_add_flop_per_s: dict[str, float] = field(factory=dict)
    event_overhead_s: float | None = None
    event_step_s: float | None = None
    cache_bytes: float | None = None
    sm_clock_hz: float | None = None
    whole: bool = False
    stream_bytes_per_s: dict[str, float] = field(factory=dict)
    cache_bytes_per_s: float | None = None
    shared_bytes_per_s: float | None = None
    sectors_per_s: float | None = None
    special_functions_per_s: float | None = None
    serial_step_s: float | None = None
    launch_s: float | None = None
    launch_wait_s: float | None = None
    graph_launch_s: float | None = None
    transfer_bytes_per_s: dict[str, float] = field(factory=dict)
    peer_bytes_per_s: dict[str, float] = field(factory=dict)
    loopback_bytes_per_s: float | None = None
    disk_read_bytes_per_s: float | None = None
    disk_write_bytes_per_s: float | None = None
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
    """The machine at one moment. A figure that is unknown, or was left out of a quick reading, is None.

    at_s: by `time.monotonic`.
    sm_clock_hz, memory_clock_hz: of the GPU.
    temperature_c: of the GPU, or of the processor's package where no GPU is measured.
    power_w: of the GPU, averaged by its driver, perhaps over the last second.
    energy_j: a running total from an arbitrary origin, of the GPU or of the processor's packages and their memory.
    throttled: what holds the clocks down now (GPU), or did so since the last reading (`cpu_thermal`, `cpu_quota`).
    other_pids: processes that compute on this GPU and are not ours.
    cpu_clock_hz: the highest clock of the processors that this process may use; idle ones would hide it.
    cpu_busy: the share of all processors' time since the last reading that was worked.
    cpu_own: the share that our processes worked.
    steal: the share that a hypervisor took for its other guests.
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
class DeviceState:
    """The device at the last blocks. What it does not tell is None.

    clock_hz: of the GPU's multiprocessors, or the highest of the processors where no GPU is measured.
    temperature_c: as in `Reading`, at the last complete reading.
    throttled: as in `Reading`.
    """

    clock_hz: float | None
    temperature_c: float | None
    throttled: tuple[str, ...] | None


@frozen(kw_only=True)
class Census:
    """A worker's process between two samples, as the supervisor sees it. Linux only; a refused figure is None.

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


@frozen
class Faults:
    """Page faults of a process in a sample that an observer timed, from the release of its inputs to the end.

    minor: pages that the kernel provided without reading from disk.
    major: pages that the kernel read from disk.
    after_itself: whether no other implementation was sampled since its last sample.
    """

    minor: int
    major: int
    after_itself: bool = False


@frozen(kw_only=True)
class Rank:
    """Work and messages of one rank of several in a call.

    rank: its number.
    device: what torch calls its device.
    work_s: how long it was at work in a call.
    collectives: operations of torch.distributed that it entered, by name.
    wire_bytes: of the tensors that it handed to them.
    buckets: of the tensors that it handed to each reduction, in their order.
    processors: those that its process may use, as the kernel says; None of a rank on another machine.
    gpus: the UUIDs of those that the driver lists its process on; None where the driver lists it nowhere.
    """

    rank: int
    device: str
    work_s: float
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
