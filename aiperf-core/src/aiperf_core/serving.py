"""Requests that arrive while a call runs, and their answers, by the clock of the harness.

A workload that declares `served` is a trace: each request has an arrival time, counted from the start of the call. An
implementation that asks for `desk` gets a request at that time and not before:

    class OneByOne:
        def run(self, desk, weights):
            while desk.is_open:
                for request in desk.wait():
                    desk.answer([request], scores=score(weights, request["tokens"][None]))

An answer counts when it lies in the harness's own memory: `answer` waits for the device, copies, and then reads the
clock. The copy is judged: code can neither claim an earlier time for an answer nor change it later.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import define, field, frozen

from aiperf_core.errors import ContractError
from aiperf_core.pytree import form

ARRIVAL = "arrival_s"
DEADLINE = "deadline_s"

# Bound at import, before other code can replace them.
_now_ns, _sleep = time.perf_counter_ns, time.sleep


@frozen(eq=False)
class Request:
    """A request. `request["tokens"]` is its row of that input on the host: a tensor, or a number of a vector.

    number: its place in the trace.
    arrival_s, due_s: its arrival and the deadline of its answer, in seconds from the start of the call.
    values: its rows by input.
    """

    number: int
    arrival_s: float
    due_s: float
    values: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@define(eq=False)
class Desk:
    """Hands out the requests of a trace as they arrive, takes their answers, and measures the times.

    served: the inputs by name with a row for each request, including `arrival_s`; the harness renews them in place.
    deadline_s: an answer that takes longer is late.
    """

    served: Mapping[str, torch.Tensor]
    deadline_s: float
    _trace: list[Request] = field(init=False, factory=list)
    _order: list[Request] = field(init=False, factory=list)
    _next: int = field(init=False, default=0)
    _began_ns: int = field(init=False, default=0)
    _answered_s: list[float | None] = field(init=False, factory=list)
    _left: int = field(init=False, default=0)
    _answers: dict[str, torch.Tensor] = field(init=False, factory=dict)

    # --- for implementations

    @property
    def now_s(self) -> float:
        """Seconds since the start of the call."""
        return (_now_ns() - self._began_ns) / 1e9

    @property
    def is_open(self) -> bool:
        """Whether any request has no answer, including those that have not arrived."""
        return self._left > 0

    def arrived(self) -> list[Request]:
        """The requests that arrived since the last call of this method, in the order of arrival. Does not wait."""
        now_s, first = self.now_s, self._next
        while self._next < len(self._order) and self._order[self._next].arrival_s <= now_s:
            self._next += 1
        return self._order[first : self._next]

    def wait(self, until_s: float = math.inf) -> list[Request]:
        """Wait for a request, at most until `until_s` after the start of the call; return those that arrived, if any.

        Returns at once when no request is left to come and `until_s` is not given.
        """
        found = self.arrived()
        while not found:
            coming_s = self._order[self._next].arrival_s if self._next < len(self._order) else math.inf
            pause_s = min(until_s, coming_s) - self.now_s
            if pause_s <= 0 or pause_s == math.inf:
                return self.arrived()
            _sleep(pause_s)
            found = self.arrived()
        return found

    def answer(self, requests: Sequence[Request], **rows: torch.Tensor) -> None:
        """Hand in answers: tensors by name, on any device, with a row for each of the requests.

        Returns when the answers are copied. Raises `ContractError` for a request that was not handed out or has an
        answer already, and for rows of another number, shape or dtype than before.
        """
        for request in requests:
            known = request.number < len(self._trace) and self._trace[request.number] is request
            if not known or request.arrival_s > self.now_s:
                raise ContractError(f"request {request.number} was answered before it arrived")
            if self._answered_s[request.number] is not None:
                raise ContractError(f"request {request.number} was answered twice")
        if not rows or (self._answers and set(rows) != set(self._answers)):
            raise ContractError(f"an answer has {_names(rows)}; accepted are {_names(self._answers) or 'rows by name'}")
        places = torch.tensor([request.number for request in requests])
        for name, one in rows.items():
            self._keep(name, one, places)
        done_s = self.now_s
        for request in requests:
            self._answered_s[request.number] = done_s
        self._left -= len(requests)

    def _keep(self, name: str, rows: torch.Tensor, places: torch.Tensor) -> None:
        kept = self._answers.get(name)
        if kept is None:
            kept = self._answers[name] = torch.empty(len(self._trace), *rows.shape[1:], dtype=rows.dtype)
        if len(rows) != len(places) or rows.shape[1:] != kept.shape[1:] or rows.dtype != kept.dtype:
            wanted = form(kept.new_empty(len(places), *kept.shape[1:]))
            raise ContractError(f"an answer's {name!r} is {form(rows)}; accepted is {wanted}, a row for each request")
        with torch.no_grad():
            kept[places] = rows.cpu()

    # --- for the harness

    def serving(self, call: Callable[[], Any]) -> Callable[[], dict[str, torch.Tensor]]:
        """A function that makes the call for the trace in the present inputs, and returns the answers on the host."""
        values = {name: one.cpu() if one.dim() > 1 else one.tolist() for name, one in self.served.items()}
        arrivals = values.pop(ARRIVAL)
        self._trace = [
            Request(number, at_s, at_s + self.deadline_s, {name: one[number] for name, one in values.items()})
            for number, at_s in enumerate(arrivals)
        ]
        self._order = sorted(self._trace, key=lambda one: one.arrival_s)

        def served() -> dict[str, torch.Tensor]:
            self._next, self._left, self._answers = 0, len(self._trace), {}
            self._answered_s = [None] * len(self._trace)
            self._began_ns = _now_ns()
            call()
            if self._left:
                raise ContractError(f"{self._left} of {len(self._trace)} requests have no answer")
            return self._answers

        return served

    @property
    def latencies_s(self) -> list[float]:
        """Seconds from arrival to answer of each request of the last call, in the order of the trace."""
        pairs = zip(self._trace, self._answered_s, strict=True)
        return [done_s - request.arrival_s for request, done_s in pairs if done_s is not None]


def at_desk(served: Sequence[str], arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Desk | None]:
    """The arguments with a desk instead of the served inputs, and the desk; unchanged when nothing is served."""
    if not served:
        return dict(arguments), None
    names = (*served, ARRIVAL)
    desk = Desk({name: arguments[name] for name in names}, arguments[DEADLINE])
    return {**{name: one for name, one in arguments.items() if name not in names}, "desk": desk}, desk


def _names(rows: Mapping[str, Any]) -> str:
    return ", ".join(sorted(rows))
