"""Peer access: a GPU that reads its peer's memory in place needs no copy, no place for it, and no barrier.

Question    When does a kernel read or write a peer's memory itself, and when does a copy engine do it?
Numbers     out = y + x of the rank before, in a ring: 2^26 float32 values, 268 MB to and from each GPU at once. 0.72 ms
            at 373 GB/s of a direction; a pass that adds moves 805 MB on each GPU, 0.19 ms at 4.2 TB/s.
Prediction  Copy engine, then add: 0.91 ms. Stores of threads in its place: the same link, the same pass, 0.91 ms. Loads
            within the pass that adds: 0.72 ms, 1.27x. One value (`--size tiny`): the start of a copy, a barrier and a
            kernel of 2 to 4 us each against one kernel and one trip over the link, 2 to 4x.
Limits      Values that are used more than once: peers' memory is not kept in the own L2, so that each use crosses the
            link. Threads that load take SMs that products need; a copy engine takes none. A read of 128 bytes is a
            request of 16 that way and 144 bytes back: with both directions in use at most 144 / 160 of a copy's rate.
            On a CPU the link is gloo, and messages in pieces are added up while the next ones come.
"""

import torch

from aiperf_core import Benchmark, Cost, fp32
from aiperf_core.distributed import exchange, put, register_peer_operation, symmetric_buffers, wait_all
from aiperf_core.kernels import cuda_source, grid_that_fills

bench = Benchmark(
    goal="speed",
    clock="device",
    no_gain_on={"cpu": "two processes of one machine share its memory, and a sum is short beside a message through it"},
)
cuda, cpu = bench.on("cuda", requires=("gpus:2", "sm_80")), bench.on("cpu")
device_code = cuda_source("peer_access.cu")

THREADS, WORD = 256, 4
PIECE = 1 << 18  # values of a message of `pieces`: 1 MiB


@bench.workload(
    smoke={"n": 1009, "world_size": 2},
    cpu={"n": 1 << 22, "world_size": 2},
    cuda={"n": 1 << 26, "world_size": 2},
    tiny={"n": 1, "world_size": 2},
    small={"n": 1 << 12, "world_size": 2},
    medium={"n": 1 << 18, "world_size": 2},
    large={"n": 1 << 28, "world_size": 2},
)
def inputs(n, device, generator):
    return {"y": torch.randn(n, device=device, generator=generator)}


@bench.static
def data(n, device, generator):
    return {"x": torch.randn(n, device=device, generator=generator)}


@bench.reference(tolerance=fp32)
def reference(x, y):
    return [y[rank] + x[rank - 1] for rank in range(len(y))]


@bench.cost
def cost(n, world_size):
    return Cost(bytes_read=8 * n, bytes_written=4 * n, flops=n, wire_bytes=4 * n if world_size > 1 else 0)


# One value; three ranks, and a last word that is not full; two messages of `pieces`, of which one is a value.
bench.awkward({"n": 1}, {"n": 8198, "world_size": 3}, {"n": PIECE + 1})
cuda.reach(of="P2P", at_least=144 / 160, implementation="loads")
cuda.reach(of="time:copy_engine", at_most=0.5, size="tiny", implementation="loads")


class Messages:
    """The array of the rank before comes to a place of this rank, and is added there."""

    def prepare(self, x, y, rank, world_size):
        self.after, self.before = (rank + 1) % world_size, (rank - 1) % world_size
        self.out, self.place = torch.empty_like(y), torch.empty_like(y)

    def run(self, x, y):
        wait_all(exchange({self.after: x}, {self.before: self.place}))
        return torch.add(self.place, y, out=self.out)


cpu.baseline(Messages, kind="reasonable")
bench.yardstick(device="cuda", requires="gpus:2", why="send and receive of NCCL, and an addition")(Messages)


@cpu.variant(
    adds="pieces",
    why="a piece is added while the next ones come, and is still in the cache",
    predict="0.8 to 1.3x: a sum moves 12 bytes a value, and a message through two sockets at least 16",
)
class Pieces(Messages):
    def run(self, x, y):
        pieces = zip(*(tensor.split(PIECE) for tensor in (x, self.place, y, self.out)), strict=True)
        started = [(exchange({self.after: sent}, {self.before: to}), to, own, out) for sent, to, own, out in pieces]
        for works, received, own, out in started:
            wait_all(works)
            torch.add(received, own, out=out)
        return self.out


def grid_of(kernel, n):
    """As many blocks as the GPU holds, or as there is work for. Classes ask in `prepare`: it compiles."""
    return min(grid_that_fills(device_code.kernel(kernel), THREADS), -(-n // (WORD * THREADS)))


def launch(kernel, *given):
    """Launch a pass of `peer_access.cu` over the values of tensors."""
    n = given[0].numel()
    device_code.launch(kernel, *given, n, grid=grid_of(kernel, n), block=THREADS)


push = register_peer_operation(
    "ch02_push(Tensor x, Tensor(a!) there) -> ()", lambda x, there: launch("pushed", x, there)
)
add_from = register_peer_operation(
    "ch02_add_from(Tensor there, Tensor y, Tensor(a!) out) -> ()",
    lambda there, y, out: launch("added", there, y, out),
)


@cuda.baseline(kind="reasonable")
class CopyEngine:
    """Two places, which take turns: a rank that is a call ahead does not overwrite what its peer still reads."""

    send = staticmethod(put)

    def prepare(self, x, y, rank, world_size):
        self.out, self.places = torch.empty_like(y), symmetric_buffers(2, len(y), dtype=y.dtype)
        self.after, self.turn = (rank + 1) % world_size, 0
        for kernel in device_code.names():
            grid_of(kernel, len(x))

    def run(self, x, y):
        self.turn = 1 - self.turn
        self.send(self.places.all[self.after][self.turn], x)
        self.places.barrier()
        launch("added", self.places.mine[self.turn], y, self.out)
        return self.out


@cuda.variant(
    adds="peer stores",
    why="threads write to the peer's memory, in words of 16 bytes, what the copy engine would copy",
    predict="0.9 to 1.05x: the same bytes over the same link, and the same pass behind a barrier",
    teaches="threads that only copy carry no more than a copy engine, and take the SMs; they start sooner",
)
class Stores(CopyEngine):
    @staticmethod
    def send(there, x):
        push(x, there)


@cuda.variant(
    adds="peer loads",
    why="the pass that adds reads the peer's memory itself: no place is written and read again, and no rank waits",
    predict="1.1 to 1.27x: 0.72 ms in place of 0.72 + 0.19, at 144/160 of the link's rate 0.8 ms",
)
class Loads:
    def prepare(self, x, y, rank, world_size):
        self.out, self.held = torch.empty_like(y), symmetric_buffers(len(x), dtype=x.dtype)
        grid_of("added", len(x))
        self.held.mine.copy_(x)
        self.held.barrier()  # all ranks' values are in their places
        self.there = self.held.all[(rank - 1) % world_size]

    def run(self, y):
        add_from(self.there, y, self.out)
        return self.out


bench.sass("pushed", has=("LDG.128", "STG.128"))
bench.sass("added", has=("LDG.128", "STG.128"))
