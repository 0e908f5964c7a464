"""Blocks of known sizes, held and let go: by what order, and in which call, differs."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="memory", clock="wall", cache="warm", threads=1)

MIB = 1 << 20
WHOLE = 40 * MIB
HOARDED, MOST_HOARDED = 24 * MIB, 96 * MIB  # so many calls has the shortest run


@bench.workload(smoke={"n": 64})
def inputs(n, device, generator):
    return {"a": torch.randint(0, 100, (n,), device=device, generator=generator)}


@bench.reference(tolerance=exact)
def reference(a):
    return a


@bench.cost
def cost(n):
    return Cost(bytes_read=8 * n, bytes_written=8 * n)


def block(size):
    return torch.zeros(size // 8, dtype=torch.int64).fill_(1)


@bench.baseline(device="cpu", kind="reasonable")
def in_one_piece(a):
    block(WHOLE)
    return a.clone()


def growing():
    """Sizes of blocks, and after how many of them each one is let go."""
    return [(MIB // 4 + step * MIB // 16, 2 + step % 2 * 5) for step in range(60)]


def most_held():
    """The most that `in_turns` holds at a time."""
    sizes = growing()
    return max(
        sum(size for number, (size, lasts) in enumerate(sizes[: step + 1]) if number + lasts > step)
        for step in range(len(sizes))
    )


@bench.variant(device="cpu", why="no block fits where one was let go, and half of them lie between those that go")
def in_turns(a):
    held = {}
    for step, (size, lasts) in enumerate(growing()):
        held[step] = block(size), step + lasts
        held = {number: one for number, one in held.items() if one[1] > step + 1}
    return a.clone()


@bench.variant(device="cpu", why="each call but the first leaves something behind")
class Hoarding:
    def __init__(self):
        self.hoard, self.calls = [], 0

    def run(self, a):
        self.calls += 1
        if 1 < self.calls <= 1 + MOST_HOARDED // HOARDED:
            self.hoard.append(block(HOARDED))
        return a.clone()
