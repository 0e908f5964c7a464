"""Made-up evidence for tests of the checks: what an issue would look like, and honest code that looks like it.

It proves nothing about a run. `CASES` are for the checks that look at `Evidence`; `READINGS`, `TURNS` and `CLOCKS` are for what
looks at readings of the machine, at samples taken in turns and alone, and at the clock and the flush; `RARE` are second cases.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

from attrs import evolve, frozen

from aiperf_core.cost import WORK
from aiperf_core.measurements import Audit, Census, Flush, Rank, Reading, Samples, Work
from aiperf_core.results.models import Finding, Sighting
from aiperf_core.stats.conditions import findings, summary, warm_after_flush
from aiperf_core.validity.check import NotObserved, Seen
from aiperf_core.validity.checks.ranks import CHECK
from aiperf_core.validity.evidence import Evidence, SelfCheck


@frozen(kw_only=True)
class MadeUp:
    """Evidence of an issue, and of honest code.

    look: what looks at the evidence; None is the check of the issue's guard.
    told: the issue as which it is found, where that is another one.
    """

    issue: str
    guilty: Callable[[], Any]
    honest: Callable[[], Any]
    look: Callable[[Any], Iterable[Seen | Sighting | Finding] | NotObserved] | None = None
    told: str | None = None


GIB = 1 << 30
_PASSES = 8

# --- what an honest run looks like


def samples(
    call_s: float, *, wall_s: float | None = None, rounds: tuple[int, ...] = (0,), drift: float = 0.0
) -> Samples:
    """A block of one sample a pass, by the GPU's clock, then one by the caller's clock where `wall_s` is given.

    drift: by what part a round is slower than the one before.
    """
    found = Samples()
    for number in rounds:
        for index in range(_PASSES):
            place = number * _PASSES + index
            noise = (1 + drift * number) * (1 + 0.002 * (index * 5 % 7 - 3))
            for device in (True, False) if wall_s else (True,):
                time = (call_s if device else wall_s or 0.0) * noise
                found.round.append(number)
                found.block.append(place)
                found.step.append(place)
                found.device_s.append(time if device else None)
                found.wall_s.append(None if device else time)
                found.cpu_s.append(2e-5)
                found.bracket_s.append(time + 3e-5)
                found.hidden.append(device)
                found.judged.append(device and index % 4 == 0)
                found.calls.append(1)
    return found


def seeds(count: int) -> list[int]:
    """Seeds as a run draws them, of 62 bits."""
    drawn = random.Random("recorded")
    return [drawn.getrandbits(62) for _ in range(count)]


def self_check(taken: Samples, **changes: Any) -> SelfCheck:
    """The harness's record of its work for these samples; `changes` are what it did otherwise."""
    declared = {"sha256": "51c0" * 16, "clock": "device", "tolerance": "fp32"}
    honest = SelfCheck(
        seeds=seeds(len(set(taken.block))),
        declared={"run": declared, "judge": declared, "worker": declared},
    )
    return evolve(honest, **changes)


MACHINE: dict[str, Any] = {
    "hypervisor": "",
    "cpus": 64,
    "usable_cpus": 64,
    "cpu_limit": None,
    "cpuset_cpus": 64,
    "memory_limit_bytes": None,
    "memory_bytes": 512 * GIB,
    "committed_bytes": 40 * GIB,
    "swap_total_bytes": 0,
    "overcommit": "heuristic",
    "governors": ["performance"],
    "energy_preferences": ["performance"],
    "numa_nodes": {"0": list(range(32)), "1": list(range(32, 64))},
    "process_nodes": [0, 1],
    "memory_nodes": [0, 1],
    "driver": "570.86.15",
    "power_limit_w": 700.0,
    "power_default_w": 700.0,
    "power_limits_w": [700.0] * 8,
}
LIBRARIES = {"libcuda": {"7f03": "/usr/lib/libcuda.so.570.86.15"}, "libcublas": {"22e1": "/opt/libcublas.so.13"}}


