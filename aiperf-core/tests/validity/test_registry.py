import re
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

import aiperf_core
from aiperf_core.errors import UsageError
from aiperf_core.validity.issues import ALWAYS, HARD, NOTE, SOFT, Incident, Issue, Severity, UnknownIssueError
from aiperf_core.validity.registry import categories, guards, issue, issues

# The list that the registry started from, as it is spelled there.
PREDECESSOR = {
    "Timing": "Unsynced Streams; Incomplete Async Ops; Event Timing Gaps; Timer Granularity; Warmup Bleed; Clock Drift; "
    "Profiler Overhead",
    "Output": "Constant Output; Stale Cache; Approximation Drift; Invalid Values (NaN); Invalid Values (Inf); "
    "Invalid Ground Truth; Shape Mismatch; Dtype Mismatch; Denormalized Values; Uninitialized Memory",
    "Workload": "Precision Mismatch; Backend Precision Policy Drift; Undeclared Shortcuts; Early Exit; Batch Shrinking; "
    "Sequence Truncation; Hidden Downsampling; Sparsity Mismatch; Attention Mask Mismatch; KV Cache Size Mismatch; "
    "Train/Test Overlap",
    "Location": "CPU Spillover; Setup Pre-computation; Graph Capture Cheat; Warmup Computation; Background Thread; "
    "Lazy Evaluation Skip; JIT Compilation Timing",
    "Memory": "Pre-allocated Output; Input-Output Aliasing; Pinned Memory Timing; Memory Pool Reuse; "
    "Fragmentation Effects; Page Fault Timing; Swap Interference",
    "CUDA": "Host Callback Escape; Async Memcpy Incomplete; Workspace Pre-compute; Persistent Kernel; "
    "Undeclared Multi-GPU; Context Switch Overhead; Driver Overhead; Cooperative Launch Abuse; "
    "Dynamic Parallelism Hidden; Unified Memory Faults",
    "Compile": "Compilation Cache Hit; Trace Reuse; Mode Inconsistency; Inductor Asymmetry; Guard Failure Hidden; "
    "Autotuning Variance; Symbolic Shape Exploit",
    "Distributed": "Rank Skipping; Collective Short-circuit; Topology Mismatch; Barrier Timing; "
    "Gradient Bucketing Mismatch; Async Gradient Timing; Pipeline Bubble Hiding; Shard Size Mismatch",
    "Environment": "Device Mismatch; Frequency Boost; Priority Elevation; Memory Overcommit; NUMA Inconsistency; "
    "CPU Governor Mismatch; Thermal Throttling; Power Limit Difference; Driver Version Mismatch; "
    "Library Version Mismatch; Container Resource Limits; Virtualization Overhead",
    "Statistical": "Cherry-picking; Outlier Injection; Variance Gaming; Percentile Selection; Insufficient Samples; "
    "Cold Start Inclusion; GC Interference; Background Process Noise",
    "Evaluation": "Eval Code Exploitation; Timeout Manipulation; Metric Definition Gaming; Test Data Leakage; "
    "Benchmark Overfitting; Self-Modifying Tests; Benchmark Memorization; Missing Holdout Sets",
}
LISTED = sorted(f"{category} / {name}" for category, names in PREDECESSOR.items() for name in names.split("; "))

SOURCES = Path(aiperf_core.__file__).parent
GOOD = {
    "id": "timing.naps",
    "title": "The clock naps",
    "happens": "It sleeps.",
    "guard": "clocks_agree",
    "protection": "It is woken.",
}

each_issue = pytest.mark.parametrize("one", issues(), ids=lambda one: one.id)


def sentences(text):
    return len(re.findall(r"[.?!](?= |$)", text))


# --- the registry


def test_the_list_of_95_is_covered_one_to_one():
    assert len(LISTED) == 95
    assert sorted(one.predecessor for one in issues() if one.predecessor) == LISTED


def test_listed_issues_keep_their_category_except_the_load_of_others():
    moved = {
        one.id: one.predecessor
        for one in issues()
        if one.predecessor and one.predecessor.partition(" / ")[0].lower() != one.category
    }
    assert moved == {"environment.background_load": "Statistical / Background Process Noise"}


def test_every_id_stands_once():
    ids = [one.id for one in issues()]
    assert sorted(ids) == sorted(set(ids))


def test_no_text_stands_twice():
    for name in ("title", "happens", "protection"):
        texts = [getattr(one, name) for one in issues()]
        assert sorted(texts) == sorted(set(texts))


def test_every_category_has_issues_which_stand_together():
    for category in categories():
        assert category in {one.category for one in issues()}
    listed = [one.category for one in issues()]
    assert [listed[0], *(after for before, after in pairwise(listed) if after != before)] == list(categories())


@each_issue
def test_an_issue_reads_as_prose(one):
    assert not one.title.endswith(".")
    assert len(one.title) <= 60
    assert 1 <= sentences(one.happens) <= 2
    assert 1 <= sentences(one.protection) <= 3
    for text in (one.happens, one.protection):
        assert text.endswith(".")
        assert text.strip() == text
        assert "  " not in text


@each_issue
def test_an_issue_names_a_guard_that_there_is(one):
    assert one.guard in {guard.name for guard in guards()}


def test_every_guard_has_an_issue_and_a_place():
    names = [guard.name for guard in guards()]
    assert sorted(names) == sorted({one.guard for one in issues()})
    places = [guard.place for guard in guards()]
    assert set(places) == {"loop", "after"}
    assert places == sorted(places, reverse=True)


