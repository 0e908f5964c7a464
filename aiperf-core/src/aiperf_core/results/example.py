"""A synthetic result with every kind of row, for tests and for authors of programs that read results.

`result()` and `manifest()` are realistic in every field; vary them with `attrs.evolve`.
"""

from aiperf_core.measurements import Ceilings, Estimate, Memory, Samples
from aiperf_core.results.models import (
    Ending,
    Finding,
    Judgement,
    Machine,
    Manifest,
    Overhead,
    Problem,
    Row,
    Sighting,
    SkippedTarget,
    SpeedOfLight,
    TargetResult,
    Verdict,
)

GIB = 1 << 30
LIGHT_S = 4.95e-4  # of two GiB at the copy rate below
PEAK = Memory(peak_bytes=GIB, allocated_bytes=GIB, reserved_bytes=2 * GIB, host_peak_bytes=1 << 20)
VIRTUAL = Finding(
    "environment.virtualization_overhead", "warning", "this machine runs under a hypervisor (KVM)", {"vendor": "KVM"}
)
STALE = Sighting("output.stale_cache", "the output is that of sample 16", {"sample": 17, "of": 16})


def result() -> TargetResult:
    """One target on a GPU: a baseline, variants with six verdicts, a yardstick."""
    return TargetResult(
        target="ch07.memory_access",
        summary="Neighbours in a warp should touch neighbours in memory",
        goal="speed",
        clock="device",
        cache="cold",
        device="cuda",
        problem=Problem("cuda", {"n": 1 << 28}, GIB, GIB, 1 << 29, "fp32", "bit-exact", GIB, GIB),
        rows=rows(),
        order=["strided", "coalesced", "wide", "prefetched", "memcpy"],
        overhead=Overhead(1200, 2.3, 0.4, 8.1, 3.2, 1.3, 0.8, 1.2, 0.0, 0.9, 0.7, 1.5),
        seed=0x5EED_0000_0000_0001,
        started="2026-11-21T14:25:30+00:00",
        wall_s=12.3,
        stopped="sampling budget spent",
        complete=True,
    )


def rows() -> list[Row]:
    """The rows of `result`."""
    return [
        row("strided", "baseline", Verdict.MEASURED, 5.2134e-3, kind="naive"),
        row("coalesced", "variant", Verdict.FASTER, 0.6523e-3, 7.992, why="one 128-byte line serves a whole warp"),
        row(
            "wide",
            "variant",
            Verdict.FASTER,
            0.6013e-3,
            8.671,
            why="four times the bytes in flight per thread, so that fewer warps fill the memory pipeline",
            builds_on="coalesced",
            step_speedup=estimate(1.084),
            requires=["sm_80"],
            prepare_s=0.023,
        ),
        row(
            "prefetched",
            "variant",
            Verdict.INCONCLUSIVE,
            5.2e-3,
            1.0023,
            spread=0.03,
            why="the next line is on its way",
        ),
        Row(
            "remembered",
            "variant",
            "cuda",
            Verdict.INVALID,
            why="work done once need not be done again",
            reason="sample 17 does not match the reference of its own seed",
            findings=[Finding(STALE.issue, "invalid", STALE.message, STALE.evidence)],
            seen=[STALE],
            samples=samples(1.2e-6),
            log=["using the cache", "\x1b[31mcache hit\x1b[0m"],
        ),
        Row(
            "swizzled",
            "variant",
            "cuda",
            Verdict.FAILED,
            why="no conflicts",
            reason="its process was killed by signal 11",
            ending=Ending(Verdict.FAILED, "its process was killed by signal 11"),
        ),
        Row(
            "tensor_memory",
            "variant",
            "cuda",
            Verdict.SKIPPED,
            why="b",
            reason="needs sm_100 (this GPU is sm_90)",
            ending=Ending(Verdict.SKIPPED, "needs sm_100 (this GPU is sm_90)"),
        ),
        row("memcpy", "yardstick", Verdict.MEASURED, 0.5523e-3, why="cudaMemcpyAsync, device to device"),
    ]


