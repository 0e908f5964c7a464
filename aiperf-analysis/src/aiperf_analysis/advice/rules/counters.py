"""Rules on the counters of Nsight Compute and perf."""

from aiperf_analysis.advice.rules.rule import Evidence, Rule, Source, Subject, counted, share
from aiperf_core.profiling.figures import STALL
from aiperf_core.profiling.models import Profile

# A full warp that loads 16 bytes a thread needs 16 sectors, so that more of them mean scattered addresses.
_WIDEST_SECTORS = 16.5
_CONFLICTS = 0.20
_FULL_WARP = 32
_ACTIVE = 24.0
_STALLED = 2.0
_LOW_OCCUPANCY = 0.50
_UNUSED_OCCUPANCY = 0.60
_MOST_REGISTERS = 255.0
_TRAFFIC = 1.5
_ROOF = 0.80
_BELOW = 0.40
_MISSES = 0.30
_TENSOR = 0.05
_FLOPS_A_BYTE = 50.0
_BRANCHES = 0.05
_FAULTS = 100.0
_SWITCHES = 10.0
_ACTIVE_THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"


def _ncu(subject: Subject) -> tuple[Profile, dict[str, float]] | None:
    profile = subject.profiles.get("ncu")
    return (profile, profile.observed.figures) if profile else None


def _perf(subject: Subject) -> dict[str, float]:
    profile = subject.profiles.get("perf")
    return profile.observed.figures if profile else {}


def _counter(subject: Subject, name: str) -> float | None:
    profile = subject.profiles.get("ncu")
    return profile.observed.figures.get(name) if profile else None


def _sectors(subject: Subject, name: str, label: str) -> Evidence | None:
    found = _counter(subject, name)
    return {label: counted(found)} if found is not None and found > _WIDEST_SECTORS else None


def _loads(subject: Subject) -> Evidence | None:
    return _sectors(subject, "sectors_per_load", "sectors a load request")


def _stores(subject: Subject) -> Evidence | None:
    return _sectors(subject, "sectors_per_store", "sectors a store request")


def _banks(subject: Subject) -> Evidence | None:
    conflicts, instructions = _counter(subject, "bank_conflicts"), _counter(subject, "warp_instructions")
    if not conflicts or not instructions or conflicts / instructions < _CONFLICTS:
        return None
    return {"bank conflicts / warp instruction": counted(conflicts / instructions),
            "bank conflicts": counted(conflicts, "count")}  # fmt: skip


def _divergence(subject: Subject) -> Evidence | None:
    found = _counter(subject, _ACTIVE_THREADS)
    return {f"active threads of {_FULL_WARP}": counted(found)} if found is not None and 0 < found < _ACTIVE else None


def _stalled(subject: Subject, *reasons: str) -> Evidence | None:
    """The reasons together are the most frequent stall, and long enough to matter."""
    profile = subject.profiles.get("ncu")
    if profile is None:
        return None
    stalls = {
        name.removeprefix(STALL): value for name, value in profile.observed.figures.items() if name.startswith(STALL)
    }
    # Warps that were selected, or could have been, do not wait.
    waits = {name: value for name, value in stalls.items() if name not in ("selected", "not_selected")}
    own = sum(waits.get(reason, 0.0) for reason in reasons)
    others = max((value for name, value in waits.items() if name not in reasons), default=0.0)
    if own < _STALLED or own <= others:
        return None
    return {"warps stalled an issue: " + " and ".join(reasons).replace("_", " "): counted(own)}


def _stall_memory(subject: Subject) -> Evidence | None:
    return _stalled(subject, "long_scoreboard")


def _stall_shared(subject: Subject) -> Evidence | None:
    return _stalled(subject, "short_scoreboard", "mio_throttle")


def _stall_requests(subject: Subject) -> Evidence | None:
    return _stalled(subject, "lg_throttle")


def _stall_barrier(subject: Subject) -> Evidence | None:
    return _stalled(subject, "barrier", "membar")


def _stall_math(subject: Subject) -> Evidence | None:
    return _stalled(subject, "math_pipe_throttle")


def _stall_chain(subject: Subject) -> Evidence | None:
    return _stalled(subject, "wait")


