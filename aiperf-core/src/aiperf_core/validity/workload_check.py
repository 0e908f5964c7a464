"""Checks of the values that a workload returns: of their names, and of their form for another seed."""

from collections.abc import Callable
from typing import Any

import torch

from aiperf_core import pytree
from aiperf_core.benchmark import Workload
from aiperf_core.errors import BenchmarkError
from aiperf_core.serving import ARRIVAL

_NUMBER: pytree.Shape = {"type": "number"}


def check_names(
    task: Workload,
    params: dict[str, float],
    fresh: dict[str, Any],
    static: dict[str, Any],
    ranks: bool,
    fault: Callable[[str], BenchmarkError],
) -> None:
    """Raise what `fault` makes where names of sizes, inputs and static arguments clash, or a declaration is wrong.

    ranks: each rank has values of its own; those of the first are checked.
    """
    if ranks:
        fresh, static = (next(iter(values.values()), {}) for values in (fresh, static))
    unknown = [name for name in task.state if name not in fresh]
    if unknown:
        raise fault(f"state names {unknown}; the workload returns {', '.join(sorted(fresh))}.")
    for name in task.files:
        if not isinstance(one := fresh.get(name), torch.Tensor) or one.device.type != "cpu":
            raise fault(f"files names {name!r}, which is {pytree.summary(one)}; accepted is a tensor on the processor.")
    for name in (*task.served, ARRIVAL) if task.served else ():
        one, rows = fresh.get(name), fresh.get(ARRIVAL)
        if not isinstance(one, torch.Tensor) or not isinstance(rows, torch.Tensor) or len(one) != len(rows):
            raise fault(
                f"the workload serves requests, and {name!r} is {pytree.summary(one)}; accepted are tensors with a "
                f"row for each request, and the vector {ARRIVAL!r}."
            )
    clash = sorted((set(fresh) & set(static)) | (set(fresh) & set(params)))
    if clash:
        raise fault(f"{clash} name inputs and also sizes or static arguments; rename one.")


def check_form(shape: pytree.Shape, first: pytree.Shape, ranks: bool, fault: Callable[[str], BenchmarkError]) -> None:
    """Raise what `fault` makes for inputs of another form than the first ones; numbers among them may differ.

    ranks: each rank has values of its own.
    """
    if _without_numbers(shape, ranks) != _without_numbers(first, ranks):
        raise fault(
            "the workload returned inputs of another structure or size for another seed; accepted are the same shapes "
            "and dtypes for every seed (pad what varies)."
        )


def _without_numbers(shape: pytree.Shape, ranks: bool) -> Any:
    """A shape of inputs without the values of the numbers at its top level."""
    items = [part["items"] for part in (shape["items"].values() if ranks else [shape])]
    return [{key: _NUMBER if one["type"] == "number" else one for key, one in own.items()} for own in items]
