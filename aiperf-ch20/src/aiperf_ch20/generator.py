"""A generator of C code for one fused operation: candidates from a template, verified, measured, and kept if faster.

The operation: s = x + residual; y = max(0, s / rms(s) * weight)^2, for rows of float32. A candidate is a choice of
genes. Two of the genes have a value that is faster and wrong, as what proposes code does not know what is right.
"""

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any

import torch

from aiperf_core import fp32
from aiperf_core.kernels import HostSource
from aiperf_core.tolerance import ELEMENT_FACTOR

Genes = dict[str, Any]
EPSILON = 1e-6
ROUNDS = 7  # of a measurement, the fastest of which counts

# tail: "left out" forgets the columns behind the last whole group of lanes.
# root: "estimate" is the inverse square root by bits and one step of Newton's method.
GENES: dict[str, tuple[Any, ...]] = {
    "lanes": (1, 4, 16, 64),
    "tail": ("computed", "left out"),
    "root": ("exact", "estimate"),
    "second_pass": ("own", "again"),
}
PLAIN: Genes = {"lanes": 1, "tail": "computed", "root": "exact", "second_pass": "own"}
# A single element; fewer columns than lanes; a tail behind whole groups; a tail of one.
AWKWARD = ((1, 1), (3, 31), (2, 257), (5, 1027))

CODE = Template("""\
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float inverse_root(float x) {
#if $estimate
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = 0x5f3759df - (bits >> 1);
  float root;
  memcpy(&root, &bits, 4);
  return root * (1.5f - 0.5f * x * root * root);
#else
  return 1 / sqrtf(x);
#endif
}

void fused(const float* restrict x, const float* restrict residual, const float* restrict weight,
           float* restrict stream, float* restrict out, int64_t rows, int64_t columns) {
  const int64_t whole = columns - columns % $lanes, end = $left_out ? whole : columns;
  for (int64_t row = 0; row < rows; ++row) {
    const float *a = x + row * columns, *b = residual + row * columns;
    float *s = stream + row * columns, *y = out + row * columns;
    float sums[$lanes] = {0};
    for (int64_t j = 0; j < whole; j += $lanes)
      for (int l = 0; l < $lanes; ++l) {
        s[j + l] = a[j + l] + b[j + l];
        sums[l] += s[j + l] * s[j + l];
      }
    for (int64_t j = whole; j < end; ++j) {
      s[j] = a[j] + b[j];
      sums[0] += s[j] * s[j];
    }
    float total = 0;
    for (int l = 0; l < $lanes; ++l) total += sums[l];
    const float scale = inverse_root(total / columns + $epsilon);
    for (int64_t j = 0; j < end; ++j) {
      const float value = ($again ? a[j] + b[j] : s[j]) * scale * weight[j];
      const float positive = 0.5f * (value + fabsf(value));  // a comparison would be a branch for each element
      y[j] = positive * positive;
    }
  }
}
""")


def text_of(genes: Genes) -> str:
    """The C code of a candidate."""
    return CODE.substitute(
        lanes=genes["lanes"],
        left_out=int(genes["tail"] == "left out"),
        estimate=int(genes["root"] == "estimate"),
        again=int(genes["second_pass"] == "again"),
        epsilon=f"{EPSILON}f",
    )


def compiled(genes: Genes) -> Callable[..., Any]:
    """The function of a candidate. Raises `SkipError` without a compiler."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.c"
        path.write_text(text_of(genes))
        function: Callable[..., Any] = HostSource(path).function("fused")
    return function


def right(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The operation as it is defined."""
    stream = x + residual
    scale = (stream.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
    return stream, (stream * scale * weight).clamp_min(0).square()


def drawn(rows: int, columns: int) -> list[torch.Tensor]:
    """Inputs of a verification or a measurement."""
    draw = torch.Generator().manual_seed(rows + columns)
    weight = torch.rand(columns, generator=draw) + 0.5
    return [*torch.randn(2, rows, columns, generator=draw), weight]


def call(function: Callable[..., Any], given: list[torch.Tensor], outs: list[torch.Tensor]) -> None:
    function(*given, *outs, *given[0].shape)


def is_verified(function: Callable[..., Any]) -> bool:
    """Whether a candidate is right by the rules of the judge: float64 reference, poisoned outputs, awkward sizes."""
    for shape in AWKWARD:
        given = drawn(*shape)
        outs = [torch.full(shape, torch.nan) for _ in range(2)]
        call(function, given, outs)
        for out, wanted in zip(outs, right(*(one.double() for one in given)), strict=True):
            error, size = out.double() - wanted, wanted.square().mean().sqrt()
            elements = (error.abs() <= ELEMENT_FACTOR * fp32.rel_l2 * (wanted.abs() + size)).all()
            if not (elements and error.norm() <= fp32.rel_l2 * wanted.norm()):
                return False
    return True


def seconds(function: Callable[..., Any], rows: int, columns: int) -> float:
    """The shortest time of some calls."""
    given, times = drawn(rows, columns), []
    outs = [torch.empty(rows, columns) for _ in range(2)]
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call(function, given, outs)
        times.append(time.perf_counter() - start)
    return min(times)


def search(rows: int, columns: int, trials: int, seed: int) -> tuple[Genes, list[tuple[Genes, float | None]]]:
    """The fastest verified candidate, and all that were tried with their times; None for those that were refused.

    Each trial changes one gene of the best so far, or two of them.
    """
    draw = random.Random(seed)
    best = PLAIN
    tried: list[tuple[Genes, float | None]] = [(PLAIN, seconds(compiled(PLAIN), rows, columns))]
    # Not every change is a new candidate, and the number of candidates is limited.
    for _ in range(20 * trials):
        if len(tried) > trials:
            break
        genes = dict(best)
        for name in draw.sample(sorted(GENES), draw.choice((1, 1, 2))):
            genes[name] = draw.choice(GENES[name])
        if any(genes == other for other, _ in tried):
            continue
        function = compiled(genes)
        took_s = seconds(function, rows, columns) if is_verified(function) else None
        fastest_s = min(known for _, known in tried if known is not None)
        tried.append((genes, took_s))
        if took_s is not None and took_s < fastest_s:
            best = genes
    return best, tried