def _limiter(subject: Subject, resource: str) -> Evidence | None:
    profile = subject.profiles.get("ncu")
    if profile is None or resource not in profile.observed.words.get("occupancy_limiter", "").split(" and "):
        return None
    limit = profile.observed.figures.get("occupancy_limit")
    if limit is None or limit >= _LOW_OCCUPANCY:
        return None
    found = {"occupancy possible": share(limit)}
    for name, label, unit in (
        ("registers", "registers a thread", "count"),
        ("shared_bytes", "shared memory a block", "B"),
    ):
        if name in profile.observed.figures and name.startswith(resource.split()[0]):
            found[label] = counted(profile.observed.figures[name], unit)
    return found


def _by_registers(subject: Subject) -> Evidence | None:
    return _limiter(subject, "registers")


def _by_shared(subject: Subject) -> Evidence | None:
    return _limiter(subject, "shared memory")


def _by_blocks(subject: Subject) -> Evidence | None:
    return _limiter(subject, "blocks")


def _unused_occupancy(subject: Subject) -> Evidence | None:
    limit, achieved = _counter(subject, "occupancy_limit"), _counter(subject, "occupancy")
    if not limit or achieved is None or achieved / limit >= _UNUSED_OCCUPANCY:
        return None
    return {"achieved / possible occupancy": share(achieved / limit), "occupancy achieved": share(achieved)}


def _spills(subject: Subject) -> Evidence | None:
    for tool in ("ncu", "nsys", "torch"):
        profile = subject.profiles.get(tool)
        kernels = [one for one in profile.observed.hot if one.kind == "kernel"] if profile else []
        most = max((one.metrics.get("registers", 0.0) for one in kernels), default=0.0)
        if most >= _MOST_REGISTERS:
            return {"registers a thread": counted(most, "count")}
    return None


def _traffic(subject: Subject) -> Evidence | None:
    found = _ncu(subject)
    moved = found[1].get("dram_bytes") if found else None
    if found is None or not moved or not found[0].cost_bytes or moved / found[0].cost_bytes < _TRAFFIC:
        return None
    return {"DRAM bytes / bytes needed": counted(moved / found[0].cost_bytes), "DRAM bytes": counted(moved, "B")}


def _dram_roof(subject: Subject) -> Evidence | None:
    found = _counter(subject, "dram_share")
    return {"DRAM rate, of its peak": share(found)} if found is not None and found >= _ROOF else None


def _below_roofs(subject: Subject) -> Evidence | None:
    dram, sm = _counter(subject, "dram_share"), _counter(subject, "sm_share")
    if dram is None or sm is None or max(dram, sm) >= _BELOW:
        return None
    return {"DRAM rate, of its peak": share(dram), "SM throughput, of its peak": share(sm)}


def _l2(subject: Subject) -> Evidence | None:
    hits, traffic = _counter(subject, "l2_hit"), _traffic(subject)
    return {"L2 hits": share(hits)} | dict(traffic) if hits is not None and hits < _MISSES and traffic else None


def _no_tensor(subject: Subject) -> Evidence | None:
    """Work of many FLOP a byte in a precision of tensor cores, without them."""
    used, problem = _counter(subject, "tensor_share"), subject.result.problem
    moved = problem.bytes_read + problem.bytes_written
    if used is None or used >= _TENSOR or not moved or problem.flops / moved < _FLOPS_A_BYTE:
        return None
    if problem.precision not in ("fp16", "bf16", "fp8", "int8", "tf32"):
        return None
    return {"tensor pipe, of its peak": share(used), "FLOP a byte": counted(problem.flops / moved)}


def _cache_misses(subject: Subject) -> Evidence | None:
    figures = _perf(subject)
    misses, ipc = figures.get("cache_miss_share"), figures.get("ipc")
    if misses is None or ipc is None or misses < _MISSES or ipc >= 1:
        return None
    return {"last-level misses, of references": share(misses), "instructions a cycle": counted(ipc)}


def _branches(subject: Subject) -> Evidence | None:
    found = _perf(subject).get("branch_miss_share")
    return {"branches mispredicted": share(found)} if found is not None and found >= _BRANCHES else None


