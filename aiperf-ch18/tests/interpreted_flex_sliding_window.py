"""Run the kernel of `flex_sliding_window` under `TRITON_INTERPRET=1`, and say which of its forms are right."""

from typing import Any

import torch

from aiperf_ch18 import flex_sliding_window
from aiperf_core.benchmark import call_with

# Length and window: one token; windows narrower than a block, as wide as blocks, and wider than the prompt.
SIZES = [(1, 1), (130, 1), (257, 5), (300, 64), (449, 129), (520, 200), (97, 1000), (384, 256)]

for code, name in ((flex_sliding_window.Skipped, "skipped"), (flex_sliding_window.Edges, "edges")):
    for length, window in SIZES:
        # In float32: the interpreter of Triton 3.9 multiplies the bits of bfloat16 operands of `tl.dot` as integers.
        given: dict[str, Any] = {"batch": 1, "heads": 2, "length": length, "width": 16, "window": window, "bits": 32}
        given |= {"device": "cpu", "generator": torch.Generator().manual_seed(1)}
        given |= call_with(flex_sliding_window.inputs, given)
        right = call_with(flex_sliding_window.reference, given)
        instance = code()
        call_with(instance.prepare, given)
        out = call_with(instance.run, given)
        error = float((out - right).norm() / right.norm())
        assert error < 1e-5, (name, length, window, error)
    print(name, "is right")
