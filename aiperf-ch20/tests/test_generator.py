"""Candidates that are wrong are refused, and the search ends with one that is right."""

from itertools import product

import pytest

from aiperf_ch20 import generator

CANDIDATES = [dict(zip(generator.GENES, genes, strict=True)) for genes in product(*generator.GENES.values())]


def is_right(genes: generator.Genes) -> bool:
    """A single lane leaves no tail."""
    return genes["root"] == "exact" and (genes["tail"] == "computed" or genes["lanes"] == 1)


@pytest.mark.parametrize("genes", CANDIDATES, ids=str)
def test_those_candidates_are_verified_that_are_right(genes: generator.Genes) -> None:
    assert generator.is_verified(generator.compiled(genes)) == is_right(genes)


def test_ten_of_32_candidates_are_right() -> None:
    """The docstring of `ch20.verified_search` says so."""
    assert [len(CANDIDATES), sum(map(is_right, CANDIDATES))] == [32, 10]


def test_a_tail_that_is_left_out_passes_at_an_even_size(monkeypatch: pytest.MonkeyPatch) -> None:
    function = generator.compiled({**generator.PLAIN, "tail": "left out", "lanes": 16})
    monkeypatch.setattr(generator, "AWKWARD", ((4, 1024),))
    assert generator.is_verified(function)


def test_the_search_keeps_the_fastest_verified_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    speed = {1: 4.0, 4: 2.0, 16: 1.0, 64: 3.0}
    compiled = generator.compiled
    made: dict[int, generator.Genes] = {}

    def noted(genes: generator.Genes) -> object:
        function = compiled(genes)
        made[id(function)] = genes
        kept.append(function)
        return function

    def seconds(function: object, rows: int, columns: int) -> float:
        genes = made[id(function)]
        # What is wrong is faster.
        return speed[genes["lanes"]] - 0.5 * (genes["root"] == "estimate") + 0.1 * (genes["second_pass"] == "again")

    kept: list[object] = []
    monkeypatch.setattr(generator, "compiled", noted)
    monkeypatch.setattr(generator, "seconds", seconds)
    best, tried = generator.search(4, 64, trials=25, seed=1)
    assert (best["lanes"], best["root"], best["second_pass"]) == (16, "exact", "own")
    refused = [genes for genes, took_s in tried if took_s is None]
    assert refused
    assert all(genes["root"] == "estimate" or genes["tail"] == "left out" for genes in refused)
