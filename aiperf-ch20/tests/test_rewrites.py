"""Rewrites keep the value of an expression; an e-graph reaches what is known as best, a greedy search does not."""

import pytest
import torch

from aiperf_ch20 import graph_rewrite, rewrites
from aiperf_ch20.graph_rewrite import PROGRAMS, evaluated, shapes

SIZES = shapes(768)
FORMS = {
    "greedy": lambda written, sizes: rewrites.greedy(written, sizes),
    "e_graph": lambda written, sizes: graph_rewrite.EGraph().chosen((written, None), sizes),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_e_graph_reaches_the_form_by_hand(name: str) -> None:
    written, by_hand = PROGRAMS[name]
    found = FORMS["e_graph"](written, SIZES)
    assert rewrites.flops(found, SIZES) == rewrites.flops(by_hand, SIZES)


def test_greedy_rewrites_reach_five_of_eight() -> None:
    reached = [
        rewrites.flops(rewrites.greedy(written, SIZES), SIZES) == rewrites.flops(by_hand, SIZES)
        for written, by_hand in PROGRAMS.values()
    ]
    assert (sum(reached), len(reached)) == (5, 8)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("way", FORMS)
def test_every_form_has_the_value_of_the_expression(name: str, way: str) -> None:
    matrices = graph_rewrite.inputs(13, "cpu", torch.Generator().manual_seed(1))["matrices"]
    doubles = {key: value.double() for key, value in matrices.items()}
    written, by_hand = PROGRAMS[name]
    right = evaluated(written, doubles)
    assert torch.allclose(evaluated(FORMS[way](written, shapes(13)), doubles), right)
    assert torch.allclose(evaluated(by_hand, doubles), right)


def test_every_rewrite_of_every_class_is_equal_to_it() -> None:
    """Each rule is right: all nodes of a class have one value."""
    matrices = graph_rewrite.inputs(5, "cpu", torch.Generator().manual_seed(2))["matrices"]
    doubles = {key: value.double() for key, value in matrices.items()}
    for written, _ in PROGRAMS.values():
        graph = rewrites.EGraph(shapes(5))
        graph.add(written)
        graph.saturate()
        values = {at: evaluated(graph.extract(at), doubles) for at in graph.classes}
        for at, nodes in graph.classes.items():
            for operator, *operands in nodes:
                if operands:
                    named = {f"operand {number}": values[graph.find(one)] for number, one in enumerate(operands)}
                    assert torch.allclose(evaluated((operator, *named), named), values[at])


def test_operations_count_an_equal_term_once() -> None:
    sizes = {"A": (2, 3), "B": (3, 5)}
    product = ("@", "A", "B")
    assert rewrites.shape(("T", product), sizes) == (5, 2)
    assert rewrites.flops(product, sizes) == 60
    assert rewrites.flops(("+", product, ("T", ("T", product))), sizes) == 60 + 10
