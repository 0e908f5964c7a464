"""Every scheduler does what its name says; `pytest --aiperf` tests that every request gets the right answer."""

import math
from typing import Any

import pytest
import torch

from aiperf_ch16 import dynamic_batching
from aiperf_core.benchmark import call_with
from aiperf_core.models import config
from aiperf_core.serving import Desk, Request
from aiperf_core.testing import Measure, problems
from aiperf_core.validity.output_check import compare_tensors

BENCH = dynamic_batching.bench
SMOKE: dict[str, Any] = dict(BENCH.task.presets["smoke"])


@pytest.mark.gpu
def test_right_on_a_gpu_with_a_large_model(aiperf_measure: Measure) -> None:
    assert problems(aiperf_measure("ch16.dynamic_batching", device="cuda", size="cuda", requests=40)) == []


def test_latencies_and_goodput_are_measured(aiperf_measure: Measure) -> None:
    rows = aiperf_measure("ch16.dynamic_batching").rows
    assert rows
    for row in rows:
        assert 0 < row.beside["latency_p50_s"] <= row.beside["latency_p99_s"]
        assert row.beside["goodput_per_s"] >= 0


def test_a_layer_that_is_left_out_is_seen() -> None:
    sizes = {**SMOKE, **config("tiny").sizes, "bits": 32}
    draw = {**sizes, "device": "cpu", "generator": torch.Generator().manual_seed(1)}
    assert BENCH.task.static is not None
    static, fresh = call_with(BENCH.task.static, draw), call_with(BENCH.task.inputs, draw)
    right = BENCH.answer(sizes, {**fresh, **static})["scores"]
    less = BENCH.answer({**sizes, "layers": 1}, {**fresh, **static})["scores"]
    assert compare_tensors("", less, right, BENCH.tolerance_at({**SMOKE, "bits": 16})).error is not None
    # In float32 scores that were rounded to half precision are refused.
    assert compare_tensors("", right.half().double(), right, BENCH.tolerance_at(sizes)).error is not None


def trace(**sizes: Any) -> dict[str, torch.Tensor]:
    values: dict[str, torch.Tensor] = call_with(
        BENCH.task.inputs, {**SMOKE, **sizes, "device": "cpu", "generator": torch.Generator().manual_seed(5)}
    )
    return values


def test_a_trace_is_as_declared() -> None:
    drawn = trace(requests=4000, shortest=4, longest=32, rate_per_s=1000, burst=0.25)
    arrival_s, length = drawn["arrival_s"], drawn["length"].double()
    assert torch.equal(arrival_s, arrival_s.sort().values)
    assert 0 <= arrival_s[0] < arrival_s[-1] <= 4.0
    assert [int(length.min()), int(length.max())] == [4, 32]
    assert abs(length.mean() - 4 - 28 / 3) < 0.5
    # A quarter arrives in bursts, the others each alone and evenly.
    at_once = arrival_s.unique(return_counts=True)[1]
    assert at_once[at_once > 1].sum() == 1000
    assert len(at_once[at_once > 1]) == dynamic_batching.BURSTS
    alone = arrival_s.unique()
    assert abs((alone < 2.0).double().mean() - 0.5) < 0.05


def test_the_cost_counts_the_mean_prompt() -> None:
    drawn = trace(requests=20_000, shortest=4, longest=32)
    declared = BENCH.work({**SMOKE, "requests": 20_000, "shortest": 4, "longest": 32}).tokens
    assert abs(int(drawn["length"].sum()) / declared - 1) < 0.05


def asked(number: int, length: int, arrival_s: float = 0.0, due_s: float = 1.0) -> Request:
    return Request(number, arrival_s, due_s, {"length": length})


def chosen(kind: Any, waiting: list[Request], now_s: float = 0.0, **facts: Any) -> list[int]:
    instance = kind.__new__(kind)
    instance.most = 4
    for name, value in facts.items():
        setattr(instance, name, value)
    return [one.number for one in instance.choose(waiting, now_s)]


