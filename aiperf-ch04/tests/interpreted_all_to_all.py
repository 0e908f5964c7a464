"""Run the kernels of `ch04.all_to_all` under `TRITON_INTERPRET=1`, all ranks in one process: see `test_all_to_all.py`."""

import torch

from aiperf_ch04 import all_to_all

# Tokens, width, experts a rank, ranks: a single one; primes; a row longer than a block.
SIZES = [(1, 1, 1, 2), (13, 37, 3, 2), (7, all_to_all.BLOCK + 3, 2, 3)]
UNTOUCHED = -7.0


def outputs(x: torch.Tensor, chosen: torch.Tensor, scales: torch.Tensor, once: bool) -> torch.Tensor:
    """What all ranks hold after a call."""
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


def main() -> None:
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


main()
