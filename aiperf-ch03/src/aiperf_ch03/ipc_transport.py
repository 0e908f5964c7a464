"""Transport between processes: bytes that both processes map need no copy.

Question    What does it cost to hand data to another process of the machine, and what spares it?
Numbers     16 messages of 1 MiB, first + step * i in words of 8 bytes, which another process sums; the next follows the
            answer of 8 bytes. A pipe copies a message into the kernel and out again, 64 KiB at a time: beside 1 MiB
            written and read by the two processes 2 MiB are read and 2 MiB written. Shared memory has none of that.
Prediction  4 passes over a message by the pipe, as a copy is one pass at least, and 2 in shared memory: at least 1.5x.
            In pieces both processes are at work at once: at most 2x more.
Limits      Messages of 1 KiB (`--size small`): what counts is the wait for the other process, asleep or polling, and
            not the copy. A process that polls keeps a core. Data that lies elsewhere must be copied into shared memory
            first, which is half of what a pipe does.
"""

import mmap
import os
import socket
import weakref
from typing import Any

import torch
import torch.distributed as dist

from aiperf_core import Benchmark, Cost, exact
from aiperf_core.distributed import exchange, wait_all
from aiperf_core.errors import BenchmarkError
from aiperf_core.kernels import host_source

bench = Benchmark(goal="speed", clock="wall", cache="warm")
cpu = bench.on("cpu", requires="compiler")
host_code = host_source("ipc_transport.c", options=("-pthread",))

WORD_BYTES = 8
PIECE, SLOTS = 1 << 13, 4  # words of 64 KiB, and how many pieces are under way


@bench.workload(
    smoke={"n": 1021, "messages": 3, "world_size": 2},
    cpu={"n": 1 << 17, "messages": 16, "world_size": 2},
    small={"n": 1 << 7, "messages": 2048, "world_size": 2},
    large={"n": 1 << 25, "messages": 1, "world_size": 2},
)
def inputs(device, generator, world_size):
    if world_size != 2:
        raise BenchmarkError(f"world_size={world_size}; accepted is 2: messages go from one process to another")
    line = torch.randint(-(1 << 40), 1 << 40, (2,), device=device, generator=generator)
    line[1] |= 1  # no two words in a row are the same
    return {"line": line}


@bench.reference(tolerance=exact)
def reference(line, n, messages):
    (first, step), (key, _) = line
    sums = [key + (first + step * (k * n + torch.arange(n))).sum() for k in range(messages)]
    return [torch.stack(sums)] * 2


@bench.cost
def cost(n, messages):
    # The mean of both: one sends, and each has an operation at least for a word.
    return Cost(wire_bytes=WORD_BYTES * n * messages / 2, flops=n * messages, precision="fp64")


# A word; a piece, and a word more or less; more pieces than places.
sizes = ((1, 1), (8191, 2), (8192, 5), (8193, 3), (7 * 8192 + 1, 2))
bench.awkward(*({"n": n, "messages": messages} for n, messages in sizes))
# Two passes in place of four; and with both processes at work at once, half of that.
cpu.reach(of="speedup", at_least=1.5, implementation="shared_memory")
cpu.reach(of="speedup", at_least=2.0, implementation="ring")