def baseline(**changes: Any) -> Evidence:
    """An honest baseline on a GPU."""
    honest = Evidence(
        name="naive",
        role="baseline",
        device="cuda",
        clock="device",
        cache="cold",
        samples=samples(1.2e-3, wall_s=1.3e-3),
        audit=audit(kernel("naive_softmax", 1.18e-3)),
        machine=MACHINE,
        libraries=LIBRARIES,
        server_libraries={},
    )
    return evolve(honest, **changes)


def variant(*, checked: dict[str, Any] | None = None, beside: Evidence | None = None, **changes: Any) -> Evidence:
    """An honest variant on a GPU. `checked` says what the harness did otherwise; `beside` is the baseline."""
    honest = Evidence(
        name="fused",
        role="variant",
        device="cuda",
        clock="device",
        cache="cold",
        samples=samples(0.6e-3, wall_s=0.65e-3),
        audit=audit(kernel("fused_softmax", 0.59e-3)),
        machine=MACHINE,
        libraries=LIBRARIES,
        server_libraries={},
        baseline=beside or baseline(),
    )
    changed = evolve(honest, **changes)
    return evolve(changed, self_check=self_check(changed.samples, **(checked or {})))


# --- machine


def _on(**facts: Any) -> Evidence:
    return variant(machine=MACHINE | facts, beside=baseline(machine=MACHINE | facts))


def _pinned(ours: range, theirs: range) -> Evidence:
    """Both sides pinned to processors, as the kernel tells it."""
    masks = [[Census(affinity=tuple(cpus))] * 3 for cpus in (ours, theirs)]
    return variant(census=masks[0], beside=baseline(census=masks[1]))


MACHINES = (
    MadeUp(
        issue="environment.virtualization_overhead",
        guilty=lambda: _on(hypervisor="QEMU Standard PC"),
        # The maker of clouds' virtual machines sells whole ones too.
        honest=lambda: _on(hypervisor="", container="docker"),
    ),
    MadeUp(
        issue="environment.cpu_governor_mismatch",
        guilty=lambda: _on(governors=["schedutil"], energy_preferences=None),
        # Where the processor itself chooses, this is what the fast governor is called.
        honest=lambda: _on(
            cpufreq_driver="intel_pstate", governors=["powersave"], energy_preferences=["balance_performance"]
        ),
    ),
    MadeUp(
        issue="environment.numa_inconsistency",
        guilty=lambda: _pinned(range(32, 36), range(4)),
        # Other processors of the same node.
        honest=lambda: _pinned(range(4, 8), range(4)),
    ),
    MadeUp(
        issue="environment.memory_overcommit",
        guilty=lambda: _on(overcommit="always"),
        # Much is promised, and all of it is there.
        honest=lambda: _on(committed_bytes=500 * GIB, swap_total_bytes=64 * GIB),
    ),
    MadeUp(
        issue="environment.container_resource_limits",
        guilty=lambda: _on(cpu_limit=8.0, memory_limit_bytes=64 * GIB),
        # A control group as large as the machine.
        honest=lambda: _on(cpu_limit=64.0, memory_limit_bytes=512 * GIB),
    ),
    MadeUp(
        issue="environment.power_limit_difference",
        guilty=lambda: _on(power_limit_w=450.0),
        # The driver rounds.
        honest=lambda: _on(power_limit_w=699.99),
    ),
)

# --- ranks


def _rank(number: int, **changes: Any) -> Rank:
    honest = Rank(
        rank=number,
        device=f"cuda:{number}",
        work_s=9.2e-3,
        collectives={"all_reduce": 4},
        wire_bytes=1.5e8,
        buckets=(25 << 20, 25 << 20, 25 << 20, 13 << 20),
    )
    return evolve(honest, **changes)


def ranks(changes: dict[int, dict[str, Any]], time_s: float = 9.6e-3, **beside: Any) -> Evidence:
    """Four ranks, some of them changed; `beside` changes all ranks of the baseline."""
    theirs = baseline(samples=samples(12e-3), ranks=[_rank(number, **beside) for number in range(4)], world_size=4)
    ours = [_rank(number, **changes.get(number, {})) for number in range(4)]
    return variant(samples=samples(time_s), ranks=ours, world_size=4, beside=theirs)


