"""Cache hints: protect the hot table from the stream.

Workload   out[i] = the sum of eight int32 of a table, named by a stream of indices: 32 bytes of stream an element, each
           read once, and a table of 24 MiB, which would fit in the L2 of a GPU if the stream did not pass through it.
           Indices and table are drawn by formulas from a small random key, so that each part can be timed alone.
Baseline   Loads and stores without a hint.
Variants   `past_l1`: the stream takes no lines of the L1.  `stream_first`: L2 evicts the lines of the stream first.
           `table_last`: L2 evicts the lines of the table last.  `both`. What they teach: on an H200 no hint gains
           anything. `look_ups_alone` takes as long as the whole, so the stream costs nothing that a hint could win
           back.
Breaks     Tables that are small against the cache, which stay there anyway, and tables that are larger than the cache.
           Each look-up moves a sector of 32 bytes from L2 for 4 of use, eight times the stream: L2 is the bound, and a
           hint can only win back what missed there. An access-policy window gives the same hints by address, but needs
           a part of L2 that is set aside: the harness takes that back before every sample, so that no implementation
           profits from another's.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.kernels import cuda_source, grid_that_fills
from aiperf_core.launches import launch

bench = Benchmark(
    goal="speed",
    clock="device",
    no_gain_on={"cuda": "the look-ups alone take as long: L2's sectors are the bound, and no hint saves one"},
)
cuda = bench.on("cuda", requires="sm_80")
device_code = cuda_source("cache_hints.cu")

LOOKUPS, THREADS = 8, 256
WORD = (1 << 32) - 1


@bench.workload(smoke={"n": 4099, "entries": 1009}, cuda={"n": 1 << 26, "entries": 6 << 20})
def inputs(n, entries, device, generator):
    key = torch.randint(1 << 31, (4,), device=device, generator=generator, dtype=torch.int32) | 1
    table = torch.arange(entries, device=device).mul_(key[0]).add_(key[1]).bitwise_and_(WORD) >> 12
    # A hash of the position, as unsigned words in 64 bits; its upper half chooses the entry.
    index = torch.arange(n * LOOKUPS, device=device).mul_(key[2]).add_(key[3]).bitwise_and_(WORD)
    index.bitwise_xor_(index >> 15).mul_(0x2C1B3C6D).bitwise_and_(WORD).mul_(entries)
    return {"key": key, "table": table.to(torch.int32), "index": (index >> 32).to(torch.int32).view(n, LOOKUPS)}


@bench.reference(tolerance=exact)
def reference(table, index):
    return torch.index_select(table, 0, index.view(-1)).view(index.shape).sum(1, dtype=torch.int32)


@bench.cost
def cost(n, entries):
    # Of a table larger than the stream asks for, only a sector a look-up has to be read.
    table = min(4 * entries, 32 * LOOKUPS * n)
    return Cost(bytes_read=4 * LOOKUPS * n + table, bytes_written=4 * n, flops=(LOOKUPS - 1) * n)


bench.awkward(*({"n": n, "entries": entries} for n, entries in ((1, 1), (257, 3), (100003, 65537))))
cuda.reach(of="time:stream_alone,look_ups_alone", at_most=1.1)


def fills(n):
    """A grid that fills the chip, whose blocks go on until the stream ends."""
    return min(-(-n // THREADS), grid_that_fills(device_code.kernel("plain"), THREADS))


sums = launch(device_code, out=lambda index: index.new_empty(index.shape[0]), grid=fills, block=THREADS)

cuda.baseline(sums("plain"), kind="reasonable")
cuda.variant(sums("past_l1"), adds="no l1 allocation", why="the stream takes no lines of the L1 away from the table")
cuda.variant(
    sums("stream_first"),
    builds_on="past_l1",
    adds="evict first",
    why="L2 evicts the lines of the stream first, so that they make room for each other, not in the table",
)
cuda.variant(sums("table_last"), adds="evict last", why="L2 evicts the lines of the table last")
cuda.variant(
    sums("both"),
    builds_on="stream_first",
    adds="evict last",
    why="L2 evicts the lines of the table last, and those of the stream first",
)

cuda.yardstick(sums("stream_alone"), why="the stream with values by their formula: no look-ups")
cuda.yardstick(sums("look_ups_alone"), why="the look-ups with indices by their formula: no stream but the output")


@cuda.yardstick(name="index_select", why="torch.index_select and sum: the look-ups take a pass of their own")
class IndexSelect:
    def run(self, table, index):
        return torch.index_select(table, 0, index.view(-1)).view(index.shape).sum(1, dtype=torch.int32)
