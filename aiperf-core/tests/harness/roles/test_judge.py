"""The judge's answers to its requests, asked in this process; the worker's part is played by the tests."""

import importlib
import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attrs import asdict, define, evolve

from aiperf_core import Cost, pytree
from aiperf_core.described import Described, DescribedImplementation
from aiperf_core.devices import shared_buffers
from aiperf_core.devices.cpu_kind import CpuKind
from aiperf_core.devices.device import CPU
from aiperf_core.errors import BenchmarkError
from aiperf_core.harness.processes.channel import Channel, ChannelClosedError, Message
from aiperf_core.harness.roles import judge
from aiperf_core.harness.roles.judge import Judge

TARGETS = Path(__file__).parents[1] / "targets"


@define
class Case:
    """An opened judge, and what a worker would hold of its problem."""

    judge: Judge
    reply: Message
    inputs: dict[str, Any]
    static: dict[str, Any]
    output: Any

    def compare(self, lossy: Message | None = None, numbers: dict[str, Any] | None = None) -> Message:
        """Have what lies in the outputs compared."""
        # The judge clears what it has compared; these tests compare it again.
        returned = self.judge._opened.memory.outputs.bytes[0].clone()
        result = self.judge.do_compare(lossy, {} if numbers is None else numbers)
        assert self.judge._opened.memory.outputs.bytes[0].eq(0xFF).all()
        self.judge._opened.memory.outputs.bytes[0].copy_(returned)
        return result

    def put(self, answer: Any) -> None:
        """Write an answer into the outputs."""
        for (_, node, leaf), (_, _, value) in zip(
            pytree.pairs(self.reply["problem"]["output"], self.output),
            pytree.pairs(self.reply["problem"]["output"], answer),
            strict=True,
        ):
            if node["type"] == "tensor":
                leaf.copy_(value)


