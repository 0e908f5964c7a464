"""Each rule of the checks that look at the machine, the harness, ranks, seeds and the GPU's ledger, and its edge."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import (
    CASES,
    GIB,
    LIBRARIES,
    MACHINE,
    audit,
    baseline,
    copy,
    kernel,
    samples,
    variant,
)

from aiperf_core.measurements import Census, Rank
from aiperf_core.validity.check import NotObserved
from aiperf_core.validity.checks import both_clocks, cupti_ledger, machine, ranks, self_check, versions
from aiperf_core.validity.checks import seeds as seeds_check
from aiperf_core.validity.checks.self_check import call_times
from aiperf_core.validity.evidence import Evidence

ALL = (machine, versions, self_check, ranks, seeds_check, cupti_ledger)
EMPTY = Evidence(name="fused", role="variant", device="cuda", clock="device", cache="cold")
LIBRARY = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"


def told(check, evidence):
    """The issue and the message of the one thing that is seen, None where nothing is."""
    found = list(check.look(evidence))
    assert len(found) <= 1, found
    return (found[0].issue, found[0].message) if found else None


def message(check, evidence):
    found = told(check, evidence)
    return found and found[1]


# --- without evidence


@pytest.mark.parametrize(
    ("check", "evidence", "reason"),
    [
        (machine, EMPTY, "the properties of the machine were not recorded"),
        (
            machine,
            attrs.evolve(EMPTY, machine={"lacking": {"hypervisor": "no"}}),
            "the properties of the machine were not recorded",
        ),
        (versions, EMPTY, "the libraries of the worker are not known"),
        (self_check, EMPTY, "the self-check of the harness was not recorded"),
        (ranks, EMPTY, "one process, no ranks"),
        (ranks, attrs.evolve(EMPTY, world_size=2), "the ranks recorded no work"),
        (seeds_check, EMPTY, "the seeds of this run were not kept"),
        (seeds_check, variant(checked={"seeds": []}), "the seeds of this run were not kept"),
        (cupti_ledger, EMPTY, "CUPTI did not record calls of this row"),
        (cupti_ledger, attrs.evolve(EMPTY, device="cpu"), "CUPTI records the work of GPUs only"),
    ],
)
def test_what_is_not_there_is_not_observed(check, evidence, reason):
    assert check.look(evidence) == NotObserved(reason)


@st.composite
def incomplete(draw):
    """Evidence of a recorded case, with some of its fields, facts, columns or figures missing."""
    case = draw(st.sampled_from(CASES))
    whole = draw(st.sampled_from([case.guilty, case.honest]))()
    without = draw(st.booleans()) or whole.baseline is None
    beside = None if without else _thinned(draw, attrs.evolve(whole.baseline, self_check=None))
    return _thinned(draw, attrs.evolve(whole, baseline=beside))


def _thinned(draw, evidence: Any):
    missing = st.lists(st.sampled_from(sorted(MACHINE)), max_size=8)
    facts = {name: value for name, value in evidence.machine.items() if name not in draw(missing)}
    columns = attrs.asdict(evidence.samples)
    cut = {name: columns[name][: draw(st.integers(0, 9))] for name in draw(_some(sorted(columns)))}
    gone = draw(_some(["audit", "state_before", "state_after", "census", "libraries", "server_libraries", "ranks"]))
    changes: dict[str, Any] = {
        "machine": facts,
        "samples": attrs.evolve(evidence.samples, **cut),
        **dict.fromkeys(gone),
    }
    if evidence.self_check and draw(st.booleans()):
        emptied: dict[str, Any] = {"seeds": [], "declared": {}}
        gone = draw(_some(sorted(emptied)))
        changes["self_check"] = attrs.evolve(evidence.self_check, **{name: emptied[name] for name in gone})
    if changes.get("ranks", evidence.ranks) and draw(st.booleans()):
        changes["ranks"] = [
            Rank(rank=one.rank, device=one.device, work_s=one.work_s)
            for one in (evidence.ranks or [])[draw(st.integers(0, 3)) :]
        ]
    if changes.get("audit", evidence.audit) and draw(st.booleans()):
        changes["audit"] = attrs.evolve(
            evidence.audit, work=[], span_s=evidence.audit.span_s[: draw(st.integers(0, 7))]
        )
    if evidence.census and draw(st.booleans()):
        changes.setdefault("census", [Census(), *evidence.census])
    return attrs.evolve(evidence, **changes)


def _some(names):
    return st.lists(st.sampled_from(names), unique=True, max_size=4)


@settings(max_examples=300, deadline=None)
@given(incomplete())
def test_no_check_raises_for_what_is_missing(evidence):
    for check in ALL:
        found = check.look(evidence)
        if not isinstance(found, NotObserved):
            json.dumps([one.evidence for one in found])


# --- machine


def on(ours=None, theirs=None, **more):
    return variant(machine=MACHINE | (ours or {}), beside=baseline(machine=MACHINE | (theirs or {})), **more)


SLOW = "the governor {!r} changes the processors' clock during short calls; 'performance' does not"


@pytest.mark.parametrize(
    ("governors", "preferences", "said"),
    [
        (["performance"], None, None),
        (["userspace"], None, None),
        (["powersave"], ["balance_performance", "performance"], None),
        (["powersave"], None, SLOW.format("powersave")),
        (["powersave"], ["balance_power"], SLOW.format("powersave")),
        (["ondemand"], ["performance"], SLOW.format("ondemand")),
        (
            ["performance", "schedutil"],
            None,
            "the processors that may be used have several governors: performance, schedutil",
        ),
    ],
)
def test_governors(governors, preferences, said):
    facts = {"governors": governors, "energy_preferences": preferences}
    assert message(machine, on(facts, facts)) == said


def test_governors_of_two_runs():
    found = message(machine, on({}, {"governors": ["powersave"]}))
    assert found == "the processors' governor is performance, and was powersave for the baseline"


def test_nodes():
    assert message(machine, on({"process_nodes": [1], "memory_nodes": [0]}, {"process_nodes": [1]})) == (
        "the worker runs on nodes 1, and its memory comes from nodes 0"
    )
    assert message(machine, on({"process_nodes": [0]}, {"process_nodes": [0, 1]})) == (
        "the worker runs on nodes 0, the baseline's on nodes 0, 1"
    )
    # One node has no other.
    alone = {"numa_nodes": {"0": [0, 1]}, "process_nodes": [0], "memory_nodes": [1]}
    assert message(machine, on(alone, alone)) is None
    # What the kernel tells of the worker counts more than what was asked of this process.
    pinned = [Census(affinity=(40,)), Census()]
    assert message(machine, on({"process_nodes": [0]}, {"process_nodes": [1]}, census=pinned)) is None


def test_overcommit():
    found = message(machine, on({"committed_bytes": 600 * GIB, "swap_total_bytes": 8 * GIB}))
    assert found == "the kernel committed 600.0 GiB of memory; the machine has 520.0"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"cpu_limit": 63.5}, None),
        ({"cpu_limit": 63.0}, "a control group allows 63 of 64 processors' time"),
        ({"cpuset_cpus": 16}, "a control group allows 16 of 64 processors"),
        ({"memory_limit_bytes": 500 * GIB}, "a control group allows 500 of 512 GiB of memory"),
        # `taskset`, or a workload that pins its processes: nobody limits them.
        ({"usable_cpus": 4}, None),
    ],
)
def test_limits_of_a_container(facts, said):
    assert message(machine, on(facts, facts)) == said


def test_limits_of_power():
    assert message(machine, on({"power_limit_w": 500.0}, {"power_limit_w": 500.0})) == (
        "the GPU may draw 500 W, and such a GPU 700 W by default"
    )
    assert message(machine, on({}, {"power_limit_w": 600.0})) == ("the GPU may draw 700 W, and 600 W for the baseline")
    uneven = {"power_limits_w": [700.0, None, 650.0]}
    assert message(machine, on(uneven, world_size=2)) == "the GPUs of the ranks may draw between 650 and 700 W"
    assert message(machine, on(uneven)) is None


# --- versions


def test_another_build_of_a_library_that_others_have():
    mine = LIBRARIES | {"libcublas": {"9d70": "/tmp/libcublas.so.13"}, "libcuda": {"11ab": "/opt/libcuda.so.550"}}
    found: Any = versions.look(variant(libraries=mine))
    assert [(one.issue, one.message) for one in found] == [
        (
            "environment.driver_version_mismatch",
            "another driver is loaded: libcuda from /opt/libcuda.so.550, elsewhere from /usr/lib/libcuda.so.570.86.15",
        ),
        (
            "environment.library_version_mismatch",
            "other builds of libraries are loaded: libcublas from /tmp/libcublas.so.13, elsewhere from /opt/libcublas.so.13",
        ),
    ]
    # The baseline has none: the server from which both are forked tells.
    alone = baseline(libraries=None)
    assert message(versions, variant(libraries=mine, beside=alone)) is None
    assert len(list(versions.look(variant(libraries=mine, beside=alone, server_libraries=LIBRARIES)))) == 2


@pytest.mark.parametrize(
    "mine",
    [
        {"libown": {"77": "/tmp/libown.so"}},  # nobody else has a use for it
        {"libcublas": {"22e1": "/tmp/a copy/libcublas.so.13"}},
        {},
    ],
)
def test_libraries_that_are_no_difference(mine):
    assert told(versions, variant(libraries=mine)) is None


def test_many_libraries_are_counted():
    many = {f"lib{name}": {"1": f"/a/{name}"} for name in "abcdefg"}
    others = {name: {"2": "/b"} for name in many}
    found = message(versions, variant(libraries=many, server_libraries=others))
    assert found.count("elsewhere") == 5
    assert found.endswith("; and 2 more")


# --- self-check


def test_another_definition():
    planned = {"sha256": "51c0", "clock": "wall", "tolerance": "fp32"}
    told_judge = planned | {"tolerance": "anything", "extra": 1}
    declared = {"run": planned, "judge": told_judge, "worker": planned | {"sha256": "1f"}}
    assert told(self_check, variant(checked={"declared": declared})) == (
        "evaluation.metric_definition_gaming",
        "the benchmark declares another tolerance, extra to the judge than before the run; "
        "the benchmark declares another sha256 to the worker than before the run",
    )
    by_wall = samples(1e-3)
    by_wall = attrs.evolve(by_wall, device_s=by_wall.wall_s, wall_s=by_wall.device_s)
    assert message(self_check, variant(samples=by_wall)) == "no sample was taken by the declared clock, 'device'"


def test_times_are_of_one_call():
    taken = attrs.evolve(samples(1e-3, wall_s=2e-3), calls=[10, 4] * 8)
    assert call_times(taken, "device")[0][1] == pytest.approx(0.1e-3, rel=0.02)
    assert call_times(taken, "wall")[0][1] == pytest.approx(0.5e-3, rel=0.02)
    assert [number for number, _ in call_times(taken, "wall")] == [0] * 8


# --- both clocks


@pytest.mark.parametrize(
    ("device_s", "wall_s", "seen"),
    [(0.6e-3, 1.5e-3, True), (0.6e-3, 1.4e-3, False), (1.195e-3, 1.5e-3, False), (1.3e-3, 9e-3, False)],
)
def test_what_the_caller_waits_for(device_s, wall_s, seen):
    """Of a baseline of 1.2 ms on the GPU and 1.3 ms for its caller."""
    found = told(both_clocks, variant(samples=samples(device_s, wall_s=wall_s)))
    assert bool(found) is seen
    if found:
        assert found == (
            "cuda.driver_overhead",
            "by the GPU's clock it takes 0.5 times the baseline's time, and by the caller's clock 1.15 times the "
            "baseline's time: 0.0015 s",
        )


def test_a_wait_that_is_longer_by_microseconds_alone_is_a_launch():
    short = baseline(samples=samples(10e-6, wall_s=30e-6))
    assert told(both_clocks, variant(samples=samples(5e-6, wall_s=49e-6), beside=short)) is None
    assert told(both_clocks, variant(samples=samples(5e-6, wall_s=51e-6), beside=short)) is not None


def test_both_clocks_need_both():
    assert told(both_clocks, attrs.evolve(variant(), baseline=None)) is None
    assert isinstance(both_clocks.look(variant(samples=samples(0.6e-3))), NotObserved)
    assert isinstance(both_clocks.look(variant(clock="wall")), NotObserved)


# --- ranks


def rank(number, **changes):
    honest = Rank(
        rank=number,
        device=f"cuda:{number}",
        work_s=1e-2,
        collectives={"all_gather": 2, "send": number},
        wire_bytes=1e6,
    )
    return attrs.evolve(honest, **changes)


def pair(*changes, time_s=1e-2, size=None, beside=({}, {}), **more):
    ours, theirs = ([rank(number, **one) for number, one in enumerate(side)] for side in (changes, beside))
    return variant(
        samples=samples(time_s),
        ranks=ours,
        world_size=size or len(ours),
        beside=baseline(samples=samples(time_s), ranks=theirs, world_size=len(theirs)),
        **more,
    )


def test_ranks_that_work():
    assert told(ranks, pair({}, {})) is None


def test_a_rank_of_which_nothing_came():
    found = told(ranks, pair({}, size=3, beside=({},)))
    assert found[0] == "distributed.rank_skipping"
    assert found[1] == "of 3 ranks, no record came from rank 1, 2"


def test_a_rank_that_has_nothing_to_do_in_the_baseline_either():
    idle = {"work_s": 1e-5}
    quiet: tuple[dict[str, Any], ...] = ({}, {}, idle)
    assert told(ranks, pair(*quiet, beside=quiet)) is None
    assert told(ranks, pair(*quiet, beside=({}, {}, {})))[0] == "distributed.rank_skipping"


@pytest.mark.parametrize(("work_s", "idle"), [(1e-4, True), (1.9e-4, True), (2.1e-4, False), (1e-3, False)])
def test_how_little_is_no_work(work_s, idle):
    """What a rank does is held against the median: one that has far more to do by design makes nobody idle."""
    most = {"work_s": 8e-2}
    found = told(ranks, pair({"work_s": work_s}, {}, {}, most, beside=({}, {}, {}, most), time_s=8e-2))
    assert (found is not None) is idle
    if found:
        assert found == ("distributed.rank_skipping", "of 4 ranks, rank 0 did almost no work")


@pytest.mark.parametrize(
    ("changes", "beside", "said"),
    [
        (
            ({}, {"collectives": {"all_gather": 1}}),
            ({}, {}),
            "the ranks entered different collectives: 2 all_gather; 1 all_gather",
        ),
        # Also in the baseline, the two ends of a pipeline meet once more.
        (({}, {"collectives": {"all_gather": 1}}), ({}, {"collectives": {"all_gather": 1}}), None),
        (({}, {"wire_bytes": 0.0}), ({}, {}), "rank 1 entered collectives and moved no byte, with 2 ranks"),
        # The last rank of a pipeline sends nothing.
        (
            ({}, {"wire_bytes": 0.0, "collectives": {"recv": 3, "barrier": 1}}),
            ({}, {"wire_bytes": 0.0, "collectives": {"recv": 3, "barrier": 1}}),
            None,
        ),
        (
            ({"wire_bytes": 9e4}, {"wire_bytes": 9e4}),
            ({}, {}),
            "the ranks moved 1.8e+05 bytes, and those of the baseline 2e+06",
        ),
        # int8 for fp32.
        (({"wire_bytes": 2.6e5}, {"wire_bytes": 2.6e5}), ({}, {}), None),
    ],
)
def test_collectives(changes, beside, said):
    found = told(ranks, pair(*changes, beside=beside))
    assert found == (("distributed.collective_short_circuit", said) if said else None)


@pytest.mark.parametrize(
    ("wire_bytes", "said"),
    [
        # An all-reduce among very many ranks: it is handed half of what travels.
        (5e5, None),
        (3.1e5, None),
        (2.9e5, "the ranks moved 5.8e+05 bytes where the work needs 2e+06, and those of the baseline 4e+07"),
        (1e5, "the ranks moved 2e+05 bytes where the work needs 2e+06, and those of the baseline 4e+07"),
    ],
)
def test_a_baseline_that_moves_more_than_the_work_needs_is_no_measure(wire_bytes, said):
    wasteful = {"wire_bytes": 2e7}
    evidence = pair({"wire_bytes": wire_bytes}, {"wire_bytes": wire_bytes}, beside=(wasteful, wasteful))
    assert message(ranks, evidence) is not None
    assert message(ranks, attrs.evolve(evidence, wire_bytes=1e6)) == said  # of each rank


def test_a_need_that_is_declared_too_high_refuses_nobody():
    evidence = pair({"wire_bytes": 1.1e5}, {"wire_bytes": 1.1e5}, wire_bytes=1e9)
    assert told(ranks, evidence) is None


def test_one_rank_that_moves_nothing_is_found_whatever_all_must_send():
    nothing = {"wire_bytes": 0.0}
    assert message(ranks, pair({}, nothing, wire_bytes=1.0)) == (
        "rank 1 entered collectives and moved no byte, with 2 ranks"
    )


def test_what_is_lossy_may_send_far_less_but_not_nothing():
    """The largest hundredth of the numbers, say; the judge measures what that costs."""
    few, none = {"wire_bytes": 2e4}, {"wire_bytes": 0.0}
    assert told(ranks, pair(few, few, lossy=True)) is None
    assert told(ranks, pair(few, few)) is not None
    assert told(ranks, pair(none, none, lossy=True))[1].startswith("rank 0, 1 entered collectives and moved no byte")


@pytest.mark.parametrize(
    ("gpus", "theirs", "said"),
    [
        ((("A",), ("A",)), (("A",), ("B",)), "several ranks are on A"),
        ((("A",), ("C",)), (("A",), ("B",)), "the ranks are on A, C, and those of the baseline on A, B"),
        ((("B",), ("A",)), (("A",), ("B",)), None),  # the same GPUs in another order
        ((("A",), None), (("A",), ("B",)), "the driver lists rank 1 on no GPU"),
        ((None, None), (("A",), ("B",)), None),  # the driver lists nobody
    ],
)
def test_gpus_of_ranks(gpus, theirs, said):
    ours, others = ([{"gpus": one, "processors": (0, 1)} for one in side] for side in (gpus, theirs))
    assert message(ranks, pair(*ours, beside=others)) == said


@pytest.mark.parametrize(
    ("processors", "said"),
    [
        (((0, 1), (0, 1)), None),
        (((0, 1), None), None),
        (((0, 1), (1,)), "rank 1 may run on processors 1, and that of the baseline on 0, 1"),
    ],
)
def test_processors_of_ranks(processors, said):
    ours, usual = [{"processors": one} for one in processors], {"processors": (0, 1)}
    found = told(ranks, pair(*ours, beside=(usual, usual)))
    assert found == (said and ("distributed.topology_mismatch", said))


@pytest.mark.parametrize(
    ("ours", "theirs", "seen"),
    [
        ((100, 50), (50, 100), False),  # the last layers' first
        ((50, 25), (100, 50), False),  # numbers of half the width
        ((150,), (100, 50), True),
        ((75, 75), (100, 50), True),
        ((), (100, 50), False),  # another collective
    ],
)
def test_buckets_of_reductions(ours, theirs, seen):
    sides = [[{"buckets": one}] * 2 for one in (ours, theirs)]
    found = told(ranks, pair(*sides[0], beside=sides[1]))
    assert (found is not None) is seen
    if found and ours == (150,):
        assert found == (
            "distributed.gradient_bucketing_mismatch",
            "rank 0, 1 reduces in buckets of 150 bytes, and that of the baseline in buckets of 50, 100 bytes",
        )


def test_buckets_of_one_size_are_counted():
    found = told(ranks, pair({"buckets": (4, 8, 8, 8)}, beside=({"buckets": (14, 14)},)))
    assert found is not None
    assert (
        found[1] == "rank 0 reduces in buckets of 4, 3 x 8 bytes, and that of the baseline in buckets of 2 x 14 bytes"
    )


def test_ranks_of_a_baseline_have_nothing_to_be_compared_with():
    uneven = [rank(0, buckets=(3,), processors=(0,)), rank(1, buckets=(5, 9), processors=(1,))]
    assert told(ranks, baseline(ranks=uneven, world_size=2, samples=samples(1e-2))) is None


# --- seeds


@pytest.mark.parametrize(
    ("drawn", "seen"),
    [
        ([1 << 61, 1 << 60], False),
        ([1 << 61, 7], True),
        ([1 << 61, 1 << 23], True),  # 24 bits
        ([1 << 61, 1 << 24], False),
        ([(1 << 40) + 5 * index**2 for index in range(4)], True),  # 41 bits
        ([(1 << 61) + 1000 * index for index in range(4)], True),  # counted
        ([(1 << 61) + 1000 * index for index in range(3)], False),  # too few to say
    ],
)
def test_seeds_that_can_be_guessed(drawn, seen):
    found = told(seeds_check, variant(checked={"seeds": drawn}))
    assert (found is not None) is seen
    if found:
        assert found[0] == "replay.known_seed"


def test_values_repeat_without_being_judged():
    taken = samples(1e-3)
    again = attrs.evolve(taken, step=[0] * 8, judged=[True] + [False] * 7)
    assert told(seeds_check, variant(samples=again)) is None


# --- ledger


def test_a_host_that_computes_before_it_queues():
    """The GPU's clock starts when the host has queued its work, so it sees one copy."""
    spilled = variant(audit=audit(copy("HtoD", 1 << 20, 4e-5)), samples=samples(4e-5, wall_s=9e-3))
    assert told(cupti_ledger, spilled) == (
        "location.cpu_spillover",
        "the host is busy for 0.00895 s before a call of which the GPU sees 4e-05 s; its kernels take 0 s",
    )


