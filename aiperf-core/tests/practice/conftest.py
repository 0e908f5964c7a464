"""The judge's own comparison of what code returns for a practice target."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch

from aiperf_core.benchmark import Benchmark, call_with
from aiperf_core.validity.output_check import Comparison, compare_tensors

Compute = Callable[..., Any]
Judged = Callable[..., Comparison]


def benchmark(target: str) -> Benchmark:
    """A practice target's declarations."""
    bench = importlib.import_module(f"aiperf_core.practice.{target}").bench
    assert isinstance(bench, Benchmark)
    bench.check()
    return bench


def draw(bench: Benchmark, sizes: Mapping[str, float], seed: int) -> dict[str, torch.Tensor]:
    """Inputs and static arguments as the judge draws them."""
    values: dict[str, torch.Tensor] = {}
    for function in (bench.task.inputs, bench.task.static):
        if function is not None:
            generator = torch.Generator().manual_seed(seed + len(values))
            values |= call_with(function, {**sizes, "device": "cpu", "generator": generator})
    return values


@pytest.fixture(scope="session")
def judged() -> Iterator[Judged]:
    """`judged(target, compute, sizes, seed)`: compare what a function of the inputs returns with the reference."""

    def judge(target: str, compute: Compute, sizes: Mapping[str, float], seed: int) -> Comparison:
        bench = benchmark(target)
        values = draw(bench, sizes, seed)
        pristine = {name: one.clone() for name, one in values.items()}
        out = compute(**values)
        right = bench.answer(dict(sizes), {name: one.double() for name, one in pristine.items()})
        assert out.dtype == torch.float32
        assert out.shape == right.shape
        assert all(torch.equal(values[name], one) for name, one in pristine.items())
        return compare_tensors("", out, right, bench.tolerance_at({}))

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small work: threads would only wait for each other
    yield judge
    torch.set_num_threads(threads)