def all_ranks(**changes: Any) -> dict[int, dict[str, Any]]:
    """The same changes for each of four ranks."""
    return dict.fromkeys(range(4), changes)


RANK_CASES = (
    MadeUp(
        issue="distributed.rank_skipping",
        guilty=lambda: ranks({3: {"work_s": 2e-6}}),
        # It waits most of the time, and did its work.
        honest=lambda: ranks({3: {"work_s": 1.1e-3}}),
    ),
    MadeUp(
        issue="distributed.collective_short_circuit",
        guilty=lambda: ranks(all_ranks(collectives={}, wire_bytes=0.0)),
        # Fused into one, with numbers of half the width.
        honest=lambda: ranks(all_ranks(collectives={"all_reduce": 1}, wire_bytes=0.75e8)),
    ),
)

# --- seeds


def _repeating() -> Samples:
    """The inputs of the first half are handed out again in the second, which is judged."""
    taken = samples(0.6e-3)
    return evolve(taken, step=[step % 4 for step in taken.step])


SEED_CASES = (
    MadeUp(
        issue="replay.known_seed",
        guilty=lambda: variant(checked={"seeds": list(range(42, 50))}),
        # One of many seeds happens to be a little smaller.
        honest=lambda: variant(checked={"seeds": [*seeds(7), seeds(8)[7] >> 12]}),
    ),
    MadeUp(
        issue="workload.train_test_overlap",
        guilty=lambda: variant(samples=_repeating()),
        # Two samples a step, each by a clock of its own.
        honest=lambda: variant(samples=samples(0.6e-3, wall_s=0.65e-3)),
    ),
)

# --- the ledger of the GPU


def kernel(name: str, seconds: float, *, count: int = 1, stream: int = 0) -> Work:
    """So many runs of a kernel in a call."""
    return Work(name, "kernel", stream, count, seconds, 0)


def copy(direction: str, size: int, seconds: float) -> Work:
    """A copy, such as `DtoH`, under the name that CUPTI gives it."""
    return Work(f"Memcpy {direction} (Device -> Pinned)", "copy", 0, 1, seconds, size)


def audit(*work: Work, span_s: float | None = None, stray: int = 0, threads: int = 1) -> Audit:
    """Seven calls under CUPTI. Without gaps unless `span_s` says otherwise."""
    span = span_s or sum(one.seconds for one in work)
    return Audit([span] * 7, [span + 1e-6] * 7, list(work), stray, threads)


_GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
_ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>"
_TORCH = (kernel(_GEMM, 1.0e-3), kernel(_ADD, 0.18e-3, count=2))


def _eager() -> Evidence:
    """A baseline of torch's own operations."""
    return baseline(audit=audit(*_TORCH))


def _rewritten(*work: Work, beside: Evidence | None = None, **changes: Any) -> Evidence:
    """A variant whose GPU work is this."""
    return variant(audit=audit(*work), beside=beside, **changes)


def _on_the_host() -> Evidence:
    """The data go to the host, which computes, and come back."""
    moved = (copy("DtoH", 64 << 20, 1.1e-3), copy("HtoD", 64 << 20, 1.1e-3))
    return variant(audit=audit(*moved, span_s=60e-3), samples=samples(60e-3, wall_s=61e-3))


def _copying() -> Evidence:
    """A workload about copies: the host's memory is read by a kernel, and by a copy engine."""
    theirs = baseline(audit=audit(kernel("read_mapped", 3e-3)))
    return variant(audit=audit(copy("HtoD", 64 << 20, 1.2e-3)), samples=samples(1.2e-3, wall_s=1.3e-3), beside=theirs)


