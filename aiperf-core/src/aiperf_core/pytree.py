"""Inputs and outputs as pytrees: tensors, numbers and nested dicts, lists and tuples of them.

The *shape* of a pytree describes it as JSON, so that two processes can agree on it without sharing Python objects. Each
node is a dict with a `type`: `tensor` (with `dtype`, `shape`, `stride`, and `offset` in bytes into a shared buffer),
`number` (with its `value`), `none`, or `dict`, `list` and `tuple` with their `items`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from aiperf_core.errors import ContractError

Shape = dict[str, Any]

# Large tensors start on a page, small ones where torch's own allocator would put them.
_PAGE_BYTES = 4096
_ALIGN_BYTES = 512


class Layout:
    """Allocates consecutive places in a shared buffer."""

    def __init__(self) -> None:
        self.total_bytes = 0

    def place(self, span_bytes: int) -> int:
        """The offset of a new place of that size."""
        align = _PAGE_BYTES if span_bytes >= _PAGE_BYTES else _ALIGN_BYTES
        offset = -(-self.total_bytes // align) * align
        self.total_bytes = offset + span_bytes
        return offset


def describe(value: Any, layout: Layout, path: str = "") -> Shape:
    """The shape of a pytree, with a place for each tensor. Raises `TypeError` for a value that cannot be in one."""
    if isinstance(value, torch.Tensor):
        return _describe_tensor(value, layout, path)
    if value is None:
        return {"type": "none"}
    if isinstance(value, bool | int | float):
        return {"type": "number", "value": value}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"{path or 'the result'} is a dict with keys that are not strings")
        return {"type": "dict", "items": {key: describe(one, layout, _join(path, key)) for key, one in value.items()}}
    if type(value) in (list, tuple):
        items = [describe(one, layout, f"{path}[{index}]") for index, one in enumerate(value)]
        return {"type": type(value).__name__, "items": items}
    raise TypeError(
        f"{path or 'the result'} is a {type(value).__name__}; accepted are tensors, numbers, None, and dicts, lists "
        "and tuples of them"
    )


def _describe_tensor(tensor: torch.Tensor, layout: Layout, path: str) -> Shape:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise TypeError(f"{path or 'the result'} is a {tensor.layout} tensor; accepted are dense (strided) tensors")
    # Expanded and overlapping tensors have no memory for each element; the place is for a contiguous copy.
    stride = torch.empty_like(tensor, device="meta").stride()
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, stride, strict=True)) if tensor.numel() else 0
    return {
        "type": "tensor",
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "stride": list(stride),
        "offset": layout.place(span * tensor.element_size()),
        "bytes": tensor.numel() * tensor.element_size(),
    }


def tensors_of(shape: Shape) -> Iterator[Shape]:
    """The `tensor` nodes of a shape."""
    if shape["type"] == "tensor":
        yield shape
    items = shape.get("items", ())
    for one in items.values() if isinstance(items, dict) else items:
        yield from tensors_of(one)


def view(shape: Shape, buffer: torch.Tensor) -> torch.Tensor:
    """The tensor that a `tensor` node describes, as a view of the buffer's bytes. A buffer may be a part of another."""
    dtype = getattr(torch, shape["dtype"])
    empty = torch.empty(0, dtype=dtype, device=buffer.device)
    offset = (buffer.storage_offset() + shape["offset"]) // empty.element_size()
    return empty.set_(buffer.untyped_storage(), offset, shape["shape"], shape["stride"])


def build(shape: Shape, buffer: torch.Tensor) -> Any:
    """The pytree that a shape describes; its tensors are views of the buffer."""
    return rebuild(shape, lambda node: view(node, buffer))


def rebuild(shape: Shape, tensor: Callable[[Shape], Any]) -> Any:
    """The pytree that a shape describes; `tensor` makes each tensor from its node."""
    match shape["type"]:
        case "tensor":
            return tensor(shape)
        case "number":
            return shape["value"]
        case "none":
            return None
        case "dict":
            return {key: rebuild(one, tensor) for key, one in shape["items"].items()}
        case "tuple":
            return tuple(rebuild(one, tensor) for one in shape["items"])
        case "list":
            return [rebuild(one, tensor) for one in shape["items"]]
        case other:
            raise ValueError(other)


def pairs(shape: Shape, value: Any, path: str = "") -> Iterator[tuple[str, Shape, Any]]:
    """Path, node and leaf of each leaf of a pytree that is known to have this shape."""
    match shape["type"]:
        case "dict":
            for key, one in shape["items"].items():
                yield from pairs(one, value[key], _join(path, key))
        case "list" | "tuple":
            for index, one in enumerate(shape["items"]):
                yield from pairs(one, value[index], f"{path}[{index}]")
        case _:
            yield path, shape, value


