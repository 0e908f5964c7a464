"""Wrong answers that a judge must refuse: what lazy, stale, truncated or coarser code would return."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from attrs import frozen

# The cheaper and coarser formats of each precision that a cost may declare, with their significant bits.
_HALF, _BF16, _FP8, _FP4 = ("tf32 or fp16", 11), ("bf16", 8), ("fp8", 4), ("fp4", 2)
_COARSER = {
    "fp64": (("fp32", 24), _HALF, _BF16, _FP8),
    "fp32": (_HALF, _BF16, _FP8),
    "tf32": (_BF16, _FP8),
    "fp16": (_FP8,),
    "bf16": (_FP8,),
    "fp8": (_FP4,),
    "int8": (_FP4,),
}


@frozen
class Leaf:
    """A leaf of the output for one draw, as tensors.

    The right answer, the one for other values, the inputs that look like it, and the formats that must not pass for it.
    """

    right: torch.Tensor
    stale: torch.Tensor
    inputs: list[tuple[str, torch.Tensor]]
    coarser: list[tuple[str, int]]


Answers = Iterator[tuple[str, torch.Tensor]]


def _zeros(leaf: Leaf) -> Answers:
    yield "zeros", torch.zeros_like(leaf.right)


def _constant(leaf: Leaf) -> Answers:
    if leaf.right.numel() > 1:
        mean = leaf.right.to(wide(leaf.right)).mean().item()
        yield "its mean everywhere", torch.full_like(leaf.right, mean if rounds(leaf.right) else round(mean))


def _input(leaf: Leaf) -> Answers:
    for path, value in leaf.inputs:
        yield f"the input {path!r} as it was", value


def _stale(leaf: Leaf) -> Answers:
    yield "the answer for other values", leaf.stale


def _unfinished(leaf: Leaf) -> Answers:
    if leaf.right.numel() > 1:
        half = leaf.right.numel() // 2
        flat = torch.cat([leaf.right.reshape(-1)[:half], leaf.stale.reshape(-1)[half:]])
        yield "the last half of the answer for other values", flat.view_as(leaf.right)


def _rounded(leaf: Leaf) -> Answers:
    for name, bits in leaf.coarser:
        yield f"the answer rounded to {name}", round_to(leaf.right, bits)


def _nan(leaf: Leaf) -> Answers:
    if rounds(leaf.right):
        yield "NaN everywhere", torch.full_like(leaf.right, math.nan)
        yield "NaN as the last element", _with_last(leaf.right, torch.full_like(leaf.right, math.nan))


def _infinite(leaf: Leaf) -> Answers:
    if rounds(leaf.right):
        yield "infinity everywhere", torch.full_like(leaf.right, math.inf)
        yield "infinity as the last element", _with_last(leaf.right, torch.full_like(leaf.right, math.inf))


def _last(leaf: Leaf) -> Answers:
    """The last element is off by its own scale, which no rounding explains; an integer by one."""
    value = leaf.right.to(wide(leaf.right))
    scale = value.abs() + (value.abs().square().mean().sqrt() or 1.0)
    off = value + scale if rounds(leaf.right) else leaf.right.long() ^ 1
    yield "a wrong last element", _with_last(leaf.right, off.to(leaf.right.dtype))


def _sign(leaf: Leaf) -> Answers:
    if rounds(leaf.right):
        yield "the answer with its sign flipped", (-leaf.right.to(wide(leaf.right))).to(leaf.right.dtype)
    else:
        flipped = leaf.right.logical_not() if leaf.right.dtype == torch.bool else ~leaf.right.long()
        yield "the answer with its bits flipped", flipped.to(leaf.right.dtype)


@frozen
class Wrong:
    """A kind of wrong answer. `needs` is why an output may have none; without `make` the whole output is wrong."""

    test: str
    remedy: str
    needs: str
    make: Callable[[Leaf], Answers] = lambda _: iter(())


_TELLING = "Return only what depends on the drawn values."
FINITE = "Draw inputs for which the reference is finite: where it is not, any NaN or infinity passes."
_PRECISE = (
    "Take a tighter tolerance, draw values that use all their bits and have both signs (torch.randn), or declare that "
    "precision in the cost."
)
_TOO_LOW = "the declared precision is that of the dtypes"
WRONG = (
    Wrong("judge.zeros", _TELLING, "", _zeros),
    Wrong("judge.constant", _TELLING, "the output has one element", _constant),
    Wrong(
        "judge.input",
        "Let the answer differ from every input: scale it, or add something to it.",
        "no input has the shape and dtype of the output",
        _input,
    ),
    Wrong("judge.stale", _TELLING, "", _stale),
    Wrong("judge.unfinished", _TELLING, "the output has one element", _unfinished),
    Wrong("judge.rounded", _PRECISE, _TOO_LOW, _rounded),
    Wrong("judge.rounded_inputs", _PRECISE, f"{_TOO_LOW}, or the reference takes no such inputs"),
    Wrong(
        "judge.skipped_work",
        "Draw values of which every part matters, or let the cost declare that fewer bytes are read.",
        "the cost declares that a part of the inputs is enough, or the reference takes no others",
    ),
    Wrong("judge.nan", FINITE, "integers and booleans have no NaN", _nan),
    Wrong("judge.infinite", FINITE, "integers and booleans have no infinity", _infinite),
    Wrong("judge.last_element", "Take a tighter tolerance.", "", _last),
    Wrong("judge.sign", _TELLING, "", _sign),
)
GROSS = (_zeros, _constant, _stale, _sign)


def round_to(value: torch.Tensor, bits: int) -> torch.Tensor:
    """Round to the given number of significant bits, to nearest and ties to even, in the dtype that it has."""
    if value.is_complex():
        return torch.view_as_complex(round_to(torch.view_as_real(value), bits))
    mantissa, exponent = torch.frexp(value.double())
    return (torch.round(mantissa * 2.0**bits) / 2.0**bits * torch.exp2(exponent.double())).to(value.dtype)


def _with_last(right: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The right answer with the last element of another."""
    flat = right.reshape(-1).clone()
    flat[-1] = other.reshape(-1)[-1]
    return flat.view_as(right)


