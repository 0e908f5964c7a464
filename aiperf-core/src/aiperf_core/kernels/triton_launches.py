"""The types and constants of Triton kernels, from launches that are recorded in place of being made."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attrs import field, frozen

from aiperf_core.errors import KernelError


@frozen
class TritonAhead:
    """The types and constants of a kernel for compilation ahead of time. See `triton_ahead`."""

    kernel: str
    signature: Mapping[str, str]
    constants: Mapping[str, Any] = field(factory=dict)
    num_warps: int = 4
    num_stages: int = 3


_OPTIONS = ("num_warps", "num_stages")
_ALIGNED_BYTES = 16
# Triton's names of torch's dtypes.
_TYPES = {
    "bool": "u1",
    **{
        f"{torch_name}{bits}": f"{name}{bits}"
        for torch_name, name in (("int", "i"), ("uint", "u"))
        for bits in (8, 16, 32, 64)
    },
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
}


class RecordedKernel:
    """A Triton kernel whose launches are recorded, as Triton would specialise them, and not made.

    owner: the start of error messages.
    launches: gets the types and constants of each launch, unless it has them.
    """

    def __init__(self, jit: Any, name: str, owner: str, launches: list[TritonAhead]) -> None:
        self._jit, self._name, self._owner, self._launches = jit, name, owner, launches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jit, name)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._record)

    def _record(self, *args: Any, **given: Any) -> None:
        if not hasattr(self._jit, "params"):
            raise KernelError(f"{self._owner}: its constants are those that @autotune or @heuristics choose")
        names = [parameter.name for parameter in self._jit.params]
        unknown = sorted(set(given) - {*names, *_OPTIONS})
        if unknown:
            raise KernelError(f"{self._owner}: is launched with {', '.join(unknown)}, which triton_ahead does not know")
        options = {name: given.pop(name) for name in _OPTIONS if name in given}
        bound = self._jit.signature.bind(*args, **given)
        bound.apply_defaults()
        types = {one.name: self._type(one, bound.arguments[one.name]) for one in self._jit.params}
        signature = {name: text for name, text in types.items() if text is not None}
        constants = {name: bound.arguments[name] for name, text in types.items() if text is None}
        ahead = TritonAhead(self._name, signature, constants, **options)
        if ahead not in self._launches:
            self._launches.append(ahead)

    def _type(self, parameter: Any, value: Any) -> str | None:
        """The type of an argument in Triton's form; None for a constant, as 1 and None are in a launch."""
        import torch

        specialised = not parameter.do_not_specialize
        if parameter.is_constexpr or value is None or (type(value) is int and value == 1 and specialised):
            return None
        if isinstance(value, torch.Tensor):
            name = _TYPES.get(str(value.dtype).removeprefix("torch."))
            if name:
                offset = value.storage_offset() * value.element_size()
                aligned = specialised and not parameter.do_not_specialize_on_alignment and offset % _ALIGNED_BYTES == 0
                return f"*{'k' if parameter.is_const else ''}{name}{':16' if aligned else ''}"
        elif type(value) in (bool, int, float):
            text = parameter.annotation_type or _scalar(value)
            multiple = type(value) is int and value % _ALIGNED_BYTES == 0
            aligned = multiple and specialised and not parameter.do_not_specialize_on_alignment
            return f"{text}{':16' if aligned else ''}"
        shown = f"a tensor of {value.dtype}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        raise KernelError(f"{self._owner}: its argument {parameter.name!r} is {shown}, of which no type is inferred")


def _scalar(value: bool | float) -> str:
    """The type that Triton gives to a number."""
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, float):
        return "fp32"
    if -(2**31) <= value < 2**31:
        return "i32"
    return "i64" if value < 2**63 else "u64"