LEDGER_CASES = (
    MadeUp(
        issue="timing.not_audited",
        guilty=lambda: variant(audit=Audit([], [1e-3] * 7, [], 0)),
        honest=lambda: variant(audit=audit(kernel("fused_softmax", 0.59e-3))),
    ),
    MadeUp(
        issue="cuda.driver_overhead",
        guilty=lambda: variant(samples=samples(0.6e-3, wall_s=6e-3)),
        # Slower to launch, and worth it.
        honest=lambda: variant(samples=samples(0.6e-3, wall_s=1.2e-3)),
    ),
    MadeUp(issue="location.cpu_spillover", guilty=_on_the_host, honest=_copying),
    MadeUp(
        issue="cuda.cooperative_launch_abuse",
        guilty=lambda: variant(audit=audit(kernel("fused_softmax", 0.1e-3), stray=7, threads=2)),
        # A cooperative kernel within the calls, launched by the thread of autograd.
        honest=lambda: variant(audit=audit(kernel("cooperative_softmax", 0.59e-3), threads=2)),
    ),
    MadeUp(
        issue="policy.library_fallback",
        guilty=lambda: _rewritten(kernel(_GEMM, 0.59e-3)),
        # Its own kernel does the work, and torch fills a buffer for it.
        honest=lambda: _rewritten(
            kernel("tiled_matmul", 0.57e-3), kernel("void at::native::FillFunctor<float>", 0.02e-3)
        ),
    ),
    MadeUp(
        issue="policy.ghost_branch",
        guilty=lambda: _rewritten(*_TORCH, beside=_eager(), samples=samples(1.2e-3, wall_s=1.3e-3)),
        # The same kernels in a CUDA graph: the caller waits for less.
        honest=lambda: _rewritten(*_TORCH, beside=_eager(), samples=samples(1.2e-3, wall_s=1.22e-3)),
    ),
    MadeUp(
        issue="policy.wrapper_extension",
        guilty=lambda: _rewritten(kernel(_GEMM, 0.59e-3), extensions=["/home/me/fast_gemm.so"]),
        # An extension that brings the kernel that runs.
        honest=lambda: _rewritten(kernel("fast_gemm_kernel", 0.59e-3), extensions=["/home/me/fast_gemm.so"]),
    ),
    MadeUp(
        issue="policy.decoy_kernel",
        guilty=lambda: _rewritten(*_TORCH, kernel("my_fused_kernel", 4e-6), beside=_eager()),
        # A small kernel that takes the place of torch's: what it replaces runs no more.
        honest=lambda: _rewritten(kernel(_GEMM, 1.0e-3), kernel("bias_add", 0.03e-3), beside=_eager()),
    ),
)

CASES: tuple[MadeUp, ...] = (
    *MACHINES,
    *RANK_CASES,
    *SEED_CASES,
    *LEDGER_CASES,
)

# --- conditions: what the machine said beside the blocks

# The readings beside an implementation's blocks, and beside the baseline's.
Sides = tuple[list[Reading], list[Reading]]


def _of_conditions(sides: Sides) -> list[Sighting]:
    """What is warned of, as of every row."""
    ours, baseline = map(summary, sides)
    return findings(ours, baseline)


def _readings_of(issue: str, *, guilty: Callable[[], Sides], honest: Callable[[], Sides]) -> MadeUp:
    return MadeUp(issue=issue, look=_of_conditions, guilty=guilty, honest=honest)


def _readings(changes: dict[str, Any] | None = None, every: int = 1, blocks: int = 40) -> list[Reading]:
    """Readings of a quiet machine; every so-many-th has the changes."""
    quiet = Reading(
        at_s=0.0,
        sm_clock_hz=1.98e9,
        temperature_c=55.0,
        power_w=480.0,
        throttled=(),
        other_pids=(),
        cpu_busy=0.26,
        cpu_own=0.25,
        steal=0.0,
    )
    return [
        evolve(quiet, at_s=0.01 * index, **((changes or {}) if index % every == 0 else {})) for index in range(blocks)
    ]


def _ours(changes: dict[str, Any], every: int = 1) -> Sides:
    return _readings(changes, every), _readings()


def _both(changes: dict[str, Any], every: int = 1) -> Sides:
    return _readings(changes, every), _readings(changes, every)


