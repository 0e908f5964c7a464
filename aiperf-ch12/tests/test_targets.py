"""Every target of the chapter is right, at awkward sizes too, on every device."""

from pathlib import Path
from typing import Any

import pytest
import torch

from aiperf_ch12 import cuda_graphs, graph_while
from aiperf_core.benchmark import Benchmark, bind, call_with
from aiperf_core.errors import SkipError
from aiperf_core.harness.roles.output_check import compare_tensors
from aiperf_core.plugins import load_plugins
from aiperf_core.testing import Measure, problems

TARGETS = [one for one in load_plugins().targets if one.group == "ch12"]
# One element, primes, and what leaves a block partly full; a grid of one point, and one with more blocks than there may be.
CASES: list[tuple[Benchmark, dict[str, Any]]] = [
    *((cuda_graphs.bench, {"n": n, "steps": steps}) for n, steps in ((1, 1), (255, 3), (257, 6), (4099, 11))),
    *((graph_while.bench, {"n": n, "strength": k}) for n, k in ((1, 2.0), (2, 0.0), (17, 100.0), (64, 1000.0))),
]
LARGE: list[tuple[Benchmark, dict[str, Any]]] = [
    (cuda_graphs.bench, {"n": 1_000_003, "steps": 200}),
    (graph_while.bench, {"n": 512, "strength": 1000.0}),
    (graph_while.bench, {"n": 391, "strength": 30.0}),
]
# What an implementation may decline, and the only reasons for it.
DECLINES = ("needs a driver of CUDA 12.4",)


def check(bench: Benchmark, device: str, sizes: dict[str, Any], calls: int = 2) -> None:
    """Run each implementation in this process, on values renewed in place for each call, and compare with the reference."""
    draw = {**sizes, "device": device, "generator": torch.Generator(device).manual_seed(1)}
    fresh = call_with(bench.task.inputs, draw)
    for one in bench.on(device):
        instance = one.code()
        try:
            call_with(instance.prepare, {**sizes, **fresh})
        except SkipError as error:
            if not str(error).startswith(DECLINES):
                raise
            continue
        for _ in range(calls):
            for name, values in call_with(bench.task.inputs, draw).items():
                fresh[name].copy_(values)
            wide = {name: values.double() for name, values in fresh.items()}
            right = bench.answer(sizes, wide)
            found = bind(instance.run, {**sizes, **fresh})()
            if device == "cuda":
                torch.cuda.synchronize()
            assert compare_tensors("", found, right, bench.tolerance).error is None, one.name


@pytest.mark.parametrize(("bench", "sizes"), CASES)
def test_right_on_the_processor(bench: Benchmark, sizes: dict[str, Any]) -> None:
    check(bench, "cpu", sizes)


@pytest.mark.gpu
@pytest.mark.parametrize(("bench", "sizes"), CASES + LARGE)
def test_right_on_a_gpu(bench: Benchmark, sizes: dict[str, Any]) -> None:
    check(bench, "cuda", sizes, calls=3)


@pytest.mark.parametrize("name", [one.name for one in TARGETS])
def test_measured_on_the_processor(aiperf_measure: Measure, name: str) -> None:
    assert problems(aiperf_measure(name, device="cpu", size="smoke")) == []


@pytest.mark.gpu
@pytest.mark.parametrize("name", [one.name for one in TARGETS])
def test_measured_on_a_gpu(aiperf_measure: Measure, name: str) -> None:
    assert problems(aiperf_measure(name, device="cuda", size="smoke")) == []


def test_every_step_of_the_chain_counts() -> None:
    bench = cuda_graphs.bench
    sizes: dict[str, float] = {"n": 1009, "steps": 100}
    draw = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    fresh = {name: values.double() for name, values in call_with(bench.task.inputs, draw).items()}
    right = bench.answer(sizes, fresh)
    less = bench.answer({**sizes, "steps": 99}, fresh)
    assert (less - right).norm() / right.norm() > 100 * bench.tolerance.rel_l2


@pytest.mark.parametrize(("n", "strength"), [(13, 2.0), (64, 1000.0)])
def test_an_iteration_less_is_wrong_and_the_order_of_a_sum_is_not(
    n: int, strength: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    right = graph_while.reference(b, strength)
    tolerance = graph_while.bench.tolerance
    turned = graph_while.reference(b.t().flip(0).contiguous(), strength).flip(0).t()
    assert compare_tensors("", turned, right, tolerance).worst < 1e-3
    solve, given = graph_while.CLoop(), {"b": b, "n": n, "strength": strength}
    try:
        solve.prepare(b)
    except SkipError as error:
        pytest.skip(str(error))
    assert compare_tensors("", bind(solve.run, given)(), right, tolerance).error is None
    found = solve.solve(solve.x, solve.r, solve.p, solve.q, b, n, strength, graph_while.ACCURACY, graph_while.MOST)
    monkeypatch.setattr(graph_while, "MOST", found - 1)
    assert compare_tensors("", bind(solve.run, given)(), right, tolerance).error is not None


def test_the_reference_solves_the_equation() -> None:
    n, k = 23, 50.0
    b = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    x = graph_while.reference(b, k)
    around = torch.nn.functional.pad(x, (1, 1, 1, 1))
    neighbours = around[2:, 1:-1] + around[:-2, 1:-1] + around[1:-1, 2:] + around[1:-1, :-2]
    left = (1 + 4 * k) * x - k * neighbours - b
    assert left.norm() / b.norm() < 1e-8


def test_the_readme_lists_every_target() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text()
    rows = [f"| `{one.name}` | {', '.join(one.devices)} | {one.summary} |" for one in TARGETS]
    assert [line for line in text.splitlines() if line.startswith("| `ch12.")] == rows
