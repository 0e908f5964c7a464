import copy
import random

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.measurements import Census, Faults, Samples
from aiperf_core.validity.check import NotObserved
from aiperf_core.validity.checks import aliasing, global_state, process_census, repeat_against_fresh
from aiperf_core.validity.checks.global_state import Difference, differences
from aiperf_core.validity.evidence import Evidence
from aiperf_core.validity.registry import guards, issue

CHECKS = [module.CHECK for module in (aliasing, global_state, process_census, repeat_against_fresh)]


def of(**fields):
    return Evidence(**{"name": "one", "role": "variant", "device": "cpu", "clock": "wall", "cache": "cold", **fields})


def issues(check, evidence):
    found = check.CHECK.look(evidence)
    assert not isinstance(found, NotObserved), found
    for one in found:
        issue(one.issue)
        assert len(one.message.splitlines()) == 1
    return [one.issue for one in found]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.guard)
def test_each_has_a_guard_and_observes_nothing_without_evidence(check):
    assert check.guard in {one.name for one in guards()}
    assert isinstance(check.look(of()), NotObserved)
    assert isinstance(check.look(of(baseline=of())), NotObserved)


# --- global_state

STATE = {
    "precision": {
        "torch": {
            "float32_matmul_precision": "highest",
            "cudnn.allow_tf32": True,
            "mkldnn.matmul.fp32_precision": "none",
        },
        "environment": {"NVIDIA_TF32_OVERRIDE": None},
    },
    "denormals": {"cpu": {"results_flushed": False}},
    "modes": {"torch": {"function_modes": []}},
    "settings": {"torch": {"grad": True}},
    "compiler": {"torch._inductor.config": {}},
    "clock": {"time": {"perf_counter": "built-in time.perf_counter"}},
    "harness": {"aiperf_core.devices.cpu": {"CpuDevice.flush": "def #1", "wall_of": "def #2"}},
    "objects": {"CpuDevice": {"overridden": [], "_flush": "a tensor"}},
}


def turned(kind, group, name, value):
    state = copy.deepcopy(STATE)
    state.setdefault(kind, {}).setdefault(group, {})[name] = value
    return state


def without(kind, group):
    state = copy.deepcopy(STATE)
    del state[kind][group]
    return state


def test_differences():
    assert differences(STATE, STATE) == []
    assert differences(STATE, turned("clock", "time", "perf_counter", "def mine")) == [
        Difference("time.perf_counter", "built-in time.perf_counter", "def mine", "clock")
    ]


def test_what_appears_and_what_goes():
    assert differences(STATE, turned("harness", "aiperf_core.kernels.cuda", "f", "def")) == []
    assert differences(STATE, turned("random", "random", "random", "def")) == []
    assert differences(STATE, turned("harness", "aiperf_core.devices.cpu", "range", "def")) == [
        Difference("aiperf_core.devices.cpu.range", None, "def", "harness")
    ]
    assert differences(STATE, without("clock", "time")) == [
        Difference("time.perf_counter", "built-in time.perf_counter", None, "clock")
    ]
    # What an object was first given later.
    assert differences(STATE, turned("objects", "CpuDevice", "_output", "class Tensor")) == []


def test_an_unchanged_state_is_honest():
    assert issues(global_state, of(state_before=STATE, state_after=STATE)) == []
    assert issues(global_state, of(state_before=STATE, state_after=STATE, baseline=of(state_after=STATE))) == []


@pytest.mark.parametrize(
    ("kind", "group", "name", "value", "expected"),
    [
        ("precision", "torch", "float32_matmul_precision", "high", "workload.backend_precision_policy_drift"),
        ("precision", "torch", "mkldnn.matmul.fp32_precision", "bf16", "workload.backend_precision_policy_drift"),
        ("precision", "environment", "NVIDIA_TF32_OVERRIDE", "1", "workload.backend_precision_policy_drift"),
        ("denormals", "cpu", "results_flushed", True, "output.denormalized_values"),
        ("modes", "torch", "function_modes", ["candidate.Rose"], "tamper.function_mode"),
        ("settings", "torch", "grad", False, "environment.process_settings"),
        ("compiler", "torch._inductor.config", "max_autotune", "True", "compile.inductor_asymmetry"),
        ("clock", "time", "perf_counter", "def candidate.<lambda> #3", "tamper.clock"),
        ("harness", "aiperf_core.devices.cpu", "wall_of", "def #3", "tamper.code_objects"),
        ("harness", "aiperf_core.devices.cpu", "CpuDevice.flush", "def #3", "tamper.cache_flush"),
        ("objects", "CpuDevice", "_flush", None, "tamper.cache_flush"),
        ("objects", "CpuDevice", "overridden", ["time"], "tamper.code_objects"),
    ],
)
def test_a_changed_state(kind, group, name, value, expected):
    assert issues(global_state, of(state_before=STATE, state_after=turned(kind, group, name, value))) == [expected]


