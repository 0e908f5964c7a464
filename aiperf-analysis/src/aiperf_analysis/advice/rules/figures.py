"""Rules on times, rates and energy of a row: what limits it, and what a faster version must change."""

from statistics import median

from aiperf_analysis.advice.rules.rule import Evidence, Rule, Subject, counted, measured, quotient, share
from aiperf_core.report.metrics import METRICS
from aiperf_core.report.result import Figure
from aiperf_core.results.models import Verdict

_NEAR = 0.90
_FAR = 0.50
_PART = 0.20
_FIRST = 100.0
_AMORTISED = 10_000.0
_TAIL = 5.0
_SHORT = 3.0  # launches
_ENERGY = 1.05
_STEP_UP = 4.0
_LEAST_LIGHT_S = 2e-5


def _fraction(subject: Subject) -> Figure | None:
    """The fraction of the speed of light with the ends that the time's interval gives."""
    light, time = subject.row.speed_of_light, subject.row.time_s
    if light is None or time is None or time.low <= 0:
        return None
    return share(light.time_s / time.value, light.time_s / time.high, light.time_s / time.low)


def _near_light(subject: Subject) -> Evidence | None:
    found = _fraction(subject)
    return {"fraction of the speed of light": found} if found and (found.low or 0) >= 100 * _NEAR else None


def _far(subject: Subject, bound: str) -> Evidence | None:
    """Far from a roof. The overhead of a call explains the distance of short work, which is left out."""
    found, light = _fraction(subject), subject.row.speed_of_light
    if found is None or light is None or light.bound != bound or (found.high or 0) >= 100 * _FAR:
        return None
    if light.time_s < _LEAST_LIGHT_S:
        return None
    rates = {
        "memory": ("declared bytes a second", subject.row.bytes_per_s, "B/s"),
        "compute": ("declared FLOP a second", subject.row.flop_per_s, "FLOP/s"),
    }
    name, rate, unit = rates[bound]
    return {"fraction of the speed of light": found} | ({name: counted(rate, unit)} if rate else {})


def _far_memory(subject: Subject) -> Evidence | None:
    return _far(subject, "memory")


def _far_compute(subject: Subject) -> Evidence | None:
    return _far(subject, "compute")


def _limited_by(subject: Subject, bound: str) -> Evidence | None:
    """The row is bound by a link or a disk, and comes near it."""
    found, light = _fraction(subject), subject.row.speed_of_light
    if found is None or light is None or light.bound != bound or (found.low or 0) < 100 * _FAR:
        return None
    rate = subject.row.wire_bytes_per_s if bound == "wire" else subject.row.disk_bytes_per_s
    return {"fraction of the speed of light": found} | ({"rate": counted(rate, "B/s")} if rate else {})


def _wire(subject: Subject) -> Evidence | None:
    return _limited_by(subject, "wire")


def _disk(subject: Subject) -> Evidence | None:
    return _limited_by(subject, "disk")


def _host_share(subject: Subject) -> Evidence | None:
    """The part of the caller's time in which the device did not work for the call."""
    found, wall = METRICS["host_share"].of(subject.result, subject.row), subject.row.wall_s
    if wall is None or (found.low or 0) < 100 * _PART:
        return None
    return {"launch and wait, of the caller's time": found, "caller's time": measured(wall)}


def _short_kernels(subject: Subject) -> Evidence | None:
    audit, roof = subject.row.audit, subject.ceilings
    kernels = [one for one in audit.work if one.kind == "kernel"] if audit else []
    count = sum(one.count for one in kernels)
    if roof is None or not roof.launch_s or count < 2:
        return None
    mean = sum(one.seconds for one in kernels) / count
    if mean >= _SHORT * roof.launch_s:
        return None
    return {
        "kernels in a call": counted(count, "count"),
        "mean time of a kernel": counted(mean, "s"),
        "time of an empty kernel": counted(roof.launch_s, "s"),
    }


def _gaps(subject: Subject) -> Evidence | None:
    """Idle time within the span of a call; of one stream only, since streams overlap."""
    audit = subject.row.audit
    if audit is None or not audit.span_s or len({one.stream for one in audit.work}) != 1:
        return None
    span, busy = median(audit.span_s), sum(one.seconds for one in audit.work)
    idle = 1 - busy / span if span > 0 else 0.0
    return {"GPU idle within a call": share(idle), "span of a call": counted(span, "s")} if idle >= _PART else None


def _copies(subject: Subject) -> Evidence | None:
    audit = subject.row.audit
    total = sum(one.seconds for one in audit.work) if audit else 0.0
    if audit is None or not total:
        return None
    copies = [one for one in audit.work if one.kind == "copy"]
    part = sum(one.seconds for one in copies) / total
    if part < _PART:
        return None
    return {"copies, of the GPU's work": share(part), "bytes copied": counted(sum(one.bytes for one in copies), "B")}


def _first_call(subject: Subject) -> Evidence | None:
    time, calls = subject.row.time_s, subject.row.warmup_s
    if time is None or not calls or time.value <= 0 or calls[0] / time.high < _FIRST:
        return None
    return {"first call": counted(calls[0], "s"), "first call / later call": counted(calls[0] / time.value)}


