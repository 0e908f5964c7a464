"""Checks the arguments of a call against a signature and converts them.

A tensor becomes its address, a number stays a number within the range of its C type, a struct stays bytes. Each
parameter has a converter, which every call runs.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from aiperf_core.errors import KernelError
from aiperf_core.kernels.parameters import Parameter, Signature

Value = int | float | bool | bytes
Converter = Callable[[Any], Value]

# The element types that a pointer's C type may address. A pointer to another type (void, a struct, a short with raw
# half-precision bits) takes every tensor.
_BYTES = ("uint8", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
_DTYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("float", "float2", "float3", "float4"), ("float32",)),
    **dict.fromkeys(("double", "double2"), ("float64",)),
    **dict.fromkeys(("int", "int32_t", "int2", "int4"), ("int32",)),
    **dict.fromkeys(("unsigned int", "uint32_t"), ("uint32", "int32")),
    **dict.fromkeys(("long", "long long", "int64_t", "ptrdiff_t", "longlong2"), ("int64",)),
    **dict.fromkeys(("unsigned long", "unsigned long long", "uint64_t", "size_t"), ("uint64", "int64")),
    **dict.fromkeys(("half", "__half", "half2", "__half2"), ("float16",)),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "__nv_bfloat162", "nv_bfloat162"), ("bfloat16",)),
    "__nv_fp8_e4m3": ("float8_e4m3fn",),
    "__nv_fp8_e5m2": ("float8_e5m2",),
    **dict.fromkeys(("unsigned char", "uint8_t"), _BYTES),
    **dict.fromkeys(("signed char", "int8_t"), ("int8",)),
    "char": ("int8", *_BYTES),
    "bool": ("bool", "uint8"),
}


class Arguments:
    """The converters of one function.

    owner: the start of error messages, such as `kernel 'wide' in memory_access.cu`.
    device: the memory that its pointers address, `cuda` or `cpu`.
    """

    def __init__(self, signature: Signature, owner: str, device: str) -> None:
        self._converters = [_converter(parameter, owner, device) for parameter in signature.parameters]
        self._count = len(self._converters)
        self._signature, self._owner = signature, owner

    def convert(self, values: Sequence[Any]) -> list[Value]:
        """The converted values. Raises `KernelError` for a wrong count, kind, dtype or range."""
        if len(values) != self._count:
            takes = f"{self._count} argument{'' if self._count == 1 else 's'}"
            raise KernelError(f"{self._owner} takes {takes} {self._signature}; got {len(values)}")
        return [converter(value) for converter, value in zip(self._converters, values, strict=True)]


def _converter(parameter: Parameter, owner: str, device: str) -> Converter:
    make = {"pointer": _pointer, "integer": _integer, "float": _float, "bool": _bool, "struct": _struct}[parameter.kind]
    return make(parameter, f"{owner}: '{parameter.text}'", device)


def _pointer(parameter: Parameter, subject: str, device: str) -> Converter:
    import torch

    tensor, on_device = torch.Tensor, f"is_{device}"
    names = _DTYPES.get(parameter.base, ())
    accepted = frozenset(getattr(torch, name) for name in names if hasattr(torch, name))

    def convert(value: Any) -> Value:
        if isinstance(value, tensor) and getattr(value, on_device) and (not accepted or value.dtype in accepted):
            return value.data_ptr()
        if value is None:
            return 0
        wanted = f"a {'CUDA' if device == 'cuda' else 'CPU'} tensor"
        if names:
            wanted += f" of {' or '.join(names)}"
        _refuse(subject, wanted, value)

    return convert


def _integer(parameter: Parameter, subject: str, _device: str) -> Converter:
    lowest = -(1 << parameter.bits - 1) if parameter.signed else 0
    highest = (1 << parameter.bits - parameter.signed) - 1

    def convert(value: Any) -> Value:
        number = value if type(value) is int else _index(value)
        if number is None:
            _refuse(subject, "an int", value)
        if lowest <= number <= highest:
            return number
        raise KernelError(f"{subject} holds {lowest} to {highest}; got {number}")

    return convert


def _float(parameter: Parameter, subject: str, _device: str) -> Converter:
    largest = 3.4028235677973366e38 if parameter.bits == 32 else float("inf")  # larger values round to inf

    def convert(value: Any) -> Value:
        number = value if type(value) is float else _real(value)
        if number is None:
            _refuse(subject, "a float", value)
        if -largest < number < largest or number != number or number in (float("inf"), float("-inf")):
            return number
        raise KernelError(f"{subject} holds magnitudes below {largest}; got {number}")

    return convert


def _bool(_parameter: Parameter, subject: str, _device: str) -> Converter:
    def convert(value: Any) -> Value:
        if type(value) in (bool, int) and value in (0, 1):
            return bool(value)
        _refuse(subject, "a bool", value)

    return convert


def _struct(parameter: Parameter, subject: str, device: str) -> Converter:
    if device == "cpu":
        raise KernelError(f"{subject} is a struct by value, which cannot be passed to host C; take a pointer to it")

    def convert(value: Any) -> Value:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        _refuse(subject, f"the bytes of a {parameter.base}", value)

    return convert


def _index(value: Any) -> int | None:
    """The value of an integer such as `numpy.int64`. None for a tensor: reading it would wait."""
    if _is_tensor(value):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _real(value: Any) -> float | None:
    if _is_tensor(value) or not hasattr(value, "__float__"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _refuse(subject: str, wanted: str, value: Any) -> NoReturn:
    if _is_tensor(value):
        found = f"a tensor of {str(value.dtype).removeprefix('torch.')} on {value.device}"
    elif isinstance(value, bool | int | float | str):
        found = f"the {type(value).__name__} {value!r}"
    else:
        found = f"a value of type {type(value).__name__}"
    raise KernelError(f"{subject} takes {wanted}; got {found}")
