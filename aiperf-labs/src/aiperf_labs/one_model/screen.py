"""A screen of twelve switches by Plackett and Burman: twenty runs tell what each is worth on average over the others.

Ladders give each switch the company of those before it, or of all others. Here each is on in half of the runs, and so
is every other switch in both halves: the mean of its effect does not depend on an order (Plackett and Burman, 1946).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from aiperf_labs.one_model.switches import BY_NAME, Switch, Switches

# All of these go together, whichever are on.
SCREENED = (
    "one_call_experts",
    "fused_projections",
    "continuous",
    "longest_first",
    "rotary_table",
    "prefix",
    "lookup",
    "fp8_cache",
    "explicit_attention",
    "repeated_heads",
    "grown_cache",
    "all_logits",
)
_PRIME = 19  # one less than the runs; its squares make the design (Paley, 1933)


def design(columns: int = len(SCREENED)) -> list[list[bool]]:
    """Twenty rows of up to nineteen columns, of which any two are orthogonal. In the last row nothing is on."""
    if columns > _PRIME:
        raise ValueError(f"a design of {_PRIME + 1} runs has up to {_PRIME} columns; {columns} were asked for")
    squares = {number * number % _PRIME for number in range(1, _PRIME)}
    rows = [[(place + row) % _PRIME in squares | {0} for place in range(columns)] for row in range(_PRIME)]
    return [*rows, [False] * columns]


def runs() -> list[Switches]:
    """The switches of each run but the last, which is the baseline."""
    return [_on([BY_NAME[name] for name, is_on in zip(SCREENED, row, strict=True) if is_on]) for row in design()[:-1]]


def _on(chosen: Sequence[Switch]) -> Switches:
    values: dict[str, Any] = {}
    for one in chosen:
        values |= one.sets
    return Switches(**values)


def gains(times_s: Mapping[int, float]) -> dict[str, float] | None:
    """How many times faster each switch makes a run, on average; None where a run has no time.

    times_s: by run; the baseline is the last.
    """
    rows = design()
    if len(times_s) < len(rows):
        return None
    found = {}
    for column, name in enumerate(SCREENED):
        effect = sum((-1 if row[column] else 1) * math.log(times_s[number]) for number, row in enumerate(rows))
        found[name] = math.exp(2 * effect / len(rows))
    return found
