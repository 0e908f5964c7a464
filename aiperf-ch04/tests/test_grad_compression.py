"""The budgets of `ch04.grad_compression` need feedback."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from aiperf_ch04 import grad_compression


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.usefixtures("alone")
def test_a_budget_refuses_what_forgets_what_it_left_out(feedback: bool) -> None:
    class Forgetful(grad_compression.Int8):
        def summed(self, gradient: torch.Tensor) -> torch.Tensor:
            if not feedback:
                self.clear()
            return super().summed(gradient)

    (given,) = grad_compression.inputs(6, 20011, "cpu", torch.Generator().manual_seed(1)).values()
    (right,) = grad_compression.reference([given.double()], 1)
    compressed = Forgetful()
    compressed.prepare(given, 1)
    error = float((compressed.run(given.clone()) - right).norm() / right.norm())
    assert (error < grad_compression.int8_budget.budget) is feedback, error
