"""Run the Triton kernels of the chapter under `TRITON_INTERPRET=1`, and say which are right: see `test_kernels.py`."""

from typing import Any

import torch

from aiperf_ch16 import paged_attention, sampling_kernel
from aiperf_core.benchmark import call_with


def pages() -> None:
    """In float32: the interpreter of Triton 3.9 multiplies the bits of bfloat16 operands of `tl.dot` as integers."""
    names = ("sequences", "shortest", "median", "longest", "heads", "kv_heads", "width", "page")
    # No sequence; one token; lengths around pages, blocks and parts.
    sizes = [(0, 1, 9, 20, 2, 1, 16, 4), (1, 1, 1, 1, 1, 1, 16, 8), (3, 63, 64, 65, 8, 1, 64, 16)]
    sizes += [(4, 250, 256, 600, 6, 2, 16, 64), (2, 1, 300, 513, 5, 1, 32, 1), (7, 1, 31, 67, 14, 2, 128, 128)]
    for code, name in (
        (paged_attention.Padded, "padded"),
        (paged_attention.Paged, "paged"),
        (paged_attention.Split, "split"),
    ):
        for one in sizes:
            given: dict[str, Any] = dict(zip(names, one, strict=True))
            given |= {"device": "cpu", "generator": torch.Generator().manual_seed(1)}
            given |= call_with(paged_attention.inputs, given) | call_with(paged_attention.cache, given)
            given |= {key: given[key].float() for key in ("q", "keys", "values")}
            right = call_with(paged_attention.reference, given)
            instance = code()
            call_with(instance.prepare, given)
            out = call_with(instance.run, given)
            error = float((out - right).norm() / right.norm()) if right.numel() else 0.0
            assert error < 1e-5, (name, one, error)
        print(name, "is right")


def samples() -> None:
    names = ("rows", "vocabulary", "most", "probability")
    sizes = [
        (5, 1031, 7, 0.9),
        (1, 1, 1, 0.5),
        (3, 61, 61, 0.999),
        (2, 8193, 64, 0.01),
        (2, 20011, 50, 0.95),
        (7, 4095, 1, 0.9),
    ]
    for one in sampling_kernel.bench.implementations_on("cuda"):
        for some in sizes:
            for seed in range(2):
                given: dict[str, Any] = dict(zip(names, some, strict=True))
                given |= {"device": "cpu", "generator": torch.Generator().manual_seed(seed)}
                given |= call_with(sampling_kernel.inputs, given)
                right = call_with(sampling_kernel.reference, given)
                call = one.code
                if isinstance(call, type):
                    instance = call()
                    call_with(instance.prepare, given)
                    call = instance.run
                out = call_with(call, given)
                assert torch.equal(out, right), (one.name, some, out, right)
        print(one.name, "is right")


pages()
samples()
