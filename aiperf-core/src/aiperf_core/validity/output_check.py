"""Comparing an output with the reference in float64, piece by piece, so that large outputs need little memory."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from attrs import frozen

from aiperf_core.pytree import Shape, pairs, rebuild
from aiperf_core.tolerance import ELEMENT_FACTOR, Tolerance

# Elements of an output that the terms of a sum can make small as a whole, by cancelling; with more, some stay large.
_FEW = 64
# The most that ill-conditioned inputs widen a tolerance by; a lower precision is off by more.
_MOST_WIDENED = 32.0
# On the host, a piece and what is computed from it stay in the L2 cache.
_PIECE = {"cpu": 1 << 15, "cuda": 1 << 26}


@frozen
class Comparison:
    """The result of a comparison.

    worst: the error as a fraction of the tolerance; 1.0 is its limit.
    error: what is beyond the tolerance; None where nothing is.
    """

    worst: float
    error: str | None = None


def compare_leaf(path: str, node: Shape, found: Any, right: Any, tolerance: Tolerance) -> Comparison:
    """Compare a leaf of an output with that of the reference. Leaves other than tensors and numbers have no error."""
    compare: Any = {"tensor": compare_tensors, "number": compare_numbers}.get(node["type"])
    comparison: Comparison = compare(path, found, right, tolerance) if compare else Comparison(0.0)
    return comparison


def compare_tensors(path: str, out: torch.Tensor, reference: torch.Tensor, tolerance: Tolerance) -> Comparison:
    """Compare tensors of equal shape. Integers and booleans must agree exactly at any tolerance."""
    if tolerance.is_exact or not (out.is_floating_point() or out.is_complex()):
        return _compare_bits(path, out, reference.to(out.dtype))
    with _one_thread():
        return _compare_values(path or "the output", out, reference, tolerance)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Pieces are too short for several threads, which also wait for each other where other work runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _compare_values(name: str, out: torch.Tensor, reference: torch.Tensor, tolerance: Tolerance) -> Comparison:
    error_squares = reference_squares = 0.0
    for one, right in _pieces(out, reference):
        error, size = _squares(one - right), _squares(right)
        if not math.isfinite(error + size):
            if bool(_not_finite_alike(one, right).any()):
                return Comparison(math.inf, f"{name}: {_told_not_finite(out, reference)}")
            finite = right.isfinite()
            error, size = (_squares(torch.where(finite, part, 0)) for part in (one - right, right))
        error_squares, reference_squares = error_squares + error, reference_squares + size
    if error_squares == 0.0 and not any(_differ(*piece) for piece in _pieces(out, reference)):
        return Comparison(0.0)
    if reference_squares == 0.0:
        return Comparison(math.inf, f"{name} is not zero where the reference is zero everywhere")
    rms = math.sqrt(reference_squares / reference.numel())
    relative = math.sqrt(error_squares / reference_squares)
    element = max(_worst_element(one, right, rms) for one, right in _pieces(out, reference))
    worst = max(relative / tolerance.rel_l2, element / (ELEMENT_FACTOR * tolerance.rel_l2))
    if worst <= 1.0:
        return Comparison(worst)
    return Comparison(
        worst,
        f"{name}: relative L2 error {relative:.3g}, largest element error {element:.3g} of its scale; "
        f"allowed are {tolerance.rel_l2:g} and {ELEMENT_FACTOR * tolerance.rel_l2:g}",
    )


def compare_numbers(path: str, out: float, reference: float, tolerance: Tolerance) -> Comparison:
    """Compare two numbers. Where the reference is an integer or a boolean, they must agree exactly."""
    if isinstance(reference, int):
        # Not in float64, which rounds large integers.
        error = None if out == reference else f"{path or 'the output'} is {out!r} and should be {reference!r}"
        return Comparison(math.inf if error else 0.0, error)
    try:
        one = torch.tensor([float(out)], dtype=torch.float64)
    except OverflowError:  # an integer beyond float64
        one = torch.tensor([math.inf], dtype=torch.float64)
    return compare_tensors(path, one, torch.tensor([reference], dtype=torch.float64), tolerance)


def _not_finite_alike(out: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Where one of the two is NaN or infinite and the other differs."""
    alike = (out == reference) | (out.isfinite() & reference.isfinite()) | (out.isnan() & reference.isnan())
    return ~alike


def _told_not_finite(out: torch.Tensor, reference: torch.Tensor) -> str:
    count = sum(int(_not_finite_alike(*piece).sum()) for piece in _pieces(out, reference))
    return f"{count:,} of {out.numel():,} elements are NaN or infinite where the reference is not, or the reverse"


def _squares(values: torch.Tensor) -> float:
    """The sum of the squares of a vector's elements."""
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj().resolve_neg()).reshape(-1)
    return float(torch.dot(values, values))


def _differ(out: torch.Tensor, reference: torch.Tensor) -> bool:
    """Whether elements differ where the reference is finite."""
    return bool((reference.isfinite() & (out != reference)).any())


def _worst_element(out: torch.Tensor, reference: torch.Tensor, rms: float) -> float:
    """The largest difference where the reference is finite, in units of the element's scale."""
    ratio = (out - reference).abs().div_(reference.abs().add_(rms))
    worst = float(ratio.max())
    return worst if math.isfinite(worst) else float(torch.where(reference.isfinite(), ratio, 0).max())


