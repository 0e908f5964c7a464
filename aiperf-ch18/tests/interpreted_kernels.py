"""Run the Triton kernels of the chapter under `TRITON_INTERPRET=1`, and say which are right: see `test_targets.py`."""

from typing import Any

import torch

from aiperf_ch18 import (
    cascade_attention,
    flash_decode,
    flex_sliding_window,
    mla_decode,
    rope_kv_append,
    sparse_masks,
)
from aiperf_core.benchmark import call_with


def heads_and_caches() -> None:
    # Sequences, new tokens, heads, heads of the cache, width: one head; a page that a sequence starts in the middle of;
    # a width that is no power of two, and heads that are none.
    sizes = [(1, 1, 1, 1, 2), (1, 17, 2, 1, 12), (3, 1, 6, 2, 64), (2, 2, 3, 3, 80)]
    for code, name in ((rope_kv_append.Fused, "fused"), (rope_kv_append.HeadsTogether, "heads_together")):
        for sequences, new, heads, kv_heads, width in sizes:
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


# In float32 from here on: the interpreter of Triton 3.9 multiplies the bits of bfloat16 operands of `tl.dot` as
# integers.


def long_caches() -> None:
    torch.manual_seed(0)
    # Batch, heads, heads of the cache, width, length: a single key; groups of 1 to 8; lengths around blocks and parts.
    sizes = [(1, 1, 1, 16, 1), (1, 8, 1, 64, 65), (1, 4, 2, 32, 66), (2, 3, 1, 16, 129), (1, 5, 1, 128, 31)]
    sizes += [(1, 6, 1, 16, 64), (1, 7, 1, 16, 127), (3, 2, 2, 256, 17)]
    for one in flash_decode.bench.implementations_on("cuda"):
        if one.role == "yardstick":
            continue
        for batch, heads, kv_heads, width, length in sizes:
            given = {
                "q": 3 * torch.randn(batch, heads, width),
                "keys": torch.randn(batch, kv_heads, length, width),
                "values": torch.randn(batch, kv_heads, length, width),
            }
            right = flash_decode.reference(**given)
            instance = one.code()
            call_with(instance.prepare, given)
            out = call_with(instance.run, given)
            error = float((out - right).norm() / right.norm())
            assert error < 1e-5, (one.name, batch, heads, kv_heads, width, length, error)
        print(one.name, "is right")


def shared_prefixes() -> None:
    # Sequences, heads, heads of the cache, width, prefix, own keys: single ones; more queries than a program has.
    sizes = [(1, 1, 1, 16, 1, 1), (17, 8, 1, 16, 65, 64), (5, 6, 2, 32, 257, 129), (3, 3, 3, 16, 64, 1)]
    for one in cascade_attention.bench.implementations_on("cuda"):
        for numbers in sizes:
            given: dict[str, Any] = dict(
                zip(("sequences", "heads", "kv_heads", "width", "prefix", "own"), numbers, strict=True)
            )
            given |= {"dtype": torch.float32, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
            given |= call_with(cascade_attention.inputs, given)
            right = call_with(cascade_attention.reference, given)
            instance = one.code()
            call_with(instance.prepare, given)
            error = float((call_with(instance.run, given) - right).norm() / right.norm())
            assert error < 1e-5, (one.name, numbers, error)
        print(f"cascade:{one.name} is right")


def latents() -> None:
    # Batch, heads, length, latent: a single key; more heads than a program has; lengths around blocks and parts.
    sizes = [(1, 1, 1, 16), (2, 3, 129, 32), (1, 67, 65, 16), (2, 17, 200, 64)]
    for one in mla_decode.bench.implementations_on("cuda"):
        if one.name not in ("one_pass", "split"):
            continue
        for batch, heads, length, latent in sizes:
            given: dict[str, Any] = {"batch": batch, "heads": heads, "length": length, "latent": latent}
            given |= {"plain": 20, "turning": 16, "dtype": torch.float32, "device": "cpu"}
            given |= {"generator": torch.Generator().manual_seed(1)}
            given |= call_with(mla_decode.weights, given) | call_with(mla_decode.inputs, given)
            right = call_with(mla_decode.reference, given)
            instance = one.code()
            call_with(instance.prepare, given)
            error = float((call_with(instance.run, given) - right).norm() / right.norm())
            assert error < 1e-5, (one.name, batch, heads, length, latent, error)
        print(f"latents:{one.name} is right")


def windows() -> None:
    # Length and window: one token; windows narrower than a block, as wide as blocks, and wider than the prompt.
    sizes = [(1, 1), (130, 1), (257, 5), (300, 64), (449, 129), (520, 200), (97, 1000), (384, 256)]
    for code, name in ((flex_sliding_window.Skipped, "skipped"), (flex_sliding_window.Edges, "edges")):
        for length, window in sizes:
            given: dict[str, Any] = {"batch": 1, "heads": 2, "length": length, "width": 16, "window": window}
            given |= {"bits": 32, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
            given |= call_with(flex_sliding_window.inputs, given)
            right = call_with(flex_sliding_window.reference, given)
            instance = code()
            call_with(instance.prepare, given)
            out = call_with(instance.run, given)
            error = float((out - right).norm() / right.norm())
            assert error < 1e-5, (name, length, window, error)
        print(name, "is right")


def lists_of_tiles() -> None:
    # Length, documents, window, one kept tile in: one token; documents shorter than tiles; few kept tiles.
    sizes = [(1, 1, 1, 1), (391, 3, 150, 2), (257, 9, 1, 1), (384, 1, 384, 1), (640, 2, 640, 3)]
    for one in sparse_masks.bench.implementations_on("cuda"):
        if one.name not in ("computed", "listed", "whole_tiles", "longest_first"):
            continue
        for numbers in sizes:
            given: dict[str, Any] = dict(zip(("length", "documents", "window", "one_in"), numbers, strict=True))
            given |= {"heads": 2, "width": 16, "dtype": torch.float32, "device": "cpu"}
            given |= {"generator": torch.Generator().manual_seed(1)}
            given |= call_with(sparse_masks.masks, given) | call_with(sparse_masks.inputs, given)
            right = call_with(sparse_masks.reference, given)
            instance = one.code()
            call_with(instance.prepare, given)
            error = float((call_with(instance.run, given) - right).norm() / right.norm())
            assert error < 1e-5, (one.name, numbers, error)
        print(f"tiles:{one.name} is right")


heads_and_caches()
long_caches()
shared_prefixes()
latents()
windows()
lists_of_tiles()
