import ctypes

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.errors import KernelError
from aiperf_core.kernels.arguments import Arguments
from aiperf_core.kernels.parameters import Signature, parameter_of


def arguments(*parameters: str, device: str = "cpu") -> Arguments:
    signature = Signature("f", tuple(map(parameter_of, parameters)))
    return Arguments(signature, "kernel 'f' in x.cu", device)


@pytest.mark.parametrize(
    ("given_", "takes"),
    [
        ([], "takes 2 arguments (float* a, int n); got 0"),
        ([None], "takes 2 arguments (float* a, int n); got 1"),
        ([None, 1, 2], "takes 2 arguments (float* a, int n); got 3"),
    ],
)
def test_a_wrong_count_shows_the_parameters(given_: list[object], takes: str) -> None:
    with pytest.raises(KernelError) as error:
        arguments("float* a", "int n").convert(given_)
    assert str(error.value) == f"kernel 'f' in x.cu {takes}"


def test_one_argument_is_singular() -> None:
    with pytest.raises(KernelError) as error:
        arguments("int n").convert([])
    assert str(error.value) == "kernel 'f' in x.cu takes 1 argument (int n); got 0"


REFUSED = [
    ("float* a", torch.zeros(3, dtype=torch.float64), "takes a CPU tensor of float32; got a tensor of float64 on cpu"),
    ("float4* a", torch.zeros(4, dtype=torch.int32), "takes a CPU tensor of float32; got a tensor of int32 on cpu"),
    (
        "__half* a",
        torch.zeros(3, dtype=torch.bfloat16),
        "takes a CPU tensor of float16; got a tensor of bfloat16 on cpu",
    ),
    ("int* a", torch.zeros(3, dtype=torch.int64), "takes a CPU tensor of int32; got a tensor of int64 on cpu"),
    ("long long* a", torch.zeros(3, dtype=torch.int32), "takes a CPU tensor of int64; got a tensor of int32 on cpu"),
    ("double* a", torch.zeros(3), "takes a CPU tensor of float64; got a tensor of float32 on cpu"),
    ("float* a", torch.zeros(3, device="meta"), "takes a CPU tensor of float32; got a tensor of float32 on meta"),
    ("void* a", 4096, "takes a CPU tensor; got the int 4096"),
    ("void* a", np.zeros(3), "takes a CPU tensor; got a value of type ndarray"),
    ("int n", 2.0, "takes an int; got the float 2.0"),
    ("int n", "2", "takes an int; got the str '2'"),
    ("int n", torch.tensor(2), "takes an int; got a tensor of int64 on cpu"),
    ("int n", None, "takes an int; got a value of type NoneType"),
    ("int n", 1 << 31, "holds -2147483648 to 2147483647; got 2147483648"),
    ("unsigned n", -1, "holds 0 to 4294967295; got -1"),
    ("unsigned char n", 256, "holds 0 to 255; got 256"),
    ("long long n", 1 << 63, "holds -9223372036854775808 to 9223372036854775807; got 9223372036854775808"),
    ("float s", "1", "takes a float; got the str '1'"),
    ("float s", torch.tensor(1.0), "takes a float; got a tensor of float32 on cpu"),
    ("float s", 1e39, "holds magnitudes below 3.4028235677973366e+38; got 1e+39"),
    ("bool b", 2, "takes a bool; got the int 2"),
    ("bool b", torch.tensor(True), "takes a bool; got a tensor of bool on cpu"),
]


@pytest.mark.parametrize(("parameter", "value", "message"), REFUSED)
def test_what_does_not_fit_is_refused(parameter: str, value: object, message: str) -> None:
    with pytest.raises(KernelError) as error:
        arguments(parameter).convert([value])
    assert str(error.value) == f"kernel 'f' in x.cu: '{parameter}' {message}"


def test_a_host_tensor_is_refused_by_a_kernel() -> None:
    with pytest.raises(KernelError) as error:
        arguments("const float* a", device="cuda").convert([torch.zeros(3)])
    assert str(error.value) == (
        "kernel 'f' in x.cu: 'const float* a' takes a CUDA tensor of float32; got a tensor of float32 on cpu"
    )


@pytest.mark.parametrize(
    ("parameter", "dtype"),
    [
        ("void* a", torch.complex64),
        ("unsigned short* a", torch.bfloat16),
        ("unsigned* a", torch.int32),
        ("unsigned char* a", torch.bool),
        ("unsigned char* a", torch.float8_e4m3fn),
        ("__nv_bfloat162* a", torch.bfloat16),
        ("Shape* a", torch.uint8),
    ],
)
def test_a_tensor_becomes_its_address(parameter: str, dtype: torch.dtype) -> None:
    tensor = torch.zeros(7, dtype=dtype)[3:]
    assert arguments(parameter).convert([tensor]) == [tensor.data_ptr()]


def test_strides_do_not_matter_and_none_is_null() -> None:
    columns = torch.zeros(5, 7).t()
    assert arguments("float* a", "float* b").convert([columns, None]) == [columns.data_ptr(), 0]


def test_numbers_of_other_kinds_become_python_numbers() -> None:
    converted = arguments("int n", "float s", "bool b", "float t").convert([np.int64(7), 3, 1, np.float32(0.5)])
    assert converted == [7, 3.0, True, 0.5]
    assert [type(value) for value in converted] == [int, float, bool, float]


def test_infinities_and_nan_are_floats() -> None:
    inf, minus, nan = arguments("float a", "float b", "float c").convert([float("inf"), float("-inf"), float("nan")])
    assert (inf, minus) == (float("inf"), float("-inf"))
    assert nan != nan


def test_a_struct_is_bytes_for_a_kernel_and_nothing_for_c() -> None:
    assert arguments("Shape s", device="cuda").convert([bytearray(b"12345678")]) == [b"12345678"]
    with pytest.raises(KernelError, match="takes the bytes of a Shape; got the int 1"):
        arguments("Shape s", device="cuda").convert([1])
    with pytest.raises(KernelError, match="'Shape s' is a struct by value, which cannot be passed to host C"):
        arguments("Shape s")


WIDTHS = {
    "int8_t": ctypes.c_int8,
    "uint8_t": ctypes.c_uint8,
    "short": ctypes.c_int16,
    "unsigned short": ctypes.c_uint16,
    "int": ctypes.c_int32,
    "unsigned": ctypes.c_uint32,
    "long long": ctypes.c_int64,
    "size_t": ctypes.c_uint64,
}


@given(st.sampled_from(sorted(WIDTHS)), st.integers(-(1 << 65), 1 << 65) | st.integers(-300, 300))
def test_an_int_passes_if_and_only_if_c_can_hold_it(kind: str, number: int) -> None:
    fits = WIDTHS[kind](number).value == number
    try:
        assert arguments(f"{kind} n").convert([number]) == [number]
    except KernelError:
        assert not fits
    else:
        assert fits


@given(st.floats(allow_nan=False))
def test_a_float_passes_if_and_only_if_it_does_not_become_infinite(number: float) -> None:
    with np.errstate(over="ignore"):
        becomes = float(np.float64(number).astype(np.float32))
    overflows = abs(becomes) == float("inf") and abs(number) != float("inf")
    try:
        arguments("float s").convert([number])
    except KernelError:
        assert overflows
    else:
        assert not overflows
