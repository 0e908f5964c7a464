"""Checks of a reference: nothing is judged by it before it passes them.

A reference that was written for another harness was never linted, and declares no tolerance. Its tolerance follows from
the dtypes of its output, and from its own error against float64 where that is larger: a fault of the reference must not
fall on a candidate.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from aiperf_core import pytree
from aiperf_core.errors import BenchmarkError
from aiperf_core.tolerance import Tolerance, bf16, fp32_reduction
from aiperf_core.validity.output_check import Comparison, compare_leaf

# Another implementation may be off by as much as the reference, in the other direction.
_MARGIN = 2.0
_HALF = (torch.float16, torch.bfloat16)
# A larger error of float32 lets half precision pass; one of half precision, anything. Rounding an output to float16
# costs 2e-4 of its norm.
_MOST = {fp32_reduction: 2e-4, bf16: 2e-2}


def differs(shape: pytree.Shape, answer: Any, right: Any, tolerance: Tolerance) -> Comparison:
    """The worst difference of two answers of one structure."""
    found = [compare_leaf(*one, tolerance) for one in _leaves(shape, answer, right)]
    return max(found, key=lambda one: one.worst, default=Comparison(0.0))


def base_tolerance(shape: pytree.Shape, answer: Any) -> Tolerance:
    """The tolerance of the dtypes of an answer: that of half precision if an output has it."""
    leaves = (leaf for _, node, leaf in pytree.pairs(shape, answer) if node["type"] == "tensor")
    return bf16 if any(leaf.dtype in _HALF for leaf in leaves) else fp32_reduction


def check_repeatable(shape: pytree.Shape, answer: Any, again: Any, fault: Callable[[str], BenchmarkError]) -> None:
    """Raise what `fault` makes where two calls with the same inputs have different answers."""
    found = differs(shape, again, answer, base_tolerance(shape, answer))
    if found.error:
        raise fault(
            f"two calls with the same inputs have different answers ({found.error}): the reference draws random "
            "numbers, or keeps something between calls. Give a reference whose answer follows from its inputs, such as "
            "one without dropout."
        )


def check_inputs_matter(shape: pytree.Shape, answer: Any, other: Any, fault: Callable[[str], BenchmarkError]) -> None:
    """Raise what `fault` makes where another draw has the same answer: an implementation could return a constant."""
    if differs(shape, other, answer, base_tolerance(shape, answer)).error is None:
        raise fault(
            "the reference gives the same answer for other inputs, or is given the same ones by every draw: code that "
            "computes nothing would pass. Judge against a reference whose inputs are drawn, and whose answer depends "
            "on them."
        )


def check_form(shape: pytree.Shape, answer: Any, reference: str, fault: Callable[[str], BenchmarkError]) -> None:
    """Raise what `fault` makes for an answer of another form than that of the first one, which `shape` describes."""
    try:
        found = form(pytree.describe(answer, pytree.Layout()))
    except TypeError:
        found = None
    if found != form(shape):
        raise fault(
            f"{reference} returned another structure or size for another seed; accepted are the same shapes for every "
            "seed (pad what varies)."
        )


def tolerance_of(
    shape: pytree.Shape, pairs: list[tuple[Any, Any]], fault: Callable[[str], BenchmarkError]
) -> Tolerance:
    """The tolerance of a reference from its answers for some draws, each in its own precision and in float64.

    Raises what `fault` makes where its own error would let a lower precision pass.
    """
    base = base_tolerance(shape, pairs[0][0])
    if any(_own_precision(shape, wide) for _, wide in pairs):
        reason = "the reference does not run in float64, so that both sides round"
        return Tolerance(_MARGIN * base.rel_l2, reason, name="reference")
    found = max((differs(shape, own, wide, base) for own, wide in pairs), key=lambda one: one.worst)
    own_error = found.worst * base.rel_l2
    if not math.isfinite(own_error) or _MARGIN * own_error > _MOST[base]:
        raise fault(
            f"its own answer is too far from that in float64 ({found.error}): a tolerance that accepts it accepts a "
            "lower precision too. Give a reference that is more accurate, or accept a tolerance with --tolerance."
        )
    if _MARGIN * own_error <= base.rel_l2:
        return base
    reason = f"twice the reference's own error against float64, {own_error:.2g}"
    return Tolerance(_MARGIN * own_error, reason, name="reference")


def _own_precision(shape: pytree.Shape, wide: Any) -> bool:
    """Whether an answer was computed in less than float64, although it was given float64."""
    leaves = (leaf for _, node, leaf in pytree.pairs(shape, wide) if node["type"] == "tensor")
    return any(leaf.is_floating_point() and leaf.dtype != torch.float64 for leaf in leaves)


def form(shape: pytree.Shape) -> Any:
    """The structure and sizes of a pytree, without dtypes (which float64 changes) and values of numbers."""
    items = shape.get("items", ())
    within = {key: form(one) for key, one in items.items()} if isinstance(items, dict) else [*map(form, items)]
    return shape["type"], shape.get("shape"), within


def _leaves(shape: pytree.Shape, answer: Any, right: Any) -> Iterator[tuple[str, pytree.Shape, Any, Any]]:
    for (path, node, one), (_, _, other) in zip(pytree.pairs(shape, answer), pytree.pairs(shape, right), strict=True):
        yield path, node, one, other
