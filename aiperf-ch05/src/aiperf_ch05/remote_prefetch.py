"""Objects from a remote store: have as many requests under way as hide the latency of one.

Question    How long does work wait for objects that a server sends, each after a latency and at a limited rate?
Numbers     48 objects of 1 MB from a server on this machine, over HTTP and real sockets. It answers after l = 10 ms and
            sends 200 MB/s on a connection, so an object takes F = 15 ms. Of 8 objects the first request for one fails:
            the server is busy, or closes the connection in the middle of the object. The use of an object, a product
            with weights, takes U of one processor, some 5 ms. The floor is 48 U, if enough requests are under way.
Prediction  One after another: F + U an object, and F more for one of eight. Four ranges at a time take l and a quarter
            of the rest: 11 ms. The next object beside the use of this one: the longer of F and U. Eight objects at a
            time: the longer of F / 8 and U, some 4x in all; a repeated request hides among the others.
Limits      Bandwidth times delay: as many bytes under way as come within F, here 8 MB of memory. The server is a thread
            of the process and takes some of its time. More requests than a server takes are refused, and more
            connections than a link carries slow each other down. Ranges gain where one large object is needed now; each
            has the latency, and a price, of its own.
"""

import http.client
import queue
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from aiperf_ch05.object_server import ObjectServer
from aiperf_ch05.torch_threads import one_torch_thread
from aiperf_core import Benchmark, Cost, fp32_reduction
from aiperf_core.errors import AiperfError

bench = Benchmark(goal="throughput", clock="wall", threads=2)
cpu = bench.on("cpu")

RANGES, DEPTH = 4, 8
ATTEMPTS, TIMEOUT_S = 3, 5.0  # for a part of an object; a silence of the server that counts as a failure


@bench.workload(smoke={"objects": 9, "rows": 5, "width": 37}, cpu={"objects": 48, "rows": 512, "width": 512})
def inputs(width, device, generator):
    weight = torch.randn(width, width, device=device, generator=generator) * (2 / width) ** 0.5
    # Which requests fail; a number, because it changes no answer.
    return {"weight": weight, "draw": int(torch.randint(1 << 30, (), device=device, generator=generator))}


@bench.static
def saved(objects, rows, width, device, generator):
    return {"data": torch.randn(objects, rows, width, device=device, generator=generator)}


@bench.reference(tolerance=fp32_reduction)
def reference(data, weight):
    return use(data, weight)


@bench.cost
def cost(objects, rows, width):
    return Cost(
        bytes_read=4 * objects * rows * width + 4 * width**2,
        bytes_written=4 * objects * width,
        flops=2 * objects * rows * width**2,
        tokens=objects,
    )


# A single object; objects that are smaller than a range has bytes.
bench.awkward({"objects": 1}, {"objects": 19, "rows": 1, "width": 1}, {"objects": 11, "rows": 67, "width": 129})
# All but the first object come beside the use of others: 48 U of 48 U + F, with F = 3 U, is 0.94; and 4 % for sockets.
cpu.reach(of="time:in_memory", at_most=1 / 0.9, implementation="depth")


def use(data, weight):
    """The mean over rows of a layer's outputs."""
    return torch.relu(data @ weight).mean(-2)


class Client:
    """Connections to a server on this machine; requests that fail are made again.

    epoch: a text that the server's failures depend on.
    """

    def __init__(self, port, epoch):
        self.port, self.epoch, self.idle = port, epoch, queue.SimpleQueue[http.client.HTTPConnection]()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while not self.idle.empty():
            self.idle.get().close()

    def get(self, number, first, memory):
        """Fill memory with an object's bytes from `first` on. Raises `AiperfError` if every attempt fails."""
        for _ in range(ATTEMPTS):
            try:
                connection = self.idle.get_nowait()
            except queue.Empty:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
            reason = self.attempt(connection, number, first, memory)
            if not reason:
                self.idle.put(connection)
                return
            connection.close()
        raise AiperfError(
            f"object {number} of 127.0.0.1:{self.port} could not be read from byte {first:,} on. {ATTEMPTS} attempts "
            f"failed, the last by: {reason}. See whether the server runs."
        )

    def attempt(self, connection, number, first, memory):
        """Make a request; return why it failed, or nothing."""
        last = first + len(memory) - 1
        try:
            connection.request("GET", f"/{number}", headers={"range": f"bytes={first}-{last}", "x-epoch": self.epoch})
            response = connection.getresponse()
            if response.status != http.client.PARTIAL_CONTENT:
                return f"status {response.status}, {response.reason}"
            filled = 0
            while filled < len(memory) and (count := response.readinto(memory[filled:])):
                filled += count
            response.read()  # nothing is left; the connection takes the next request
        except (OSError, http.client.HTTPException) as error:  # a timeout is an OSError
            return str(error) or type(error).__name__
        return "" if filled == len(memory) else f"the connection was closed after {filled:,} of {len(memory):,} bytes"


@cpu.baseline(kind="naive")
class Sequential:
    """Objects in their order, `depth` of them fetched ahead, each in `ranges` parts."""

    depth, ranges = 0, 1

    def prepare(self, data, objects, width):
        self.server, self.calls = ObjectServer(memoryview(data.numpy()).cast("B"), data[0].nbytes), 0
        self.out, self.places = torch.empty(objects, width), torch.empty(self.depth + 1, *data.shape[1:])
        self.views = [memoryview(place.numpy()).cast("B") for place in self.places]

    @one_torch_thread()  # the other processor has the sockets
    def run(self, weight, draw):
        self.calls += 1
        later, coming = iter(range(len(self.out))), deque[list[Future[None]]]()
        with (
            Client(self.server.port, f"{draw}-{self.calls}") as client,
            ThreadPoolExecutor(max(self.depth, 1) * self.ranges) as threads,
        ):
            for number, result in enumerate(self.out):
                while len(coming) <= self.depth and (ahead := next(later, None)) is not None:
                    coming.append(self.fetch(threads, client, ahead))
                for part in coming.popleft():
                    part.result()
                result.copy_(use(self.places[number % len(self.places)], weight))
        return self.out

    def fetch(self, threads, client, number):
        """Begin to fetch an object to its place; its parts."""
        view = self.views[number % len(self.views)]
        size = -(-len(view) // self.ranges)
        return [
            threads.submit(client.get, number, first, view[first : first + size]) for first in range(0, len(view), size)
        ]


@cpu.variant(
    adds="parallel ranges",
    why="four connections carry a quarter of an object each: the latency stays, the rest takes a quarter of the time",
    predict="1.1 to 1.4x: F + U of 20 ms against 11 + 5 ms",
)
class Ranges(Sequential):
    ranges = RANGES


@cpu.variant(
    adds="prefetch",
    why="the next object comes while this one is in use",
    predict="1.2 to 1.5x: the longer of F and U against their sum",
)
class Prefetch(Sequential):
    depth = 1


@cpu.variant(
    builds_on="prefetch",
    adds="depth",
    why="eight requests are under way: as many objects as come within the time of one, and failures hide among them",
)
class Depth(Prefetch):
    depth = DEPTH


@cpu.yardstick(why="the use alone: the objects are in memory")
class InMemory:
    def prepare(self, objects, width):
        self.out = torch.empty(objects, width)

    @one_torch_thread()  # the other processor has the sockets
    def run(self, data, weight):
        for values, result in zip(data, self.out, strict=True):
            result.copy_(use(values, weight))
        return self.out
