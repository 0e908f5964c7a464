"""Whether the linter finds what is wrong with a benchmark, and only that. In this process, as its child would."""

import importlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import asdict, evolve

from aiperf_core import float32_precision
from aiperf_core.devices.device import BUILT_IN
from aiperf_core.errors import BenchmarkError, ContractError, SkipError
from aiperf_core.harness.processes.channel import Channel
from aiperf_core.harness.roles.judge import Judge
from aiperf_core.harness.roles.linter import Linter
from aiperf_core.harness.roles.open_target import OpenTarget
from aiperf_core.validity.declared_cost import Work
from aiperf_core.validity.wrong_answers import round_to

TARGETS = Path(__file__).parents[2] / "validity" / "targets"
LISTED = {"goal": "speed", "devices": ["cpu"]}

Outcomes = dict[str, dict[str, str]]


@pytest.fixture
def linter(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(TARGETS))
    ours, theirs = Channel.pair()
    yield Linter(ours)
    ours.close()
    theirs.close()


@pytest.fixture
def lint(linter: Linter) -> Callable[..., Outcomes]:
    """Lint a target: `lint(module, **params)`; its outcomes by test."""

    def run(module: str, listed: dict[str, Any] = LISTED, **params: float) -> Outcomes:
        found = linter.do_lint({"name": f"tests.{module}", "module": module}, asdict(BUILT_IN["cpu"]), params, listed)
        assert len({one["test"] for one in found}) == len(found)
        return {one["test"]: one for one in found}

    return run


def problems(outcomes: Outcomes) -> set[str]:
    return {name for name, one in outcomes.items() if one["verdict"] == "problem"}


def noted(outcomes: Outcomes) -> set[str]:
    return {name for name, one in outcomes.items() if one["verdict"] == "note"}


def test_a_sound_target_passes_every_test(lint: Any) -> None:
    outcomes = lint("sound", m=5, n=13, k=17)
    assert {one["verdict"] for one in outcomes.values() if one["test"] != "judge.input"} == {"ok"}
    assert outcomes["judge.input"] == {
        "test": "judge.input",
        "verdict": "not applicable",
        "found": "no input has the shape and dtype of the output",
        "remedy": "",
    }
    assert set(outcomes) >= {
        "judge.rounded",
        "judge.rounded_inputs",
        "judge.skipped_work",
        "budget.halved",
        "cost.flops",
    }


def test_two_lints_agree(lint: Any) -> None:
    assert lint("loose", n=37) == lint("loose", n=37)


def test_an_answer_of_everything_passes(lint: Any) -> None:
    outcomes = lint("sound_mixture", n=33)
    assert (problems(outcomes), noted(outcomes)) == (set(), set())
    assert outcomes["judge.skipped_work"]["verdict"] == "ok"
    assert outcomes["judge.rounded"]["verdict"] == "ok"


