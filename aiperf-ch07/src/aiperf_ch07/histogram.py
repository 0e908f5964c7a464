"""Histogram: private copies before atomics.

Question    How far is counting keys from reading them, and which threads wait for each other?
Numbers     2^28 keys of a byte, all of 256 bins equally likely: 268 MB, 62 us at the rate of reads. `--size skewed` has
            one key 9 times in 10, `--size many_bins` 4096 bins of 16-bit keys. A CPU counts skewed keys, of which equal
            ones that follow each other make additions wait.
Prediction  Atomics of all threads meet at 256 counters of L2. In shared memory 32 lanes meet in 32 banks: two or three
            share the fullest bank. Counters of each lane in a bank of its own: none do. A load of 16 keys feeds 16
            atomics.
Limits      `by_runs` and `four_copies` are for equal keys that follow each other, and lose where these are rare. More
            bins mean fewer copies: with `--size many_bins` there is room for two, and none for `by_thread`.
"""

import torch

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.errors import BenchmarkError
from aiperf_core.kernels import cuda_source, grid_that_fills, host_source
from aiperf_core.launches import launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("histogram.cu"), host_source("histogram.c")

# Large blocks: fewer of them, and fewer additions at the end.
THREADS, LANES = 1024, 32
SHARED_BYTES = 48 << 10  # what a kernel has without asking
MOST_BINS = SHARED_BYTES // 4
# Of `by_thread`: threads of a block, and their counters, 256 bytes each.
OWNERS, OWNED_BYTES = 256, 256 * 256


@bench.workload(
    smoke={"n": 4099, "bins": 199, "skew": 0},
    cpu={"n": 1 << 25, "bins": 256, "skew": 0.9},
    cuda={"n": 1 << 28, "bins": 256, "skew": 0},
    skewed={"n": 1 << 28, "bins": 256, "skew": 0.9},
    many_bins={"n": 1 << 28, "bins": 4096, "skew": 0},
)
def inputs(n, bins, skew, device, generator):
    if not 2 <= bins <= MOST_BINS:
        raise BenchmarkError(f"histogram was asked for {bins} bins; accepted are 2 to {MOST_BINS}")
    kind = torch.uint8 if bins <= 256 else torch.int16
    keys = torch.randint(bins, (n,), device=device, generator=generator, dtype=kind)
    if skew:
        favourite = torch.randint(bins, (1,), device=device, generator=generator, dtype=kind)
        keys = torch.where(torch.rand(n, device=device, generator=generator) < skew, favourite, keys)
    return {"keys": keys}


@bench.reference(tolerance=exact)
def reference(keys, bins):
    return torch.bincount(keys, minlength=bins).to(torch.int32)


@bench.cost
def cost(n, bins):
    return Cost(bytes_read=n * key_bytes(bins), bytes_written=4 * bins)


def key_bytes(bins):
    """Bytes of a key."""
    return 1 if bins <= 256 else 2


bench.awkward(
    *(
        {"n": n, "bins": bins, "skew": skew}
        for n, bins, skew in (
            (1, 2, 0),
            (31, 256, 0),
            (65537, 4096, 0),
            (1000003, 256, 0.9),
            (100003, 12288, 1),
            (4000037, 256, 1),
        )
    )
)
cuda.reach(
    of="RBW",
    at_least=0.80,
    cause="a part of the time does not depend on the number of keys: with four times the keys it is reached",
    shown_by="size:n=1073741824",
)
cuda.reach(of="RBW", at_least=0.60, size="skewed")


def key_type(bins):
    """The C++ type of a key."""
    return "unsigned char" if key_bytes(bins) == 1 else "unsigned short"


def counters(keys, bins):
    """Memory for the counts."""
    return torch.empty(bins, dtype=torch.int32, device=keys.device)


def filling(n):
    """Blocks that fill the chip, if there is a key for each thread. All kernels but one have these launch bounds."""
    return min(-(-n // THREADS), grid_that_fills(device_code.kernel("by_block<unsigned char>"), THREADS, SHARED_BYTES))


def filling_by_thread(n):
    """Blocks of `by_thread` that fill the chip: their counters take most of its shared memory."""
    return min(-(-n // OWNERS), grid_that_fills(device_code.kernel("by_thread1"), OWNERS, OWNED_BYTES))


def many(bins):
    """Sets of counters that fit: a power of two, at most one for each lane."""
    return 1 << (min(LANES, MOST_BINS // bins).bit_length() - 1)


count = launch(
    device_code,
    kernel="{name}<{key_type}>",
    out=counters,
    make={"key_type": key_type, "key_bytes": key_bytes, "copies": lambda: 1},
    zero=("out",),
    grid=filling,
    block=THREADS,
    shared_bytes=lambda bins, copies: 4 * bins * copies,
)
loops = loop(host_code, out=counters, make={"key_bytes": key_bytes}, zero=("out",))

cuda.baseline(count("shared_by_all", shared_bytes=0), kind="naive")
cuda.variant(
    count("by_block"),
    adds="counters in shared memory",
    why="atomics in shared memory stay within the SM; what goes to L2 is one addition a counter and block",
)
cuda.variant(
    count("by_pieces", kernel="by_pieces<{key_type}, false>"),
    builds_on="by_block",
    adds="wide loads",
    why="one load brings 16 bytes of keys: loads of single keys kept the atomics waiting",
)
cuda.variant(
    count("by_runs", kernel="by_pieces<{key_type}, true>"),
    builds_on="by_pieces",
    adds="register accumulation",
    why="equal keys in a row reach shared memory as one addition",
    teaches="of random keys one in 256 repeats, and the test of each key costs more than it saves",
)
cuda.variant(
    count("by_lane", kernel="by_pieces<{key_type}, false>", make={"copies": many}),
    builds_on="by_pieces",
    adds="copies for lanes",
    why="counters of lane l lie in bank l: the lanes of a warp never meet, whatever their keys are",
)
cuda.variant(
    count(
        "by_thread",
        kernel="{name}{key_bytes}",
        grid=filling_by_thread,
        block=OWNERS,
        shared_bytes=OWNED_BYTES,
    ),
    adds=("counters for threads", "wide loads"),
    why="a counter that only one thread writes needs no atomic, and as a byte 256 of them have place for each thread",
)

cpu.baseline(loops("shared_by_all"), kind="naive")
cpu.variant(
    loops("by_core"),
    adds="copies for cores",
    why="counters of its own stay in a core's cache, and need no lock",
)
cpu.variant(
    loops("four_copies"),
    builds_on="by_core",
    adds="independent additions",
    why="neighbouring keys go to different counters even where they are equal, so that no addition waits for another",
)


@bench.yardstick(device=("cpu", "cuda"), why="torch.bincount, which returns int64")
def bincount(keys, bins):
    return torch.bincount(keys, minlength=bins).to(torch.int32)