READINGS: tuple[MadeUp, ...] = (
    MadeUp(
        issue="environment.frequency_boost",
        look=_of_conditions,
        told="environment.clock_drift",
        guilty=lambda: (_readings(), _readings({"sm_clock_hz": 1.41e9})),
        # Locked low, by somebody's choice, for both sides.
        honest=lambda: _both({"sm_clock_hz": 1.41e9, "throttled": ("clocks_setting",)}),
    ),
    _readings_of(
        "environment.clock_drift",
        guilty=lambda: _ours({"sm_clock_hz": 1.7e9}),
        # Clocks that fall once in a while, which no median notices.
        honest=lambda: _ours({"sm_clock_hz": 1.7e9}, every=10),
    ),
    _readings_of(
        "environment.thermal_throttling",
        guilty=lambda: _ours({"throttled": ("sw_thermal_slowdown",), "temperature_c": 91.0}, every=5),
        # Hot, and not held down.
        honest=lambda: _ours({"temperature_c": 84.0}),
    ),
    _readings_of(
        "environment.power_throttling",
        guilty=lambda: _ours({"throttled": ("sw_power_cap",), "power_w": 699.0}, every=3),
        honest=lambda: _ours({"throttled": ("idle",), "power_w": 690.0}),
    ),
    _readings_of(
        "environment.cpu_quota",
        guilty=lambda: _ours({"throttled": ("cpu_quota",)}, every=4),
        # Stopped once in forty blocks.
        honest=lambda: _ours({"throttled": ("cpu_quota",)}, every=40),
    ),
    _readings_of(
        "environment.background_load",
        guilty=lambda: _ours({"cpu_busy": 0.71}),
        # Busy with its own work.
        honest=lambda: _ours({"cpu_busy": 0.97, "cpu_own": 0.95}),
    ),
    _readings_of(
        "environment.shared_gpu",
        guilty=lambda: _ours({"other_pids": (4211,)}, every=8),
        # In a container, where the driver's list cannot be read.
        honest=lambda: _ours({"other_pids": None}),
    ),
)

# --- turns: samples that were taken while others had work, and alone

# A context of another process that gets its slice in the middle of a kernel, in seconds.
_SLICE_S = 0.4e-3


def _of_turns(one: Any) -> list[Finding]:
    """What an implementation's row is told of its samples alone."""
    from aiperf_core.results.models import Judging
    from aiperf_core.stats.judge import judge
    from aiperf_core.stats.observations import Clocks
    from aiperf_core.stats.standing import Rules

    rules = Rules(
        clock="device",
        cache="cold",
        goal="speed",
        cost={**dict.fromkeys(WORK, 0.0), "precision": "fp32"},
        floor=0.01,
        ceilings=None,
        clocks=Clocks(),
        judging=Judging(off=["clocks_agree"]),
        complete=True,
    )
    (row,) = judge([one.observed], rules)
    return list(row.findings)


def _implementation(in_turns_s: float) -> Any:
    """An implementation whose samples took so long in turns with others, and less alone."""
    from aiperf_core.described import DescribedImplementation
    from aiperf_core.harness.run.participant import Participant

    alone = [time for time in samples(0.6e-3).device_s if time is not None]
    one = Participant(DescribedImplementation("fused", "variant", "cuda", "recorded"), "fused")
    one.recorder.note(samples=samples(in_turns_s), isolated_samples_s=alone)
    return one


TURNS: tuple[MadeUp, ...] = (
    MadeUp(
        issue="cuda.context_switch_overhead",
        look=_of_turns,
        told="timing.interference",
        guilty=lambda: _implementation(0.6e-3 + _SLICE_S),
        # The other contexts are there, and idle.
        honest=lambda: _implementation(0.601e-3),
    ),
)

# --- clocks: what a run measures of its own clock and its own flush


def _of_short_calls(one: Any) -> list[Finding]:
    """What is said of an implementation's calls beside what timing one costs."""
    from types import SimpleNamespace

    from aiperf_core.harness.run.sampler import Sampler

    method = SimpleNamespace(clock_cost_s=_CLOCK_COST_S, off=frozenset())
    sampler: Any = SimpleNamespace(taker=SimpleNamespace(method=method))
    Sampler._refuse_short_calls(sampler, one)
    return [Finding(seen.issue, (seen.effects or {})["standard"], seen.message) for seen in one.observed.seen]


