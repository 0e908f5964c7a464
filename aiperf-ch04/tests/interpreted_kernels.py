"""Run the Triton kernels of the chapter under `TRITON_INTERPRET=1`, and say which are right: see `test_kernels.py`."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from aiperf_ch04 import all_to_all, grad_compression

WORLD = 3

# --- encoded sums, in ranks


def rank_main(rank: int, file: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=WORLD)
    # Fewer numbers than a block; shares that overhang, and more blocks than a program has.
    for n in (1, 2 * grad_compression.WHOLE * grad_compression.BLOCK + 301):
        gradients = torch.randn(WORLD, n, generator=torch.Generator().manual_seed(n)) ** 3
        right, steps = gradients.mean(0), 4
        # The interpreter cuts bfloat16 off, where a GPU rounds.
        for scaled, coarse, fine in ((True, 3e-2, 1e-2), (False, 2e-2, 2e-2)):
            form = grad_compression.Int8Fused()
            form.scaled = scaled
            form.prepare(gradients[:1].expand(steps, n), WORLD)
            for _ in range(2):  # what a call left out is not in the next one
                totals = form.run(gradients[rank].expand(steps, n))
                assert (totals[0] - right).norm() < coarse * right.norm(), (n, scaled)
                # What is left out of one round is in the next: the error of the total does not grow.
                assert (totals[-1] - steps * right).norm() < fine * (steps * right).norm(), (n, scaled)
            # All ranks decode the same codes.
            every = [torch.empty_like(totals) for _ in range(WORLD)]
            dist.all_gather(every, totals.contiguous())
            assert all(torch.equal(other, totals) for other in every)
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
    print("encoded sums are right")
    exchange()
