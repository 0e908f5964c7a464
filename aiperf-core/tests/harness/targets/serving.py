"""Requests that arrive during the call: served one by one, late, or by code that does not keep to the rules."""

import time

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="latency", clock="wall")
SLOW_S = 0.004


@bench.workload(served=("tokens", "shift"), smoke={"requests": 9, "span_s": 0.02, "deadline_s": 0.003})
def inputs(requests, span_s, device, generator):
    def drawn(*shape):
        return torch.randint(100, shape, device=device, generator=generator)

    arrival_s = torch.linspace(0, span_s, requests, dtype=torch.float64, device=device)
    return {"tokens": drawn(requests, 3), "shift": drawn(requests), "arrival_s": arrival_s}


@bench.reference(tolerance=exact)
def reference(tokens, shift):
    return {"sum": tokens.sum(1) + shift, "tokens": tokens}


@bench.cost
def cost(requests):
    return Cost(bytes_read=8 * 4 * requests, bytes_written=8 * 4 * requests)


def answer(desk, request):
    right = request["tokens"].sum() + request["shift"]
    desk.answer([request], sum=right[None], tokens=request["tokens"][None])


@bench.baseline(device=("cpu", "cuda"), kind="naive")
def one_by_one(desk):
    while desk.is_open:
        for request in desk.wait():
            answer(desk, request)


@bench.variant(device="cpu", why="late")
def late(desk):
    while desk.is_open:
        for request in desk.wait():
            time.sleep(SLOW_S)
            answer(desk, request)


@bench.variant(device="cpu", why="does not answer all")
def forgets(desk):
    answer(desk, desk.wait()[0])


@bench.variant(device="cpu", why="answers what has not come")
def foresees(desk):
    for request in desk._order:
        answer(desk, request)


@bench.variant(device="cpu", why="wrong for one of them")
def wrong(desk):
    while desk.is_open:
        for request in desk.wait():
            more = int(request.number == 4)
            desk.answer(
                [request],
                sum=request["tokens"].sum()[None] + request["shift"] + more,
                tokens=request["tokens"][None],
            )