def test_who_waits_is_taken_in_order() -> None:
    waiting = [asked(number, 9 - number) for number in range(6)]
    assert chosen(dynamic_batching.OneByOne, waiting) == [0]
    assert chosen(dynamic_batching.Waiting, waiting) == [0, 1, 2, 3]


def test_buckets_take_like_lengths_and_always_the_oldest() -> None:
    waiting = [asked(0, 30), asked(1, 1), asked(2, 31), asked(3, 2), asked(4, 29)]
    assert sorted(chosen(dynamic_batching.Buckets, waiting)) == [0, 2, 4]
    assert chosen(dynamic_batching.Buckets, waiting[1:]) == [1, 3]


@pytest.mark.parametrize("preset", ["cpu", "cuda"])
def test_all_requests_of_a_call_arrive_before_the_first_is_late(preset: str) -> None:
    # At a lower rate the arrivals bound the time of a call, and all variants that keep up have the same.
    sizes = BENCH.task.presets[preset]
    assert sizes["requests"] / sizes["rate_per_s"] < sizes["deadline_s"]


def test_passes_and_tokens_are_as_predicted() -> None:
    sizes = BENCH.task.presets["cpu"]
    lengths = [int(length) for length in trace(**sizes)["length"]]

    def passes_and_tokens(kind: Any) -> tuple[int, float]:
        waiting, passes, tokens = [asked(*one) for one in enumerate(lengths)], 0, 0
        while waiting:
            batch = chosen(kind, waiting, most=sizes["most_in_batch"])
            passes, tokens = passes + 1, tokens + len(batch) * max(lengths[one] for one in batch)
            waiting = [one for one in waiting if one.number not in batch]
        return passes, round(tokens / sum(lengths), 1)

    assert passes_and_tokens(dynamic_batching.OneByOne) == (200, 1.0)
    assert passes_and_tokens(dynamic_batching.Waiting) == (13, 2.2)
    assert passes_and_tokens(dynamic_batching.Buckets) == (14, 1.1)


def test_deadlines_bound_a_batch_and_the_late_go_last() -> None:
    facts = {"least_s": 0.01, "token_s": 0.001}
    waiting = [asked(0, 10, due_s=0.045), asked(1, 10, due_s=0.05), asked(2, 10, due_s=0.06), asked(3, 10, due_s=0.07)]
    # 10 ms and 10 ms a prompt: three would take 40.
    assert chosen(dynamic_batching.Deadline, waiting, 0.0, **facts) == [0, 1, 2]
    assert chosen(dynamic_batching.Deadline, waiting, 0.005, **facts) == [0, 1, 2]
    assert chosen(dynamic_batching.Deadline, waiting, 0.01, **facts) == [0, 1]
    # Too late for the first two; the others are served, and those when nobody else can be in time.
    assert chosen(dynamic_batching.Deadline, waiting, 0.035, **facts) == [2]
    assert chosen(dynamic_batching.Deadline, waiting, 1.0, **facts) == [0, 1, 2, 3]


def test_a_timeout_is_waited_for_unless_the_batch_is_full() -> None:
    times: list[float] = []

    class Still(Desk):
        @property
        def now_s(self) -> float:
            return times[-1] if times else 0.0

        def wait(self, until_s: float = math.inf) -> list[Request]:
            times.append(min(until_s, now_s + 0.001 if (now_s := self.now_s) < 0.003 else until_s))
            return [asked(7, 3)]

    desk = Still({}, 1.0)
    instance = dynamic_batching.Timeout()
    instance.most = 4
    few, full = [asked(0, 3, arrival_s=-0.0035)], [asked(number, 3) for number in range(4)]
    instance.gather(desk, full)
    assert times == []
    instance.gather(desk, few)
    assert [one.number for one in few] == [0, 7, 7]
    assert times == [0.001, dynamic_batching.TIMEOUT_S - 0.0035]