def test_what_cannot_be_seen_without_a_gpu_says_so():
    for one in issues():
        if one.category == "cuda" or {"cupti", "gpus>=2"} & set(one.needs):
            assert "cuda" in one.needs


def test_every_incident_is_used_and_no_address_stands_twice():
    known = tomllib.loads((SOURCES / "validity" / "registry" / "incidents.toml").read_text()).values()
    assert len({source["url"] for source in known}) == len(known)
    assert {one.url for issue in issues() for one in issue.incidents} == {source["url"] for source in known}


def test_what_the_harness_reports_is_registered():
    quoted = re.compile(rf'"((?:{"|".join(categories())})\.[a-z_]+)"')
    reported = {
        name
        for folder in ("harness", "devices", "stats")
        for file in (SOURCES / folder).rglob("*.py")
        # Those name files of the kernel's and flags of torch's, some of which look like issues.
        if file.name not in ("environment.py", "process_state.py", "linter.py")
        for name in quoted.findall(file.read_text())
    }
    assert {"timing.incomplete_async", "output.wrong_values", "environment.shared_gpu"} <= reported
    assert reported - {one.id for one in issues()} == set()


def test_an_issue_is_found_by_its_id():
    assert issue("timing.unsynced_streams").predecessor == "Timing / Unsynced Streams"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "timing.unsinced_streams",
            "'timing.unsinced_streams' is not a validity issue. Did you mean 'timing.unsynced_streams'?",
        ),
        ("heap_scan", "'heap_scan' is not a validity issue. Did you mean 'leak.heap_scan'?"),
        ("timings", "'timings' is not a validity issue. Did you mean 'timing'?"),
        ("zzz", "'zzz' is not a validity issue. See them all: aiperf validity"),
    ],
)
def test_an_unknown_id_is_told_with_the_nearest(name, message):
    with pytest.raises(UnknownIssueError) as caught:
        issue(name)
    assert str(caught.value) == message
    assert isinstance(caught.value, UsageError)


def test_the_registry_is_cheap_to_import():
    code = "import sys, aiperf_core.validity.registry; aiperf_core.validity.registry.issues(); print(sorted({'torch','numpy','triton','click'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- the records


def test_the_severities_in_their_words():
    assert Severity("invalid", "invalid", "invalid") == ALWAYS
    assert Severity("invalid", "invalid", "warning") == HARD
    assert Severity("invalid", "warning", "warning") == SOFT
    assert Severity("warning", "warning", "ignored") == NOTE


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("invalid", "fatal", "warning"),
            "'fatal' is not what a finding does under 'standard'; accepted: 'invalid', 'warning', 'ignored'",
        ),
        (
            ("warning", "invalid", "ignored"),
            "warning / invalid / ignored grows harder from strict to lenient; it may only grow milder",
        ),
    ],
)
def test_a_severity_that_is_none(words, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Severity(*words)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"id": "Timing.naps"},
            "'Timing.naps' cannot be the id of an issue: 'category.issue' in snake case can",
        ),
        ({"id": "naps"}, "'naps' cannot be the id of an issue: 'category.issue' in snake case can"),
        ({"id": "timing.a.b"}, "'timing.a.b' cannot be the id of an issue: 'category.issue' in snake case can"),
        ({"id": 7}, "7 cannot be the id of an issue: 'category.issue' in snake case can"),
        ({"title": ""}, "'timing.naps' needs title in one paragraph; found ''"),
        ({"happens": "One\nTwo"}, "'timing.naps' needs happens in one paragraph; found 'One\\nTwo'"),
        ({"protection": None}, "'timing.naps' needs protection in one paragraph; found None"),
        ({"guard": "a guard"}, "'a guard' cannot name the guard of 'timing.naps': a word in snake case can"),
        ({"needs": "cuda"}, "'timing.naps' needs its needs as a tuple; found 'cuda'"),
        (
            {"needs": ("tpu",)},
            "'tpu' is not what 'timing.naps' can need of a machine; accepted: 'cuda', 'cupti', 'nvml', 'compiler', "
            "'bare_metal', 'linux', 'gpus>=2', 'ranks>=2'",
        ),
        ({"severity": "invalid"}, "'timing.naps' needs a Severity; found 'invalid'"),
        (
            {"incidents": Incident(None, "A", "https://a.org/b")},
            "'timing.naps' needs its incidents as a tuple of Incident; found Incident(year=None, title='A', "
            "url='https://a.org/b')",
        ),
        ({"incidents": ("A",)}, "'timing.naps' needs its incidents as a tuple of Incident; found ('A',)"),
    ],
)
def test_an_issue_that_breaks_a_rule(change, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Issue(**GOOD | change)
    assert str(caught.value) == message


def test_an_issue_with_the_least_that_it_needs():
    one = Issue(**GOOD)
    assert (one.category, one.needs, one.severity, one.incidents, one.predecessor) == ("timing", (), HARD, (), None)
    assert Issue(**GOOD, needs=("gpus>=4", "linux")).needs == ("gpus>=4", "linux")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2025", "A", "https://a.org/b"), "'2025' is not the year of an incident; accepted: a year, or None"),
        ((25, "A", "https://a.org/b"), "25 is not the year of an incident; accepted: a year, or None"),
        ((None, " ", "https://a.org/b"), "'Incident' needs title in one paragraph; found ' '"),
        ((None, "A", "a.org/b"), "'a.org/b' is not the address of an incident; accepted: 'https://…'"),
        ((None, "A", "https://a.org"), "'https://a.org' is not the address of an incident; accepted: 'https://…'"),
    ],
)
def test_an_incident_that_breaks_a_rule(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Incident(*arguments)
    assert str(caught.value) == message
