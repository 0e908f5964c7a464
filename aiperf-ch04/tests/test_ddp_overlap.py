"""The shares of a bucket, and the sums of them, go where all ranks look for them."""

import pytest
import torch

from aiperf_ch04.ddp_overlap import Route, in_buckets


@pytest.mark.parametrize("size", [1, 7, 32, 33, 101])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_all_ranks_get_the_sums_of_all(world: int, size: int) -> None:
    room = world * -(-101 // world)
    memories = [torch.zeros(2, room) for _ in range(world)]
    routes = [Route(memories, rank, size) for rank in range(world)]
    gradients = [torch.randn(size) for _ in range(world)]
    for _ in range(2):  # what a call left is not in the next one's sums
        for route, gradient in zip(routes, gradients, strict=True):
            for to, share in route.scattered:
                assert to.is_contiguous()
                to.copy_(gradient[share])
        for route in routes:
            torch.sum(route.parts, 0, out=route.total)
        for route in routes:
            for to in route.gathered:
                to.copy_(route.total)
        for route in routes:
            assert torch.equal(route.sums, torch.stack(gradients).sum(0))


@pytest.mark.parametrize(("bucket_bytes", "lengths"), [(1, [1] * 5), (16, [1] * 5), (40, [2, 2, 1]), (1000, [5])])
def test_buckets_hold_what_fits_and_at_least_one(bucket_bytes: int, lengths: list[int]) -> None:
    parameters = [torch.full((2, 2), float(number), requires_grad=True) for number in range(5)]
    buckets = in_buckets(parameters, bucket_bytes)
    assert [len(one.parameters) for one in buckets] == lengths
    for one in parameters:
        one.grad = one.detach() + 10
    for one in buckets:
        one.pack()
    found = [float(gradient[0, 0]) for one in buckets for gradient in one.gradients()]
    assert found == [14.0, 13.0, 12.0, 11.0, 10.0]
