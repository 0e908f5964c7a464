"""What a tensor map is made of, against a driver that only takes notes. What the copy engine reads of it: test_gpu.py."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aiperf_core.errors import KernelError, SkipError
from aiperf_core.kernels import tensor_map
from aiperf_core.kernels.tensor_map import _TYPES, _driver

# The package's function has the name of its module.
MODULE = __import__("sys").modules["aiperf_core.kernels.tensor_map"]


class Encoder:
    """Takes the arguments of `cuTensorMapEncodeTiled` as lists, and fills the map with sevens."""

    def __init__(self, status: int = 0) -> None:
        self.status, self.calls = status, list[list[Any]]()

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> int:  # noqa: N802
        at, kind, rank, address, sizes, pitches, box, strides, *flags = arguments
        assert at.value % 64 == 0
        ctypes.memset(at, 7, 128)
        self.calls.append(
            [kind, rank.value, address.value, list(sizes), list(pitches), list(box), list(strides), flags]
        )
        return self.status


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Encoder:
    found = Encoder()
    monkeypatch.setattr(MODULE, "_driver", lambda: found)
    return found


@pytest.mark.parametrize(
    ("dtype", "number", "size"),
    [
        (torch.float32, 7, 4),
        (torch.bfloat16, 9, 2),
        (torch.float16, 6, 2),
        (torch.int32, 3, 4),
        (torch.int8, 0, 1),
        (torch.float8_e4m3fn, 0, 1),
    ],
)
def test_sizes_are_elements_and_pitches_bytes_the_innermost_first(
    encoder: Encoder, dtype: torch.dtype, number: int, size: int
) -> None:
    array = torch.zeros(3, 40, 64).to(dtype)[:, :37, :48]
    assert tensor_map(array, (1, 8, 16), swizzle_bytes=64) == b"\7" * 128
    sizes, pitches = [48, 37, 3], [64 * size, 40 * 64 * size]
    flags = [0, 2, 2, 0]
    assert encoder.calls == [[number, 3, array.data_ptr(), sizes, pitches, [16, 8, 1], [1, 1, 1], flags]]


def test_the_numbers_of_the_types_are_the_drivers() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    kinds = driver.CUtensorMapDataType
    names = {"int8": "UINT8", "uint8": "UINT8", "float8_e4m3fn": "UINT8", "float8_e5m2": "UINT8"}
    for name, number in _TYPES.items():
        assert number == int(getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{names.get(name, name.upper())}"))


@pytest.mark.parametrize(
    ("array", "box", "swizzle", "message"),
    [
        (
            torch.zeros(4, 4, dtype=torch.float64),
            (4, 4),
            0,
            f"a tensor map takes {', '.join(_TYPES)}; this array is float64",
        ),
        (
            torch.zeros(4, 8).T,
            (4, 4),
            0,
            "a tensor map takes 1 to 5 dimensions, the last of them without gaps; this array has the shape [8, 4] and "
            "the strides [1, 8]",
        ),
        (torch.zeros(4, 8), (4,), 0, "a box for the shape [4, 8] takes 2 sizes from 1 to 256; got [4]"),
        (torch.zeros(4, 8), (257, 4), 0, "a box for the shape [4, 8] takes 2 sizes from 1 to 256; got [257, 4]"),
        (
            torch.zeros(4, 8, dtype=torch.bfloat16),
            (4, 4),
            0,
            "a row of a box takes a multiple of 16 bytes; 4 of bfloat16 are 8",
        ),
        (
            torch.zeros(4, 64),
            (4, 32),
            64,
            "swizzle_bytes takes 0, or 32, 64 or 128 that are at least a row of the box (128 bytes); got 64",
        ),
    ],
)
def test_what_no_map_describes_is_refused(
    encoder: Encoder, array: torch.Tensor, box: tuple[int, ...], swizzle: int, message: str
) -> None:
    with pytest.raises(KernelError) as caught:
        tensor_map(array, box, swizzle_bytes=swizzle)
    assert (str(caught.value), encoder.calls) == (message, [])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            torch.zeros(4, 5),
            "the copy engine needs rows that start at multiples of 16 bytes; these are 20 apart",
        ),
        (torch.zeros(9)[1:], "the copy engine needs an array that starts at a multiple of 16 bytes"),
    ],
)
def test_sizes_that_the_copy_engine_cannot_take_are_skipped(
    encoder: Encoder, array: torch.Tensor, message: str
) -> None:
    with pytest.raises(SkipError) as caught:
        tensor_map(array, [4] * array.dim())
    assert str(caught.value) == message


def test_what_the_driver_refuses_is_told(encoder: Encoder) -> None:
    encoder.status = 1
    with pytest.raises(KernelError) as caught:
        tensor_map(torch.zeros(4, 8), (4, 4))
    assert str(caught.value) == "the driver refuses a tensor map for [4, 8] in boxes of [4, 4]: CUDA error 1"


def test_without_a_driver_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> SimpleNamespace:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(SkipError, match=r"^needs a CUDA driver \(libcuda\.so\.1"):
        _driver.__wrapped__()
