"""Trees: their shapes, their places in an arena, and outputs that do not have the shape."""

import json
from collections import namedtuple
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf_core import pytree
from aiperf_core.errors import ContractError

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int16,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.complex64,
    torch.complex128,
]


# The first example pays for what torch loads lazily.
unhurried = settings(deadline=None)


def strided(draw: st.DrawFn) -> torch.Tensor:
    """A tensor of any dtype: of zero size, transposed, sliced with a step, expanded or of no dimension."""
    dtype = draw(st.sampled_from(DTYPES))
    sizes = draw(st.lists(st.integers(0, 4), max_size=3))
    tensor = torch.arange(1, 1 + torch.Size(sizes).numel()).to(torch.float32).reshape(sizes).to(dtype)
    match draw(st.sampled_from(["plain", "transposed", "stepped", "expanded", "offset"])):
        case "transposed":
            return tensor.permute(tuple(reversed(range(tensor.dim()))))
        case "stepped" if tensor.dim():
            return tensor[..., ::2]
        case "expanded":
            return tensor.expand(3, *sizes)
        case "offset" if tensor.dim():
            return tensor[1:]
        case _:
            return tensor


TENSORS = st.composite(strided)()
NUMBERS = st.booleans() | st.integers() | st.floats(allow_nan=False)
LEAVES = TENSORS | NUMBERS | st.none()
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).tolist()