def test_every_kind_of_difference_has_an_issue_and_words():
    for kind, name in global_state._ISSUES.items():
        issue(name)
        state = {kind: {"group": {"name": "a"}}}
        (seen,) = global_state.look(of(state_before=state, state_after={kind: {"group": {"name": "b"}}}))
        assert seen.issue == name
        assert seen.message.endswith("after the calls: group.name is b, not a")
        assert seen.evidence == {"group.name": {"before": "a", "after": "b"}}


@pytest.mark.parametrize(
    ("name", "value"),
    [("cudnn.allow_tf32", False), ("mkldnn.matmul.fp32_precision", "ieee"), ("float32_matmul_precision", None)],
)
def test_asking_for_more_exactness_is_honest(name, value):
    assert issues(global_state, of(state_before=STATE, state_after=turned("precision", "torch", name, value))) == []


def test_many_changes_of_a_kind_are_one_finding():
    before = {"clock": {"time": {str(index): "a" for index in range(6)}}}
    after = {"clock": {"time": {**dict.fromkeys(map(str, range(1, 6)), "b")}}}
    (seen,) = global_state.look(of(state_before=before, state_after=after))
    assert seen.message == (
        "clock functions were replaced, after the calls: time.0 is gone; time.1 is b, not a; "
        "time.2 is b, not a; time.3 is b, not a and 2 more"
    )
    assert len(seen.evidence) == 6


def test_a_switch_that_only_the_baseline_has_not():
    loose = turned("precision", "torch", "float32_matmul_precision", "medium")
    one = of(state_before=loose, state_after=loose, baseline=of(state_after=STATE))
    (seen,) = global_state.look(one)
    assert seen.issue == "workload.backend_precision_policy_drift"
    assert "beside the baseline: torch.float32_matmul_precision is medium, not highest" in seen.message
    # The other way round the baseline has the looser one, which its own row tells.
    assert issues(global_state, of(state_before=STATE, state_after=STATE, baseline=of(state_after=loose))) == []


def test_a_switch_of_gpus_matters_on_gpus():
    strict = turned("precision", "torch", "cudnn.allow_tf32", False)
    here = {"state_before": STATE, "state_after": STATE, "baseline": of(state_after=strict)}
    assert issues(global_state, of(**here)) == []
    assert issues(global_state, of(device="cuda:0", **here)) == ["workload.backend_precision_policy_drift"]


def test_a_change_is_told_once():
    loose = turned("precision", "torch", "float32_matmul_precision", "medium")
    one = of(state_before=STATE, state_after=loose, baseline=of(state_after=STATE))
    assert issues(global_state, one) == ["workload.backend_precision_policy_drift"]


# --- process_census

REST = Census(
    children=0,
    threads=4,
    busy_s=0.00005,
    nice=0,
    scheduler="other",
    affinity=(0, 1),
    swapped_bytes=0,
    major_faults=0,
    gpus=("GPU-a",),
)


def watched(*, baseline=REST, call_s=0.01, count=10, **changed):
    """Evidence of a process in which so much is otherwise, beside a baseline at rest."""
    samples = Samples(bracket_s=[call_s] * 5, calls=[1] * 5)
    return of(census=[evolve(REST, **changed)] * count, baseline=of(census=[baseline] * count, samples=samples))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"children": 1}, "location.child_process"),
        ({"busy_s": 0.01}, "location.work_between_calls"),
        ({"busy_s": 0.01, "threads": 5}, "location.background_thread"),
        ({"nice": -5}, "environment.priority_elevation"),
        ({"scheduler": "fifo"}, "environment.priority_elevation"),
        ({"affinity": (0, 1, 2)}, "environment.priority_elevation"),
        ({"major_faults": 3}, "memory.page_fault_timing"),
        ({"major_faults": 3, "swapped_bytes": 4096}, "memory.swap_interference"),
        ({"gpus": ("GPU-a", "GPU-b")}, "cuda.undeclared_multi_gpu"),
        ({"gpus": ("GPU-b",)}, "environment.device_mismatch"),
    ],
)
def test_what_a_process_does_besides(changed, expected):
    assert issues(process_census, watched(**changed)) == [expected]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"threads": 64},  # a pool that sleeps
        {"busy_s": 0.0015},
        {"nice": 5},
        {"scheduler": "batch"},
        {"affinity": (1,)},
        {"swapped_bytes": 1 << 30},  # since before the run
        {"gpus": None},
    ],
)
def test_what_honest_processes_do(changed):
    assert issues(process_census, watched(**changed)) == []


