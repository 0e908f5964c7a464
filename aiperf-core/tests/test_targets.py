import re

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.errors import UsageError
from aiperf_core.targets import (
    InstalledTarget,
    Selection,
    Target,
    TargetFilter,
    UnknownTarget,
    is_group,
    is_name,
    nearest,
    select,
)


def target(name, *tags, summary="a lesson"):
    return InstalledTarget(
        name=name,
        module=f"aiperf_{name}",
        summary=summary,
        goal="speed",
        devices=("cpu",),
        tags=tags,
        distribution="aiperf-acme",
        version="0.3",
    )


TARGETS = (
    target("ch01.batched_gemm", "gemm", "launch"),
    target("ch01.fused_relu", "launch", summary="ReLU in one kernel"),
    target("ch07.memory_access", "memory", "cuda-cpp"),
    target("ch07.bank_conflicts", "cuda-cpp"),
    target("launchers.plain", "ch07"),
)


def names(*patterns):
    return [selection.target.name for selection in select(patterns, TARGETS)]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("all", [one.name for one in TARGETS]),
        ("*", [one.name for one in TARGETS]),
        ("ch01", ["ch01.batched_gemm", "ch01.fused_relu"]),
        ("ch07.*", ["ch07.memory_access", "ch07.bank_conflicts"]),
        ("ch07.memory_access", ["ch07.memory_access"]),
        ("ch07.memory_access:coalesced", ["ch07.memory_access"]),
        ("tag:launch", ["ch01.batched_gemm", "ch01.fused_relu"]),
        ("tag:cuda-*", ["ch07.memory_access", "ch07.bank_conflicts"]),
        ("tag:gemm:batched", ["ch01.batched_gemm"]),
        ("tag:ch07", ["launchers.plain"]),
        ("memory", ["ch07.memory_access"]),
        ("ch0[17].*c*", ["ch01.batched_gemm", "ch07.memory_access", "ch07.bank_conflicts"]),
        ("*gemm", ["ch01.batched_gemm"]),
        ("memory_access", ["ch07.memory_access"]),
        ("bank", ["ch07.bank_conflicts"]),
        ("bank:padded", ["ch07.bank_conflicts"]),
        ("cuda", ["ch07.memory_access", "ch07.bank_conflicts"]),
        ("ReLU", ["ch01.fused_relu"]),
        ("relu in", ["ch01.fused_relu"]),
        ("launch", ["ch01.batched_gemm", "ch01.fused_relu"]),
    ],
)
def test_a_pattern_chooses(pattern, expected):
    assert names(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("ch07.memory_acess", "'ch07.memory_acess' is not a target. Did you mean 'ch07.memory_access'?"),
        ("memory_acess", "'memory_acess' is not a target. Did you mean 'ch07.memory_access'?"),
        ("ch7", "'ch7' is not a target. Did you mean 'ch07'?"),
        (
            "ch20",
            "'ch20' is not a target: ch20 is not installed. Get it, in a clone of aiperf: pip install -e ./aiperf-ch20",
        ),
        (
            "ch02.numa",
            "'ch02.numa' is not a target: ch02 is not installed. Get it, in a clone of aiperf: pip install -e ./aiperf-ch02",
        ),
        ("ch21", "'ch21' is not a target. Did you mean 'ch01'?"),
        ("CH07", "'CH07' is not a target. See them all: aiperf list"),
        ("lunch", "'lunch' is not a target. Did you mean 'launch'?"),
        ("tag:lunch", "'lunch' is not a tag. Did you mean 'launch'?"),
        ("tag:zzz", "'zzz' is not a tag. The tags: ch07, cuda-cpp, gemm, launch, memory"),
        ("ch09.*", "'ch09.*' matches no target. See them all: aiperf list"),
        ("ch07", "'ch07' is both a group and a tag. Say which: 'ch07.*' or 'tag:ch07'."),
        ("", "'' names no target. Patterns look like 'ch07', 'ch07.memory_access' or 'tag:memory'."),
        ("tag:", "'tag:' names no target. Patterns look like 'ch07', 'ch07.memory_access' or 'tag:memory'."),
        (
            "ch07.memory_access:",
            "'ch07.memory_access:' names no implementation after the colon. "
            "One looks like 'ch07.memory_access:coalesced'.",
        ),
    ],
)
def test_a_pattern_that_chooses_nothing_says_so(pattern, message):
    with pytest.raises(UsageError) as caught:
        select([pattern], TARGETS)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (TargetFilter("gemm"), ["ch01.batched_gemm"]),
        (TargetFilter("relu in"), ["ch01.fused_relu"]),
        (TargetFilter("cuda"), ["ch07.memory_access", "ch07.bank_conflicts"]),
        (TargetFilter(exclude=("ch01", "tag:memory")), ["ch07.bank_conflicts", "launchers.plain"]),
        (TargetFilter("launch", ("launchers.plain",)), ["ch01.batched_gemm", "ch01.fused_relu"]),
    ],
)
def test_a_filter_keeps_some_of_the_selected_targets(only, expected):
    assert [one.target.name for one in select(["all"], TARGETS, only)] == expected