def tensor_pairs(shape: Shape, value: Any) -> Iterator[tuple[str, Shape, torch.Tensor]]:
    """Path, node and value of each tensor of a pytree that is known to have this shape."""
    return (leaf for leaf in pairs(shape, value) if leaf[1]["type"] == "tensor")


def tensor_bytes(shape: Shape) -> int:
    """The bytes of all elements of all tensors in a pytree."""
    return sum(int(one["bytes"]) for one in tensors_of(shape))


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in the dicts, lists and tuples of a value; other values are skipped."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from tensors(one)


def words(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's bits as the widest integers that fit, in which NaN equals itself."""
    if not tensor.numel():  # torch does not always normalise the strides of an empty tensor as `view` needs them
        return torch.empty(0, dtype=torch.uint8, device=tensor.device)
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    if flat.numel() % 8:
        return flat
    # A slice may begin between two words.
    return (flat.clone() if flat.storage_offset() % 8 else flat).view(torch.int64)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of the same form agree in every bit, also on different devices."""
    return torch.equal(words(one), words(other.to(one.device)))


def mapped(value: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    """A copy of a value in which `function` replaces each tensor in its dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: mapped(one, function) for key, one in value.items()}
    return type(value)(mapped(one, function) for one in value) if isinstance(value, list | tuple) else value


def match(shape: Shape, value: Any, device: str, path: str = "") -> None:
    """Raise `ContractError` unless a value has this shape: structure, plain tensors, dtypes, sizes and device."""
    name = path or "the output"
    if shape["type"] == "tensor":
        _match_tensor(shape, value, device, name)
    elif shape["type"] == "none":
        if value is not None:
            raise ContractError(f"{name} is {summary(value)}; the reference returns None")
    elif shape["type"] == "number":
        if isinstance(value, bool) != isinstance(shape["value"], bool) or not isinstance(value, int | float):
            raise ContractError(f"{name} is {summary(value)}; the reference returns a number")
    elif type(value).__name__ != shape["type"] or len(value) != len(shape["items"]):
        raise ContractError(f"{name} is {summary(value)}; the reference returns {expected(shape)}")
    elif isinstance(value, dict):
        if set(value) != set(shape["items"]):
            found = sorted(value, key=str)
            raise ContractError(f"{name} has the keys {found}; the reference returns {sorted(shape['items'])}")
        for key, one in shape["items"].items():
            match(one, value[key], device, _join(path, key))
    else:
        for index, one in enumerate(shape["items"]):
            match(one, value[index], device, f"{path}[{index}]")


def _match_tensor(shape: Shape, value: Any, device: str, name: str) -> None:
    # Exactly these types: a subclass can forge the result of every comparison.
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise ContractError(f"{name} is {summary(value)}; the reference returns {expected(shape)}")
    if value.layout is not torch.strided:
        raise ContractError(f"{name} is a {value.layout} tensor; the reference returns {expected(shape)}")
    found, wanted = form(value), f"{shape['dtype']}{shape['shape']}"
    if found != wanted:
        raise ContractError(f"{name} is {found}; the reference returns {wanted}")
    if value.device.type != device:
        raise ContractError(f"{name} lies on {value.device}; the reference returns it on {device}")


def form(tensor: torch.Tensor) -> str:
    """The dtype and sizes of a tensor: `float32[3, 4]`."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def expected(shape: Shape) -> str:
    """A shape in words."""
    match shape["type"]:
        case "tensor":
            return f"a tensor {shape['dtype']}{shape['shape']}"
        case "number":
            return "a number"
        case "none":
            return "None"
        case "dict":
            return f"a dict with the keys {sorted(shape['items'])}"
        case kind:
            return f"a {kind} of {len(shape['items'])}"


def summary(value: Any) -> str:
    """A value in words, without calling any method of its own."""
    if type(value) is torch.Tensor:
        if value.is_meta:
            return f"a tensor {form(value)} without values (device meta)"
        layout = "" if value.layout is torch.strided else str(value.layout).removeprefix("torch.") + " "
        return f"a {layout}tensor {form(value)}"
    if type(value) in (list, tuple, dict):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__module__}.{type(value).__qualname__}".replace("a builtins.NoneType", "None")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The begin and end of a strided tensor in its storage, in bytes, gaps between elements included."""
    bytes_each = tensor.element_size()
    first = int(tensor.storage_offset())
    if not tensor.numel():
        return first * bytes_each, first * bytes_each
    last = first + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first * bytes_each, (last + 1) * bytes_each


def overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two strided tensors overlap in memory, gaps between elements included."""
    (first, first_end), (second, second_end) = (
        (tensor.data_ptr(), tensor.data_ptr() + end - begin)
        for tensor in (one, other)
        for begin, end in [extent(tensor)]
    )
    return first < second_end and second < first_end
