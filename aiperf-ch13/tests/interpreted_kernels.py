"""Run the kernel of `chunked_cross_entropy` under `TRITON_INTERPRET=1`, and say whether it is right."""

import torch

from aiperf_ch13 import chunked_cross_entropy
from aiperf_core.benchmark import call_with

torch.manual_seed(0)
# A last chunk that is not full; a row that fills its block, and one that is a little longer.
for tokens, chunk, vocabulary in (
    (5, 2, 211),
    (2, 2, chunked_cross_entropy.BLOCK),
    (3, 2, chunked_cross_entropy.BLOCK + 1),
):
    given = {
        "states": torch.randn(tokens, 16).bfloat16(),
        "labels": torch.randint(vocabulary, (tokens,)),
        "weight": torch.randn(vocabulary, 16).div_(4).bfloat16(),
        "chunk": chunk,
    }
    fused, plain = chunked_cross_entropy.FusedInPlace(), chunked_cross_entropy.AtOnce()
    for implementation in (fused, plain):
        call_with(implementation.prepare, given)
    right, out = call_with(plain.run, given), call_with(fused.run, given)
    for name, wanted in right.items():
        # Triton's interpreter cuts off what does not fit into bfloat16, where a GPU rounds.
        error = float((out[name].float() - wanted.float()).norm() / wanted.float().norm())
        assert error < 2**-7, (tokens, chunk, vocabulary, name, error)
print("loss_and_slope is right")