@pytest.mark.parametrize(
    "changed",
    [{"children": 2}, {"busy_s": 0.01}, {"nice": -5}, {"scheduler": "rr"}, {"major_faults": 1}, {"gpus": ("GPU-b",)}],
)
def test_what_the_baseline_does_too_is_no_finding(changed):
    assert issues(process_census, watched(baseline=evolve(REST, **changed), **changed)) == []


def faults(beside, alone, kind="minor"):
    """Evidence beside a baseline with these numbers of page faults after turns of others and after its own turns."""
    both = [(count, False) for count in beside] + [(count, True) for count in alone]
    seen = [Faults(**{"minor": 0, "major": 0, kind: count}, after_itself=after) for count, after in both]
    return of(census=[REST] * 4, baseline=of(census=[REST] * 4, faults=seen))


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (
            faults([64, 64, 64, 64], [0, 1]),
            "64 minor page faults in 4 of 4 samples right after turns of others, and at most 1",
        ),
        (
            faults([0, 64, 66, 0, 0, 0], [0, 2]),
            "65 minor page faults in 2 of 6 samples right after turns of others, and at most 2",
        ),
        (
            faults([3000] * 3, [2048] * 3),
            "3000 minor page faults in 3 of 3 samples right after turns of others, and at most 2048",
        ),
        (
            faults([1, 1, 0, 1], [0, 0], "major"),
            "1 major page faults in 3 of 4 samples right after turns of others, and at most 0",
        ),
    ],
)
def test_pages_that_the_baseline_pays_for_after_turns_of_others(evidence, said):
    (seen,) = process_census.look(evidence)
    assert seen.issue == "memory.baseline_page_faults"
    assert seen.message == f"the baseline had {said} after its own: it paid for pages that others took"


@pytest.mark.parametrize(
    "evidence",
    [
        faults([8, 8, 8], [0, 0]),
        faults([64] * 9, [60]),  # its own allocations
        faults([2500] * 9, [2048]),
        faults([64, 0, 0, 0], [0]),  # once, as at the start
        faults([64, 64, *[0] * 7], [0]),
        faults([64] * 9, []),  # nothing to compare with
        faults([1, 1], [1], "major"),
        faults([], []),
    ],
    ids=lambda _: "",
)
def test_page_faults_that_nobody_caused(evidence):
    assert issues(process_census, evidence) == []


def test_what_begins_late_is_seen_in_the_second_half():
    busy = evolve(REST, children=1)
    assert issues(process_census, of(census=[REST] * 4 + [busy] * 4, baseline=of(census=[REST] * 8))) == [
        "location.child_process"
    ]
    assert issues(process_census, of(census=[REST] * 4 + [busy], baseline=of(census=[REST] * 5))) == []
    assert issues(process_census, of(census=[REST] * 4 + [busy] * 4, baseline=of(census=[REST] * 4 + [busy] * 4))) == []


def test_a_few_gaps_tell_nothing():
    busy, rest = evolve(REST, children=1, busy_s=0.5), REST
    assert issues(process_census, of(census=[busy] * 4 + [rest] * 6, baseline=of(census=[rest] * 10))) == []
    assert issues(process_census, of(census=[busy] * 6 + [rest] * 4, baseline=of(census=[rest] * 10))) == [
        "location.child_process",
        "location.work_between_calls",
    ]
    assert isinstance(process_census.look(of(census=[busy] * 2)), NotObserved)


def test_of_short_calls_less_may_be_done_between_them():
    assert issues(process_census, watched(busy_s=0.0008, call_s=0.01)) == []
    assert issues(process_census, watched(busy_s=0.0008, call_s=0.001)) == ["location.work_between_calls"]
    assert issues(process_census, watched(busy_s=0.00035, call_s=0.00001)) == []


def test_swap_that_grows():
    growing = [evolve(REST, swapped_bytes=index << 20) for index in range(4)]
    assert issues(process_census, of(census=growing)) == ["memory.swap_interference"]


def test_without_a_baseline_the_first_look_is_the_measure():
    raised = [REST, REST, evolve(REST, nice=-1)]
    assert issues(process_census, of(census=raised)) == ["environment.priority_elevation"]
    assert issues(process_census, of(census=[evolve(REST, nice=-1)] * 3)) == []
    two = [evolve(REST, gpus=("GPU-a", "GPU-b"))] * 3
    assert issues(process_census, of(census=two)) == ["cuda.undeclared_multi_gpu"]
    assert issues(process_census, of(census=two, world_size=2)) == []


