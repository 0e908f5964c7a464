"""What passes for the reference's answer, and what does not."""

import math
import struct
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core import Tolerance, bf16, exact, fp32, fp32_reduction, tf32
from aiperf_core.validity import output_check
from aiperf_core.validity.output_check import compare_numbers, compare_tensors, quality

INF, NAN = math.inf, math.nan
DTYPES = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.complex64,
    torch.complex128,
    torch.int8,
    torch.int64,
    torch.uint8,
    torch.bool,
]


# The first example pays for what torch loads lazily.
unhurried = settings(deadline=None)
large = settings(deadline=None, max_examples=10)


def normal(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def from_bits(bits: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor([bits], dtype=torch.int32).view(dtype)


# --- bit-exact


@unhurried
@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 255), min_size=16, max_size=16))
def test_equal_bits_are_equal_whatever_they_mean(dtype: torch.dtype, values: list[int]) -> None:
    if dtype is torch.bool:
        values = [value % 2 for value in values]
    tensor = torch.tensor(values, dtype=torch.uint8).view(dtype)
    assert compare_tensors("", tensor, tensor.clone(), exact) == output_check.Comparison(0.0)


@unhurried
@given(st.integers(0, 31), st.integers(0, 2**31 - 1))
def test_every_bit_counts(bit: int, value: int) -> None:
    one, other = from_bits(value), from_bits((value ^ 1 << bit) - (1 << 32 if bit == 31 else 0))
    result = compare_tensors("", one, other, exact)
    assert result.worst == INF
    assert result.error is not None


@pytest.mark.parametrize(
    ("out", "reference", "message"),
    [
        (
            torch.tensor([1.0, -0.0, 2.0]),
            torch.tensor([1.0, 0.0, 2.0]),
            "the output: 1 of 3 elements differ; the first, at flat index 1, is -0.0 and should be 0.0",
        ),
        (
            from_bits(0x7FC00001),
            from_bits(0x7FC00000),
            "the output: 1 of 1 elements differ; the first, at flat index 0, is nan and should be nan",
        ),
        (
            torch.tensor([[1, 2], [5, 6]]).t(),
            torch.tensor([[1, 2], [3, 4]]).t(),
            "the output: 2 of 4 elements differ; the first, at flat index 1, is 5 and should be 3",
        ),
        (
            torch.tensor([True, True]),
            torch.tensor([True, False]),
            "the output: 1 of 2 elements differ; the first, at flat index 1, is True and should be False",
        ),
        (
            torch.tensor([1 + 1j, 2 + 2j, 3 - 3j], dtype=torch.complex128),
            torch.tensor([1 + 1j, 2 + 2j, 4 - 4j], dtype=torch.complex128),
            "the output: 1 of 3 elements differ; the first, at flat index 2, is (3-3j) and should be (4-4j)",
        ),
        (
            torch.ones(3000),
            torch.zeros(3000),
            "the output: 3,000 of 3,000 elements differ; the first, at flat index 0, is 1.0 and should be 0.0",
        ),
    ],
)
def test_what_differs_is_shown(out: torch.Tensor, reference: torch.Tensor, message: str) -> None:
    assert compare_tensors("", out, reference, exact) == output_check.Comparison(INF, message)


def test_the_path_of_what_differs_is_shown() -> None:
    message = "a[1]: 1 of 1 elements differ; the first, at flat index 0, is 1 and should be 2"
    assert compare_tensors("a[1]", torch.tensor(1), torch.tensor(2), exact).error == message


def test_lazily_conjugated_and_negated_references_are_compared_by_their_values() -> None:
    values = normal(5, dtype=torch.complex64)
    assert compare_tensors("", values.conj().resolve_conj(), values.conj(), exact).error is None
    assert compare_tensors("", -values.imag, values.conj().imag, exact).error is None
    assert compare_tensors("", values, values.conj(), exact).error is not None