def row(
    name: str,
    role: str,
    verdict: Verdict,
    time_s: float,
    speedup: float | None = None,
    spread: float = 0.003,
    **more: object,
) -> Row:
    """A row that is believed: its time, and what follows from it."""
    return Row(
        name,
        role,
        "cuda",
        verdict,
        findings=[VIRTUAL],
        checked=[Sighting(VIRTUAL.issue, VIRTUAL.message, VIRTUAL.evidence)],
        clock="device",
        time_s=estimate(time_s, spread),
        wall_s=estimate(time_s + 4e-6, spread),
        speedup=estimate(speedup, spread) if speedup else None,
        bytes_per_s=2 * GIB / time_s,
        flop_per_s=(1 << 29) / time_s,
        speed_of_light=SpeedOfLight("memory", LIGHT_S, LIGHT_S / time_s),
        memory=PEAK,
        judgement=Judgement(12, "bit-exact", 0.0),
        samples=samples(time_s),
        warmup_s=[time_s * 30, time_s],
        **more,  # type: ignore[arg-type]
    )


def estimate(value: float, spread: float = 0.003) -> Estimate:
    """A value with an interval of this relative width to either side."""
    return Estimate(value, value * (1 - spread), value * (1 + spread))


def samples(time_s: float) -> Samples:
    """Three timed calls: two by the device's clock, one by the caller's."""
    return Samples(
        round=[0, 0, 0],
        block=[0, 0, 1],
        step=[0, 1, 2],
        device_s=[time_s, time_s * 1.01, None],
        wall_s=[None, None, time_s + 4e-6],
        cpu_s=[2.1e-5, 2.0e-5, None],
        bracket_s=[time_s + 3e-5, time_s + 3.2e-5, time_s + 1e-5],
        hidden=[True, True, False],
        judged=[False, True, False],
        calls=[1, 1, 1],
        voluntary_switches=[0, 1, 0],
        involuntary_switches=[0, 0, 2],
        throttled=[False, False, True],
        answered_s=[time_s + 4e-5, time_s + 4.1e-5, time_s + 3e-5],
        **of_trusted_code(3),
    )


def of_trusted_code(count: int) -> dict[str, list[float | None]]:
    """The columns of samples that only untrusted, deferred, witnessed or simulated code has, as null."""
    names = ("begun_s", "replied_s", "stopped_s", "done_s", "own_s", "witness_s", "simulated_s")
    return {name: [None] * count for name in names}


def manifest() -> Manifest:
    """The manifest of a run of two targets; one of them could not start."""
    gpu = {
        "index": 0,
        "name": "NVIDIA H200",
        "uuid": "GPU-1",
        "memory_bytes": 141 * GIB,
        "capability": "9.0",
        "mig": False,
    }
    return Manifest(
        aiperf="0.1.0",
        command=["aiperf", "run", "ch07.memory_access", "ch10.warp_specialized_gemm"],
        created="2026-11-21T14:25:30+00:00",
        machine=Machine(
            hostname="node7",
            system="Debian GNU/Linux 12 (bookworm), Linux 6.18.44 x86_64",
            cpu="AMD EPYC 9654 96-Core Processor",
            cores=16,
            memory_bytes=128 * GIB,
            python="CPython 3.11.7",
            hypervisor="KVM",
            gpus=[gpu],
            driver="570.86.15",
        ),
        packages={"aiperf-ch07": "0.1.0", "aiperf-core": "0.1.0", "torch": "2.13.0", "triton": "3.9.0"},
        plugins=[
            {"distribution": "aiperf-core", "version": "0.1.0", "entry_point": "builtin"},
            {"distribution": "aiperf-ch07", "version": "0.1.0", "entry_point": "ch07"},
            {"distribution": "aiperf-acme", "version": "0.3", "entry_point": "acme", "set_aside": "unknown hook 'x'"},
        ],
        ceilings={
            "cuda": Ceilings("NVIDIA H200", "2026-11-20T09:00:00+00:00", 4.34e12, 4.5e12, 4.4e12, {"fp32": 5.9e13})
        },
        files={"aiperf_ch07.memory_access": "0123456789abcdef" * 4},
        skipped=[
            SkippedTarget("ch10.warp_specialized_gemm", Verdict.SKIPPED, "needs sm_90a (this machine has no CUDA GPU)")
        ],
        git="0123456789abcdef0123456789abcdef01234567-dirty",
        complete=True,
        exit_code=3,
    )
