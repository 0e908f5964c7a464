"""Sums over the ranks that the GPUs' copy engines carry: the SMs only add."""

import torch
import torch.distributed as dist

from aiperf_core.distributed import put, symmetric_buffers
from aiperf_core.errors import SkipError

STREAMS = 2  # a piece is scattered while the one before is added up and gathered


class CopyEngineSums:
    """Sums of pieces of `sizes` numbers of `dtype`, on streams of their own, beside what else the GPU does.

    Each rank adds up a share of a piece: copy engines bring it the numbers of all others, and them its sums.

    sums: the results by piece, valid after `wait`.
    whole: the results of all pieces in a row, if all but the last have one size that the ranks divide.

    Raises `SkipError` for a single rank.
    """

    def __init__(self, sizes, dtype):
        world = dist.get_world_size()
        if world == 1:
            raise SkipError("needs two ranks or more; this is one")
        self.streams = [torch.cuda.Stream(priority=-1) for _ in range(STREAMS)]
        self.peers = symmetric_buffers(2, len(sizes), world * -(-max(sizes) // world), dtype=dtype)
        self.routes = [
            Route([memory[:, number] for memory in self.peers.all], dist.get_rank(), size)
            for number, size in enumerate(sizes)
        ]
        self.sums = [route.sums for route in self.routes]
        self.whole = self.peers.mine[1].view(-1)[: sum(sizes)]

    def start(self, number, piece):
        """Start the sum of a piece, a vector, as soon as what the current stream has queued is done."""
        route, channel = self.routes[number], number % STREAMS
        stream = self.streams[channel]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for to, share in route.scattered:
                put(to, piece[share])
            self.peers.barrier(channel)
            added(piece[route.own], route.received, out=route.total)
            for to in route.gathered:
                put(to, route.total)
            self.peers.barrier(channel)

    def wait(self):
        """Let the current stream wait for all sums."""
        for stream in self.streams:
            torch.cuda.current_stream().wait_stream(stream)


class Route:
    """Where the shares of a piece of `size` numbers go: in the `memories` of all ranks are two places for it.

    In the first one lies what the other ranks have of a rank's share, in the second one the sums of all shares.
    """

    def __init__(self, memories, rank, size):
        world = len(memories)
        share = -(-size // world)
        parts, sums = zip(*(memory[:, : world * share].view(2, world, share) for memory in memories), strict=True)
        others = [(rank + away) % world for away in range(1, world)]  # not all send to the same one first
        shares = [slice(min(size, one * share), min(size, (one + 1) * share)) for one in range(world)]
        lengths = [one.stop - one.start for one in shares]
        self.own = shares[rank]
        self.scattered = [(parts[one][rank, : lengths[one]], shares[one]) for one in others]
        self.received = [parts[rank][one, : lengths[rank]] for one in others]
        self.total = sums[rank][rank, : lengths[rank]]
        self.gathered = [sums[one][rank, : lengths[rank]] for one in others]
        self.sums = sums[rank].view(-1)[:size]


def added(own, received, out=None):
    """Add tensors of one dtype in float32, in their order, and round once; to `out` if it is given."""
    *first, last = received
    for part in first:
        own = own.float() + part
    return torch.add(own, last, out=out).to(last.dtype)