def _cpu_faults(subject: Subject) -> Evidence | None:
    found = _perf(subject).get("page_faults", 0.0)
    return {"page faults in a call": counted(found, "count")} if found >= _FAULTS else None


def _moved(subject: Subject) -> Evidence | None:
    figures = _perf(subject)
    switches, moves = figures.get("context_switches", 0.0), figures.get("cpu_migrations", 0.0)
    if switches < _SWITCHES and moves < 1:
        return None
    return {"context switches in a call": counted(switches, "count"),
            "moves to another processor": counted(moves, "count")}  # fmt: skip


NCU: tuple[Source, ...] = ("ncu",)
PERF: tuple[Source, ...] = ("perf",)

RULES = (
    Rule(
        name="ncu.scattered_loads", needs=NCU, find=_loads,
        fact="A load request of a warp needs more sectors than 16 bytes a thread explain.",
        advice="Let neighbouring threads read neighbouring addresses; change the layout, or stage in shared memory.",
        targets=("ch07.memory_access", "ch07.aos_soa", "ch07.transpose"),
    ),
    Rule(
        name="ncu.scattered_stores", needs=NCU, find=_stores,
        fact="A store request of a warp needs more sectors than 16 bytes a thread explain.",
        advice="Transpose in shared memory, so that each warp writes whole lines.",
        targets=("ch07.transpose", "ch07.memory_access"),
    ),
    Rule(
        name="ncu.bank_conflicts", needs=NCU, find=_banks,
        fact="Shared-memory accesses conflict in banks, at least once in five warp instructions.",
        advice="Pad or swizzle the rows of the tile.",
        targets=("ch06.bank_conflicts", "ch07.transpose"),
    ),
    Rule(
        name="ncu.divergence", needs=NCU, find=_divergence,
        fact="Fewer than 24 of 32 threads are active in an average instruction.",
        advice="Regroup the data, so that threads of a warp take the same branch.",
        targets=("ch08.warp_divergence",),
    ),
    Rule(
        name="ncu.stalled_on_memory", needs=NCU, find=_stall_memory,
        fact="Warps wait for global memory more than for anything else.",
        advice="Keep more loads in flight: unroll, load 16 bytes a thread, copy ahead, or raise occupancy.",
        targets=("ch08.occupancy_vs_ilp", "ch07.async_prefetch", "ch07.vectorized_copy"),
    ),
    Rule(
        name="ncu.stalled_on_shared_memory", needs=NCU, find=_stall_shared,
        fact="Warps wait for shared memory or its queue more than for anything else.",
        advice="Read shared memory less often: a tile of outputs in registers, wide reads, no bank conflicts.",
        targets=("ch09.micro_tiling_matmul", "ch06.bank_conflicts"),
    ),
    Rule(
        name="ncu.stalled_on_requests", needs=NCU, find=_stall_requests,
        fact="Warps wait because too many narrow requests are queued.",
        advice="Access 16 bytes a thread instead of 4.",
        targets=("ch07.vectorized_copy", "ch07.lowbit_unpack"),
    ),
    Rule(
        name="ncu.stalled_on_barriers", needs=NCU, find=_stall_barrier,
        fact="Warps wait at barriers more than for anything else.",
        advice="Replace block-wide steps by warp shuffles, or give loading and computing to different warps.",
        targets=("ch07.warp_reduce", "ch09.tensor_core_gemm"),
    ),
    Rule(
        name="ncu.stalled_on_arithmetic", needs=NCU, find=_stall_math,
        fact="Warps wait for an arithmetic pipe.",
        advice="Use another pipe (tensor cores, half precision) or fewer operations; more warps do not help.",
        targets=("ch01.precision_ladder",),
    ),
    Rule(
        name="ncu.stalled_on_chains", needs=NCU, find=_stall_chain,
        fact="Warps wait for the result of their own last instruction.",
        advice="Compute several independent chains in a thread.",
        targets=("ch08.ilp_chains",),
    ),
    Rule(
        name="ncu.registers_limit", needs=NCU, find=_by_registers,
        fact="Registers limit the occupancy to less than half.",
        advice="Try __launch_bounds__ or smaller tiles, and watch for spills; keep it if loads in flight suffice.",
        targets=("ch06.launch_bounds", "ch08.occupancy_vs_ilp"),
    ),
    Rule(
        name="ncu.shared_memory_limits", needs=NCU, find=_by_shared,
        fact="Shared memory limits the occupancy to less than half.",
        advice="Use smaller tiles or fewer stages, unless copies ahead already hide the latency.",
        targets=("ch10.double_buffered_gemm", "ch08.occupancy_vs_ilp"),
    ),
    Rule(
        name="ncu.small_blocks", needs=NCU, find=_by_blocks,
        fact="The number of blocks of a multiprocessor limits the occupancy: the blocks are small.",
        advice="Use at least 128 threads a block.",
        targets=("ch06.vector_add",),
    ),
    Rule(
        name="ncu.unused_occupancy", needs=NCU, find=_unused_occupancy,
        fact="The achieved occupancy is far below the possible: few blocks, a short last wave, or unequal blocks.",
        advice="Choose a grid of whole waves, or let persistent blocks fetch work.",
        targets=("ch02.wave_quantization",),
    ),
    Rule(
        name="profile.registers_at_limit", needs=("ncu", "nsys", "torch"), find=_spills,
        fact="A kernel uses all 255 registers of a thread; the compiler probably spills.",
        advice="Compile with -Xptxas -v to see spills; use smaller tiles for each thread.",
        targets=("ch06.launch_bounds", "ch09.micro_tiling_matmul"),
    ),
    Rule(
        name="ncu.more_traffic", needs=NCU, find=_traffic,
        fact="DRAM moves half as much again as the work needs, or more.",
        advice="Reuse data on the chip: tiles in shared memory, one pass instead of several, fused kernels.",
        targets=("ch07.smem_matmul", "ch09.softmax_online", "ch09.norm_fusion"),
    ),
    Rule(
        name="ncu.at_memory_roof", needs=NCU, find=_dram_roof,
        fact="DRAM works at four fifths of its peak rate or more.",
        advice="Only fewer bytes help: fusion, lower precision, better reuse.",
        targets=("ch09.elementwise_fusion", "ch01.precision_ladder"),
    ),
    Rule(
        name="ncu.below_both_roofs", needs=NCU, find=_below_roofs,
        fact="Neither DRAM nor the multiprocessors reach 40 % of their peak: latency limits.",
        advice="Look at the most frequent stall and at the size of the grid; give the device more independent work.",
        targets=("ch08.occupancy_vs_ilp", "ch08.ilp_chains", "ch02.wave_quantization"),
    ),
    Rule(
        name="ncu.l2_misses", needs=NCU, find=_l2,
        fact="Few accesses hit in L2, and DRAM moves more than the work needs.",
        advice="Process chunks that fit in L2 through all passes, or protect the hot part.",
        targets=("ch02.l2_blocking",),
    ),
    Rule(
        name="ncu.no_tensor_cores", needs=NCU, find=_no_tensor,
        fact="The work has many FLOP a byte in a precision of tensor cores, and does not use them.",
        advice="Use a library product, or a kernel with tensor-core instructions; check alignment of 16 bytes.",
        targets=("ch01.precision_ladder", "ch09.tensor_core_gemm"),
    ),
    Rule(
        name="perf.cache_misses", needs=PERF, find=_cache_misses,
        fact="The processor waits for memory: many last-level misses and less than an instruction a cycle.",
        advice="Block loops for the caches, use huge pages for random access, and read each array once.",
        targets=("ch02.l2_blocking", "ch03.huge_pages"),
    ),
    Rule(
        name="perf.branches", needs=PERF, find=_branches,
        fact="At least one of twenty branches is mispredicted.",
        advice="Sort the data, or replace the branch by a conditional move.",
        targets=("ch08.warp_divergence",),
    ),
    Rule(
        name="perf.page_faults", needs=PERF, find=_cpu_faults,
        fact="Each call takes a hundred page faults or more.",
        advice="Keep buffers between calls, and touch them before.",
        targets=("ch03.first_touch", "ch01.alloc_churn"),
    ),
    Rule(
        name="perf.moved", needs=PERF, find=_moved,
        fact="Threads lose their processor, or move to another, during a call.",
        advice="Bind threads to cores, and use no more threads than processors.",
    ),
)  # fmt: skip