Open = Callable[..., Case]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open a target: `opened(module, **params)`."""
    monkeypatch.syspath_prepend(str(TARGETS))
    sockets: list[Channel] = []
    fds: list[int] = []
    threads = torch.get_num_threads()

    def open_target(module: str, memories: int = 1, **params: float) -> Case:
        ours, theirs = Channel.pair()
        sockets.extend((ours, theirs))
        torch.set_num_threads(threads)
        one = Judge(ours)
        reply = one.do_open({"name": f"tests.{module}", "module": module}, asdict(CPU), params, 1, 2, memories=memories)
        here = reply.pop("fds")
        fds.extend(here)
        problem = reply["problem"]
        inputs = shared_buffers.attach(problem["inputs_buffers"][0], here[0], CpuKind())
        outputs = shared_buffers.attach(problem["outputs_buffers"][0], here[1], CpuKind())
        return Case(
            one,
            reply,
            pytree.build(problem["inputs"], inputs),
            pytree.build(problem["static"], inputs),
            pytree.build(problem["output"], outputs),
        )

    yield open_target
    torch.set_num_threads(threads)
    for channel in sockets:
        channel.close()
    for fd in fds:
        os.close(fd)


def addresses(values: Any) -> list[int]:
    return [one.data_ptr() for one in pytree.tensors(values)]


def copied(values: Any) -> list[torch.Tensor]:
    return [one.clone() for one in pytree.tensors(values)]


# --- opening


def test_each_of_several_memories_has_values_and_outputs_of_its_own(opened: Open) -> None:
    case = opened("judged", memories=2, n=6)
    judge, first, second = case.judge, *case.judge._memories
    assert len({one.data_ptr() for each in (first, second) for one in (*each.inputs.bytes, *each.outputs.bytes)}) == 4
    assert torch.equal(first.inputs.bytes[0], second.inputs.bytes[0])  # static arguments too
    kept = copied(case.inputs)
    judge.do_turn_to(1)
    judge.do_renew(7)
    assert all(map(torch.equal, pytree.tensors(case.inputs), kept))
    assert not torch.equal(first.inputs.bytes[0], second.inputs.bytes[0])
    assert judge.do_changed(thorough=True) == []
    second.inputs.bytes[0].zero_()
    assert judge.do_changed(thorough=False)
    judge.do_repair()
    assert judge.do_changed(thorough=True) == []
    second.outputs.bytes[0].zero_()
    judge.do_turn_to(1)
    assert second.outputs.bytes[0].eq(0xFF).all()
    assert not first.outputs.bytes[0].any()


def test_a_problem_is_what_a_worker_needs(opened: Open) -> None:
    case = opened("judged", n=6)
    problem = case.reply["problem"]
    assert problem["device"] == "cpu"
    assert problem["params"] == {"n": 6}
    assert list(case.inputs) == ["pair", "ids", "wave", "none_left", "memory", "shift", "steps", "odd"]
    assert list(case.static) == ["weight"]
    assert pytree.expected(problem["output"]) == "a dict with the keys ['mean', 'parts', 'steps', 'total']"
    assert case.output["total"].dtype == torch.float32
    right, (sliced, nothing, times) = case.inputs["pair"]["right"]
    assert (right.shape, right.stride()) == ((6, 2), (1, 6))
    assert (sliced.shape, nothing, times) == ((6,), None, 3)
    assert case.inputs["none_left"].shape == (0,)


def test_the_seed_and_the_tolerance_stay_with_the_judge(opened: Open) -> None:
    keys = {
        "device",
        "cold",
        "flush_bound",
        "params",
        "inputs",
        "static",
        "output",
        "evicted_folder",
        "inputs_buffers",
        "outputs_buffers",
        "working_set_bytes",
        "state",
        "files",
        "deferred",
        "served",
        "simulated",
    }
    assert set(opened("judged", n=6).reply["problem"]) == keys


def test_a_single_thread_handles_a_small_working_set(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = torch.get_num_threads()
    case, seen = opened("judged", n=6), []
    assert torch.get_num_threads() == 1
    for flops in (0.0, 1e9):
        benchmark: Any = SimpleNamespace(
            task=case.judge._opened.target.benchmark.task,
            work=lambda _, flops=flops: Cost(bytes_read=1, bytes_written=1, flops=flops),
            answer=lambda *_: seen.append(torch.get_num_threads()),
        )
        case.judge._opened.target = evolve(case.judge._opened.target, benchmark=benchmark)
        case.judge._opened.right_answer(wide=True)
    assert (seen, torch.get_num_threads()) == ([1, threads], 1)


@pytest.mark.parametrize(("moved", "all_threads"), [(4 << 20, False), (5 << 20, True)])
def test_a_reference_of_unknown_arithmetic_has_all_threads_for_more_bytes(
    opened: Open, moved: int, all_threads: bool
) -> None:
    threads = torch.get_num_threads()
    case, seen = opened("judged", n=6), []
    opened = case.judge._opened
    foreign: Any = SimpleNamespace(path="model.py")
    benchmark: Any = SimpleNamespace(
        task=opened.target.benchmark.task,
        work=lambda _: Cost(bytes_read=1),
        answer=lambda *_: seen.append(torch.get_num_threads()),
    )
    opened.target = evolve(opened.target, threads=threads + 1, foreign=foreign, benchmark=benchmark)
    opened.working_set_bytes = moved
    opened.right_answer(wide=True)
    assert (seen, torch.get_num_threads()) == ([threads + 1 if all_threads else 1], 1)


def test_all_threads_handle_a_large_working_set(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_SMALL_BYTES", 0)
    threads = torch.get_num_threads()
    opened("judged", n=6)
    assert torch.get_num_threads() == threads


def test_cost_and_bytes_are_told(opened: Open) -> None:
    reply = opened("judged", n=6).reply
    floats = 6 + 12 + 6 + 2 * 6 + 6 + 6  # left, right, the slice, wave, memory, weight
    assert reply["input_bytes"] == 4 * floats + 8 * 6 + 2 * 3
    assert reply["output_bytes"] == 4 * 6 + 8 * 6 + 4 * 6
    assert reply["problem"]["working_set_bytes"] == reply["input_bytes"] + reply["output_bytes"]
    assert Cost(**reply["cost"]) == Cost(bytes_read=240, flops=42)
    assert reply["has_state"] is True
    assert opened("judged_exact", n=8).reply["has_state"] is False


# --- values


def test_values_change_with_the_seed_and_stay_where_they_are(opened: Open) -> None:
    case = opened("judged", n=6)
    places, before, static = addresses(case.inputs), copied(case.inputs), copied(case.static)
    numbers = case.judge.do_renew(7)
    assert set(numbers) == {"shift", "steps"}
    for old, new in zip(before, pytree.tensors(case.inputs), strict=True):
        assert not new.numel() or not torch.equal(old, new)
    assert addresses(case.inputs) == places
    assert torch.equal(case.static["weight"], static[0])
    first = copied(case.inputs)
    assert case.judge.do_renew(8) != numbers
    assert not torch.equal(first[0], case.inputs["pair"]["left"])
    assert case.judge.do_renew(7) == numbers
    assert all(map(torch.equal, first, pytree.tensors(case.inputs)))
    assert case.judge.do_changed(True) == []


def test_numbers_among_the_inputs_are_told_as_what_they_are(opened: Open) -> None:
    numbers = opened("judged", n=6).judge.do_renew(3)
    assert type(numbers["shift"]) is float
    assert type(numbers["steps"]) is int


# --- changed inputs

LEAVES: dict[str, Callable[[Case], torch.Tensor]] = {
    "pair.left": lambda case: case.inputs["pair"]["left"],
    "pair.right[0]": lambda case: case.inputs["pair"]["right"][0],
    "pair.right[1][0]": lambda case: case.inputs["pair"]["right"][1][0],
    "ids": lambda case: case.inputs["ids"],
    "wave": lambda case: case.inputs["wave"],
    "odd": lambda case: case.inputs["odd"],
}


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize("path", LEAVES)
def test_a_changed_input_is_found_and_repaired(opened: Open, path: str, thorough: bool) -> None:
    case = opened("judged", n=6)
    case.judge.do_renew(2)
    assert case.judge.do_changed(thorough) == []
    leaf = LEAVES[path](case)
    before = leaf.clone()
    leaf[2] += 1
    assert case.judge.do_changed(thorough) == [path]
    case.judge.do_repair()
    assert case.judge.do_changed(thorough) == []
    assert torch.equal(leaf, before)


@pytest.mark.parametrize("thorough", [True, False])
def test_one_bit_is_a_change(opened: Open, thorough: bool) -> None:
    case = opened("judged_exact", n=8)
    case.inputs["a"].view(torch.int32)[5] ^= 1
    assert case.judge.do_changed(thorough) == ["a"]


def test_only_a_thorough_look_sees_an_exchange(opened: Open) -> None:
    case = opened("judged_exact", n=8)
    words = case.inputs["a"].view(torch.int64)
    words.copy_(words.flip(0))
    assert case.judge.do_changed(False) == []
    assert case.judge.do_changed(True) == ["a"]


def test_only_a_thorough_look_sees_a_changed_static(opened: Open) -> None:
    case = opened("judged", n=6)
    before = case.static["weight"].clone()
    case.static["weight"][3] = 0
    assert case.judge.do_changed(False) == []
    assert case.judge.do_changed(True) == ["weight"]
    case.judge.do_repair()
    assert torch.equal(case.static["weight"], before)


def test_nan_among_the_values_is_no_change(opened: Open) -> None:
    case = opened("judged_exact", n=8)
    case.judge._opened.fresh["a"][3] = math.nan
    case.judge.do_repair()
    assert case.judge.do_changed(True) == case.judge.do_changed(False) == []


@pytest.mark.parametrize("thorough", [True, False])
def test_state_may_change_and_comes_back(opened: Open, thorough: bool) -> None:
    case = opened("judged", n=6)
    case.judge.do_renew(5)
    memory = case.inputs["memory"]["sum"]
    before = memory.clone()
    memory.zero_()
    assert case.judge.do_changed(thorough) == []
    case.judge.do_restore()
    assert torch.equal(memory, before)
    memory.zero_()
    case.judge.do_renew(5)
    assert torch.equal(memory, before)


def test_restoring_the_state_hides_no_change_elsewhere(opened: Open) -> None:
    case = opened("judged", n=6)
    case.inputs["ids"][0] += 1
    case.judge.do_restore()
    assert case.judge.do_changed(True) == ["ids"]


# --- comparing


def right_answer(case: Case) -> tuple[Any, dict[str, float]]:
    """The reference's answer to the present inputs, and its numbers by path."""
    module = importlib.import_module("judged")
    memory = {"memory": {"sum": case.inputs["memory"]["sum"].clone()}}
    fresh = {name: case.judge._opened.fresh[name] for name in ("shift", "steps")}
    inputs = {name: case.inputs[name] for name in ("pair", "ids", "wave", "odd")}
    answer = module.reference(**inputs, **memory, **fresh, **case.static)
    return answer, {"mean": answer["mean"], "steps": answer["steps"]}


