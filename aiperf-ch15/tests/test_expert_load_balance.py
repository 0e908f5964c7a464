"""Placements of experts are complete, and as even as they shall be on a trace of more ranks than there are here."""

import itertools

import numpy as np
import pytest
import torch

from aiperf_ch15.expert_load_balance import InOrder, bench, placement
from aiperf_core.benchmark import call_with

EXPERTS, RANKS, SPARE, BATCHES, EVERY, TOKENS = 64, 8, 8, 1000, 50, 16384


def shares(held: list[list[tuple[int, int, int]]], experts: int) -> np.ndarray:
    """The part of each expert's tokens that each rank has, [ranks, experts]."""
    found = np.zeros((len(held), experts))
    for rank, those in enumerate(held):
        for expert, _, copies in those:
            found[rank, expert] += 1 / copies
    return found


@pytest.mark.parametrize(("ranks", "places", "experts"), [(1, 3, 3), (2, 5, 8), (3, 4, 11), (4, 9, 4), (2, 1, 2)])
def test_every_expert_has_a_place_and_no_rank_too_many(ranks: int, places: int, experts: int) -> None:
    load = np.random.default_rng(experts).zipf(1.5, experts).tolist()
    for given in (load, [0] * experts):
        held = placement(given, ranks, places)
        assert all(len(those) <= places for those in held)
        assert np.allclose(shares(held, experts).sum(0), 1)
        placed = sorted(one for those in held for one in those)
        assert len({*placed}) == len(placed)


def test_the_best_placement_of_few_experts_is_nearly_found() -> None:
    for seed in range(20):
        load = np.random.default_rng(seed).exponential(1, 8)
        held = placement(load.tolist(), 2, 4)
        found = (shares(held, 8) @ load).max()
        best = min(
            max(part, load.sum() - part)
            for part in (load[list(four)].sum() for four in itertools.combinations(range(8), 4))
        )
        assert best <= found <= 4 / 3 * best  # Graham's bound of LPT, without the limit of places


def test_replicas_balance_a_drifting_trace() -> None:
    draw = np.random.default_rng(7)
    order = draw.permutation(EXPERTS)
    level = -0.8 * np.log1p(np.arange(EXPERTS))[order]
    counts = np.empty((BATCHES, EXPERTS))
    for batch in range(BATCHES):
        level = level + draw.normal(0, 0.005, EXPERTS)
        asked = np.exp(level) / np.exp(level).sum()
        counts[batch] = draw.multinomial(TOKENS, asked)
    mean = TOKENS / RANKS
    worst: dict[str, list[float]] = {"in_order": [], "by_load": [], "replicated": []}
    for begin in range(EVERY, BATCHES, EVERY):
        load = counts[begin - EVERY : begin].sum(0).tolist()
        placed = {
            "in_order": InOrder().placed(load, EXPERTS // RANKS, 0, RANKS),
            "by_load": placement(load, RANKS, EXPERTS // RANKS),
            "replicated": placement(load, RANKS, (EXPERTS + SPARE) // RANKS),
        }
        for name, held in placed.items():
            loads = shares(held, EXPERTS) @ counts[begin : begin + EVERY].T
            # All tokens are served, wherever experts lie.
            assert np.allclose(loads.sum(0), TOKENS)
            worst[name] += (loads.max(0) / mean).tolist()
    average = {name: float(np.mean(values)) for name, values in worst.items()}
    assert average["in_order"] > 1.5
    assert average["in_order"] > average["by_load"] > average["replicated"]
    assert average["replicated"] <= 1.08


def tokens_by_expert(preset: str, seed: int) -> np.ndarray:
    sizes = {**bench.task.presets[preset], "width": 1, "dtype": torch.float32, "device": "cpu"}
    routes = call_with(bench.task.inputs, {**sizes, "generator": torch.Generator().manual_seed(seed)})["routes"]
    return np.bincount(routes.numpy(), minlength=int(sizes["world_size"] * sizes["experts"]))


@pytest.mark.parametrize(
    ("preset", "in_order", "by_load", "replicated"), [("cpu", 1.77, 1.25, 1.02), ("cuda", 1.94, 1.16, 1.00)]
)
def test_loads_are_as_predicted_and_the_same_in_every_draw(
    preset: str, in_order: float, by_load: float, replicated: float
) -> None:
    counts, sizes = tokens_by_expert(preset, 1), bench.task.presets[preset]
    assert (counts == tokens_by_expert(preset, 2)).all()
    ranks, experts, spare = (int(sizes[name]) for name in ("world_size", "experts", "spare"))

    def largest(held: list[list[tuple[int, int, int]]]) -> float:
        return float((shares(held, len(counts)) @ counts).max() / counts.sum() * ranks)

    load = counts.tolist()
    assert largest(InOrder().placed(load, experts, spare, ranks)) == pytest.approx(in_order, abs=0.01)
    assert largest(placement(load, ranks, experts)) == pytest.approx(by_load, abs=0.01)
    assert largest(placement(load, ranks, experts + spare)) == pytest.approx(replicated, abs=0.01)
