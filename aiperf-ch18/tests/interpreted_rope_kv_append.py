"""Run the kernels of `rope_kv_append` under `TRITON_INTERPRET=1`, and say which are right."""

from typing import Any

import torch

from aiperf_ch18 import rope_kv_append
from aiperf_core.benchmark import call_with

# One head; a width that is no power of two; heads that are none; pages that a sequence starts in the middle of.
SIZES = [(1, 1, 1, 1, 2), (2, 17, 6, 2, 12), (3, 1, 8, 1, 64), (5, 3, 7, 7, 80)]

for code, name in ((rope_kv_append.Fused, "fused"), (rope_kv_append.HeadsTogether, "heads_together")):
    for sequences, new, heads, kv_heads, width in SIZES:
        for interleaved in (0, 1):
            given: dict[str, Any] = {
                "sequences": sequences,
                "new": new,
                "heads": heads,
                "kv_heads": kv_heads,
                "width": width,
            }
            given |= {"longest": 61, "interleaved": interleaved, "device": "cpu"}
            given |= {"generator": torch.Generator().manual_seed(1)}
            given |= call_with(rope_kv_append.turns, given) | call_with(rope_kv_append.inputs, given)
            right = call_with(rope_kv_append.reference, given)
            instance = code()
            call_with(instance.prepare, given)
            out = call_with(instance.run, given)
            for part, wanted in right.items():
                # Triton's interpreter cuts off what does not fit into bfloat16, where a GPU rounds.
                error = (out[part].float() - wanted.float()).abs() - 2**-7 * wanted.float().abs()
                assert error.max() < 1e-6, (name, part, given["qkv"].shape, interleaved)
    print(name, "is right")