def test_a_right_answer_passes(opened: Open) -> None:
    case = opened("judged", n=6)
    for seed in (3, 4):
        case.judge.do_renew(seed)
        answer, numbers = right_answer(case)
        case.put(answer)
        found = case.compare(numbers=numbers)
        assert 0.0 <= found.pop("worst") < 1.0
        assert found == {"error": None, "quality": None}


def test_the_answer_to_other_values_does_not(opened: Open) -> None:
    case = opened("judged", n=6)
    case.judge.do_renew(3)
    answer, numbers = right_answer(case)
    case.put(answer)
    assert case.compare(numbers=numbers)["error"] is None
    case.judge.do_renew(4)
    assert case.compare(numbers=numbers)["error"].startswith("total: relative L2 error ")


def test_the_answer_to_values_that_are_written_again_is_computed_again(opened: Open) -> None:
    """Else the time until the next sample would tell code which values repeat."""
    case, seen = opened("judged", n=6), importlib.import_module("judged").seen
    for seed in (7, 7, 8, 7):
        case.judge.do_renew(seed)
        answer, numbers = right_answer(case)
        case.put(answer)
        seen.clear()
        assert case.compare(numbers=numbers)["error"] is None
        assert len(seen) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mean": 1e9}, "mean: relative L2 error "),
        ({"steps": 1.5}, "steps is 1.5 and should be "),
        ({"mean": None}, "mean: 1 of 1 elements are NaN or infinite where the reference is not, or the reverse"),
        ({"mean": "text"}, "mean: 1 of 1 elements are NaN or infinite where the reference is not, or the reverse"),
    ],
)
def test_a_wrong_number_is_named(opened: Open, wrong: dict[str, Any], message: str) -> None:
    case = opened("judged", n=6)
    answer, numbers = right_answer(case)
    case.put(answer)
    assert case.compare(numbers={**numbers, **wrong})["error"].startswith(message)


