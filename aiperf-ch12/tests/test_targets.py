"""The tolerances refuse a step less and accept another order; `pytest --aiperf` tests every target."""

import pytest
import torch

from aiperf_ch12 import cuda_graphs, graph_while
from aiperf_core.benchmark import bind, call_with
from aiperf_core.errors import SkipError
from aiperf_core.testing import Measure, problems
from aiperf_core.validity.output_check import compare_tensors

LARGE: list[tuple[str, dict[str, float]]] = [
    ("cuda_graphs", {"n": 1_000_003, "steps": 200}),
    ("graph_while", {"n": 512, "strength": 1000.0}),
    ("graph_while", {"n": 391, "strength": 30.0}),
]


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "sizes"), LARGE)
def test_right_on_a_gpu_at_large_sizes(aiperf_measure: Measure, name: str, sizes: dict[str, float]) -> None:
    assert problems(aiperf_measure(f"ch12.{name}", device="cuda", **sizes)) == []


def test_every_step_of_the_chain_counts() -> None:
    bench = cuda_graphs.bench
    sizes: dict[str, float] = {"n": 1009, "steps": 100}
    draw = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    fresh = {name: values.double() for name, values in call_with(bench.task.inputs, draw).items()}
    right = bench.answer(sizes, fresh)
    less = bench.answer({**sizes, "steps": 99}, fresh)
    assert (less - right).norm() / right.norm() > 100 * bench.tolerance_at({}).rel_l2


@pytest.mark.parametrize(("n", "strength"), [(13, 2.0), (64, 1000.0)])
def test_an_iteration_less_is_wrong_and_the_order_of_a_sum_is_not(
    n: int, strength: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    right = graph_while.reference(b, strength)
    tolerance = graph_while.bench.tolerance_at({})
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


@pytest.mark.parametrize(("n", "strength"), [(1, 2.0), (2, 0.0), (13, 2.0), (64, 1000.0), (128, 30.0), (128, 0.01)])
def test_the_cost_counts_no_more_iterations_than_there_are(n: int, strength: float) -> None:
    solve = graph_while.CLoop()
    for seed in range(3):
        b = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        try:
            solve.prepare(b)
        except SkipError as error:
            pytest.skip(str(error))
        given = (b, n, strength, graph_while.ACCURACY, graph_while.MOST)
        found = solve.solve(solve.x, solve.r, solve.p, solve.q, *given)
        assert found / 3 - 1 <= graph_while.least_iterations(n, strength) <= found