def rounds(value: torch.Tensor) -> bool:
    """Whether its dtype rounds: floating-point and complex ones do."""
    return value.is_floating_point() or value.is_complex()


def wide(value: torch.Tensor) -> torch.dtype:
    """The widest dtype of its kind."""
    return torch.complex128 if value.is_complex() else torch.float64


def significant_bits(dtype: torch.dtype) -> int:
    """Significant bits of a floating-point format."""
    return 1 - round(math.log2(torch.finfo(dtype).eps))


def coarsened(one: torch.Tensor, bits: int) -> torch.Tensor:
    """An input rounded to the given number of significant bits; one whose dtype does not round as it is."""
    return round_to(one, bits) if rounds(one) else one


def half_zeroed(one: torch.Tensor, chosen: torch.Tensor, dim: int) -> torch.Tensor:
    """An input, of the chosen one with zeros for the last half along a dimension."""
    if one is not chosen:
        return one
    zeroed, half = one.clone(), one.shape[dim] // 2
    zeroed.narrow(dim, half, one.shape[dim] - half).zero_()
    return zeroed


def poisoned(one: torch.Tensor, chosen: torch.Tensor, place: int) -> torch.Tensor:
    """An input, of the chosen one with a NaN at a flat index."""
    if one is not chosen:
        return one
    flat = one.reshape(-1).clone()
    flat[place] = math.nan
    return flat.view_as(one)


def is_finite(leaf: Any) -> bool:
    """Whether a leaf of an answer has neither NaN nor infinity."""
    if isinstance(leaf, torch.Tensor):
        return bool(leaf.to(wide(leaf)).isfinite().all())
    return leaf is None or math.isfinite(leaf)


def coarser(precision: str, bits: int) -> list[tuple[str, int]]:
    """The formats that must not pass for a declared precision and have fewer than `bits` significant bits."""
    return [one for one in _COARSER[precision] if one[1] < bits]
