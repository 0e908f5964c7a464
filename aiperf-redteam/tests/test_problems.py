"""The problems in KernelBench's form: their right candidates are right, and their wrong ones are wrong by values alone."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from aiperf_core.candidate_format import Reference, known_format
from aiperf_core.plugins import load_plugins
from aiperf_core.results.models import Row, Verdict
from aiperf_core.targets import InstalledTarget
from aiperf_core.tolerance import fp32_reduction
from aiperf_core.validity.output_check import compare_tensors
from aiperf_redteam.problems import CANDIDATES, KINDS, RIGHT, candidate, problems


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads of OpenMP that wait for a processor would take most of the time on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_there_are_ten_of_each_kind() -> None:
    assert [sum(one.parent.name == kind for one in problems()) for kind in KINDS] == [10, 10, 10]
    assert len(CANDIDATES) == 7


def loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(module: ModuleType, seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    inputs: list[torch.Tensor] = module.get_inputs()
    return inputs


def made(model: Callable[..., Any], module: ModuleType) -> Any:
    torch.manual_seed(28)
    return model(*module.get_init_inputs())


@pytest.mark.parametrize("problem", problems(), ids=lambda one: f"{one.parent.name}-{one.stem}")
def test_only_right_candidates_are_within_the_tolerance(problem: Path, tmp_path: Path) -> None:
    module = loaded(problem)
    with torch.no_grad():
        # The second draw of inputs: a stale answer is right for the first.
        right = made(module.Model, module).double()(*(one.double() for one in drawn(module, 2)))
        errors = {}
        for name in CANDIDATES:
            file = tmp_path / f"{name.replace(' ', '_')}.py"
            file.write_text(candidate(problem, name))
            model = made(loaded(file).ModelNew, module)
            model(*drawn(module, 1))
            errors[name] = compare_tensors("", model(*drawn(module, 2)), right, fp32_reduction).worst
    assert len(right) > 1, "without rows, half of them are no wrong answer"
    assert {name for name, error in errors.items() if error <= 1.0} == set(RIGHT), errors


@pytest.mark.proof
def test_the_judge_is_right_about_candidates_of_a_problem(judged: Callable[..., list[Row]]) -> None:
    """The wrong ones are those that are nearest to right; `benchmarks/judge_problems.py` judges all."""
    problem = next(one for one in problems() if one.stem == "masked_softmax")
    kind = known_format("kernelbench", load_plugins().known_formats)
    target = InstalledTarget("kernelbench.masked_softmax", Reference(kind.load, problem).module, "a problem")

    def row(name: str) -> Row:
        return judged(candidate(problem, name), target, kind, budget_s=0.2, timeout_s=30.0)[1]

    # One of twenty comparisons of equal code may see a difference: three in a row are none by chance.
    honest = [row("honest")]
    while honest[-1].verdict in (Verdict.FASTER, Verdict.SLOWER) and len(honest) < 3:
        honest.append(row("honest"))
    assert honest[-1].verdict in (Verdict.SAME, Verdict.INCONCLUSIVE), honest[-1].reason
    for name in ("half precision", "dropped term"):
        wrong = row(name)
        assert wrong.verdict is Verdict.INVALID, wrong.reason
        assert [one.issue for one in wrong.findings] == ["output.wrong_values"]
