"""Requests that arrive while a call runs, and the answers to them, by the harness's clock.

A workload that declares `served` is a trace: each of its requests arrives at a time of its own, counted from the start
of the call, and an implementation that asks for `desk` is handed it then and not before:

    class OneByOne:
        def run(self, desk, weights):
            while desk.is_open:
                for request in desk.wait():
                    desk.answer([request], scores=score(weights, request["tokens"][None]))

An answer counts when it lies in the harness's own memory: `answer` waits for the device, copies, and then looks at the
clock. That copy is what is judged. So a latency cannot be claimed for an answer that comes later, nor the answer be
mended afterwards.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import define, field, frozen

from aiperf_core.errors import ContractError

ARRIVAL = "arrival_s"
DEADLINE = "deadline_s"

# Bound now, before anybody could replace them.
_now_ns, _sleep = time.perf_counter_ns, time.sleep


@frozen(eq=False)
class Request:
    """A request: its place in the trace, when it arrived and when its answer is due, in seconds from the start of the call.

    `request["tokens"]` is its row of that input, on the host: a tensor, or a number where the input is a vector.
    """

    number: int
    arrival_s: float
    due_s: float
    values: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@define(eq=False)
class Desk:
    """Hands out the requests of a trace as they arrive, takes their answers, and keeps the time.

    `served` has the inputs by name, a row a request, `arrival_s` among them; the harness renews them in place. An
    answer that takes longer than `deadline_s` is late.
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
        """Seconds since the call began."""
        return (_now_ns() - self._began_ns) / 1e9

    @property
    def is_open(self) -> bool:
        """Whether there are requests that have no answer, arrived or not."""
        return self._left > 0

    def arrived(self) -> list[Request]:
        """The requests that arrived since this was last asked, in the order of their arrival. Does not wait."""
        now_s, first = self.now_s, self._next
        while self._next < len(self._order) and self._order[self._next].arrival_s <= now_s:
            self._next += 1
        return self._order[first : self._next]

    def wait(self, until_s: float = math.inf) -> list[Request]:
        """Wait for a request, but no longer than until that time after the start of the call; what arrived, perhaps nothing.

        Without a time, and where none is left to come, it returns at once.
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
        """Hand in answers: of each name a tensor with a row for each of the requests, on any device.

        Returns when they have arrived. Raises `ContractError` for a request that has not been handed out or has its answer,
        and for rows that are not as many or not like those before.
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
            wanted = f"{str(kept.dtype).removeprefix('torch.')}{[len(places), *kept.shape[1:]]}"
            found = f"{str(rows.dtype).removeprefix('torch.')}{list(rows.shape)}"
            raise ContractError(f"an answer's {name!r} is {found}; accepted is {wanted}, a row for each request")
        with torch.no_grad():
            kept[places] = rows.cpu()

    # --- for the harness

    def serving(self, call: Callable[[], Any]) -> Callable[[], dict[str, torch.Tensor]]:
        """A function that makes the call for the trace that now lies in the inputs, and returns the answers, on the host."""
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
        """From each request's arrival until its answer was there, in the order of the trace; of the last call."""
        pairs = zip(self._trace, self._answered_s, strict=True)
        return [done_s - request.arrival_s for request, done_s in pairs if done_s is not None]


def at_desk(served: Sequence[str], arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Desk | None]:
    """Arguments in which a desk stands in the place of what it hands out; as they are where nothing is served."""
    if not served:
        return dict(arguments), None
    names = (*served, ARRIVAL)
    desk = Desk({name: arguments[name] for name in names}, arguments[DEADLINE])
    return {**{name: one for name, one in arguments.items() if name not in names}, "desk": desk}, desk


def _names(rows: Mapping[str, Any]) -> str:
    return ", ".join(sorted(rows))
