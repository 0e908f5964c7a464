"""The desk hands out requests when they arrive, keeps the time itself, and takes an answer once."""

import time

import pytest
import torch

from aiperf_core import serving
from aiperf_core.errors import ContractError
from aiperf_core.serving import Desk


class Clock:
    """A clock that moves when somebody sleeps, or is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 5_000_000_000
        monkeypatch.setattr(serving, "_now_ns", lambda: self.now_ns)
        monkeypatch.setattr(serving, "_sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def desk_of(*arrivals: float) -> Desk:
    count = len(arrivals)
    served = {
        "tokens": torch.arange(2 * count).view(count, 2),
        "length": torch.arange(count),
        "arrival_s": torch.tensor(arrivals, dtype=torch.float64),
    }
    return Desk(served, deadline_s=1.0)


def numbers(requests: list[serving.Request]) -> list[int]:
    return [one.number for one in requests]


def test_requests_come_when_they_arrive(clock: Clock) -> None:
    desk, seen = desk_of(0.5, 0.0, 0.5, 2.0), []

    def call() -> None:
        seen.append(numbers(desk.arrived()))
        seen.append(numbers(desk.arrived()))
        seen.append(numbers(desk.wait(0.25)))
        assert desk.now_s == 0.25
        first = desk.wait()
        seen.append(numbers(first))
        assert desk.now_s == 0.5
        assert (first[0].arrival_s, first[0].due_s) == (0.5, 1.5)
        assert torch.equal(first[1]["tokens"], torch.tensor([4, 5]))
        assert first[1]["length"] == 2
        seen.append(numbers(desk.wait(9.0)))
        assert desk.now_s == 2.0
        # That all have arrived is not told: who waits until a time does.
        seen.append(numbers(desk.wait(2.5)))
        assert desk.now_s == 2.5
        seen.append(numbers(desk.wait()))

    with pytest.raises(ContractError) as caught:
        desk.serving(call)()
    assert str(caught.value) == "4 of 4 requests have no answer"
    assert seen == [[1], [], [], [0, 2], [3], [], []]


def test_an_answer_is_there_when_it_lies_in_the_harness_memory(clock: Clock) -> None:
    desk = desk_of(0.0, 1.0)

    def call() -> None:
        (first,) = desk.arrived()
        clock.sleep(3.0)
        (second,) = desk.wait()
        rows = torch.tensor([[2.0], [1.0]])
        desk.answer([second, first], x=rows)
        # What is changed later is not what was handed in.
        rows.zero_()
        assert not desk.is_open

    answers = desk.serving(call)()
    assert answers["x"].tolist() == [[1.0], [2.0]]
    assert desk.latencies_s == [3.0, 2.0]


def test_a_second_call_begins_anew(clock: Clock) -> None:
    desk = desk_of(0.0)
    for wait_s in (1.0, 2.0):
        values = desk.served["tokens"]
        values += 10

        def call(wait_s: float = wait_s) -> None:
            (request,) = desk.wait()
            clock.sleep(wait_s)
            desk.answer([request], x=request["tokens"][None])

        assert torch.equal(desk.serving(call)()["x"], values)
        assert desk.latencies_s == [wait_s]


def test_what_breaks_the_rules_is_refused(clock: Clock) -> None:
    desk = desk_of(0.0, 0.0, 7.0)
    said = []

    def refused(requests: list[serving.Request], **rows: torch.Tensor) -> None:
        with pytest.raises(ContractError) as caught:
            desk.answer(requests, **rows)
        said.append(str(caught.value))

    def call() -> None:
        first, second = desk.wait()
        desk.answer([first], x=torch.zeros(1, 2))
        refused([first], x=torch.zeros(1, 2))
        refused([desk._order[2]], x=torch.zeros(1, 2))
        refused([second], y=torch.zeros(1, 2))
        refused([second], x=torch.zeros(2, 2))
        refused([second], x=torch.zeros(1, 2, dtype=torch.float64))
        stranger = serving.Request(1, 0.0, 1.0, {})
        refused([stranger], x=torch.zeros(1, 2))
        desk.answer([second], x=torch.zeros(1, 2))
        desk.answer(desk.wait(), x=torch.zeros(1, 2))

    desk.serving(call)()
    assert said == [
        "request 0 was answered twice",
        "request 2 was answered before it arrived",
        "an answer has y; accepted are x",
        "an answer's 'x' is float32[2, 2]; accepted is float32[1, 2], a row for each request",
        "an answer's 'x' is float64[1, 2]; accepted is float32[1, 2], a row for each request",
        "request 1 was answered before it arrived",
    ]


def test_by_the_real_clock_nothing_comes_early() -> None:
    desk, late = desk_of(0.0, 0.003, 0.006), []

    def call() -> None:
        while desk.is_open:
            for request in desk.wait():
                late.append(desk.now_s - request.arrival_s)
                desk.answer([request], x=torch.zeros(1))

    start = time.perf_counter()
    desk.serving(call)()
    assert time.perf_counter() - start >= 0.006
    assert min(late) >= 0
    assert all(told >= seen for told, seen in zip(desk.latencies_s, late, strict=True))