def same(one: Any, other: Any) -> bool:
    """Whether two trees are equal, tensors by dtype, sizes and bits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and bits(one) == bits(other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def arena_for(layout: pytree.Layout) -> torch.Tensor:
    return torch.full((max(layout.total_bytes, 1),), 0xAA, dtype=torch.uint8)


def spans(shape: pytree.Shape, value: Any, arena: torch.Tensor) -> list[tuple[int, int]]:
    """First and last byte of each tensor of a tree in an arena."""
    found = []
    for _, node, _ in pytree.pairs(shape, value):
        if node["type"] == "tensor" and (one := pytree.view(node, arena)).numel():
            steps = sum(int(size - 1) * int(step) for size, step in zip(one.shape, one.stride(), strict=True))
            first = int(one.storage_offset()) * one.element_size()
            found.append((first, first + (1 + steps) * one.element_size()))
    return sorted(found)


@unhurried
@given(TREES)
def test_a_tree_comes_back_from_its_shape_and_an_arena(value: Any) -> None:
    layout = pytree.Layout()
    shape = pytree.describe(value, layout)
    arena = arena_for(layout)
    sent = json.loads(json.dumps(shape))
    for _, node, leaf in pytree.pairs(sent, value):
        if node["type"] == "tensor":
            pytree.view(node, arena).copy_(leaf)
    assert same(pytree.build(sent, arena), value)
    pytree.match(sent, pytree.build(sent, arena), "cpu")
    assert pytree.tensor_bytes(sent) == sum(one.numel() * one.element_size() for one in pytree.tensors(value))


@unhurried
@given(TREES)
def test_tensors_lie_apart_within_the_arena_and_aligned(value: Any) -> None:
    layout = pytree.Layout()
    shape = pytree.describe(value, layout)
    places = spans(shape, value, arena_for(layout))
    assert all(first % 512 == 0 for first, _ in places)
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    assert all(end <= layout.total_bytes for _, end in places)


@unhurried
@given(TENSORS)
def test_every_element_has_memory_of_its_own(tensor: torch.Tensor) -> None:
    layout = pytree.Layout()
    one = pytree.view(pytree.describe(tensor, layout), arena_for(layout))
    places = torch.arange(max(1, layout.total_bytes // one.element_size()))
    seen = places.as_strided(one.shape, one.stride()).reshape(-1).tolist() if one.numel() else []
    assert len(set(seen)) == one.numel()


def test_the_strides_of_dense_tensors_are_kept() -> None:
    layout = pytree.Layout()
    turned = torch.zeros(3, 5).t()
    assert pytree.describe(turned, layout)["stride"] == [1, 5]
    assert pytree.describe(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last), layout)["stride"] == [
        60,
        1,
        15,
        3,
    ]
    assert pytree.describe(torch.zeros(4).expand(3, 4), layout)["stride"] == [4, 1]


def test_large_tensors_begin_on_a_page() -> None:
    layout = pytree.Layout()
    assert [layout.place(size) for size in (1, 512, 4096, 5, 4097)] == [0, 512, 4096, 8192, 12288]
    assert layout.total_bytes == 16385


class Odd:
    """Nothing that a tree may hold."""


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Odd(), "the result is a Odd; {accepted}"),
        ("text", "the result is a str; {accepted}"),
        ({"a": [1, Odd()]}, "a[1] is a Odd; {accepted}"),
        ({"a": {"b": ({3},)}}, "a.b[0] is a set; {accepted}"),
        (Pair(1, 2), "the result is a Pair; {accepted}"),
        ([1j], "[0] is a complex; {accepted}"),
        ({"a": {1: 2}}, "a is a dict with keys that are not strings"),
        ({1: 2}, "the result is a dict with keys that are not strings"),
        (torch.eye(2).to_sparse(), "the result is a torch.sparse_coo tensor; accepted are dense (strided) tensors"),
        ([torch.eye(2).to_mkldnn()], "[0] is a torch._mkldnn tensor; accepted are dense (strided) tensors"),
    ],
)
def test_what_cannot_be_in_a_tree_is_named(value: object, message: str) -> None:
    accepted = "accepted are tensors, numbers, None, and dicts, lists and tuples of them"
    with pytest.raises(TypeError) as caught:
        pytree.describe(value, pytree.Layout())
    assert str(caught.value) == message.format(accepted=accepted)


def test_a_shape_that_is_none() -> None:
    with pytest.raises(ValueError, match="^graph$"):
        pytree.rebuild({"type": "graph"}, dict)


def test_tensors_are_found_in_whatever_holds_them() -> None:
    one, two, three = torch.zeros(1), torch.zeros(2), torch.zeros(3)
    assert list(pytree.tensors({"a": [one, Odd(), (two, "text")], 7: three})) == [one, two, three]


class Pretender(torch.Tensor):
    """A tensor with a mind of its own."""


VECTOR = torch.zeros(3)
DIFFERENT: list[tuple[Any, Any, str]] = [
    (VECTOR, torch.zeros(4), "the output is float32[4]; the reference returns float32[3]"),
    (VECTOR, torch.zeros(3, 1), "the output is float32[3, 1]; the reference returns float32[3]"),
    (VECTOR, VECTOR.double(), "the output is float64[3]; the reference returns float32[3]"),
    (VECTOR, VECTOR.to("meta"), "the output lies on meta; the reference returns it on cpu"),
    (
        VECTOR,
        VECTOR.to_sparse(),
        "the output is a torch.sparse_coo tensor; the reference returns a tensor float32[3]",
    ),
    (
        VECTOR,
        VECTOR.as_subclass(Pretender),
        f"the output is a {__name__}.Pretender; the reference returns a tensor float32[3]",
    ),
    (VECTOR, None, "the output is None; the reference returns a tensor float32[3]"),
    (VECTOR, [0.0, 0.0, 0.0], "the output is a list of 3; the reference returns a tensor float32[3]"),
    (None, VECTOR, "the output is a tensor float32[3]; the reference returns None"),
    (1.5, VECTOR, "the output is a tensor float32[3]; the reference returns a number"),
    (1.5, True, "the output is a builtins.bool; the reference returns a number"),
    (True, 1, "the output is a builtins.int; the reference returns a number"),
    (1.5, "1.5", "the output is a builtins.str; the reference returns a number"),
    ([1, 2], (1, 2), "the output is a tuple of 2; the reference returns a list of 2"),
    ([1, 2], [1], "the output is a list of 1; the reference returns a list of 2"),
    ((1, 2), Pair(1, 2), f"the output is a {__name__}.Pair; the reference returns a tuple of 2"),
    ({"a": 1}, [1], "the output is a list of 1; the reference returns a dict with the keys ['a']"),
    ({"a": 1}, {"b": 1}, "the output has the keys ['b']; the reference returns ['a']"),
    ({"a": 1, "b": 2}, {"a": 1, 3: 2}, "the output has the keys [3, 'a']; the reference returns ['a', 'b']"),
    ({"a": [1, VECTOR]}, {"a": [1, 2]}, "a[1] is a builtins.int; the reference returns a tensor float32[3]"),
    ({"a": {"b": None}}, {"a": {"b": {}}}, "a.b is a dict of 0; the reference returns None"),
    ([(1,)], [()], "[0] is a tuple of 0; the reference returns a tuple of 1"),
]


@pytest.mark.parametrize(("reference", "output", "message"), DIFFERENT)
def test_an_output_of_another_form_is_refused(reference: Any, output: Any, message: str) -> None:
    shape = pytree.describe(reference, pytree.Layout())
    with pytest.raises(ContractError) as caught:
        pytree.match(shape, output, "cpu")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("reference", "output"),
    [
        (1, 2.5),
        (1.5, 7),
        (True, False),
        (VECTOR, torch.nn.Parameter(torch.ones(3))),
        (torch.zeros(2, 3), torch.zeros(3, 2).t()),
        ({"a": 1, "b": VECTOR}, {"b": VECTOR, "a": 1}),
        (torch.zeros(0, 3), torch.zeros(0, 3)),
    ],
)
def test_an_output_may_differ_in_values_and_strides(reference: Any, output: Any) -> None:
    pytree.match(pytree.describe(reference, pytree.Layout()), output, "cpu")


@pytest.mark.parametrize(
    ("tensor", "extent"),
    [
        (torch.zeros(6), (0, 24)),
        (torch.zeros(6)[2:4], (8, 16)),
        (torch.zeros(4, 6)[1:3, 2:4], (32, 64)),
        (torch.zeros(4, 6).t()[1:], (4, 96)),
        (torch.zeros(2).expand(5, 2), (0, 8)),
        (torch.zeros(6, dtype=torch.float64)[3:3], (24, 24)),
        (torch.tensor(1.0), (0, 4)),
    ],
)
def test_the_extent_of_a_tensor_in_its_storage(tensor: torch.Tensor, extent: tuple[int, int]) -> None:
    assert pytree.extent(tensor) == extent


def test_the_tensors_of_a_pytree_by_path() -> None:
    value = {"a": [torch.zeros(2), 3, None], "b": (torch.ones(1),)}
    found = pytree.tensor_pairs(pytree.describe(value, pytree.Layout()), value)
    assert [(path, node["shape"], leaf.tolist()) for path, node, leaf in found] == [
        ("a[0]", [2], [0.0, 0.0]),
        ("b[0]", [1], [1.0]),
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [0, 7, 8])
def test_every_bit_counts(dtype: torch.dtype, length: int) -> None:
    size = torch.empty(0, dtype=dtype).element_size()
    # NaN in every floating-point format, from an odd place of its storage.
    fill = 1 if dtype == torch.bool else 0xFF
    one = torch.full((size * (length + 1),), fill, dtype=torch.uint8).view(dtype)[1:]
    other = one.clone()
    assert pytree.same_bits(one, other)
    if length:
        other.view(torch.uint8)[-1] ^= 1
        assert not pytree.same_bits(one, other)
