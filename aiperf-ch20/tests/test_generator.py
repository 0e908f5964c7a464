"""Candidates that are wrong are refused, and the search ends with one that is right."""

import pytest

from aiperf_ch20 import generator

WRONG = [{"root": "estimate"}, {"tail": "left out", "lanes": 16}]


@pytest.mark.parametrize("changed", WRONG, ids=["root", "tail"])
def test_wrong_candidates_are_refused(changed: generator.Genes) -> None:
    assert not generator.is_verified(generator.compiled({**generator.PLAIN, **changed}))


def test_a_tail_that_is_left_out_passes_at_an_even_size(monkeypatch: pytest.MonkeyPatch) -> None:
    function = generator.compiled({**generator.PLAIN, **WRONG[1]})
    monkeypatch.setattr(generator, "AWKWARD", ((4, 1024),))
    assert generator.is_verified(function)


@pytest.mark.parametrize("lanes", generator.GENES["lanes"])
@pytest.mark.parametrize("second_pass", generator.GENES["second_pass"])
def test_right_candidates_are_verified(lanes: int, second_pass: str) -> None:
    genes = {**generator.PLAIN, "lanes": lanes, "second_pass": second_pass}
    assert generator.is_verified(generator.compiled(genes))


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
