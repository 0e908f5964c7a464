"""Run the Triton kernels of the chapter under `TRITON_INTERPRET=1` and say which are right: see `test_targets.py`."""

import torch

from aiperf_ch09 import elementwise_fusion, norm_fusion
from aiperf_core.benchmark import Benchmark, call_with


def check(bench: Benchmark, name: str, **size: int) -> None:
    """Compare a variant with the reference. Triton's interpreter cuts off what a GPU rounds to bfloat16."""
    given = {**size, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    drawn = call_with(bench.task.inputs, given)
    right = bench.answer(size, {key: one.double() for key, one in drawn.items()})
    (code,) = (one.code for one in bench.implementations_on("cuda") if one.name == name)
    implementation, known = code(), {**size, **drawn}
    call_with(implementation.prepare, known)
    out = call_with(implementation.run, known)
    pairs = [(out, right)] if isinstance(out, torch.Tensor) else [(out[key], right[key]) for key in right]
    for one, wanted in pairs:
        torch.testing.assert_close(one.double(), wanted, rtol=2**-6, atol=1e-5)


# One element; a row that is a little longer than a power of two; programs with fewer rows than others.
for name in ("row_in_registers", "several_rows"):
    for rows, columns in ((1, 1), (9, 257), (16, 64)):
        check(norm_fusion.bench, name, rows=rows, columns=columns)
    print(name, "is right")

for rows, columns in ((1, 1), (3, 257), (2, elementwise_fusion.BLOCK + 8)):
    check(elementwise_fusion.bench, "tile", rows=rows, columns=columns)
print("tile is right")
