"""Layout of records: use every byte that you fetch.

Workload   Particles of sixteen floats, of which a step changes three: v = v / 2 + 1/4, in place. The same particles lie
           in memory in three layouts, and each implementation steps those in its own; the three fields are compared.
Baseline   Array of structures: a particle is 64 bytes in a row. 12 bytes are read and written of each sector of 32 (on
           a processor: of each line of 64).
Variants   `staged` (cuda): the same layout, where it is not ours to change, fetched by neighbouring 16-byte pieces and
           turned in shared memory.  `tiles`: 32 particles at a time as a structure of arrays.  `arrays`: an array a
           field.  `arrays_wide` (cuda): four particles a thread.
Breaks     Code that uses all fields of a few particles: then the structure is the layout that wastes nothing. `staged`
           makes accesses coalesce, but fetches every sector, and lines are what memory charges for.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.kernels import cuda_source, host_source

bench = Benchmark(goal="speed", clock="device")
device_code = cuda_source("aos_soa.cu")
host_code = host_source("aos_soa.c")

THREADS = 256
FLOATS, FIRST, FIELDS, TILE = 16, 4, 3, 32


@bench.workload(smoke={"n": 4099}, cpu={"n": 3 << 19}, cuda={"n": 1 << 24}, state=("structures", "arrays", "tiles"))
def inputs(n, device, generator):
    tiles = torch.randn(whole(n) // TILE, FLOATS, TILE, device=device, generator=generator)
    structures = tiles.transpose(1, 2).reshape(-1, FLOATS).contiguous()  # a single tile stays a view otherwise
    arrays = structures[:, FIRST : FIRST + FIELDS].t().contiguous()  # those of the sixteen that a step needs
    return {"structures": structures, "arrays": arrays, "tiles": tiles}


@bench.reference(tolerance=fp32)
def reference(structures):
    return by_tiles(structures) / 2 + 0.25


@bench.cost
def cost(n):
    # Of one layout of the three, and there of three fields of the sixteen: what any implementation must move.
    return Cost(bytes_read=4 * FIELDS * whole(n), bytes_written=4 * FIELDS * whole(n), flops=2 * FIELDS * whole(n))


bench.reach(of="SOL", at_least=0.9)


def whole(n):
    """The number of particles: n, filled up to whole tiles."""
    return -(-n // TILE) * TILE


def by_tiles(structures):
    """The three fields of structures as (tile, field, particle): each layout has such a view without a copy."""
    return structures.view(-1, TILE, FLOATS)[:, :, FIRST : FIRST + FIELDS].transpose(1, 2)


class Structures:
    """Steps the particles that lie as structures."""

    name = ""

    def prepare(self):
        self.kernel = device_code.kernel(self.name)

    def run(self, structures):
        n = structures.shape[0]
        shared_bytes = 4 * FLOATS * THREADS if self.name == "staged" else 0
        self.kernel(structures, n, grid=-(-n // THREADS), block=THREADS, shared_bytes=shared_bytes)
        return by_tiles(structures)


class Arrays:
    """Steps the particles of which each field is an array."""

    name = ""
    per_thread = 1

    def prepare(self):
        self.kernel = device_code.kernel(self.name)

    def run(self, arrays):
        n = arrays.shape[1]
        self.kernel(arrays, n, grid=-(-n // (self.per_thread * THREADS)), block=THREADS)
        return arrays.view(FIELDS, -1, TILE).transpose(0, 1)


@bench.baseline(device="cuda", requires="sm_80", kind="naive", name="structures")
class AsStructures(Structures):
    name = "structures"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="staged",
    why="neighbouring lanes fetch neighbouring pieces of 16 bytes, and find their fields in shared memory",
)
class Staged(Structures):
    name = "staged"


@bench.variant(
    device="cuda", requires="sm_80", name="tiles", why="32 values of a field are one line, of which every byte is used"
)
class AsTiles:
    def prepare(self):
        self.kernel = device_code.kernel("tiles")

    def run(self, tiles):
        n = tiles.shape[0] * TILE
        self.kernel(tiles, n, grid=-(-n // THREADS), block=THREADS)
        return tiles[:, FIRST : FIRST + FIELDS]


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="arrays",
    why="a field is an array, of which every byte is used, line after line",
)
class AsArrays(Arrays):
    name = "arrays"


@bench.variant(
    device="cuda",
    requires="sm_80",
    name="arrays_wide",
    builds_on="arrays",
    why="neighbouring particles have neighbouring fields, so that a thread may take four in one access",
)
class ArraysWide(Arrays):
    name, per_thread = "arrays_wide", 4


@bench.baseline(device="cpu", requires="compiler", kind="naive", name="structures")
class StructuresLoop:
    def prepare(self):
        self.loop = host_code.function("structures")

    def run(self, structures):
        self.loop(structures, structures.shape[0])
        return by_tiles(structures)


@bench.variant(
    device="cpu",
    requires="compiler",
    name="tiles",
    why="32 values of a field are two lines, of which every byte is used",
)
class TilesLoop:
    def prepare(self):
        self.loop = host_code.function("tiles")

    def run(self, tiles):
        self.loop(tiles, tiles.shape[0] * TILE)
        return tiles[:, FIRST : FIRST + FIELDS]


@bench.variant(
    device="cpu",
    requires="compiler",
    name="arrays",
    why="a field is an array, of which every byte is used, line after line",
)
class ArraysLoop:
    def prepare(self):
        self.loop = host_code.function("arrays")

    def run(self, arrays):
        self.loop(arrays, arrays.shape[1])
        return arrays.view(FIELDS, -1, TILE).transpose(0, 1)
