"""Values of CUDA C++ expressions for the 32 lanes of a warp: integers by the rules of C, pointers, or not known."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from attrs import define, field, frozen

from aiperf_core.kernels.parameters import Parameter, parameter_of
from aiperf_learn.mechanisms.tokens import NotEvaluated

LANES = 32
# Bytes of which the begin of each memory is a multiple.
ALIGNED = 256
# A scalar by its C name, ("pointer", type), ("array", type, length), a Layout, or a function.
Type = Any
# Of all lanes together one item where they are equal, else an item of each: a number, a pointer (memory and offset in
# bytes), or None where it is not known.
Data = list[Any]
UNKNOWN: Data = [None]

_VECTOR = re.compile(r"(u?)(char|short|int|longlong|long|float|double)([1-4])")
_HALVES = {"__half": 2, "__nv_bfloat16": 2, "__nv_fp8_e4m3": 1, "__half2": 4, "__nv_bfloat162": 4}


@define(eq=False)
class Memory:
    """An array or a variable.

    space: `global`, `shared`, or `local` for the registers of a thread.
    cells: of local memory the data by offset in bytes, each with its size in bytes.
    """

    name: str
    space: str = "local"
    cells: dict[int, tuple[int, Data]] = field(factory=dict)


@frozen(eq=False)
class Layout:
    """A structure, a union or a vector: its size in bytes and its fields with their offsets."""

    name: str
    size: int
    fields: dict[str, tuple[int, Type]]


@define
class Value:
    """A value. cells: of a structure the data of its fields by offset."""

    type: Type
    data: Data
    cells: dict[int, tuple[int, Data]] = field(factory=dict)


@define
class Place:
    """Memory that has a value of a type: the pointers to it."""

    type: Type
    data: Data


@cache
def scalar(name: str) -> Parameter:
    """Kind, width and sign of a scalar type."""
    return parameter_of(name)


@cache
def vector(name: str) -> Layout | None:
    """The layout of a vector of CUDA, such as `float4`; None for another name."""
    match = _VECTOR.fullmatch(name)
    if match is None:
        return None
    element = {"longlong": "long long"}.get(match[2], match[2])
    element = f"unsigned {element}" if match[1] else element
    size = size_of(scalar(element).base)
    return Layout(name, size * int(match[3]), {axis: (size * at, scalar(element).base) for at, axis in
                                               enumerate("xyzw"[: int(match[3])])})  # fmt: skip


def size_of(kind: Type) -> int:
    """Bytes of a type. Raises `NotEvaluated` for a type that is not known."""
    if isinstance(kind, Layout):
        return kind.size
    if isinstance(kind, tuple):
        return 8 if kind[0] == "pointer" else size_of(kind[1]) * int(kind[2])
    return _size_of_scalar(kind)


@cache
def _size_of_scalar(kind: str) -> int:
    if kind in _HALVES:
        return _HALVES[kind]
    known = scalar(kind)
    if not known.bits:
        raise NotEvaluated(f"the type {kind} is not known")
    return known.bits // 8


def is_integer(kind: Type) -> bool:
    """True for a whole number or a bool."""
    return isinstance(kind, str) and _is_integer(kind)


@cache
def _is_integer(kind: str) -> bool:
    return scalar(kind).kind in ("integer", "bool")


@cache
def common(left: str, right: str) -> str:
    """The type of an operation on two integers, by C's usual conversions."""
    first, second = (scalar(kind) if scalar(kind).bits >= 32 else scalar("int") for kind in (left, right))
    wide = first if first.bits >= second.bits else second
    if first.bits == second.bits and not (first.signed and second.signed):
        return next(each.base for each in (first, second) if not each.signed)
    return wide.base


@cache
def _range_of(kind: str) -> range:
    """The numbers of an integer type."""
    known = scalar(kind)
    return range(-(1 << known.bits - 1), 1 << known.bits - 1) if known.signed else range(1 << known.bits)


def converted(data: Data, kind: str) -> Data:
    """Integers as values of an integer type; a pointer stays as it is."""
    if scalar(kind).kind == "bool":
        return [int(number != 0) if isinstance(number, int) else number for number in data]
    low, high = _range_of(kind).start, _range_of(kind).stop
    return [
        (number - low) % (high - low) + low if isinstance(number, int) and not low <= number < high else number
        for number in data
    ]


def _divided(a: int, b: int) -> int | None:
    """The quotient, rounded towards zero."""
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _rest(a: int, b: int) -> int | None:
    quotient = _divided(a, b)
    return None if quotient is None else a - b * quotient