def test_numbers_that_are_not_sent_are_wrong(opened: Open) -> None:
    case = opened("judged", n=6)
    case.put(right_answer(case)[0])
    expected = {
        "worst": None,
        "error": "mean: 1 of 1 elements are NaN or infinite where the reference is not, or the reverse",
        "quality": None,
    }
    assert case.compare() == expected
    assert case.compare(numbers="no dict") == expected  # type: ignore[arg-type]


def test_a_nested_tensor_is_named(opened: Open) -> None:
    case = opened("judged", n=6)
    answer, numbers = right_answer(case)
    answer["parts"][0][4] += 1
    case.put(answer)
    found = case.compare(numbers=numbers)
    assert found["worst"] is None
    assert re.fullmatch(
        r"parts\[0\]: 1 of 6 elements differ; the first, at flat index 4, is \d+ and should be \d+", found["error"]
    )


def test_the_reference_works_in_float64_unless_the_answer_is_exact(opened: Open) -> None:
    case = opened("judged", n=99)
    seen = importlib.import_module("judged").seen
    seen.clear()
    case.judge.do_renew(9)
    case.compare()
    wide = {"left": torch.float64, "weight": torch.float64, "ids": torch.int64, "wave": torch.complex128}
    assert seen == [wide]
    exact = opened("judged_exact", n=8)
    seen = importlib.import_module("judged_exact").seen
    seen.clear()
    exact.judge.do_renew(9)
    exact.compare()
    assert seen == [torch.float32]


def test_the_reference_runs_once_for_all_who_share_the_values(opened: Open) -> None:
    case = opened("judged_exact", n=8)
    seen = importlib.import_module("judged_exact").seen
    case.judge.do_renew(9)
    seen.clear()
    case.put(case.inputs["a"] * 2)
    assert [case.compare() for _ in range(3)] == [{"worst": 0.0, "error": None, "quality": None}] * 3
    assert len(seen) == 1


