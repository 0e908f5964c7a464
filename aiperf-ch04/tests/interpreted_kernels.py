"""Run the kernels of `eight_bits` in ranks under `TRITON_INTERPRET=1`, and say whether their sums are right."""

import sys
import tempfile
from itertools import pairwise

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from aiperf_ch04.eight_bits import EightBitSum, fp8_kernels, int8_kernels

WORLD = 3


def rank_main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=WORLD)
    device = torch.device("cpu")
    # Fewer numbers than a block, blocks that overhang, and more blocks than a program has.
    for n in (1, 769, 20011):
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        processes.start_processes(rank_main, (f"{folder}/store",), nprocs=WORLD, start_method="fork")
    sys.stdout.write("sums of 8 bits are right\n")