def connected(rank):
    """A socket between the two processes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        address: list[Any] = [None]
        if rank == 0:
            listener.bind("")  # the kernel chooses a name, which is in no folder
            listener.listen(1)
            address = [listener.getsockname()]
        dist.broadcast_object_list(address)
        if rank == 0:
            return listener.accept()[0]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address[0])
    return connection


class Transport:
    """The two processes of a transport: the first asks, the second answers."""

    def prepare(self, n, messages, rank):
        self.rank, self.connection = rank, connected(rank)
        weakref.finalize(self, self.connection.close)
        self.sums, self.sizes = torch.empty(messages, dtype=torch.int64), (n, messages)
        self.open()

    def open(self):
        """Make what the messages go through."""

    def shared(self, made):
        """The descriptors in `made` of the first process, in both."""
        if self.rank == 0:
            socket.send_fds(self.connection, [b"-"], made)
        else:
            made = socket.recv_fds(self.connection, 1, 4)[1]
        for descriptor in made:
            weakref.finalize(self, os.close, descriptor)
        return made


@cpu.baseline(kind="reasonable")
class Pipe(Transport):
    def open(self):
        self.play = host_code.function("answer" if self.rank else "ask")
        self.buffer = torch.zeros(self.sizes[0], dtype=torch.int64)
        self.out, self.back = self.ends()

    def ends(self):
        """The descriptors of this process, to write and to read."""
        there_in, there_out, back_in, back_out = self.shared([] if self.rank else [*os.pipe(), *os.pipe()])
        return (back_out, there_in) if self.rank else (there_out, back_in)

    def run(self, line):
        if error := self.play(line, self.buffer, self.sums, *self.sizes, self.out, self.back):
            raise BenchmarkError(f"the transport broke: {os.strerror(error)}")
        return self.sums


@cpu.variant(
    adds="socket",
    why="a socket of the machine has buffers of its own, and keeps up to its limit of bytes under way",
    teaches="a socket copies as often as a pipe, and makes a buffer for each piece that it carries",
)
class UnixSocket(Pipe):
    def ends(self):
        return (self.connection.fileno(),) * 2


@cpu.variant(
    adds="shared memory",
    why="the words are written where the other process reads them: no copy, and a wake-up instead of a call for data",
    predict="at least 1.5x: two passes over a message in place of four",
)
class SharedMemory(Transport):
    polled = False
    slots = 1

    def open(self):
        n, _ = self.sizes
        self.play = host_code.function("answer_shared" if self.rank else "ask_shared")
        size = host_code.call("channel_bytes") + WORD_BYTES * self.slots * self.piece(n)
        (memory,) = self.shared([] if self.rank else [os.memfd_create("aiperf-channel")])
        if self.rank == 0:
            os.ftruncate(memory, size)
        dist.barrier()
        self.channel = torch.frombuffer(mmap.mmap(memory, size), dtype=torch.int64)
        if self.rank == 0:
            host_code.call("open_channel", self.channel)
        dist.barrier()

    def piece(self, n):
        """The words of a piece: a whole message."""
        return n

    def run(self, line):
        n, messages = self.sizes
        self.play(line, self.channel, self.sums, n, messages, self.piece(n), self.slots, self.polled)
        return self.sums


@cpu.variant(
    builds_on="shared_memory",
    adds="polling",
    why="a process that looks at the memory sees a message in the time of a cache line, and is not woken",
    teaches="at 1 MiB two wake-ups are a small part; with `--size small` they are nearly all there is",
)
class Polled(SharedMemory):
    polled = True


@cpu.variant(
    builds_on="polled",
    adds="pieces",
    why="a piece is read while the next is written: both processes are at work, on what the cache holds",
    predict="at most 2x: each process works for half of the time without it",
    teaches="both processes need a core at the same time, and a line that is written goes from cache to cache",
)
class Ring(Polled):
    slots = SLOTS

    def piece(self, n):
        return PIECE


@cpu.yardstick(why="messages of torch.distributed through gloo, a socket and a thread of its own")
class Gloo(Transport):
    def open(self):
        self.buffer = torch.zeros(self.sizes[0], dtype=torch.int64)
        self.produce, self.sum = host_code.function("produce"), host_code.function("sum")

    def run(self, line):
        n = len(self.buffer)
        for number, here in enumerate(self.sums.split(1)):
            if self.rank == 0:
                self.produce(self.buffer, line, number * n, (number + 1) * n)
                wait_all(exchange({1: self.buffer}, {}))
                wait_all(exchange({}, {1: here}))
            else:
                wait_all(exchange({}, {0: self.buffer}))
                here[0] = line[0] + self.sum(self.buffer, n)
                wait_all(exchange({0: here}, {}))
        return self.sums
