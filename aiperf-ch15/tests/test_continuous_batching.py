"""How many steps the schedulers take, and that each request gets what it asked for, with a model that is not there."""

from itertools import chain
from typing import Any

import pytest
import torch

from aiperf_ch15 import continuous_batching
from aiperf_ch15.continuous_batching import Continuous, LongestFirst, Server, SortedBatches, StaticBatches
from aiperf_core.benchmark import call_with

TRACE = dict(continuous_batching.bench.task.presets["trace"])


def scheduled(kind: type[Server], wanted: list[int], slots: int) -> tuple[list[int], list[list[int]]]:
    """The number of busy slots of each step, and the requests of each admission."""
    admitted: list[list[int]] = []

    class Counting(kind):  # type: ignore[misc, valid-type]
        def admit(self, chosen: dict[int, int], *prompts: Any) -> None:
            admitted.append(list(chosen.values()))

        def advance(self, span: int) -> None:
            assert span <= self.room

    server = Counting.__new__(Counting)
    server.slots, server.requests, server.room, server.device = slots, len(wanted), 1024, torch.device("cpu")
    lines = torch.zeros(len(wanted) + 1, 1, dtype=torch.int64)
    server.out, server.scores, server.candidates = lines, lines.clone(), lines.clone()
    server.place, server.request = torch.zeros(2, slots, dtype=torch.int64)
    one_each = torch.ones(len(wanted), dtype=torch.int64)
    server.run(one_each[:, None], one_each, torch.tensor(wanted), one_each[:, None])
    return server.busy, admitted


@pytest.mark.parametrize("kind", [StaticBatches, SortedBatches, Continuous, LongestFirst])
@pytest.mark.parametrize(("wanted", "slots"), [([1], 1), ([1, 1, 1], 2), ([5, 1, 3, 2, 9], 2), ([4, 4], 8)])
def test_each_request_is_admitted_once_and_says_what_it_wants(
    kind: type[Server], wanted: list[int], slots: int
) -> None:
    busy, admitted = scheduled(kind, wanted, slots)
    assert sorted(chain.from_iterable(admitted)) == list(range(len(wanted)))
    # The first token of each comes from its prompt.
    assert sum(busy) == sum(wanted) - len(wanted)
    assert max(busy, default=0) <= slots


def test_a_static_batch_takes_as_long_as_its_longest_answer() -> None:
    wanted = [3, 9, 2, 2, 7]
    assert len(scheduled(StaticBatches, wanted, 2)[0]) == (9 - 1) + (2 - 1) + (7 - 1)
    assert len(scheduled(SortedBatches, wanted, 2)[0]) == (9 - 1) + (3 - 1) + (2 - 1)


def test_continuous_batches_are_nearly_full_and_meet_their_bound() -> None:
    requests, slots = int(TRACE["requests"]), int(TRACE["slots"])
    values = continuous_batching.answers(requests, TRACE["mean_wanted"], int(TRACE["most_wanted"]))
    wanted = values[torch.randperm(requests, generator=torch.Generator().manual_seed(1))].tolist()
    static, continuous = scheduled(StaticBatches, wanted, slots)[0], scheduled(Continuous, wanted, slots)[0]
    longest_first = scheduled(LongestFirst, wanted, slots)[0]
    floor = sum(one - 1 for one in wanted) / slots
    # List scheduling: no slot is idle until the last request has started, and none runs longer than the longest.
    assert floor <= len(longest_first) <= len(continuous) <= floor + max(wanted)
    assert len(static) > 2 * len(continuous)
    assert sum(longest_first) / slots / len(longest_first) > 0.9


def drawn(preset: str, seed: int) -> dict[str, torch.Tensor]:
    sizes = {**continuous_batching.bench.task.presets[preset], "device": "cpu"}
    values: dict[str, torch.Tensor] = call_with(
        continuous_batching.inputs, {**sizes, "generator": torch.Generator().manual_seed(seed)}
    )
    return values


def test_the_work_is_the_same_in_every_draw() -> None:
    first, second = drawn("smoke", 1), drawn("smoke", 2)
    assert not torch.equal(first["tokens"], second["tokens"])
    # The order of answers decides how many steps a batch takes.
    for name in ("length", "wanted"):
        assert torch.equal(first[name], second[name])
    sizes = dict(continuous_batching.bench.task.presets["smoke"])
    assert int(first["wanted"].sum()) == continuous_batching.bench.work(sizes | {"device": 0}).tokens


@pytest.mark.parametrize(
    ("preset", "kind", "steps", "admissions"),
    [
        ("cpu", StaticBatches, 147, 6),
        ("cpu", Continuous, 81, 20),
        ("cpu", LongestFirst, 73, 18),
        ("cuda", StaticBatches, 296, 3),
        ("cuda", Continuous, 156, 29),
        ("cuda", LongestFirst, 127, 23),
        ("trace", StaticBatches, 3819, 8),
        ("trace", Continuous, 1233, 199),
    ],
)
def test_steps_are_as_predicted(preset: str, kind: type[Server], steps: int, admissions: int) -> None:
    slots = int(continuous_batching.bench.task.presets[preset]["slots"])
    busy, admitted = scheduled(kind, drawn(preset, 1)["wanted"].tolist(), slots)
    assert (len(busy), len(admitted)) == (steps, admissions)