@pytest.mark.parametrize(
    ("only", "message"),
    [
        (
            TargetFilter("gemm", ("ch01",)),
            "-k gemm --exclude ch01 leaves none of 2 selected targets. See them: aiperf list",
        ),
        (
            TargetFilter(exclude=("ch01.batched_gem",)),
            "'ch01.batched_gem' is not a target. Did you mean 'ch01.batched_gemm'?",
        ),
        (
            TargetFilter(exclude=("ch01.fused_relu:x",)),
            "--exclude takes targets, and 'ch01.fused_relu:x' names an implementation. Give 'ch01.fused_relu'.",
        ),
    ],
)
def test_a_filter_that_keeps_nothing_or_knows_no_target_says_so(only, message):
    with pytest.raises(UsageError) as caught:
        select(["ch01"], TARGETS, only)
    assert str(caught.value) == message


def test_a_former_name_leads_to_the_name_of_today():
    renamed = evolve(target("ch01.fused_relu"), formerly=("ch01.relu", "ch01.relu_fusion"))
    with pytest.raises(UnknownTarget) as caught:
        select(["ch01.relu:tiled"], [*TARGETS, renamed])
    assert str(caught.value) == "'ch01.relu' is not a target any more. Its name is now 'ch01.fused_relu'"


def test_without_targets_the_message_says_how_to_get_some():
    with pytest.raises(UnknownTarget) as caught:
        select(["ch07"], ())
    assert str(caught.value) == (
        "'ch07' is not a target: no benchmarks are installed. Get some, in a clone of aiperf: pip install -e ./aiperf-ch07"
    )
    assert caught.value.name == "ch07"


def test_the_order_is_that_of_the_patterns_and_each_target_comes_once():
    assert names("ch07.bank_conflicts", "ch01", "all") == [
        "ch07.bank_conflicts",
        "ch01.batched_gemm",
        "ch01.fused_relu",
        "ch07.memory_access",
        "launchers.plain",
    ]


def test_implementations_are_gathered():
    access = TARGETS[2]
    assert select(["ch07.memory_access:wide", "ch07.memory_access:coalesced"], TARGETS) == (
        Selection(access, frozenset({"wide", "coalesced"})),
    )


@pytest.mark.parametrize("patterns", [["ch07.memory_access:wide", "memory"], ["memory", "ch07.memory_access:wide"]])
def test_a_target_chosen_whole_stays_whole(patterns):
    assert select(patterns, TARGETS) == (Selection(TARGETS[2], frozenset()),)


def test_no_pattern_chooses_nothing():
    assert select([], TARGETS) == ()


@given(st.lists(st.sampled_from([one.name for one in TARGETS]) | st.sampled_from(["all", "ch01", "tag:launch"])))
def test_selections_are_unique_and_follow_the_patterns(patterns):
    chosen = names(*patterns)
    assert len(chosen) == len(set(chosen))
    for pattern in patterns:
        assert set(names(pattern)) <= set(chosen)


