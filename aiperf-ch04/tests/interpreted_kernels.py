"""Run the Triton kernels of the chapter under `TRITON_INTERPRET=1`, and say which are right: see `test_kernels.py`."""

import tempfile
from itertools import pairwise

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from aiperf_ch04 import all_to_all
from aiperf_ch04.eight_bits import EightBitSum, fp8_kernels, int8_kernels

WORLD = 3

# --- sums of 8 bits, in ranks


def rank_main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=WORLD)
    device = torch.device("cpu")
    # Fewer numbers than a block; blocks that overhang, and more of them than a program has.
    for n in (1, 6500):
        gradients = torch.randn(WORLD, n, generator=torch.Generator().manual_seed(n)) ** 3
        right, steps = gradients.sum(0), 4
        # The interpreter loses the carry of some roundings to fp8, which feedback hides and a single sum shows.
        for source, coarse, fine in ((int8_kernels, 3e-2, 1e-2), (fp8_kernels, 1.5e-1, 4e-2)):
            once, out = EightBitSum(n, device, source, keep=False), torch.full((n,), torch.nan)
            once(gradients[rank], out)
            assert (out - right).norm() < coarse * right.norm(), (n, source)
            # What is left out of one round is in the next: the error of the total does not grow.
            kept, totals = EightBitSum(n, device, source, keep=True), torch.full((steps + 1, n), torch.nan)
            totals[0] = 0
            for before, after in pairwise(totals):
                kept(gradients[rank], after, before=before, factor=1 / WORLD)
            found = totals[-1]
            assert (found - steps * right / WORLD).norm() < fine * (steps * right / WORLD).norm(), (n, source)
            # All ranks decode the same codes.
            every = [torch.empty_like(found) for _ in range(WORLD)]
            dist.all_gather(every, found)
            assert all(torch.equal(other, found) for other in every)
            rounded = torch.full((n,), torch.nan, dtype=torch.bfloat16)
            once(gradients[rank].bfloat16(), rounded)
            assert (rounded.float() - right).norm() < (coarse + 2**-7) * right.norm(), (n, source)
    dist.destroy_process_group()


# --- all-to-all, all ranks in one process

# Tokens, width, experts a rank, ranks: a single one; primes; a row longer than a block.
SIZES = [(1, 1, 1, 2), (5, 37, 3, 2), (3, all_to_all.BLOCK + 3, 2, 3)]
UNTOUCHED = -7.0


def outputs(x: torch.Tensor, chosen: torch.Tensor, scales: torch.Tensor, once: bool) -> torch.Tensor:
    """Outputs of all ranks after a call."""
    (ranks, tokens, width), choices = x.shape, chosen.shape[2]
    capacity = tokens if once else tokens * choices
    rows = torch.full((ranks, ranks, capacity, width), UNTOUCHED, dtype=x.dtype)
    notes = torch.full((ranks, ranks, capacity, choices + 1), -1, dtype=torch.int32)
    arrived = torch.zeros(ranks, ranks, dtype=torch.int32)
    out = torch.full((ranks, tokens, choices, width), UNTOUCHED, dtype=x.dtype)
    tables = [torch.tensor([part.data_ptr() for part in whole]) for whole in (rows, notes, arrived, out)]
    experts = scales.shape[1]
    for rank in range(ranks):
        counts = torch.zeros(ranks, dtype=torch.int32)
        all_to_all.launch_dispatch(x[rank], chosen[rank], counts, *tables[:3], rank, experts, capacity, once)
    for rank in range(ranks):
        all_to_all.launch_combine(out[rank], tables[3], scales[rank], *tables[:3], rank, capacity)
    sent = sum(len({*owners}) for owners in (chosen // experts).flatten(0, 1).tolist())
    assert int(arrived.sum()) == (sent if once else chosen.numel())
    return out


def exchange() -> None:
    all_to_all.PROGRAMS = 3
    for once in (False, True):
        for tokens, width, experts, ranks in SIZES:
            x = torch.randn(ranks, tokens, width).bfloat16()
            scales = torch.randn(ranks, experts, width).bfloat16()
            chosen = torch.rand(ranks, tokens, ranks * experts).argsort(-1)[..., : all_to_all.CHOICES].contiguous()
            found = outputs(x, chosen, scales, once)
            right = torch.stack(all_to_all.reference(x, chosen, list(scales)))
            # Triton's interpreter cuts off what does not fit into bfloat16, where a GPU rounds.
            torch.testing.assert_close(found.double(), right.double(), rtol=2**-7, atol=1e-30)
        print("puts_once is right" if once else "puts is right")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        processes.start_processes(rank_main, (f"{folder}/store",), nprocs=WORLD, start_method="fork")
    print("sums of 8 bits are right")
    exchange()
