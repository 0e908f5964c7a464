"""Run the Triton kernels of the chapter under `TRITON_INTERPRET=1`, and say which are right: see `test_kernels.py`."""

from typing import Any

import torch

from aiperf_ch16 import kv_quant_ladder, paged_attention, sampling_kernel
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


def meant(instance: Any, given: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The keys and values that the codes of an implementation stand for."""

    def numbers(words: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        bits = words.view(torch.int16).int() & 0xFFFF
        mask = (1 << instance.bits) - 1
        codes = torch.cat([bits >> instance.bits * i & mask for i in range(16 // instance.bits)], -1)
        whole = codes - instance.zero if instance.zero else codes.byte().view(kv_quant_ladder.FP8).float() / 256
        return whole * scales[..., None]

    keys, key_scales, values, value_logs, *_ = instance.given
    keys, values = numbers(keys, key_scales), numbers(values, value_logs.exp2())
    if instance.rotated:
        keys = keys @ kv_quant_ladder.hadamard_matrix(given["width"]).T
    for table, length in zip(given["tables"], given["lengths"].tolist(), strict=True):
        if isinstance(instance, kv_quant_ladder.Window):
            recent = torch.arange(max(0, length - kv_quant_ladder.WINDOW), length)
            at = table[recent // given["page"]].long(), slice(None), recent % given["page"]
            keys[at], values[at] = given["keys"][at], given["values"][at]
    return {"keys": keys, "values": values}


def narrow_caches() -> None:
    """As attention to the cache that the codes stand for."""
    names = ("sequences", "shortest", "median", "longest", "heads", "kv_heads", "width", "page")
    # One token; lengths around a page, the window, blocks and parts; old tokens of some sequences alone.
    sizes = [(1, 1, 1, 1, 1, 1, 64, 8), (3, 127, 128, 129, 8, 1, 64, 16), (2, 500, 512, 513, 6, 2, 128, 1)]
    sizes += [(4, 640, 641, 700, 14, 2, 64, 128)]
    for code in (getattr(kv_quant_ladder, name) for name in ["Fp8", "Int8", "Int4", "Hadamard", "Window"]):
        for one in sizes:
            given: dict[str, Any] = dict(zip(names, one, strict=True))
            given |= {"device": "cpu", "generator": torch.Generator().manual_seed(1)}
            given |= call_with(kv_quant_ladder.inputs, given) | call_with(kv_quant_ladder.cache, given)
            given |= {key: given[key].float() for key in ("q", "keys", "values")}
            instance = code()
            call_with(instance.prepare, given)
            out = call_with(instance.run, given)
            right = call_with(paged_attention.reference, given | meant(instance, given))
            error = float((out - right).norm() / right.norm())
            assert error < 2e-3, (code.__name__, one, error)  # float16 queries and weights
        print(code.__name__, "is right")


pages()
samples()
narrow_caches()