ALL_ZERO = {"judge.zeros", "judge.constant", "judge.stale", "judge.unfinished", "judge.sign", "judge.skipped_work"}
ALL_ZERO |= {"judge.rounded", "judge.rounded_inputs"}
UNMOVED = {"judge.stale", "judge.unfinished", "judge.rounded_inputs", "judge.skipped_work"}
FAULTS = {
    "none": set(),
    "none_in_integers": set(),
    "draws_from_elsewhere": {"workload.repeats"},
    "static_from_elsewhere": {"workload.repeats"},
    "sizes_follow_the_seed": {"workload.shapes", "reference.shapes"},
    "still_input": {"workload.renewed"},
    "still_integers": {"workload.renewed", "judge.stale", "judge.unfinished"},
    "changes_its_input": {"reference.pure"},
    "answer_of_any_size": {"reference.shapes"},
    "infinite": {"reference.finite", "judge.infinite", *ALL_ZERO - {"judge.zeros", "judge.sign"}, "judge.last_element"},
    "not_a_number": {"reference.finite", "judge.nan", *ALL_ZERO - {"judge.zeros"}, "judge.last_element"},
    "counts_its_calls": {"reference.repeats", "reference.own_precision"},
    "answers_nothing": {"judge.compares"},
    "zero": ALL_ZERO,
    "constant": {"judge.constant", *UNMOVED},
    "copies": {"judge.input"},
    "ignores_its_input": UNMOVED,
    "half_of_it_is_constant": {"judge.unfinished", "judge.skipped_work"},
    "only_the_first_half_is_read": {"judge.skipped_work"},
    "small_integers": {"judge.rounded", "judge.rounded_inputs"},
    "positive_sum": {"judge.rounded_inputs"},
    "work_follows_the_seed": {"workload.same_work"},
    "work_of_one_seed": set(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_nothing_else(lint: Any, fault: str) -> None:
    import unsound

    assert tuple(FAULTS) == unsound.FAULTS
    outcomes = lint("unsound", n=64, fault=unsound.FAULTS.index(fault))
    assert problems(outcomes) == FAULTS[fault]
    assert all(one["found"] and one["remedy"] for one in outcomes.values() if one["verdict"] == "problem")


def test_the_found_text_says_what_passed_and_how_often(lint: Any) -> None:
    outcomes = lint("unsound", n=64, fault=list(FAULTS).index("copies"))
    assert outcomes["judge.input"] == {
        "test": "judge.input",
        "verdict": "problem",
        "found": "the judge accepts the input 'a' as it was as the output (5 of 5 draws)",
        "remedy": "Let the answer differ from every input: scale it, or add something to it.",
    }


def test_draws_of_different_work_are_refused(lint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import unsound

    fault = unsound.FAULTS.index("work_follows_the_seed")
    refused = lint("unsound", n=64, fault=fault)["workload.same_work"]
    found = "20 draws differ by more than 2.0 % in the elements of the reference (513 to 2,113, 76 %)"
    assert refused["found"] == found
    assert refused["remedy"] == (
        "Draw schedules and orders once: with @bench.static, or from a generator with a seed of its own."
    )
    accepted = {"workload.same_work": "the lesson"}
    with monkeypatch.context() as patch:
        patch.setattr(unsound.bench, "accepted", accepted)
        assert lint("unsound", n=64, fault=fault)["workload.same_work"] == {
            "test": "workload.same_work",
            "verdict": "ok",
            "found": "the lesson",
            "remedy": "",
        }
    # A spread of few values that the sizes of a run do not have is none.
    presets = {**unsound.bench.task.presets, "cpu": {"n": 64, "fault": 0}}
    monkeypatch.setattr(unsound.bench, "_workload", evolve(unsound.bench.task, presets=presets))
    assert lint("unsound", n=64, fault=fault)["workload.same_work"]["verdict"] == "ok"


def test_the_products_of_a_draw_are_counted_in_inference_mode() -> None:
    a, b = torch.ones(3, 5), torch.ones(7, 5)
    with Work() as work, torch.inference_mode():
        torch.nn.functional.linear(a, b)
    assert work.products == 2 * 3 * 5 * 7


@pytest.mark.parametrize(
    ("fault", "test", "labels"),
    [
        ("not_a_number", "judge.nan", ["NaN everywhere", "NaN as the last element"]),
        ("infinite", "judge.infinite", ["infinity everywhere", "infinity as the last element"]),
    ],
)
def test_what_is_not_finite_is_tried_everywhere_and_once(lint: Any, fault: str, test: str, labels: list[str]) -> None:
    outcomes = lint("unsound", n=64, fault=list(FAULTS).index(fault))
    passing = ", ".join(f"{label} as the output (5 of 5 draws)" for label in labels)
    assert outcomes[test]["found"] == f"the judge accepts {passing}"


def test_without_a_steady_reference_nothing_is_compared(lint: Any) -> None:
    outcomes = lint("unsound", n=64, fault=list(FAULTS).index("changes_its_input"))
    assert outcomes["reference.pure"]["found"] == "the reference changes a"
    assert outcomes["judge"]["verdict"] == "not applicable"
    assert outcomes["judge"]["found"] == "nothing can be compared before this is fixed: reference.pure"
    assert "judge.zeros" not in outcomes


def test_a_loose_tolerance_is_found(lint: Any) -> None:
    outcomes = lint("loose", n=37)
    wrong = {"judge.rounded", "judge.rounded_inputs", "judge.last_element", "budget.guess"}
    assert problems(outcomes) == wrong
    for name in ("tf32 or fp16", "bf16", "fp8"):
        assert f"the answer rounded to {name} as the output (5 of 5 draws)" in outcomes["judge.rounded"]["found"]
        assert f"the answer for inputs rounded to {name} (5 of 5 draws)" in outcomes["judge.rounded_inputs"]["found"]
    assert outcomes["budget.guess"]["found"] == "rel_l2 within 1.2 accepts zeros, its mean everywhere"


@pytest.mark.parametrize(
    ("precision", "rel_l2", "passing"),
    [
        ("fp64", 1e-5, {"fp32"}),
        ("fp32", 1e-6, set()),
        ("fp32", 1e-3, {"tf32 or fp16"}),
        ("tf32", 1e-3, set()),
        ("bf16", 5e-3, set()),
        ("fp16", 5e-3, set()),
        ("bf16", 0.05, {"fp8"}),
    ],
)
def test_what_may_not_pass_depends_on_the_precision_declared(
    lint: Any, monkeypatch: pytest.MonkeyPatch, precision: str, rel_l2: float, passing: set[str]
) -> None:
    import loose

    from aiperf_core import Cost, Tolerance

    dtype = torch.float64 if precision == "fp64" else torch.float32
    draw = loose.bench.task.inputs
    monkeypatch.setattr(loose.bench, "_tolerance", Tolerance(rel_l2, reason="this test"))
    monkeypatch.setattr(loose.bench, "_cost", lambda n: Cost(bytes_read=8 * n * n, flops=1, precision=precision))
    monkeypatch.setattr(loose.bench, "_workload", evolve(loose.bench.task, inputs=_in(dtype, draw)))
    outcomes = lint("loose", n=37)
    found = outcomes["judge.rounded"]["found"]
    assert {name for name in ("fp32", "tf32 or fp16", "bf16", "fp8") if f"rounded to {name} " in found} == passing


def _in(dtype: torch.dtype, draw: Any) -> Any:
    def inputs(n: int, device: str, generator: Any) -> dict[str, torch.Tensor]:
        return {name: one.to(dtype) + 0 for name, one in draw(n, device, generator).items()}

    return inputs


def test_a_tolerance_that_refuses_honest_code_is_found(lint: Any) -> None:
    outcomes = lint("strict", n=37)
    assert problems(outcomes) == {"reference.own_precision"}
    found = outcomes["reference.own_precision"]["found"]
    assert found.startswith("the tolerance refuses the reference itself, computed in the precision of the inputs: ")
    assert "allowed are 1e-09" in found


RIGHT = {"n": 30, "gathers": 0, "seeded": 0, "flops": 1.0, "read": 1.0, "written": 1.0}


@pytest.mark.parametrize(
    ("changed", "test", "verdict", "found"),
    [
        ({}, None, None, None),
        ({"flops": 1.5}, "cost.flops", "problem", "declares 11,880 FLOP; the reference's products are 7,680, and"),
        ({"flops": 0.5}, "cost.flops", "note", "declares 3,960 FLOP; the reference's products are 7,680"),
        ({"read": 1.5}, "cost.bytes_read", "problem", "declares 3,648 bytes read; the inputs have 2,432"),
        (
            {"read": 0.5},
            "cost.bytes_read",
            "problem",
            "declares 1,216 bytes read; the inputs have 2,432, and the answer ",
        ),
        ({"gathers": 1}, "cost.bytes_read", "note", "declares 2,432 bytes read; the inputs have 4,352"),
        ({"written": 1.5}, "cost.bytes_written", "problem", "declares 1,440 bytes written; output and state have 960"),
        ({"written": 0.5}, "cost.bytes_written", "problem", "declares 480 bytes written; output and state have 960"),
    ],
)
def test_cost_is_held_against_what_is_seen(
    lint: Any, changed: dict[str, float], test: str | None, verdict: str | None, found: str | None
) -> None:
    outcomes = lint("priced", **{**RIGHT, **changed})
    costs = {name: one for name, one in outcomes.items() if name.startswith("cost.") and one["verdict"] != "ok"}
    assert set(costs) == ({test} if test else set())
    assert problems(outcomes) == ({test} if verdict == "problem" else set())
    if test and found:
        assert (costs[test]["verdict"], costs[test]["found"].startswith(found)) == (verdict, True)


def test_work_may_be_left_out_where_the_cost_says_so(lint: Any) -> None:
    outcomes = lint("priced", **{**RIGHT, "gathers": 1})
    assert outcomes["judge.skipped_work"]["verdict"] == "not applicable"


def test_an_input_may_stay_unread_where_the_cost_leaves_it_out(lint: Any) -> None:
    left_out = lint("priced", **{**RIGHT, "seeded": 1})
    assert left_out["judge.skipped_work"]["verdict"] == "ok"
    counted = lint("priced", **{**RIGHT, "seeded": 1, "read": (2432 + 16) / 2432})
    assert counted["judge.skipped_work"]["verdict"] == "problem"


def test_elementwise_work_is_not_counted(lint: Any) -> None:
    outcomes = lint("unsound", n=64, fault=0)
    assert outcomes["cost.flops"]["verdict"] == "not applicable"


def test_form_is_noted_and_a_false_contents_page_is_a_problem(lint: Any) -> None:
    outcomes = lint("untidy", n=64)
    assert noted(outcomes) == {"form.docstring", "form.names", "form.yardsticks", "form.goals", "form.sizes"}
    assert problems(outcomes) == {"form.contents"}
    assert outcomes["form.contents"]["found"] == "plugin.py has the goal 'speed', the file 'latency'"
    assert outcomes["form.goals"]["found"] == "no goal on cpu"
    assert outcomes["form.docstring"]["found"] == "the labels of the file's docstring: none"
    devices = lint("untidy", {"goal": "latency", "devices": ["cpu", "cuda"]}, n=64)
    assert devices["form.contents"]["found"] == "plugin.py lists cpu, cuda; the file defines cpu"


def test_the_labels_of_a_docstring(lint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sound

    def noted_for(*labels: str) -> tuple[set[str], str]:
        monkeypatch.setattr(sound, "__doc__", "A product.\n\n" + "".join(f"{one:10}  Text.\n" for one in labels))
        outcomes = lint("sound", m=5, n=13, k=17)
        return noted(outcomes), outcomes["form.docstring"]["found"]

    assert noted_for("Question", "Numbers", "Prediction", "Limits") == (set(), "")
    found = "the labels of the file's docstring: Question, Limits"
    assert noted_for("Question", "Limits") == ({"form.docstring"}, found)
    assert noted_for("Numbers", "Question", "Prediction", "Limits")[0] == {"form.docstring"}
    assert noted_for("Workload", "Baseline", "Variants", "Observe", "Breaks") == ({"form.former_docstring"}, "")
    assert noted_for("Workload", "Baseline", "Variants")[0] == {"form.docstring"}


def test_a_step_that_names_no_mechanism_is_noted(lint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sound

    def steps(**changes: Any) -> dict[str, str]:
        changed = [evolve(one, **changes) if one.name == "halved" else one for one in sound.bench.implementations]
        with monkeypatch.context() as patch:
            patch.setattr(sound.bench, "implementations", changed)
            return lint("sound", m=5, n=13, k=17)["form.steps"]

    assert steps(builds_on="by_columns", adds=())["verdict"] == "note"
    assert steps(builds_on="by_columns", adds=())["found"] == "a step that adds no mechanism: halved on by_columns"
    assert steps(builds_on="by_columns", adds=("rounding",))["verdict"] == "ok"
    assert steps(builds_on=None, adds=())["verdict"] == "ok"


def test_an_accepted_note_is_ok_with_its_reason(lint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import untidy

    accepted = {"form.names": "the second version of two", "form.contents": "no note, so it stays"}
    monkeypatch.setattr(untidy.bench, "accepted", accepted)
    outcomes = lint("untidy", n=64)
    assert noted(outcomes) == {"form.docstring", "form.yardsticks", "form.sizes", "form.goals"}
    assert problems(outcomes) == {"form.contents"}
    assert outcomes["form.names"]["verdict"] == "ok"
    assert outcomes["form.names"]["found"] == "the second version of two"


def test_products_are_computed_in_full(linter: Linter) -> None:
    with float32_precision("medium"):
        assert attempt(linter, "sound", "mm", m=5, n=13, k=17) is None
        assert torch.get_float32_matmul_precision() == "highest"


def test_what_cannot_be_loaded_raises(lint: Any) -> None:
    with pytest.raises(BenchmarkError, match="cannot be used"):
        lint("no_such_module")


# --- implementations


def attempt(linter: Linter, module: str, implementation: str, **params: float) -> str | None:
    return linter.do_try({"name": f"tests.{module}", "module": module}, asdict(BUILT_IN["cpu"]), params, implementation)


@pytest.mark.parametrize("name", ["library", "by_columns", "halved", "mm"])
def test_right_implementations_pass(linter: Linter, name: str) -> None:
    assert attempt(linter, "sound", name, m=5, n=13, k=17) is None


def test_one_that_changes_declared_state_passes(linter: Linter) -> None:
    assert attempt(linter, "sound_mixture", "same", n=33) is None


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("ahead", "gives a wrong answer on draw 1 of 5: the output: relative L2 error"),
        ("without_tail", "gives a wrong answer on draw 1 of 5: the output: relative L2 error"),
        ("in_place", "changes its inputs a, which the workload does not declare as state"),
    ],
)
def test_wrong_implementations_are_found(linter: Linter, name: str, start: str) -> None:
    found = attempt(linter, "crooked", name, n=37)
    assert found is not None
    assert found.startswith(start)


def test_implementations_share_the_data_until_one_is_wrong(linter: Linter, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, answered, drawn = [], [], []
    open_data, answer, draw = Judge.do_open, OpenTarget.right_answer, OpenTarget.draw

    def counted_open(self: Judge, *given: Any) -> Any:
        opened.append(given)
        return open_data(self, *given)

    def counted_answer(self: OpenTarget, *, wide: bool) -> Any:
        answered.append(wide)
        return answer(self, wide=wide)

    def counted_draw(self: OpenTarget, seed: int) -> None:
        drawn.append(seed)
        draw(self, seed)

    monkeypatch.setattr(OpenTarget, "draw", counted_draw)
    monkeypatch.setattr(Judge, "do_open", counted_open)
    monkeypatch.setattr(OpenTarget, "right_answer", counted_answer)
    for name in ("library", "by_columns"):
        assert attempt(linter, "sound", name, m=5, n=13, k=19) is None
    assert len(opened) == 1
    assert answered.count(True) == len(drawn) == 5, "an answer for each draw"
    for name in ("in_place", "ahead"):
        assert attempt(linter, "crooked", name, n=41)
    assert len(opened) == 3


def test_a_lossy_one_is_held_to_its_budget(linter: Linter, monkeypatch: pytest.MonkeyPatch) -> None:
    import sound

    from aiperf_core import lossy

    tight = [evolve(one, lossy=one.lossy and lossy("rel_l2", at_most=1e-4)) for one in sound.bench.implementations]
    monkeypatch.setattr(sound.bench, "implementations", tight)
    found = attempt(linter, "sound", "halved", m=5, n=13, k=17)
    assert found is not None
    assert "its budget is 0.0001" in found


@pytest.mark.parametrize(
    ("name", "error"), [("as_list", ContractError), ("raises", RuntimeError), ("skips", SkipError)]
)
def test_what_they_raise_is_raised(linter: Linter, name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        attempt(linter, "crooked", name, n=37)


# --- rounding


@pytest.mark.parametrize(("dtype", "bits"), [(torch.bfloat16, 8), (torch.float16, 11), (torch.float32, 24)])
def test_rounding_is_that_of_the_format(dtype: torch.dtype, bits: int) -> None:
    values = torch.randn(10_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values[:4] = torch.tensor([0.0, -1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8])  # the last two are ties in bf16
    values = values[values.abs() > 1e-3].contiguous()  # below lie fp16's subnormal numbers
    assert torch.equal(round_to(values, bits), values.to(dtype).double())


def test_rounding_keeps_dtype_and_what_is_not_finite() -> None:
    special = torch.tensor([math.inf, -math.inf, 1e38, 0.0])
    assert torch.equal(round_to(special, 8)[[0, 1, 3]], special[[0, 1, 3]])
    assert round_to(special, 8).dtype == torch.float32
    assert round_to(torch.tensor([math.nan]), 8).isnan().all()
    wave = torch.tensor([1.001 + 2.002j])
    assert torch.equal(torch.view_as_real(round_to(wave, 8)), round_to(torch.view_as_real(wave), 8))


def repeated(lint: Any, monkeypatch: pytest.MonkeyPatch, **changed: dict[str, int]) -> dict[str, str]:
    """The outcome of `cost.repeated_reads` of the target `stepping`, with some presets changed."""
    stepping = importlib.import_module("stepping")
    presets = {name: {**sizes, **changed.get(name, {})} for name, sizes in stepping.bench.task.presets.items()}
    monkeypatch.setattr(stepping.bench, "_workload", evolve(stepping.bench._workload, presets=presets))
    found: dict[str, str] = lint("stepping", width=7, steps=3, times=1)["cost.repeated_reads"]
    return found


def test_weights_that_each_step_reads_count_for_each_step(lint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert repeated(lint, monkeypatch)["verdict"] == "ok"
    once = repeated(lint, monkeypatch, cpu={"times": 1})
    assert once["verdict"] == "note"
    assert once["found"] == (
        "declares 268,435,456 bytes at 'cpu', where each of 40 steps has 268,435,456 of static arguments"
    )
    half = repeated(lint, monkeypatch, wide={"times": 1})
    assert half["verdict"] == "note", "counted once for two steps"
    cached = {name: {"width": 64, "times": 1} for name in ("cpu", "wide")}
    assert repeated(lint, monkeypatch, **cached)["verdict"] == "not applicable"
    assert "cost.repeated_reads" not in lint("sound", m=5, n=13, k=17)