def test_a_reference_with_state_leaves_it_to_the_implementation(opened: Open) -> None:
    case = opened("judged", n=6)
    before = case.judge._opened.fresh["memory"]["sum"].clone()
    case.compare()
    assert torch.equal(case.judge._opened.fresh["memory"]["sum"], before)
    assert torch.equal(case.inputs["memory"]["sum"], before)


# --- terms that cancel


def short_mean(x: torch.Tensor) -> torch.Tensor:
    """The mean of a row, each element divided by itself."""
    return (x / 3).sum(-1)


def cancelling_draw(case: Case) -> None:
    """Draw values until their mean is so small that dividing each of them breaks the tolerance."""
    for seed in range(3, 5000):
        case.judge.do_renew(seed)
        x = case.inputs["x"]
        if not torch.allclose(short_mean(x).double(), x.double().mean(-1), rtol=3e-5, atol=0):
            return
    raise AssertionError("no values whose mean is small")


def test_rounding_of_terms_that_cancel_is_no_wrong_answer(opened: Open) -> None:
    case = opened("means", rows=1)
    cancelling_draw(case)
    case.put(short_mean(case.inputs["x"]))
    answer = case.compare()
    assert answer["error"] is None
    assert 0 < answer["worst"] <= 1
    wrong = case.inputs["x"].double().mean(-1)
    case.put(wrong + 1e-4)
    assert "relative L2 error" in case.compare()["error"]
    rounded = (case.inputs["x"].view(torch.int32) & ~0x1FFF).view(torch.float32)  # the mantissa of TF32
    case.put(rounded.mean(-1))
    assert "relative L2 error" in case.compare()["error"]


def test_terms_that_do_not_cancel_keep_the_tolerance(opened: Open) -> None:
    case = opened("means", rows=1)
    seed = next(seed for seed in range(3, 100) if case.judge.do_renew(seed) is not None and mean_of(case) > 0.5)
    case.judge.do_renew(seed)
    case.put(case.inputs["x"].double().mean(-1) * (1 + 4e-5))
    assert "relative L2 error" in case.compare()["error"]


def test_many_elements_keep_the_tolerance(opened: Open) -> None:
    case = opened("means", rows=65)
    case.put(case.inputs["x"].double().mean(-1) * (1 + 2e-5))
    assert "relative L2 error" in case.compare()["error"]


def mean_of(case: Case) -> float:
    """The mean of the first row."""
    return abs(float(case.inputs["x"][0].mean()))


# --- lossy variants


def lossy(metric: str, budget: float) -> Message:
    return {"metric": metric, "budget": budget}