_OPERATIONS: dict[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "%": _rest,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def each(operation: Callable[..., Any], *operands: Data) -> Data:
    """An operation on each lane; not known where an operand is not."""
    if all(len(data) == 1 for data in operands):
        alone = [data[0] for data in operands]
        return [None if None in alone else operation(*alone)]
    wide = [spread(data) for data in operands]
    return [None if None in lane else operation(*lane) for lane in zip(*wide, strict=True)]


def spread(data: Data) -> Data:
    """An item for each lane."""
    return data * LANES if len(data) == 1 else data


def gathered(data: Sequence[Any]) -> Data:
    """One item where all lanes have the same."""
    first = data[0]
    return [first] if all(item == first for item in data) else list(data)


def chosen(mask: int, first: Data, second: Data) -> Data:
    """Data with the first data in the lanes of a mask, and the second in the others."""
    return gathered([a if mask >> lane & 1 else b for lane, (a, b) in enumerate(zip(spread(first), spread(second),
                                                                                    strict=True))])  # fmt: skip


def binary(symbol: str, left: Value, right: Value) -> Value:
    """An operation on two values that are no structures.

    A signed result beyond its type, a division by zero and a shift by too many bits are not known, as C says nothing.
    """
    if isinstance(left.type, tuple) or isinstance(right.type, tuple):
        return _with_pointers(symbol, left, right)
    if tuple in map(type, left.data) or tuple in map(type, right.data):
        return _with_addresses(symbol, left, right)
    if not (is_integer(left.type) and is_integer(right.type)):
        compares = symbol in _COMPARISONS
        kind = "bool" if compares else "double" if "double" in (left.type, right.type) else "float"
        return Value(kind, UNKNOWN)
    if symbol in ("<<", ">>"):
        kind = common(left.type, "int") if scalar(left.type).bits < 32 else left.type
        bits = scalar(kind).bits

        def shifted(a: int, by: int) -> int | None:
            if not 0 <= by < bits:
                return None
            return a << by if symbol == "<<" else a >> by

        return Value(kind, _within(each(shifted, left.data, right.data), kind))
    kind = common(left.type, right.type)
    a, b = converted(left.data, kind), converted(right.data, kind)
    if symbol in _COMPARISONS:
        return Value("bool", [one if one is None else int(one) for one in each(_COMPARISONS[symbol], a, b)])
    return Value(kind, _within(each(_OPERATIONS[symbol], a, b), kind))


def _within(data: Data, kind: str) -> Data:
    """Results in their type: an unsigned one wraps around, and a signed one beyond it is not known."""
    if not scalar(kind).signed:
        return converted(data, kind)
    low, high = _range_of(kind).start, _range_of(kind).stop
    return [number if number is not None and low <= number < high else None for number in data]


def _with_pointers(symbol: str, left: Value, right: Value) -> Value:
    if symbol in _COMPARISONS:
        return Value("bool", UNKNOWN)
    if symbol == "-" and isinstance(right.type, tuple):
        return Value("long long", UNKNOWN)
    if isinstance(right.type, tuple):
        left, right = right, left
    sign = -1 if symbol == "-" else 1
    if symbol not in "+-":
        return Value("long long", UNKNOWN)  # a pointer as a number, such as a test of its alignment
    size = sign * size_of(left.type[1])
    moved = each(lambda pointer, by: (pointer[0], pointer[1] + size * by), left.data, right.data)
    return Value(left.type, moved)


def _with_addresses(symbol: str, left: Value, right: Value) -> Value:
    """An operation on a pointer as a number: only the rest by a power of two up to `ALIGNED` is known."""
    kind = common(left.type, right.type) if is_integer(left.type) and is_integer(right.type) else "unsigned long"
    if symbol != "%" or any(not isinstance(by, int) or by <= 0 or ALIGNED % by for by in right.data):
        return Value("bool" if symbol in _COMPARISONS else kind, UNKNOWN)
    return Value(kind, each(lambda pointer, by: pointer[1] % by, left.data, right.data))


def cast(value: Value, kind: Type) -> Value:
    """A value converted to a type."""
    if is_integer(kind) and isinstance(value.type, tuple) and scalar(kind).bits == 64:
        return Value(kind, value.data)
    if isinstance(kind, tuple):
        return Value(kind, value.data if isinstance(value.type, tuple) else UNKNOWN)
    if is_integer(kind) and is_integer(value.type):
        return Value(kind, converted(value.data, kind))
    if isinstance(kind, Layout) and isinstance(value.type, Layout):
        return value
    return Value(kind, UNKNOWN)


@cache
def number(text: str) -> Value:
    """A literal: a whole number with its type; of a floating-point one only the type."""
    digits = text.lower()
    is_hex = digits.startswith("0x")
    if not is_hex and (digits.endswith("f") or any(symbol in digits for symbol in ".e")):
        return Value("float" if digits.endswith("f") else "double", UNKNOWN)
    plain = digits.rstrip("ul")
    suffix = digits[len(plain) :]
    value = int(plain, 16 if is_hex else 8 if len(plain) > 1 and plain.startswith("0") else 10)
    long = "l" in suffix
    for name in ("int", "unsigned int", "long", "unsigned long"):
        known = scalar(name)
        fits = value < 1 << (known.bits - known.signed)
        allowed = (known.signed or is_hex or "u" in suffix) and not ("u" in suffix and known.signed)
        if fits and allowed and not (long and known.bits < 64):
            return Value(known.base if not (long and "ll" in suffix) else
                         "long long" if known.signed else "unsigned long long", [value])  # fmt: skip
    raise NotEvaluated(f"{text} is no number of C")