def test_one_slow_call_of_seven_is_no_wait():
    work = (kernel("step", 4e-4), copy("DtoH", 1 << 20, 1e-4))
    slow_once = attrs.evolve(audit(*work), span_s=[5e-4] * 6 + [1.0])
    assert told(cupti_ledger, variant(audit=slow_once)) is None


def test_a_host_that_computes_beside_a_kernel_for_show():
    """Some traffic with the host, and a kernel that has no part in it."""
    work = (kernel("touch", 1e-5), copy("DtoH", 1 << 20, 4e-5))
    spilled = variant(audit=audit(*work), samples=samples(5e-5, wall_s=4e-3))
    assert told(cupti_ledger, spilled)[0] == "location.cpu_spillover"


@pytest.mark.parametrize(
    "honest",
    [
        # Many small kernels that the host is slow to queue.
        variant(audit=audit(kernel("step", 2e-4, count=400)), samples=samples(2.5e-4, wall_s=1e-2)),
        # A number that the host asks for in every call.
        variant(audit=audit(kernel("step", 5e-5), copy("DtoH", 8, 1e-6), span_s=1e-3)),
        # The baseline exchanges as much with the host: offloading is the workload.
        variant(
            audit=audit(kernel("step", 5e-5), copy("DtoH", 1 << 20, 1e-4), span_s=1e-2),
            beside=baseline(audit=audit(kernel("step", 1.2e-3), copy("DtoH", 1 << 20, 1e-4))),
        ),
        # As many kernels as the baseline, with pauses.
        variant(audit=audit(kernel("step", 1e-3), copy("DtoH", 1 << 20, 1e-4), span_s=1e-1)),
        # A slow host, as slow for the baseline, and a result that it takes home.
        variant(
            audit=audit(kernel("step", 4e-5), copy("DtoH", 1 << 20, 4e-5)),
            samples=samples(8e-5, wall_s=1.5e-3),
            beside=baseline(samples=samples(1.2e-3, wall_s=2.2e-3)),
        ),
        # Copies within the GPU are no traffic with the host.
        variant(audit=audit(kernel("step", 5e-5), copy("DtoD", 1 << 30, 1e-5), span_s=1e-2)),
        # Small calls that wait for a result of some size.
        variant(audit=audit(kernel("step", 1e-5), copy("DtoH", 1 << 20, 1e-5), span_s=1.5e-4)),
        # An antipattern that is there to be beaten.
        baseline(audit=audit(copy("DtoH", 1 << 20, 1e-4), span_s=1e-1)),
    ],
)
def test_hosts_that_do_their_own_work(honest):
    assert told(cupti_ledger, honest) is None


