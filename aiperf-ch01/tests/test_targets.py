"""What `pytest --aiperf` does not test of the targets: sizes of the lesson, skipped updates, allocations."""

import resource
from typing import Any

import pytest
import torch

from aiperf_ch01 import alloc_churn, batched_gemm, launch_overhead, train_step
from aiperf_ch01.plugin import aiperf_targets
from aiperf_core.testing import Measure, problems

TARGETS = [target.name for target in aiperf_targets()]


def check(aiperf_measure: Measure, name: str, device: str) -> None:
    result = aiperf_measure(f"ch01.{name}", device=device, size=device)
    assert problems(result) == []
    skipped = [row.reason for row in result.rows if row.verdict == "SKIPPED" and row.name != "nvfp4"]
    assert skipped == []


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_right_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str) -> None:
    check(aiperf_measure, name, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("name", TARGETS)
def test_right_on_a_gpu_at_the_sizes_of_the_lesson(aiperf_measure: Measure, name: str) -> None:
    check(aiperf_measure, name, "cuda")


def trained(drawn: dict[str, Any], skipped: tuple[int, int] | None = None, **autocast: bool) -> Any:
    """The state after a run on the CPU, in which the write of one weight in one step may be skipped."""
    x, labels = drawn["x"], drawn["labels"]
    weights, momenta = ([one.clone() for one in drawn[name]] for name in ("weights", "momenta"))
    training = type("Training", (train_step.FusedBatch,), autocast)()
    training.prepare(x, weights, len(x[0]))
    for step in range(len(x)):
        before = [weight.clone() for weight in weights]
        training.run(x[step : step + 1], labels[step : step + 1], weights, momenta)
        if skipped and skipped[0] == step:
            weights[skipped[1]].copy_(before[skipped[1]])
    return {"weights": weights, "momenta": momenta}


@pytest.mark.parametrize("size", ["smoke", "cpu"])
def test_an_update_without_the_write_of_one_weight_in_one_step_is_refused(size: str) -> None:
    sizes = train_step.bench.task.presets[size]
    drawn: Any = train_step.inputs(sizes["steps"], sizes["samples"], sizes["width"], "cpu", torch.Generator())
    right = trained({name: of_doubles(value) for name, value in drawn.items()})
    for autocast, budget in ((False, 1e-3), (True, train_step.bf16_gradients.budget)):
        assert train_step.update_error(trained(drawn, autocast=autocast), right) < budget / 2
        for step in range(int(sizes["steps"])):
            for weight in range(3):
                wrong = trained(drawn, (step, weight), autocast=autocast)
                assert train_step.update_error(wrong, right) > 4 * budget
                # The tolerance of float32 variants, fp32_reduction, refuses it too.
                found, wanted = wrong["weights"][weight].double(), right["weights"][weight]
                assert (found - wanted).norm() > 10 * 1e-5 * wanted.norm()


def of_doubles(value: Any) -> Any:
    if isinstance(value, list):
        return [one.double() for one in value]
    return value.double() if value.is_floating_point() else value


def faults(implementation: type, x: torch.Tensor, steps: int) -> float:
    """Pages that the system clears, in each step of a call."""
    made = implementation()
    made.prepare(x, steps)
    made.run()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    made.run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / steps


def test_pages_are_cleared_again_in_each_step_of_the_baseline_alone() -> None:
    x = torch.randn(512, 2048).half()
    # The temporaries of the largest step have 2 x 512 pages of 4 KiB, those of all steps half of it on average.
    assert faults(alloc_churn.GivenBackByMalloc, x, 32) > 200
    for variant in (alloc_churn.Preallocated, alloc_churn.InPlace):
        assert faults(variant, x, 32) < 5


@pytest.mark.gpu
def test_the_driver_allocates_in_each_step_of_the_baseline_alone() -> None:
    # Temporaries of up to 1 MiB share a segment with other tensors, which keep it: each of these has 2 MiB or more.
    x = torch.randn(16384, 2048, device="cuda").half()
    grown = {}
    for implementation in (
        alloc_churn.GivenBackByDriver,
        alloc_churn.Cached,
        alloc_churn.Preallocated,
        alloc_churn.InPlace,
    ):
        made = implementation()
        made.prepare(x, 32)
        made.run()
        before = torch.cuda.memory_stats()["num_device_alloc"]
        made.run()
        grown[implementation.__name__] = torch.cuda.memory_stats()["num_device_alloc"] - before
    assert grown.pop("GivenBackByDriver") >= 32
    assert grown == {"Cached": 0, "Preallocated": 0, "InPlace": 0}


@pytest.mark.parametrize(
    ("module", "pair"), [(launch_overhead, ("fusion", "graph")), (batched_gemm, ("graph", "one launch"))]
)
def test_two_mechanisms_are_there_alone_and_together(module: Any, pair: tuple[str, str]) -> None:
    """`aiperf analyze stacking` measures how they combine."""
    bench = module.bench
    variants = [one for one in bench.implementations_on("cuda") if one.role == "variant"]
    combined = {frozenset(bench.mechanisms_of(one)) for one in variants}
    assert {frozenset(pair[:1]), frozenset(pair[1:]), frozenset(pair)} <= combined
