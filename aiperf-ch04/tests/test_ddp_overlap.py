"""The buckets of `ch04.ddp_overlap`."""

import pytest
import torch

from aiperf_ch04.ddp_overlap import in_buckets


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