def test_an_incomplete_record_is_no_audit():
    partial = attrs.evolve(audit(kernel("k", 1e-3)), span_s=[1e-3] * 5)
    assert told(cupti_ledger, variant(audit=partial)) == (
        "timing.not_audited",
        "CUPTI's record is incomplete: 5 of 7 calls, 1 kinds of work",
    )


@pytest.mark.parametrize("role", ["baseline", "yardstick", "control"])
def test_libraries_may_work_for_others(role):
    assert told(cupti_ledger, variant(role=role, audit=audit(kernel(LIBRARY, 1e-3)))) is None


@pytest.mark.parametrize(
    "name",
    [
        LIBRARY,
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
        "ampere_sgemm_128x64_tn",
        "void gemv2T_kernel_val<int, int, float>",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void cub::CUB_200200_SM_90::DeviceReduceKernel<float>",
        "void at::native::reduce_kernel<512, 1>",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16",
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>",
    ],
)
def test_kernels_of_libraries(name):
    assert told(cupti_ledger, variant(audit=audit(kernel(name, 1e-3))))[0] == "policy.library_fallback"


@pytest.mark.parametrize(
    "name",
    [
        "coalesced",
        "triton_poi_fused_add_0",
        "tiled_sgemm",
        "my_splitk_gemm",
        "void cutlass::device_kernel<MyGemm>",
    ],
)
def test_kernels_of_ones_own(name):
    assert told(cupti_ledger, variant(audit=audit(kernel(name, 1e-3)))) is None


def test_a_library_in_the_place_of_other_library_calls_is_a_choice():
    eager = baseline(audit=audit(kernel("void at::native::softmax", 1e-3, count=3)))
    assert told(cupti_ledger, variant(audit=audit(kernel(LIBRARY, 5e-4)), beside=eager)) is None