def answers(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    return case.inputs["a"] * 2, case.inputs["a"] * 3


@pytest.mark.parametrize("metric", ["rel_l2", "max_abs_error", "one_minus_cosine", "worst_of_all"])
def test_a_perfect_answer_keeps_every_budget(opened: Open, metric: str) -> None:
    case = opened("judged_lossy", numbers=0)
    case.put(answers(case))
    found = case.compare(lossy(metric, 0.5))
    assert found == {"worst": pytest.approx(0, abs=1e-6), "error": None, "quality": pytest.approx(0, abs=1e-6)}


def test_the_worse_of_two_tensors_counts(opened: Open) -> None:
    case = opened("judged_lossy", numbers=0)
    one, other = answers(case)
    case.put((one, other * 1.25))
    assert case.compare(lossy("rel_l2", 0.5)) == {
        "worst": pytest.approx(0.5),
        "error": None,
        "quality": pytest.approx(0.25),
    }
    assert case.compare(lossy("rel_l2", 0.2)) == {
        "worst": pytest.approx(1.25),
        "error": "rel_l2 is 0.25; its budget is 0.2",
        "quality": pytest.approx(0.25),
    }


@pytest.mark.parametrize("metric", ["rel_l2", "max_abs_error", "one_minus_cosine", "worst_of_all"])
@pytest.mark.parametrize("place", [0, 1])
def test_nan_in_any_tensor_is_beyond_every_budget(opened: Open, metric: str, place: int) -> None:
    case = opened("judged_lossy", numbers=0)
    pair = answers(case)
    pair[place][3] = math.nan
    case.put(pair)
    found = case.compare(lossy(metric, 1e9))
    # Python's max keeps the first of a NaN and a number, so that a metric of an author's own may lose it.
    if metric != "worst_of_all" or place == 0:
        assert found == {"worst": None, "error": f"{metric} is nan; its budget is 1e+09", "quality": None}


def test_a_metric_without_a_value_is_beyond_every_budget(opened: Open) -> None:
    case = opened("judged_lossy", numbers=0)
    case.put(answers(case))
    error = "no_number is nan; its budget is 1"
    assert case.compare(lossy("no_number", 1.0)) == {"worst": None, "error": error, "quality": None}


def test_a_metric_of_the_workloads_own_sees_the_numbers_that_were_returned(opened: Open) -> None:
    case = opened("judged_lossy", numbers=1)
    for seed in (1, 2):
        case.judge.do_renew(seed)
        case.put((*answers(case), 0.0))
        right = float(case.inputs["a"].double().sum())
        near = case.compare(lossy("worst_of_all", 0.5), {"[2]": right + 0.25})
        assert near["quality"] == pytest.approx(0.25, abs=1e-5)
        assert near["error"] is None
        far = case.compare(lossy("worst_of_all", 0.5), {"[2]": right + 2})
        assert far["error"] == "worst_of_all is 2; its budget is 0.5"


def test_a_built_in_metric_does_not_compare_numbers(opened: Open) -> None:
    case = opened("judged_lossy", numbers=1)
    with pytest.raises(BenchmarkError) as caught:
        case.compare(lossy("rel_l2", 0.5))
    assert str(caught.value) == ("'tests.judged_lossy': the metric 'rel_l2' compares tensors; the output has a number.")


def test_a_budget_of_nothing_has_no_fraction(opened: Open) -> None:
    case = opened("judged_lossy", numbers=0)
    exact = [
        one.float()
        for one in (case.judge._opened.target.benchmark.answer({"numbers": 0}, {"a": case.inputs["a"].double()}))
    ]
    case.put(exact)
    assert case.compare(lossy("max_abs_error", 0.0))["worst"] is None


# --- mistakes of the author


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("INPUTS_NOT_A_DICT", "the workload returned a list of 1; accepted is a dict of inputs by name."),
        ("STATIC_NOT_A_DICT", "the workload returned None; accepted is a dict of inputs by name."),
        (
            "INPUT_OF_ODD_TYPE",
            "the workload returned what cannot be used: a.deep[0] is a torch.sparse_coo tensor; accepted are dense "
            "(strided) tensors.",
        ),
        ("INPUT_NAMED_LIKE_A_SIZE", "['fault'] name inputs and also sizes or static arguments; rename one."),
        ("INPUT_NAMED_LIKE_A_STATIC", "['weight'] name inputs and also sizes or static arguments; rename one."),
        (
            "REFERENCE_CHANGES_INPUTS",
            "the reference (REFERENCE) changes its arguments a; let it work on copies, or name as state what a call "
            "may change.",
        ),
        (
            "REFERENCE_CHANGES_STATICS",
            "the reference (REFERENCE) changes its arguments weight; let it work on copies, or name as state what a "
            "call may change.",
        ),
        (
            "REFERENCE_OF_ODD_TYPE",
            "the reference (REFERENCE) returned what cannot be used: answer[0] is a object; accepted are tensors, "
            "numbers, None, and dicts, lists and tuples of them.",
        ),
    ],
)
def test_mistakes_that_show_at_once(opened: Open, fault: str, message: str) -> None:
    module = faulty()
    with pytest.raises(BenchmarkError) as caught:
        opened("judged_faulty", fault=getattr(module, fault))
    expected = message.replace("REFERENCE", module.bench.reference_where)
    assert str(caught.value) == f"'tests.judged_faulty': {expected}"


def faulty() -> Any:
    return importlib.import_module("judged_faulty")


