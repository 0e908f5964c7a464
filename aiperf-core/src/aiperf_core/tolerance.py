"""Tolerances: the allowed error of an output against the reference.

The reference is computed in float64 (except under `exact`), so that a tolerance is an error budget for the
implementation alone. Two conditions must hold, and no element may be NaN or infinite where the reference is finite:

- the whole output: `||out - ref|| / ||ref|| <= rel_l2`;
- each element: `|out - ref| <= ELEMENT_FACTOR * rel_l2 * (|ref| + rms(ref))`, because a norm hides a wrong element
  among millions. Rounding errors are nearly normal: no element of a tensor in memory reaches ten times their allowed
  root mean square.

An output of few elements may also be as far from the reference as inputs that are changed by `rel_l2` move it, at most
32 times the tolerance: terms that cancel leave a small sum, beside which rounding alone is large.
"""

from attrs import field, frozen

from aiperf_core.errors import BenchmarkError

ELEMENT_FACTOR = 10.0


@frozen
class Tolerance:
    """An error budget. The named tolerances of this module cover the usual cases.

    rel_l2: the largest relative L2 error, from 0 up to 1; 0 demands bit equality.
    reason: why this budget is right.
    name: shown in results.

    Raises `BenchmarkError` for a budget out of range or without a reason.
    """

    rel_l2: float
    reason: str = ""
    name: str = field(default="custom", kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.rel_l2 < 1:
            raise BenchmarkError(f"a tolerance of {self.rel_l2!r} was requested; accepted is a number from 0 up to 1")
        if not self.reason.strip():
            known = ", ".join(TOLERANCES)
            raise BenchmarkError(
                f"Tolerance({self.rel_l2!r}) has no reason; say why in reason='...', or take one of: {known}"
            )

    @property
    def is_exact(self) -> bool:
        """Whether every bit must agree."""
        return self.rel_l2 == 0

    def __str__(self) -> str:
        return "bit-exact" if self.is_exact else f"{self.name} (relative L2 error at most {self.rel_l2:g})"


TOLERANCES: dict[str, Tolerance] = {}


def _named(name: str, rel_l2: float, reason: str) -> Tolerance:
    TOLERANCES[name] = Tolerance(rel_l2, reason, name=name)
    return TOLERANCES[name]


exact = _named("exact", 0.0, "the same operations on the same values, or integers")
fp32 = _named("fp32", 1e-6, "float32 arithmetic, sums of up to some thousand terms")
fp32_reduction = _named("fp32_reduction", 1e-5, "float32 sums of many thousand terms in any order")
tf32 = _named("tf32", 1e-3, "operands rounded to 10 bits of mantissa, float32 sums")
bf16 = _named("bf16", 5e-3, "bfloat16 or float16 operands, float32 sums, result rounded once")
fp8 = _named("fp8", 5e-3, "against float64 on the dequantised operands; quantisation error is reported apart")
