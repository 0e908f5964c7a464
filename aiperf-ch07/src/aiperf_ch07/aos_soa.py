"""Layout of records: use every byte that you fetch.

Question    What does a step cost that changes 3 of 16 fields, with the fields of a particle together, or each in an
            array?
Numbers     v = v / 2 + 1/4 in place for three floats of 2^25 particles of 64 bytes: 24 bytes a particle must move, 0.8
            GB or 0.19 ms at the rate of a copy. The same particles lie in memory in three layouts, all 16 fields are
            compared.
Prediction  In an array of structures the three fields lie in one of two sectors of 32 bytes, read and written: 64 bytes
            in place of 24, at least 2.7x. Staging in shared memory coalesces the accesses and still moves those bytes.
            In arrays every byte is used, and 16-byte accesses have four times the bytes in flight.
Limits      Code that uses all fields of a few particles: then the structure wastes nothing.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.kernels import cuda_source, host_source
from aiperf_core.launches import blocks, launch, loop

bench = Benchmark(goal="speed", clock="device")
cuda, cpu = bench.on("cuda", requires="sm_80"), bench.on("cpu", requires="compiler")
device_code, host_code = cuda_source("aos_soa.cu"), host_source("aos_soa.c")

THREADS = 256
FLOATS, FIELDS, TILE = 16, 3, 32
CHANGED = slice(4, 4 + FIELDS)


@bench.workload(smoke={"n": 4099}, cpu={"n": 1 << 19}, cuda={"n": 1 << 25}, state=("structures", "arrays", "tiles"))
def inputs(n, device, generator):
    # Of the fields that do not change, every particle has the same values, so that a cost need not count them as read.
    others = torch.randn(FLOATS, device=device, generator=generator)
    tiles = others[:, None].repeat(whole(n) // TILE, 1, 1).expand(-1, -1, TILE).contiguous()
    tiles[:, CHANGED] = torch.randn(tiles[:, CHANGED].shape, device=device, generator=generator)
    structures = tiles.transpose(1, 2).reshape(-1, FLOATS).contiguous()  # a single tile stays a view otherwise
    return {"structures": structures, "arrays": structures.t().contiguous(), "tiles": tiles, "others": others}


@bench.reference(tolerance=fp32)
def reference(tiles, others):
    after = others[:, None].expand(tiles.shape).clone()
    after[:, CHANGED] = tiles[:, CHANGED] / 2 + 0.25
    return after


@bench.cost
def cost(n):
    # Of one of the three layouts, and there of three of the sixteen fields: what any implementation must move.
    return Cost(bytes_read=4 * FIELDS * whole(n), bytes_written=4 * FIELDS * whole(n), flops=2 * FIELDS * whole(n))


def whole(n):
    """The number of particles: n, rounded up to whole tiles."""
    return -(-n // TILE) * TILE


bench.awkward(n=(1, 33, 255, 8192, 65537))
bench.accept("cost.bytes_read", because="an implementation reads one layout of three, and three of its sixteen fields")
cuda.reach(of="SOL", at_least=0.90)

# What a step returns: a view of its layout, without a copy, as (tile, field, particle).
as_structures = {"view": lambda structures: structures.view(-1, TILE, FLOATS).transpose(1, 2)}
as_arrays = {"view": lambda arrays: arrays.view(FLOATS, -1, TILE).transpose(0, 1)}
as_tiles = {"view": lambda tiles: tiles.view(tiles.shape)}

step = launch(device_code, make={"count": whole}, returns="view", grid=blocks(count=THREADS), block=THREADS)
loops = loop(host_code, make={"count": whole}, returns="view")

cuda.baseline(step("structures", make=as_structures), kind="naive")
cuda.variant(
    step("staged", make=as_structures, shared_bytes=4 * FLOATS * THREADS),
    adds="staging in shared memory",
    why="neighbouring lanes fetch neighbouring pieces of 16 bytes, and find their fields in shared memory",
)
cuda.variant(
    step("tiles", make=as_tiles),
    adds="tiled layout",
    why="32 values of a field are one line, of which every byte is used; the next field that changes is the next line",
)
cuda.variant(
    step("arrays", make=as_arrays),
    adds="structure of arrays",
    why="a field is an array, of which every byte is used, line after line",
)
cuda.variant(
    step("arrays_wide", make=as_arrays, grid=blocks(count=4 * THREADS)),
    builds_on="arrays",
    adds="wide accesses",
    why="a thread takes four neighbouring particles in one access: 48 bytes in flight in place of 12",
)

cpu.baseline(loops("structures", make=as_structures), kind="naive")
cpu.variant(
    loops("tiles", make=as_tiles),
    adds="tiled layout",
    why="32 values of a field are two lines, of which every byte is used",
)
cpu.variant(
    loops("arrays", make=as_arrays),
    adds="structure of arrays",
    why="a field is an array, of which every byte is used, line after line",
)
