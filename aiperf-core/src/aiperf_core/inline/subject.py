"""Functions that are compared: their arguments, what they return, and what they change."""

import inspect
import os
from collections.abc import Callable
from typing import Any

import torch
from attrs import field, frozen

from aiperf_core import pytree
from aiperf_core.devices.device import BUILT_IN, DeviceKind
from aiperf_core.errors import BenchmarkError, UsageError
from aiperf_core.tolerance import Tolerance, exact
from aiperf_core.validity import reference_check

Call = Callable[[], Any]


@frozen(eq=False)
class Arguments:
    """Arguments of a call, by position and by name."""

    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = field(factory=dict)

    @staticmethod
    def drawn(make: Callable[..., Any] | None) -> "Arguments":
        """The arguments that a maker returns: a tuple, a dict by name, or a single value; none without a maker."""
        if make is None:
            return Arguments()
        try:
            made = make()
        except Exception as error:
            raise BenchmarkError(f"the function for the inputs failed: {_sentence(error)}") from error
        if isinstance(made, dict) and all(isinstance(name, str) for name in made):
            return Arguments((), made)
        return Arguments(made if isinstance(made, tuple) else (made,))

    @property
    def values(self) -> dict[str, Any]:
        """All values by name; those by position are numbered from 0."""
        return {**{str(place): value for place, value in enumerate(self.positional)}, **self.named}

    def copied(self) -> "Arguments":
        """Arguments with copies of all tensors."""
        values = pytree.mapped((self.positional, self.named), lambda tensor: tensor.detach().clone())
        return Arguments(*values)

    def bound_to(self, function: Callable[..., Any]) -> Call:
        """A call of the function with these arguments."""
        positional, named = self.positional, self.named
        return (lambda: function(*positional, **named)) if positional or named else function

    def unlike(self, other: "Arguments") -> list[str]:
        """Names of the arguments whose tensors have other bits."""
        pairs = ((name, value, other.values[name]) for name, value in self.values.items())
        return [name for name, value, now in pairs if not _same(value, now)]


def name_of(function: Callable[..., Any], fallback: str) -> str:
    """The name of a function in messages; the fallback for a lambda or an object without a name."""
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() else fallback


def check_function(function: Any, parameter: str) -> None:
    """Raise UsageError unless a call of this does the work."""
    if not callable(function):
        raise UsageError(f"{parameter} is {function!r}; accepted is a function.")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise UsageError(
            f"{parameter} is a coroutine or a generator, and its call alone does none of its work; give a function "
            "that runs it to its end."
        )


def first_call(name: str, call: Call) -> Any:
    """The output of a first call. Raises BenchmarkError for one that fails."""
    pid = os.getpid()
    try:
        return call()
    except Exception as error:
        raise BenchmarkError(f"{name} failed on its first call: {_sentence(error)}") from error
    finally:
        end_a_child_of(pid)


def end_a_child_of(pid: int) -> None:
    """End this process unless it has this id: a child that a function forked, and that came back from its call."""
    if os.getpid() != pid:
        os._exit(0)


def kind_of(*values: Any) -> DeviceKind:
    """The kind of device that holds these values: that of a GPU where a tensor lies on one."""
    types = {tensor.device.type for tensor in pytree.tensors(list(values))} - {"cpu"}
    if types - {"cuda"}:
        raise UsageError(f"there are tensors on {', '.join(sorted(types))}; accepted are cpu and cuda.")
    return BUILT_IN["cuda" if types else "cpu"].resolve()


def difference(left: Any, right: Any, tolerance: Tolerance | None) -> str | None:
    """The first difference of two outputs beyond the tolerance, by default that of their dtypes; None without one."""
    try:
        shape, other = (pytree.describe(value, pytree.Layout()) for value in (left, right))
    except TypeError:  # objects that are no tensors, such as strings
        return None if left == right else f"{left!r} and {right!r}"
    if reference_check.form(shape) != reference_check.form(other):
        return f"{pytree.summary(left)} and {pytree.summary(right)}"
    used = tolerance or reference_check.base_tolerance(shape, left)
    with torch.no_grad():
        return reference_check.differs(shape, right, left, used).error


def check_of(check: Any) -> tuple[Tolerance | None, Callable[[Any, Any], Any] | None]:
    """The tolerance that a check names, None for that of the dtypes, and the check itself where it is a function."""
    if check is None or isinstance(check, Tolerance):
        return check, None
    if check == "exact":
        return exact, None
    if callable(check):
        return None, check
    raise UsageError(f"check={check!r}; accepted are a Tolerance, 'exact', and a function of two outputs.")


def _same(value: Any, other: Any) -> bool:
    return all(map(pytree.same_bits, pytree.tensors([value]), pytree.tensors([other])))


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
