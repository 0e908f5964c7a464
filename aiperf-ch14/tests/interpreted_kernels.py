"""Run the kernels under `TRITON_INTERPRET=1` and say which are right: see `test_kernels.py`.

Each runs at the sizes of `smoke` and at the awkward ones, as in a benchmark, but on the CPU. The values are those of
bfloat16, in float32: Triton 3.9's interpreter multiplies the bits of bfloat16 matrices as whole numbers.
"""

from importlib import import_module
from typing import Any

import torch

from aiperf_core import bf16
from aiperf_core.benchmark import call_with
from aiperf_core.errors import SkipError

REL_L2 = 1e-5
KERNELS = {
    "triton_softmax": ("one_block", "online"),
    "triton_matmul": ("small_tiles", "large_tiles", "staged", "grouped", "persistent", "descriptors"),
    "fp8_block_gemm": ("widened", "promoted", "descriptors"),
    "triton_flash_attention": ("tiled", "skipped", "powers_of_two", "staged", "wide", "descriptors"),
    "gemm_epilogue": ("one_pass", "dual", "descriptors"),
    "custom_op": ("triton_op",),
}
# These have a program for each row, unlike those for which the sizes of many rows are: groups of tiles.
ROW_BY_ROW, MANY_ROWS = ("widened", "one_pass"), 1000


def drawn(task: Any, sizes: dict[str, Any]) -> dict[str, Any]:
    given = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    found = [call_with(draw, given) for draw in (task.static, task.inputs) if draw is not None]
    return {name: value for values in found for name, value in values.items()}


def converted(given: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    return {**given, **{name: value.to(dtype) for name, value in tensors.items() if value.is_floating_point()}}


def check(bench: Any, name: str, code: Any) -> int:
    """The number of sizes at which an implementation is right; others are not for it."""
    right = 0
    sizes = [bench.task.presets["smoke"], *({**bench.task.presets["smoke"], **more} for more in bench.awkward_sizes)]
    for size in sizes:
        if name in ROW_BY_ROW and next(iter(size.values())) > MANY_ROWS:  # rows, or tokens
            continue
        given = drawn(bench.task, size)
        wanted = bench.answer(size, converted(given, torch.float64))
        given = converted(given, torch.float32)
        implementation = code()
        try:
            call_with(implementation.prepare, {**size, **given})
        except SkipError:
            continue
        out = call_with(implementation.run, {**size, **given})
        assert out.shape == wanted.shape
        error = float((out.double() - wanted).norm() / wanted.norm())
        # The interpreter rounds to bfloat16 by leaving bits out.
        limit = 4 * bf16.rel_l2 if out.dtype == torch.bfloat16 else REL_L2
        assert error <= limit, f"{code.__name__} at {size}: {error:.2e}"
        right += 1
    return right


for target, names in KERNELS.items():
    bench = import_module(f"aiperf_ch14.{target}").bench
    for one in bench.implementations_on("cuda"):
        if one.name in names:
            print(f"{target}.{one.name} is right at", check(bench, one.name, one.code), "sizes")