def _prepare(subject: Subject) -> Evidence | None:
    row, base = subject.row, subject.baseline
    if not row.prepare_s or base is None or row.time_s is None or base.time_s is None:
        return None
    saved = base.time_s.low - row.time_s.high
    if saved <= 0 or row.prepare_s / saved < _AMORTISED:
        return None
    least = row.prepare_s / max(base.time_s.high - row.time_s.low, 1e-30)
    middle = row.prepare_s / (base.time_s.value - row.time_s.value)
    calls = Figure(value=middle, low=least, high=row.prepare_s / saved, unit="count", certainty="derived")
    return {"calls until preparation is paid": calls, "preparation": counted(row.prepare_s, "s")}


def _tail(subject: Subject) -> Evidence | None:
    beside = subject.row.beside
    p50, p99 = beside.get("latency_p50_s"), beside.get("latency_p99_s")
    if not p50 or not p99 or p99 / p50 < _TAIL:
        return None
    return {"p99 / p50 of the latency": counted(p99 / p50), "p99": counted(p99, "s")}


def _slower(subject: Subject) -> Evidence | None:
    row = subject.row
    return {"speedup": measured(row.speedup, "1")} if row.verdict is Verdict.SLOWER and row.speedup else None


def _step_lost(subject: Subject) -> Evidence | None:
    found = subject.row.step_speedup
    if found is None or found.high >= 1 / (1 + subject.result.floor):
        return None
    return {f"speedup over {subject.row.builds_on}": measured(found, "1")}


def _energy(subject: Subject) -> Evidence | None:
    mine, base = subject.row.energy, subject.baseline.energy if subject.baseline else None
    if subject.row.verdict is not Verdict.FASTER or mine is None or base is None or base.net_joules_per_call <= 0:
        return None
    low = (mine.net_joules_per_call - mine.net_resolution_j) / (base.net_joules_per_call + base.net_resolution_j)
    rest = base.net_joules_per_call - base.net_resolution_j
    if low < _ENERGY or rest <= 0:
        return None
    value = mine.net_joules_per_call / base.net_joules_per_call
    high = (mine.net_joules_per_call + mine.net_resolution_j) / rest
    return {"net energy / baseline's": Figure(value=value, low=low, high=high, certainty="derived")}


def _precision(subject: Subject) -> Evidence | None:
    light, roof = subject.row.speed_of_light, subject.ceilings
    if light is None or roof is None or light.bound != "compute" or subject.result.problem.precision != "fp32":
        return None
    single, half = roof.flop_per_s.get("fp32"), roof.flop_per_s.get("bf16")
    if not single or not half or half / single < _STEP_UP:
        return None
    return {"bf16 rate / fp32 rate of this device": counted(half / single)}


def _steady(subject: Subject) -> Evidence | None:
    """Calls without a pause against single calls, both by clocks of the host."""
    row = subject.row
    if subject.result.device == "cpu":
        return None  # a processor has nothing to launch ahead
    runs = [one.bracket_s / one.calls for one in row.steady if one.calls > 1]
    if row.wall_s is None or not runs:
        return None
    mean = median(runs)
    if mean <= 0 or row.wall_s.low / mean < 1 / (1 - _PART):
        return None
    ratio = Figure(value=row.wall_s.value / mean, low=row.wall_s.low / mean, high=row.wall_s.high / mean,
                   certainty="derived")  # fmt: skip
    return {"single call / call without a pause": ratio, "call without a pause": counted(mean, "s")}


def _twin(subject: Subject) -> Evidence | None:
    row = subject.row
    if row.verdict is not Verdict.SAME or row.speedup is None or row.time_s is None:
        return None
    found = _fraction(subject)
    if found is None or (found.high or 0) >= 100 * _FAR:
        return None
    return {"speedup": measured(row.speedup, "1"), "fraction of the speed of light": found}


def _baseline_gap(subject: Subject) -> Evidence | None:
    """How far the row is from the fastest row of its target."""
    row = subject.row
    rows = [one for one in subject.result.rows if one.time_s and one.verdict in (Verdict.FASTER, Verdict.MEASURED)]
    best = min(rows, key=lambda one: one.time_s.value if one.time_s else 0.0, default=None)
    if row.role != "baseline" or best is None or best.name == row.name or not row.time_s or not best.time_s:
        return None
    ratio = quotient(row.time_s, best.time_s)
    return {f"time / time of {best.name}": ratio} if (ratio.low or 0) > 1 + subject.result.floor else None


