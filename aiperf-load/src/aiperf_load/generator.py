"""The generator: sends each request at its time, whatever the server does."""

import asyncio
import gc
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiperf_load.arrivals import Plan
from aiperf_load.client import Client
from aiperf_load.outcomes import Kind, Reply
from aiperf_load.spec import LoadSpec
from aiperf_load.timer import Timer

Progress = Callable[[int, int], None]
EVERY_S = 1.0  # between two reports of the progress


class Generator:
    """Sends the requests of a plan, and has their replies.

    members: the places in the plan that this process sends.
    start_s: the time of the monotonic clock from which arrivals count.
    """

    def __init__(self, spec: LoadSpec, plan: Plan, members: range, start_s: float, progress: Progress | None = None):
        self.spec, self.plan, self.start_s = spec, plan, start_s
        self.replies: list[Reply] = []
        self.interrupted = False
        self._members, self._progress = members, progress
        self._tasks: set[asyncio.Task[None]] = set()
        cap = spec.rules.cap
        # Of several processes each has its part of the places.
        own = None if cap is None else max(1, cap // spec.rules.processes)
        self._places = asyncio.Semaphore(own) if own is not None else None
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Send all requests and wait for their ends; SIGINT and SIGTERM end it early, with the replies so far."""
        with self._signals(), _no_collections():
            async with Client(self.spec) as client:
                work = asyncio.create_task(self._closed(client) if self.plan.clients else self._open(client))
                stopped = asyncio.create_task(self._stopped.wait())
                reports = asyncio.create_task(self._report())
                try:
                    await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in (work, stopped, reports, *self._tasks):
                        if not task.done():
                            task.cancel()
                    ended = await asyncio.gather(work, stopped, reports, *self._tasks, return_exceptions=True)
                errors = [one for one in ended if isinstance(one, Exception)]
                if errors:
                    raise errors[0]

    def stop(self) -> None:
        """End early: requests in flight are INTERRUPTED, those that were not sent NOT_SENT."""
        self.interrupted = True
        self._stopped.set()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, self.stop)
        try:
            yield
        finally:
            for one in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(one)

    # --- arrivals that do not depend on the server

    async def _open(self, client: Client) -> None:
        plan, start_s = self.plan, self.start_s
        self.replies = [
            Reply(number, start_s + float(plan.scheduled_s[number]), int(plan.input_tokens[number]),
                  int(plan.output_tokens[number]))
            for number in self._members
        ]  # fmt: skip
        # Made before the start: no request waits for the prompt of another.
        bodies = [client.body(one.number, one.input_tokens, one.asked_tokens) for one in self.replies]
        loop = asyncio.get_running_loop()
        with Timer() as timer:
            for reply, body in zip(self.replies, bodies, strict=True):
                await timer.until(reply.scheduled_s)
                # When the generator acts; from here on a wait is that for a place, the connection, or the server.
                reply.ready_s = loop.time()
                self._start(client, reply, body)
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, client: Client, reply: Reply, body: bytes) -> None:
        task = asyncio.create_task(self._send(client, reply, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, client: Client, reply: Reply, body: bytes) -> None:
        if self._places is None:
            await client.send(reply, body)
            return
        try:
            async with asyncio.timeout_at(reply.scheduled_s + self.spec.rules.timeout_s):
                await self._places.acquire()
        except TimeoutError:
            # It waited for a place all the time: a user would have seen a timeout.
            reply.kind, reply.done_s = Kind.TIMEOUT, asyncio.get_running_loop().time()
            return
        try:
            await client.send(reply, body)
        finally:
            self._places.release()

    # --- a closed loop

    async def _closed(self, client: Client) -> None:
        """Clients that each send the next request when the last one ended, until the duration has passed."""
        loop, end_s = asyncio.get_running_loop(), self.start_s + self.spec.rules.duration_s
        numbers = iter(self._members)
        count = len(range(self._members.start, self.plan.clients, self._members.step))

        async def one_client() -> None:
            with Timer() as timer:
                await timer.until(self.start_s)
            while loop.time() < end_s and (number := next(numbers, None)) is not None:
                lengths = int(self.plan.input_tokens[number]), int(self.plan.output_tokens[number])
                body = client.body(number, *lengths)
                now_s = loop.time()
                reply = Reply(number, now_s, *lengths, ready_s=now_s)
                self.replies.append(reply)
                await client.send(reply, body)
                if reply.kind is Kind.REFUSED:
                    # A server that is gone refuses within microseconds.
                    await asyncio.sleep(0.1)

        clients = [asyncio.create_task(one_client()) for _ in range(count)]
        self._tasks.update(clients)
        for task in clients:
            task.add_done_callback(self._tasks.discard)
        await asyncio.gather(*clients)

    async def _report(self) -> None:
        while self._progress is not None:
            await asyncio.sleep(EVERY_S)
            # Replies of arrivals to come have no time yet.
            self._progress(sum(one.done_s > 0 for one in self.replies), len(self.replies))


@contextmanager
def _no_collections() -> Iterator[None]:
    """Without the collector of cyclic garbage, whose pauses would make requests late."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def soon(spec: LoadSpec, requests: int) -> float:
    """A start that leaves each process the time to prepare its requests."""
    return time.monotonic() + 0.2 + 100e-6 * requests / spec.rules.processes + 0.7 * (spec.rules.processes > 1)
