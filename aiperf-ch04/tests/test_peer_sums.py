"""The shares of a piece, and the sums of them, go where all ranks look for them."""

import pytest
import torch

from aiperf_ch04.peer_sums import Route, added


@pytest.mark.parametrize("size", [1, 7, 32, 33, 101])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_all_ranks_get_the_sums_of_all(world: int, size: int) -> None:
    room = world * -(-101 // world)
    memories = [torch.zeros(2, room) for _ in range(world)]
    routes = [Route(memories, rank, size) for rank in range(world)]
    pieces = [torch.randn(size) for _ in range(world)]
    for _ in range(2):  # what a call left is not in the next one's sums
        for route, piece in zip(routes, pieces, strict=True):
            for to, share in route.scattered:
                assert to.is_contiguous()
                to.copy_(piece[share])
        for route, piece in zip(routes, pieces, strict=True):
            added(piece[route.own], route.received, out=route.total)
        for route in routes:
            for to in route.gathered:
                to.copy_(route.total)
        for route in routes:
            torch.testing.assert_close(route.sums, torch.stack(pieces).sum(0))
            assert torch.equal(route.sums, routes[0].sums)


def test_sums_are_rounded_once() -> None:
    own, *received = (torch.tensor([one], dtype=torch.bfloat16) for one in (1.0, 2**-8, 2**-8))
    assert added(own, received).tolist() == [1.0 + 2**-7]
    out = torch.empty_like(own)
    assert added(own, received, out=out).dtype == torch.bfloat16
    assert out.tolist() == [1.0 + 2**-7]
