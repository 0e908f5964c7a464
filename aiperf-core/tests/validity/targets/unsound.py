"""A target whose workload or reference has the fault that the size `fault` names. Without one it is sound.

Question    Is each fault found?
Numbers     b = 3a + 1, and worse.
Prediction  None.
Limits      None.
"""

import math

import torch

from aiperf_core import Benchmark, Cost, fp32

bench = Benchmark(goal="speed")
FAULTS = (
    "none",
    "none_in_integers",
    "draws_from_elsewhere",
    "static_from_elsewhere",
    "sizes_follow_the_seed",
    "still_input",
    "still_integers",
    "changes_its_input",
    "answer_of_any_size",
    "infinite",
    "not_a_number",
    "counts_its_calls",
    "answers_nothing",
    "zero",
    "constant",
    "copies",
    "ignores_its_input",
    "half_of_it_is_constant",
    "only_the_first_half_is_read",
    "small_integers",
    "positive_sum",
    "work_follows_the_seed",
    "work_of_one_seed",
)
calls = [0]


@bench.workload(smoke={"n": 64, "fault": 0})
def inputs(n, fault, device, generator):
    match FAULTS[fault]:
        case "draws_from_elsewhere":
            return {"a": torch.rand(n)}
        case "sizes_follow_the_seed":
            return {"a": torch.randn(n + generator.initial_seed() % 2, generator=generator)}
        case "still_input":
            return {"a": torch.randn(n, generator=generator), "still": torch.linspace(1, 2, n)}
        case "none_in_integers":
            return {"a": torch.randint(9, (n,), generator=generator), "still": torch.arange(n)}
        case "still_integers":
            return {"a": torch.arange(n)}
        case "small_integers":
            return {"a": torch.randint(9, (n,), generator=generator).float()}
        case "positive_sum":
            return {"a": torch.rand(1 << 20, generator=generator)}
        case "work_follows_the_seed":
            return {"a": torch.randn(n, generator=generator), "passes": passes(generator)}
        case "work_of_one_seed":
            return {"a": torch.randn(n, generator=generator), "passes": passes(torch.Generator().manual_seed(1))}
    return {"a": torch.randn(n, generator=generator)}


def passes(generator):
    return torch.randint(3, 30, (), generator=generator)


@bench.static
def constants(n, fault, generator):
    return {"c": torch.rand(n)} if FAULTS[fault] == "static_from_elsewhere" else {}


@bench.reference(tolerance=fp32)
def reference(a, fault, n, still=0, c=0, passes=0):
    for _ in range(int(passes)):
        a = a + 1
    if FAULTS[fault] == "changes_its_input":
        a += 1
    if FAULTS[fault] == "counts_its_calls":
        calls[0] += 1
    answers = {
        "answer_of_any_size": lambda: a[a > 0],
        "infinite": lambda: a + math.inf,
        "not_a_number": lambda: a * math.nan,
        "counts_its_calls": lambda: a + calls[0],
        "answers_nothing": lambda: {"a": None, "b": a[:0]},
        "zero": lambda: a * 0,
        "constant": lambda: a * 0 + 2.1,
        "copies": lambda: a.clone(),
        "ignores_its_input": lambda: torch.linspace(1, 2, n, dtype=a.dtype),
        "half_of_it_is_constant": lambda: torch.cat([3 * a[: n // 2] + 1, torch.linspace(1, 2, n // 2, dtype=a.dtype)]),
        "only_the_first_half_is_read": lambda: 3 * a[: n // 2] + 1,
        "positive_sum": lambda: a.sum().reshape(1),
    }
    return answers.get(FAULTS[fault], lambda: 3 * a + 1 + still + c)()


@bench.cost
def cost(n, fault):
    size = {
        "still_input": 8 * n,
        "static_from_elsewhere": 8 * n,
        "still_integers": 8 * n,
        "none_in_integers": 16 * n,
        "positive_sum": 4 << 20,
    }.get(FAULTS[fault], 4 * n)
    written = {"still_integers": 8 * n, "none_in_integers": 8 * n, "positive_sum": 4, "answers_nothing": 0}.get(
        FAULTS[fault], 4 * n
    )
    half = FAULTS[fault] == "only_the_first_half_is_read"
    return Cost(bytes_read=size, bytes_written=written / 2 if half else written)


@bench.baseline(device="cpu", kind="naive")
def tripled(a):
    return 3 * a + 1