RULES = (
    Rule(
        name="row.near_light",
        fact="The row takes little more than the least time that its bytes and FLOP allow.",
        advice="Change the work instead of the kernel: fuse it with its neighbours, or lower the precision.",
        targets=("ch09.elementwise_fusion", "ch09.norm_fusion", "ch01.precision_ladder"),
        find=_near_light,
    ),
    Rule(
        name="row.far_from_memory_light",
        fact="Memory bounds the work, and less than half of its rate is used.",
        advice="Let neighbouring threads access neighbouring addresses, load 16 bytes a thread, and keep more bytes "
        "in flight; read the counters with --tool ncu.",
        targets=("ch07.memory_access", "ch07.vectorized_copy", "ch08.occupancy_vs_ilp"),
        find=_far_memory,
    ),
    Rule(
        name="row.far_from_compute_light",
        fact="Arithmetic bounds the work, and less than half of its rate is used.",
        advice="Reuse operands in registers and shared memory, overlap loads with products, and use tensor cores.",
        targets=("ch09.micro_tiling_matmul", "ch10.double_buffered_gemm", "ch07.smem_matmul"),
        find=_far_compute,
    ),
    Rule(
        name="row.wire_bound",
        fact="The link between ranks bounds the work.",
        advice="Send fewer bytes, or hide the transfer behind computation.",
        targets=("ch04.grad_compression", "ch04.comm_compute_overlap", "ch04.ddp_overlap"),
        find=_wire,
    ),
    Rule(
        name="row.disk_bound",
        fact="The disk bounds the work.",
        advice="Use large requests, several at once, and let the program continue meanwhile.",
        targets=("ch05.file_read", "ch05.checkpoint_save"),
        find=_disk,
    ),
    Rule(
        name="row.host_share",
        fact="A fifth or more of the caller's time is launch and wait, not work of the device.",
        advice="Replay a CUDA graph, or put several calls into a launch.",
        targets=("ch01.launch_overhead", "ch12.cuda_graphs", "labs.decode_ladder"),
        find=_host_share,
    ),
    Rule(
        name="row.short_kernels",
        fact="Its kernels are hardly longer than an empty kernel.",
        advice="Fuse them, or batch them into one launch.",
        targets=("ch09.elementwise_fusion", "ch01.batched_gemm", "ch12.cuda_graphs"),
        find=_short_kernels,
    ),
    Rule(
        name="row.gaps",
        fact="The GPU is idle between the kernels of a call.",
        advice="Remove synchronisation from the call, and launch ahead or by a graph.",
        targets=("ch11.host_device_overlap", "ch12.cuda_graphs"),
        find=_gaps,
    ),
    Rule(
        name="row.copies",
        fact="Copies are a fifth or more of the GPU's work.",
        advice="Keep data on the device; copy from page-locked memory on a stream of its own.",
        targets=("ch02.host_transfer", "ch11.copy_overlap"),
        find=_copies,
    ),
    Rule(
        name="row.first_call",
        fact="The first call takes a hundred times as long as later ones, or more.",
        advice="Count compilation and tuning for short-lived processes: cache them, or choose a cheaper mode.",
        targets=("ch14.compile_modes", "ch19.kernel_autotune_dispatch"),
        find=_first_call,
    ),
    Rule(
        name="row.preparation",
        fact="The preparation is paid back only after 10,000 calls or more.",
        advice="Use this version where the preparation is reused that often, or store its result.",
        targets=("ch14.compile_modes",),
        find=_prepare,
    ),
    Rule(
        name="row.latency_tail",
        fact="The 99th percentile of the latency is five times the median or more.",
        advice="Look at queueing and batching: bound the waiting time, and separate long requests.",
        targets=("ch16.dynamic_batching", "ch17.disagg_goodput", "ch15.continuous_batching"),
        find=_tail,
    ),
    Rule(
        name="row.slower",
        fact="The variant is slower than the baseline at this size.",
        advice="Read under Breaks of the target where its mechanism stops paying; try other sizes with --set.",
        find=_slower,
    ),
    Rule(
        name="row.same_and_far",
        fact="The variant changes nothing, though the row is far from the speed of light.",
        advice="Its mechanism is not what limits: profile baseline and variant with --tool ncu or perf.",
        find=_twin,
    ),
    Rule(
        name="row.step_lost",
        fact="The step is slower than the version that it builds on.",
        advice="Leave this mechanism out, or find what it displaced.",
        find=_step_lost,
    ),
    Rule(
        name="row.energy_rose",
        fact="The version is faster and needs more energy a call.",
        advice="Compare both at a lower power limit, where power has a price.",
        find=_energy,
    ),
    Rule(
        name="row.precision",
        fact="Float32 arithmetic bounds the work, and bfloat16 runs at least four times as fast on this device.",
        advice="Try TF32 or bfloat16 with float32 accumulation, within an accuracy budget.",
        targets=("ch01.precision_ladder", "ch01.train_step"),
        find=_precision,
    ),
    Rule(
        name="row.waits_between_calls",
        fact="Calls without a pause are at least a fifth shorter than single calls.",
        advice="Do not wait for each call: launch ahead, and read results late.",
        targets=("ch11.host_device_overlap", "ch01.metric_sync"),
        find=_steady,
    ),
    Rule(
        name="row.faster_known",
        fact="Another row of this target does the same work in less time.",
        advice="Use that version, after its conditions and its memory were read.",
        find=_baseline_gap,
    ),
)