@pytest.mark.parametrize("tolerance", [fp32, bf16])
def test_integers_and_booleans_must_agree_whatever_the_tolerance(tolerance: Tolerance) -> None:
    wanted = torch.arange(1_000_000)
    found = wanted.clone()
    assert compare_tensors("", found, wanted, tolerance).error is None
    found[999_999] += 1
    assert compare_tensors("tokens", found, wanted, tolerance).error == (
        "tokens: 1 of 1,000,000 elements differ; the first, at flat index 999,999, is 1000000 and should be 999999"
    )
    assert compare_tensors("", torch.tensor([True]), torch.tensor([False]), tolerance).worst == INF


@pytest.mark.parametrize("tolerance", [exact, fp32])
@pytest.mark.parametrize("sizes", [(0,), (3, 0, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64])
def test_nothing_equals_nothing(tolerance: Tolerance, sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    empty = torch.empty(sizes, dtype=dtype)
    assert compare_tensors("", empty, empty.clone(), tolerance) == output_check.Comparison(0.0)


# --- within a tolerance


def product() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two float32 matrices and their product in float64."""
    left, right = normal(65, 512), normal(512, 67, seed=1)
    return left, right, left.double() @ right.double()


def test_an_honest_product_passes() -> None:
    left, right, wanted = product()
    result = compare_tensors("", left @ right, wanted, fp32)
    assert result.error is None
    assert 0.0 < result.worst < 1.0


@pytest.mark.parametrize("parts", [1, 2, 7, 64, 512])
def test_honest_reorderings_of_the_sums_pass(parts: int) -> None:
    left, right, wanted = product()
    order = torch.randperm(512, generator=torch.Generator().manual_seed(2))
    out = torch.zeros(65, 67)
    for piece in order.tensor_split(parts):
        out += left[:, piece] @ right[piece]
    assert compare_tensors("", out, wanted, fp32).error is None


@large
@given(st.integers(2, 100_000), st.integers(0, 1000))
def test_honest_reductions_pass_in_any_order(count: int, seed: int) -> None:
    values = normal(4, count, seed=seed)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    assert (
        compare_tensors("", values[:, order].abs().sum(1), values.double().abs().sum(1), fp32_reduction).error is None
    )


def truncated(wanted: torch.Tensor) -> torch.Tensor:
    """The low 13 bits of each mantissa cut off."""
    return (wanted.float().view(torch.int32) & -0x2000).view(torch.float32)


@pytest.mark.parametrize(
    "cheat",
    [
        pytest.param(torch.zeros_like, id="zeros"),
        pytest.param(torch.ones_like, id="ones"),
        pytest.param(lambda wanted: torch.full_like(wanted, wanted.mean()), id="its mean"),
        pytest.param(lambda wanted: torch.full_like(wanted, NAN), id="NaN"),
        pytest.param(truncated, id="truncated"),
        pytest.param(lambda wanted: wanted.bfloat16(), id="rounded to bfloat16"),
        pytest.param(lambda wanted: wanted.half(), id="rounded to float16"),
        pytest.param(lambda wanted: wanted.roll(1, 0), id="rows moved by one"),
        pytest.param(torch.abs, id="without signs"),
        pytest.param(lambda wanted: wanted * (1 + 3e-6), id="scaled"),
        pytest.param(lambda wanted: wanted + 3e-6 * wanted.std(), id="moved"),
    ],
)
def test_what_is_not_the_product_fails(cheat: Callable[[torch.Tensor], torch.Tensor]) -> None:
    wanted = product()[2]
    result = compare_tensors("", cheat(wanted).float(), wanted, fp32)
    assert result.error is not None
    assert result.worst > 1.0


def test_a_sum_over_fewer_terms_fails() -> None:
    left, right, wanted = product()
    assert compare_tensors("", left[:, :-1] @ right[:-1], wanted, fp32).error is not None


def test_products_of_rounded_operands_pass_only_where_that_was_declared() -> None:
    left, right, wanted = product()
    out = (left.bfloat16().float() @ right.bfloat16().float()).bfloat16().float()
    assert compare_tensors("", out, wanted, tf32).error is not None
    rounded = left.bfloat16().double() @ right.bfloat16().double()
    assert compare_tensors("", out, rounded, bf16).error is None


@large
@given(st.integers(0, 1_999_999), st.sampled_from([0.0, -1.0, 1.5]))
def test_one_wrong_element_among_millions_is_found(index: int, factor: float) -> None:
    out = MILLIONS.clone()
    # Of a size that is not rare, or else nothing may be wrong with zero in its place.
    index = int(BIG[index % len(BIG)])
    out[index] *= factor
    result = compare_tensors("", out, MILLIONS, fp32_reduction)
    assert result.error is not None
    assert result.worst > 1.0


MILLIONS = normal(2_000_000)
BIG = (MILLIONS.abs() > 0.1).nonzero().reshape(-1)


def test_the_element_rule_finds_what_the_norm_misses() -> None:
    out = MILLIONS.clone()
    out[1_234_567] = MILLIONS[1_234_567] + 0.001
    norm = float((out.double() - MILLIONS.double()).norm() / MILLIONS.double().norm())
    assert norm < fp32.rel_l2
    error = compare_tensors("", out, MILLIONS, fp32).error
    assert error is not None
    assert error.startswith(f"the output: relative L2 error {norm:.3g}, largest element error ")
    assert error.endswith(" of its scale; allowed are 1e-06 and 1e-05")


def test_the_norm_finds_what_the_element_rule_misses() -> None:
    out = MILLIONS.double() * (1 + 2e-6)
    result = compare_tensors("", out, MILLIONS, fp32)
    assert result.worst == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(("factor", "passes"), [(0.99, True), (1.01, False)])
def test_the_limit_is_where_the_tolerance_says(factor: float, passes: bool) -> None:
    wanted = torch.ones(1000, dtype=torch.float64)
    result = compare_tensors("", wanted * (1 + factor * 1e-6), wanted, fp32)
    assert result.worst == pytest.approx(factor, rel=1e-6)
    assert (result.error is None) is passes


def test_pieces_are_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(output_check._PIECE, "cpu", 7)
    wanted = normal(5, 5)
    for index in range(25):
        out = wanted.clone()
        out.view(-1)[index] += 0.1
        assert compare_tensors("", out, wanted, fp32).error is not None
    assert compare_tensors("", wanted.t().contiguous().t(), wanted, fp32) == output_check.Comparison(0.0)


@pytest.mark.parametrize(
    ("out", "wanted", "count"),
    [
        ([1.0, NAN, 3.0], [1.0, 2.0, 3.0], 1),
        ([INF, 2.0, INF], [1.0, 2.0, 3.0], 2),
        ([1.0, 2.0, 3.0], [1.0, NAN, INF], 2),
        ([INF, 2.0, 3.0], [-INF, 2.0, 3.0], 1),
        ([NAN, 2.0, 3.0], [INF, 2.0, 3.0], 1),
        ([INF, 2.0, 3.0], [NAN, 2.0, 3.0], 1),
    ],
)
def test_what_is_not_finite_must_agree(out: list[float], wanted: list[float], count: int) -> None:
    found = compare_tensors("x", torch.tensor(out), torch.tensor(wanted), bf16)
    assert found == output_check.Comparison(
        INF, f"x: {count} of 3 elements are NaN or infinite where the reference is not, or the reverse"
    )


def test_what_is_not_finite_in_both_is_left_out() -> None:
    wanted = torch.tensor([INF, -INF, NAN, 1.0, 2.0])
    assert compare_tensors("", wanted.clone(), wanted, fp32) == output_check.Comparison(0.0)
    out = torch.tensor([INF, -INF, NAN, 1.0, 2.1])
    error = compare_tensors("", out, wanted, fp32).error
    assert error is not None
    assert error.startswith("the output: relative L2 error 0.0447, ")


def test_overflow_in_the_output_is_no_rounding() -> None:
    wanted = torch.tensor([1e5, 1.0], dtype=torch.float64)
    assert compare_tensors("", wanted.half(), wanted, bf16).worst == INF


def test_a_reference_of_zeros_has_no_scale() -> None:
    zeros = torch.zeros(4)
    assert compare_tensors("", -zeros, zeros, fp32) == output_check.Comparison(0.0)
    message = "the output is not zero where the reference is zero everywhere"
    assert compare_tensors("", zeros + 1e-30, zeros, bf16) == output_check.Comparison(INF, message)


def test_values_whose_squares_vanish_are_not_taken_for_equal() -> None:
    tiny = torch.full((4,), 1e-170, dtype=torch.float64)
    assert compare_tensors("", tiny.clone(), tiny, fp32).error is None
    assert compare_tensors("", torch.zeros_like(tiny), tiny, fp32).error is not None


def test_values_whose_squares_overflow_do_not_pass() -> None:
    huge = torch.full((4,), 1e200, dtype=torch.float64)
    assert compare_tensors("", huge.clone(), huge, fp32).error is None
    assert compare_tensors("", -huge, huge, fp32).error is not None


def test_complex_values_are_compared_in_both_parts() -> None:
    wanted = normal(100, dtype=torch.complex128)
    assert compare_tensors("", wanted.to(torch.complex64), wanted, fp32).error is None
    assert compare_tensors("", wanted.conj().resolve_conj(), wanted, fp32).error is not None
    out = wanted.clone()
    out.imag[7] = NAN
    assert compare_tensors("", out, wanted, fp32).worst == INF


# --- numbers


@pytest.mark.parametrize(
    ("out", "wanted", "tolerance", "error"),
    [
        (1.0, 1.0, exact, None),
        (1, 1.0, exact, None),
        (1.0000001, 1.0, fp32, None),
        (NAN, NAN, fp32, None),
        (INF, INF, fp32, None),
        (True, True, fp32, None),
        (3.0, 3, bf16, None),
        (-0.0, 0.0, exact, "x: 1 of 1 elements differ; the first, at flat index 0, is -0.0 and should be 0.0"),
        (2**60 + 1, 2**60, bf16, f"x is {2**60 + 1} and should be {2**60}"),
        (2**60 + 1, 2**60, exact, f"x is {2**60 + 1} and should be {2**60}"),
        (10_000_001, 10_000_000, fp32, "x is 10000001 and should be 10000000"),
        (NAN, 3, fp32, "x is nan and should be 3"),
        (False, True, fp32, "x is False and should be True"),
        (NAN, 1.0, fp32, "x: 1 of 1 elements are NaN or infinite where the reference is not, or the reverse"),
        (10**400, 1.0, fp32, "x: 1 of 1 elements are NaN or infinite where the reference is not, or the reverse"),
        (
            1.1,
            1.0,
            fp32,
            "x: relative L2 error 0.1, largest element error 0.05 of its scale; allowed are 1e-06 and 1e-05",
        ),
    ],
)
def test_numbers(out: float, wanted: float, tolerance: Tolerance, error: str | None) -> None:
    assert compare_numbers("x", out, wanted, tolerance).error == error


@unhurried
@given(st.floats(allow_nan=True))
def test_a_number_equals_itself(value: float) -> None:
    for tolerance in (exact, fp32):
        assert compare_numbers("", value, struct.unpack("d", struct.pack("d", value))[0], tolerance).error is None


# --- quality


METRICS = ("rel_l2", "max_abs_error", "one_minus_cosine")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("answer", [normal(7), torch.zeros(7), torch.zeros(0), torch.arange(5)])
def test_a_perfect_answer_has_quality_zero(metric: str, answer: torch.Tensor) -> None:
    assert quality(metric, answer.clone(), answer) == 0.0


def test_what_the_metrics_measure() -> None:
    out, wanted = torch.tensor([3.0, 0.0]), torch.tensor([3.0, 4.0])
    assert quality("rel_l2", out, wanted) == pytest.approx(0.8)
    assert quality("max_abs_error", out, wanted) == pytest.approx(4.0)
    assert quality("one_minus_cosine", out, wanted) == pytest.approx(1 - 9 / 15)
    assert quality("one_minus_cosine", -wanted, wanted) == pytest.approx(2.0)


@pytest.mark.parametrize("metric", METRICS)
def test_nan_has_no_quality(metric: str) -> None:
    assert math.isnan(quality(metric, torch.tensor([NAN, 1.0]), torch.ones(2)))


@pytest.mark.parametrize(("value", "worst", "is_wrong"), [(0.0, 0.0, False), (1e-9, None, True)])
def test_a_budget_of_zero_accepts_zero_alone(value: float, worst: float | None, is_wrong: bool) -> None:
    compared = output_check.compare_quality("lost", value, 0)
    assert compared["worst"] == worst
    assert (compared["error"] is not None) is is_wrong