def test_a_census_that_was_refused_tells_nothing():
    assert issues(process_census, of(census=[Census()] * 5, baseline=of(census=[Census()] * 5))) == []


fields = st.fixed_dictionaries(
    {
        "children": st.none() | st.integers(0, 3),
        "threads": st.none() | st.integers(1, 9),
        "busy_s": st.none() | st.floats(0, 1),
        "nice": st.none() | st.integers(-20, 19),
        "scheduler": st.none() | st.sampled_from(["other", "fifo", "batch"]),
        "affinity": st.none() | st.tuples(st.integers(0, 3)),
        "swapped_bytes": st.none() | st.integers(0, 1 << 30),
        "major_faults": st.none() | st.integers(0, 3),
        "gpus": st.none() | st.just(("GPU-a",)) | st.just(()),
    }
)
censuses = st.none() | st.lists(fields.map(lambda given: Census(**given)), max_size=6)


@given(censuses, censuses)
def test_no_census_raises(ours, theirs):
    process_census.look(of(census=ours, baseline=of(census=theirs)))
    process_census.look(of(census=ours))


# --- aliasing


def test_aliasing():
    assert issues(aliasing, of(aliases=[])) == []
    (seen,) = aliasing.look(of(aliases=["", "kept"]))
    assert seen.issue == "memory.input_output_aliasing"
    assert seen.message == (
        "output lies in the memory of an input: the output, 'kept'; a workload names what may change as state"
    )


# --- repeat_against_fresh


def timed(repeated, fresh, *, baseline=(1.0, 1.0), noise=0.05, count=9, **fields):
    """Evidence of calls that take so many milliseconds, with some noise."""
    rng = random.Random(0)

    def times(centre_ms):
        return [centre_ms * 1e-3 * (1 + rng.uniform(-noise, noise)) for _ in range(count)]

    theirs = of(repeated_s=times(baseline[0]), fresh_s=times(baseline[1]))
    return of(repeated_s=times(repeated), fresh_s=times(fresh), baseline=theirs, **fields)


def test_a_memory_by_value():
    (seen,) = repeat_against_fresh.look(timed(0.2, 1.1))
    assert seen.issue == "replay.by_value"
    assert seen.evidence["repeated_s"] == pytest.approx(0.0002, rel=0.06)


def test_a_memory_within_a_sample():
    evidence = timed(0.2, 1.1, samples=Samples(calls=[8] * 3))
    assert issues(repeat_against_fresh, evidence) == ["replay.within_sample"]


@pytest.mark.parametrize(
    "evidence",
    [
        timed(1.0, 1.0),
        timed(0.8, 1.0),  # a cache that is warm
        timed(0.4, 1.0, baseline=(0.5, 1.0)),  # warmer, as the baseline's
        timed(0.5, 1.0, baseline=(1.0, 1.0), noise=0.9),  # noise
        timed(2.0, 1.0),
        timed(0.0002, 0.001),  # shorter than a clock can tell
    ],
    ids=lambda _: "",
)
def test_honest_repetitions(evidence):
    assert issues(repeat_against_fresh, evidence) == []


def test_a_process_that_is_interrupted_now_and_then_is_honest():
    evidence = timed(1.0, 1.0)
    evidence.repeated_s[:] = [0.0005] * 5 + [0.0015] * 4
    assert issues(repeat_against_fresh, evidence) == []


def test_a_baseline_that_remembers_excuses_nobody():
    assert issues(repeat_against_fresh, timed(0.1, 1.0, baseline=(0.1, 1.0))) == ["replay.by_value"]


def test_a_baseline_that_slows_down_accuses_nobody():
    assert issues(repeat_against_fresh, timed(0.8, 1.0, baseline=(2.0, 1.0))) == []


@pytest.mark.parametrize(("count", "said"), [(5, []), (9, ["replay.by_value"])])
def test_few_calls_may_differ_by_chance(count, said):
    assert issues(repeat_against_fresh, timed(0.1, 1.0, count=count)) == said


@pytest.mark.parametrize("count", [0, 1, 4])
def test_few_repetitions_are_not_observed(count):
    assert isinstance(repeat_against_fresh.look(timed(0.1, 1.0, count=count)), NotObserved)


def test_the_baseline_counts_only_where_there_is_a_gain():
    for repeated, said in ((0.1, NotObserved), (1.0, list)):
        evidence = timed(repeated, 1.0)
        evidence.baseline.repeated_s.clear()
        assert isinstance(repeat_against_fresh.look(evidence), said)


def test_times_that_are_none_do_not_count():
    evidence = timed(0.1, 1.0, count=5)
    evidence.fresh_s[0] = float("nan")
    assert isinstance(repeat_against_fresh.look(evidence), NotObserved)