def _compare_bits(path: str, out: torch.Tensor, reference: torch.Tensor) -> Comparison:
    if not out.numel():
        return Comparison(0.0)
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}
    bits = integers[out.element_size()]
    one, right = (
        tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(bits) for tensor in (out, reference)
    )
    if torch.equal(one, right):
        return Comparison(0.0)
    # A complex128 has two words.
    unlike = (one != right).view(out.numel(), -1).any(dim=1).nonzero()
    place = int(unlike[0])
    found, wanted = out.reshape(-1)[place].item(), reference.reshape(-1)[place].item()
    return Comparison(
        math.inf,
        f"{path or 'the output'}: {len(unlike):,} of {out.numel():,} elements differ; the first, at flat index "
        f"{place:,}, is {found!r} and should be {wanted!r}",
    )


def _pieces(out: torch.Tensor, reference: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    step = _PIECE.get(out.device.type, 1 << 20)
    wide = torch.complex128 if out.is_complex() or reference.is_complex() else torch.float64
    flat, right = out.reshape(-1), reference.reshape(-1)
    for start in range(0, flat.numel(), step):
        yield flat[start : start + step].to(wide), right[start : start + step].to(wide)


def quality(metric: str, out: torch.Tensor, reference: torch.Tensor) -> float:
    """A built-in quality metric of two tensors; zero for a perfect answer."""
    one, right = out.double().reshape(-1), reference.double().reshape(-1)
    if torch.equal(one, right):  # also for zero vectors, which have no direction, and for empty tensors
        return 0.0
    if metric == "max_abs_error":
        return float((one - right).abs().max())
    if metric == "rel_l2":
        return float((one - right).norm() / right.norm())
    return float(1 - torch.nn.functional.cosine_similarity(one, right, dim=0))


@frozen
class Output:
    """An output of another process.

    shape: describes it.
    tensor: returns the tensor of a node, in shared memory.
    numbers: what the process reports for the numbers of the output, by path.
    """

    shape: Shape
    tensor: Callable[[Shape], torch.Tensor]
    numbers: Any

    def leaves(self, answer: Any) -> Iterator[tuple[str, Shape, Any, Any]]:
        """Path and node of each leaf, what was found, and what is right."""
        for path, node, right in pairs(self.shape, answer):
            is_tensor = node["type"] == "tensor"
            yield path, node, self.tensor(node).to(right.device) if is_tensor else self._number(path), right

    def build(self, answer: Any) -> Any:
        """The output as a pytree."""
        shape = copy.deepcopy(self.shape)
        for path, node, _ in pairs(shape, answer):
            if node["type"] == "number":
                node["value"] = self._number(path)
        return rebuild(shape, self.tensor)

    def _number(self, path: str) -> float:
        """The number that is reported at a path; NaN where it is missing or no number."""
        number = self.numbers.get(path) if isinstance(self.numbers, dict) else None
        return number if isinstance(number, int | float) else math.nan


def compare_output(
    output: Output, answer: Any, tolerance: Tolerance, nudged: Callable[[], list[Any]]
) -> dict[str, Any]:
    """The worst error of an output as a fraction of the tolerance, if it is finite, and the first beyond it.

    nudged: returns the right answers for inputs that are changed by about the tolerance. A leaf of few elements may be
        as far from the right answer as they are, up to a limit: where the terms of a sum cancel, rounding alone makes
        an error that is large beside the sum (the backward error of Wilkinson, 1963, is small all the same).
    """
    leaves = list(output.leaves(answer))
    results = [compare_leaf(*leaf, tolerance) for leaf in leaves]
    doubtful = [place for place, result in enumerate(results) if result.error and _may_cancel(result, leaves[place][3])]
    if doubtful:
        changed = [[right for _, _, right in pairs(output.shape, other)] for other in nudged()]
        for place in doubtful:
            results[place] = _conditioned(results[place], leaves[place], [rights[place] for rights in changed])
    worst = max((one.worst for one in results), default=0.0)
    error = next((one.error for one in results if one.error), None)
    return {"worst": worst if math.isfinite(worst) else None, "error": error, "quality": None}


def _may_cancel(result: Comparison, right: Any) -> bool:
    """Whether terms that cancel may explain an error."""
    count = right.numel() if isinstance(right, torch.Tensor) else 1
    return math.isfinite(result.worst) and 0 < count <= _FEW


def _conditioned(result: Comparison, leaf: tuple[str, Shape, Any, Any], nudged: list[Any]) -> Comparison:
    """The comparison of a leaf that is beyond the tolerance, with the tolerance that its inputs allow."""
    out, right, *others = (_vector(value) for value in (*leaf[2:], *nudged))
    error = float((out - right).norm())
    change = max(float((other - right).norm()) for other in others)
    allowed = min(change, _MOST_WIDENED * error / result.worst)
    return Comparison(error / allowed) if error <= allowed else result


def _vector(value: Any) -> torch.Tensor:
    """A tensor or a number as a vector in its widest dtype."""
    if not isinstance(value, torch.Tensor):
        return torch.tensor([float(value)], dtype=torch.float64)
    return value.reshape(-1).to(torch.complex128 if value.is_complex() else torch.float64)


def worst_quality(metric: str, output: Output, answer: Any) -> float:
    """A built-in quality metric of the worst tensor of an output."""
    leaves = output.leaves(answer)
    values = [quality(metric, found, right) for _, node, found, right in leaves if node["type"] == "tensor"]
    # Python's max drops a NaN that does not come first.
    return max(values, default=0.0) if all(map(math.isfinite, values)) else math.nan


def compare_quality(metric: str, value: float, budget: float) -> dict[str, Any]:
    """The quality of an output of a lossy variant, also as a fraction of its budget, as from `compare_output`."""
    error = None if value <= budget else f"{metric} is {value:.4g}; its budget is {budget:g}"
    finite = math.isfinite(value)
    # Of a budget of 0, nothing is a part but 0.
    share = value / budget if budget else 0.0 if value == 0 else math.inf
    return {
        "worst": share if math.isfinite(share) else None,
        "error": error,
        "quality": value if finite else None,
    }