_CLOCK_COST_S = 2e-6


def _warmed_up(call_s: float) -> Any:
    """An implementation whose last uncounted call took so long."""
    one = _implementation(call_s)
    one.observed.warmup_s.append(call_s)
    return one


def _of_flush(flush: Flush) -> list[Sighting]:
    """What is said of a flush."""
    found = warm_after_flush(flush)
    return [found] if found else []


CLOCKS: tuple[MadeUp, ...] = (
    MadeUp(
        issue="timing.timer_granularity",
        look=_of_short_calls,
        guilty=lambda: _warmed_up(0.8e-6),
        # A short call, and many times as long as timing it.
        honest=lambda: _warmed_up(25e-6),
    ),
    MadeUp(
        issue="timing.cache_not_cold",
        look=_of_flush,
        guilty=lambda: Flush(hot_s=40e-6, cold_s=90e-6, flushed_s=43e-6),
        # Not as cold as memory that others have displaced, and nearer to that than to hot.
        honest=lambda: Flush(hot_s=40e-6, cold_s=90e-6, flushed_s=81e-6),
    ),
)

# --- second cases: swap, several GPUs, ranks


def swapping(*swapped_bytes: int, faults: int = 0) -> Evidence:
    """A process of which so much lay in swap at each look, with so many pages fetched from there since the look before."""

    def side(role: str, census: list[Census]) -> Evidence:
        return Evidence(name=role, role=role, device="cpu", clock="wall", cache="warm", census=census)

    looks = [Census(swapped_bytes=size, major_faults=faults) for size in swapped_bytes]
    still = [Census(swapped_bytes=0, major_faults=0) for _ in swapped_bytes]
    return evolve(side("variant", looks), baseline=side("baseline", still))


def working_on(ours: str, theirs: str | None) -> Evidence:
    """Processes that the driver lists on these GPUs; None where it lists none."""

    def side(role: str, gpu: str | None) -> Evidence:
        looks = [Census(gpus=None if gpu is None else (gpu,))] * 4
        return Evidence(name=role, role=role, device="cuda", clock="device", cache="cold", census=looks)

    return evolve(side("variant", ours), baseline=side("baseline", theirs))


# 16384 tokens of 8 KiB for two experts each.
ROW_BYTES = 2 * 16384 * 8192
NEEDED = 2 * 0.75 * ROW_BYTES


def unpadded(wire_bytes: float) -> Evidence:
    """Four ranks that hand over so many bytes each, beside a baseline that fills every message up to the longest one.

    Of a rank's rows, three in four go to experts on other ranks and come back.
    """
    padded: dict[str, Any] = {"collectives": {"allreduce": 1, "alltoall_base": 2}, "wire_bytes": 2.36e10}
    exact = all_ranks(collectives={"alltoall_base": 3}, wire_bytes=wire_bytes)
    return evolve(ranks(exact, **padded), wire_bytes=NEEDED)


RARE: tuple[MadeUp, ...] = (
    MadeUp(
        issue="memory.swap_interference",
        guilty=lambda: swapping(0, 48 << 20, 160 << 20, 416 << 20, 512 << 20, faults=1900),
        # What was swapped before the first call, and is not asked for, costs nothing.
        honest=lambda: swapping(*[24 << 20] * 5),
    ),
    MadeUp(
        issue="environment.device_mismatch",
        guilty=lambda: working_on("GPU-5d2c", "GPU-9a41"),
        # In a container the driver lists one of the processes, and not the other.
        honest=lambda: working_on("GPU-9a41", None),
    ),
    MadeUp(
        issue="distributed.collective_short_circuit",
        # A tenth of the rows that have to travel.
        guilty=lambda: unpadded(0.1 * NEEDED),
        # All of them, counted where they leave and where they arrive, and those that stay too: a small part of the padding.
        honest=lambda: unpadded(4.0 * ROW_BYTES),
        look=CHECK.look,
    ),
)
