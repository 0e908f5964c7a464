"""`auto` of `ch04.allreduce_small` takes what is fastest at the size of the call."""

import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from aiperf_ch04 import allreduce_small


class Idle:
    def prepare(self, x: torch.Tensor, rank: int, world_size: int) -> None:
        self.calls = 0

    def run(self, x: torch.Tensor, rank: int) -> torch.Tensor:
        self.calls += 1
        return x


class SlowForMany(Idle):
    """Takes 5 ms for more than 10 numbers."""

    def run(self, x: torch.Tensor, rank: int) -> torch.Tensor:
        time.sleep(0.005 if x.numel() > 10 else 0)
        return super().run(x, rank)


class SlowForFew(Idle):
    """Takes 5 ms for at most 10 numbers."""

    def run(self, x: torch.Tensor, rank: int) -> torch.Tensor:
        time.sleep(0 if x.numel() > 10 else 0.005)
        return super().run(x, rank)


@pytest.mark.parametrize(("n", "fastest"), [(3, SlowForMany), (100, SlowForFew)])
def test_the_fastest_at_the_size_of_the_call_is_chosen(tmp_path: Path, n: int, fastest: type[Idle]) -> None:
    class Chosen(allreduce_small.Auto):
        candidates = SlowForMany, SlowForFew

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        chosen, x = Chosen(), torch.ones(n)
        chosen.prepare(x, 0, 1)
    finally:
        dist.destroy_process_group()
    assert type(chosen.chosen) is fastest
    calls = chosen.chosen.calls
    assert chosen.run(x, 0) is x
    assert chosen.chosen.calls == calls + 1
    assert torch.equal(x, torch.ones(n)), "the call's own numbers are not used for timing"