@pytest.mark.parametrize("fault", ["SIZES_FOLLOW_THE_SEED", "NESTED_NUMBER_FOLLOWS_THE_SEED", "DTYPE_FOLLOWS_THE_SEED"])
def test_inputs_of_another_form_for_another_seed(opened: Open, fault: str) -> None:
    case = opened("judged_faulty", fault=getattr(faulty(), fault))
    with pytest.raises(BenchmarkError) as caught:
        # A dtype may be drawn twice in a row.
        [case.judge.do_renew(seed) for seed in range(20)]
    assert str(caught.value) == (
        "'tests.judged_faulty': the workload returned inputs of another structure or size for another seed; accepted "
        "are the same shapes and dtypes for every seed (pad what varies)."
    )


def test_an_answer_of_another_size_for_another_seed(opened: Open) -> None:
    module = faulty()
    case = opened("judged_faulty", fault=module.ANSWER_FOLLOWS_THE_VALUES)
    case.judge.do_renew(2)
    with pytest.raises(BenchmarkError) as caught:
        case.compare()
    assert str(caught.value) == (
        f"'tests.judged_faulty': the reference ({module.bench.reference_where}) returned another structure or size for "
        "another seed; accepted are the same shapes for every seed (pad what varies)."
    )


def test_a_cost_that_cannot_be(opened: Open) -> None:
    with pytest.raises(BenchmarkError) as caught:
        opened("judged_faulty", fault=faulty().COST_BELOW_ZERO)
    line = faulty().cost.__code__.co_firstlineno
    assert str(caught.value) == (
        f"{TARGETS / 'judged_faulty.py'}:{line} (cost): a cost cannot have flops=-1; accepted is a finite number from 0"
    )


def test_state_that_is_no_input(opened: Open) -> None:
    with pytest.raises(BenchmarkError) as caught:
        opened("judged_unknown_state")
    assert str(caught.value) == ("'tests.judged_unknown_state': state names ['cache']; the workload returns a, b.")


def test_a_sound_target_has_none_of_these(opened: Open) -> None:
    case = opened("judged_faulty", fault=faulty().SOUND)
    case.judge.do_renew(2)
    case.put(case.inputs["a"])
    assert case.compare() == {"worst": 0.0, "error": None, "quality": None}


# --- as a service


def test_it_answers_through_a_channel_until_the_other_side_goes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(TARGETS))
    ours, theirs = Channel.pair()

    def serve() -> None:
        with suppress(ChannelClosedError):
            judge.main(theirs)

    server = threading.Thread(target=serve)
    server.start()
    target = {"name": "tests.judged_exact", "module": "judged_exact"}
    ours.send(
        {
            "do": "open",
            "token": "1",
            "target": target,
            "device": asdict(CPU),
            "params": {"n": 8},
            "seed": 1,
            "static_seed": 2,
        }
    )
    reply = ours.receive(20.0, most_fds=2)
    assert reply["token"] == "1"
    assert len(reply["fds"]) == 2
    inputs = shared_buffers.attach(reply["ok"]["problem"]["inputs_buffers"][0], reply["fds"][0], CpuKind())
    for fd in reply["fds"]:
        os.close(fd)
    before = inputs.clone()
    ours.send({"do": "renew", "token": "2", "seed": 2})
    assert ours.receive(20.0) == {"token": "2", "ok": {}}
    assert not torch.equal(inputs, before)
    ours.send(
        {"do": "open", "token": "3", "target": target, "device": asdict(CPU), "params": {}, "seed": 1, "static_seed": 2}
    )
    where = f"{TARGETS / 'judged_exact.py'}:{importlib.import_module('judged_exact').inputs.__code__.co_firstlineno}"
    message = f"{where} (inputs): asks for 'n'; there are device, generator."
    error = {"kind": "mistake", "type": "BenchmarkError", "message": message}
    assert ours.receive(20.0) == {"token": "3", "error": error}
    ours.close()
    server.join(20.0)
    assert not server.is_alive()
    theirs.close()
    assert message in capsys.readouterr().err


# --- what the supervisor knows


def test_what_is_described_of_a_device() -> None:
    both = [DescribedImplementation(name, "variant", device, "here") for device in ("cpu", "cuda") for name in "ab"]
    described = Described("speed", "wall", "cold", None, {}, "bit-exact", "module", "0", both)
    assert described.on("cuda") == both[2:]
    assert described.on("tpu") == []