@given(st.text(max_size=20))
def test_any_text_chooses_something_or_raises_a_usage_error(pattern):
    message = ""
    try:
        assert select([pattern], TARGETS)
    except UsageError as error:
        message = str(error)
    assert message.splitlines() in ([], [message])


@given(
    st.from_regex(r"[a-z_][a-z0-9_]{0,10}", fullmatch=True), st.from_regex(r"[a-z_][a-z0-9_-]{0,10}", fullmatch=True)
)
def test_every_valid_name_is_found_by_itself(name, group):
    if is_name(name) and is_group(group):
        one = target(f"{group}.{name}")
        assert select([one.name], [one]) == (Selection(one),)
        assert select([f"{group}.*"], [one]) == select([group], [one]) == (Selection(one),)


@pytest.mark.parametrize("group", ["all", "tag", "a.b", "a:b", "a*", "", "1st", "ä"])
def test_a_word_that_cannot_be_a_group(group):
    assert not is_group(group)


def test_nearest_prefers_the_end_of_a_whole_name():
    assert nearest("plain", ["a.plain", "plane"]) == " Did you mean 'a.plain'?"
    assert nearest("x1", ["a_long_chapter.x1", "x2"]) == " Did you mean 'a_long_chapter.x1'?"
    assert nearest("zzz", ["a.plain"]) == ""


def test_a_target_keeps_what_its_author_wrote():
    one = Target("memory_access", "Neighbours", "speed", ("cpu", "cuda"), ("memory", "cuda-cpp"), "acme.other")
    assert (one.devices, one.tags, one.module) == (("cpu", "cuda"), ("memory", "cuda-cpp"), "acme.other")


def test_one_device_may_be_written_without_a_tuple():
    assert Target("a", "b", "speed", "cuda", "memory") == Target("a", "b", "speed", ("cuda",), ("memory",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"name": "memory-access"},
            "'memory-access' cannot name a target: a Python identifier can, such as 'memory_access'",
        ),
        ({"name": "import"}, "'import' cannot name a target: a Python identifier can, such as 'memory_access'"),
        ({"name": 7}, "7 cannot name a target: a Python identifier can, such as 'memory_access'"),
        ({"summary": " "}, "target 'a' needs a summary of one line; found ' '"),
        ({"summary": "two\nlines"}, "target 'a' needs a summary of one line; found 'two\\nlines'"),
        ({"goal": "fast"}, "'fast' is not a goal for target 'a'; accepted: 'speed', 'latency', 'throughput', 'memory'"),
        ({"devices": "a b"}, "'a b' cannot be a device of target 'a': 'cpu', 'cuda' and those of plugins can"),
        ({"devices": ()}, "target 'a' names no device; accepted: 'cpu', 'cuda' and those of plugins"),
        (
            {"tags": ("CUDA C++",)},
            "'CUDA C++' cannot be a tag of target 'a': lower-case letters, digits and hyphens can, such as 'cuda-cpp'",
        ),
        (
            {"tags": "all"},
            "'all' cannot be a tag of target 'a': lower-case letters, digits and hyphens can, such as 'cuda-cpp'",
        ),
        (
            {"formerly": "a"},
            "'a' cannot be a former name of target 'a': another name of its group can, or one with its group, such as "
            "'labs.gather'",
        ),
        (
            {"formerly": "b.c.d"},
            "'b.c.d' cannot be a former name of target 'a': another name of its group can, or one with its group, such "
            "as 'labs.gather'",
        ),
        ({"module": "not a module"}, "'not a module' is not the dotted name of a module for target 'a'"),
    ],
)
def test_a_target_that_breaks_a_rule_says_which(changes, message):
    good = {"name": "a", "summary": "b", "goal": "speed", "devices": "cpu"}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Target(**(good | changes))


@given(st.text(max_size=8))
def test_exactly_the_identifiers_can_name_a_target(name):
    if is_name(name):
        assert Target(name, "b", "speed", "cpu").name == name
    else:
        with pytest.raises(ValueError, match="cannot name a target"):
            Target(name, "b", "speed", "cpu")
