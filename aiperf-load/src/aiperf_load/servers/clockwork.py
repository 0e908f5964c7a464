"""A server whose waiting times are known: one queue, first come first served, service times from a seed.

The first token of an answer comes when its service ends, the others after it at fixed gaps, for which the server is
free. The service takes no processor time: the server waits. So the time to the first token is that of an M/D/1 or M/M/1
queue, whose closed forms `aiperf_load.queueing` has.
"""

import asyncio
import functools
import gzip
from collections import Counter
from collections.abc import Awaitable, Callable

import numpy as np
from aiohttp import web
from attrs import field, frozen

from aiperf_core.errors import UsageError
from aiperf_load.servers import protocol
from aiperf_load.timer import Timer

VOCABULARY = 100_000
SERVICES = ("deterministic", "exponential")
HUGE = 4 << 20
PAUSE_S = 1.5


@frozen(kw_only=True)
class Clockwork:
    """Behaviour of the server.

    service: `deterministic` or `exponential`, with this mean.
    gap_s: between tokens after the first.
    servers: requests that are served at once; more of them is no queue in closed form.
    stall_at_s, stall_s: nothing is served for `stall_s` from `stall_at_s` after the first request.
    faults: by name, every how many requests the fault comes; see `FAULTS`.
    """

    service: str = "deterministic"
    service_s: float = 0.01
    gap_s: float = 0.0
    servers: int = 1
    stall_at_s: float = 0.0
    stall_s: float = 0.0
    faults: dict[str, int] = field(factory=dict)
    seed: int = 1

    def __attrs_post_init__(self) -> None:
        if self.service not in SERVICES:
            raise UsageError(f"--service takes {' or '.join(SERVICES)} and the mean time, as in exponential:20ms.")
        if self.servers < 1:
            raise UsageError(f"--servers takes a number from 1; got {self.servers}.")
        for name, every in self.faults.items():
            if name not in FAULTS or every < 1:
                raise UsageError(f"{name!r} every {every} requests is no fault; known are {', '.join(FAULTS)}, from 1.")


class Queue:
    """The times at which services end, for requests that arrive in order."""

    def __init__(self, what: Clockwork) -> None:
        self._what, self._rng = what, np.random.default_rng([what.seed, 4])
        self._free_s = [0.0] * what.servers
        self._first_s: float | None = None

    def ends(self, arrival_s: float) -> float:
        """When the service of a request ends that arrives now."""
        what = self._what
        if self._first_s is None:
            self._first_s = arrival_s
        service_s = what.service_s * (float(self._rng.exponential()) if what.service == "exponential" else 1.0)
        server = min(range(what.servers), key=self._free_s.__getitem__)
        begin_s = max(arrival_s, self._free_s[server])
        stall_s = self._first_s + what.stall_at_s
        if what.stall_s and begin_s < stall_s + what.stall_s and begin_s + service_s > stall_s:
            # What had begun goes on after the stall; what had not begins after it.
            begin_s = begin_s + what.stall_s if begin_s < stall_s else stall_s + what.stall_s
        self._free_s[server] = begin_s + service_s
        return self._free_s[server]


class Handler:
    """Answers requests."""

    def __init__(self, what: Clockwork) -> None:
        self.what, self._queue, self._timer = what, Queue(what), Timer()
        self.seen: Counter[str] = Counter()
        self._number = 0

    def application(self) -> web.Application:
        """The web application."""
        application = web.Application(client_max_size=64 << 20)
        application.router.add_post("/v1/completions", self._completion)
        application.router.add_post("/v1/chat/completions", self._chat)
        application.router.add_get("/stats", self._stats)
        application.on_startup.append(self._started)
        application.on_cleanup.append(self._ended)
        return application

    async def _started(self, _: web.Application) -> None:
        if "gzip" in self.what.faults:
            _bomb()
        self._timer.__enter__()

    async def _ended(self, _: web.Application) -> None:
        self._timer.__exit__()

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self.answer(request, chat=False)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self.answer(request, chat=True)

    async def _stats(self, _: web.Request) -> web.Response:
        return web.json_response(dict(self.seen))

    async def answer(self, request: web.Request, *, chat: bool) -> web.StreamResponse:
        """An answer, or a fault in its place."""
        arrival_s = asyncio.get_running_loop().time()
        self.seen["requests"] += 1
        try:
            asked = protocol.asked(await request.read(), chat=chat, vocabulary=VOCABULARY)
        except protocol.BadRequest as bad:
            return protocol.error(400, str(bad))
        self._number += 1
        fault = next((name for name, every in self.what.faults.items() if self._number % every == 0), None)
        if fault is not None:
            self.seen[fault] += 1
            return await FAULTS[fault](self, request, asked, arrival_s)
        return await self.whole(request, asked, arrival_s)

    async def whole(
        self, request: web.Request, asked: protocol.Asked, arrival_s: float, *,
        give: int | None = None, told: int | None = None, instead: bytes | None = None, pause_s: float = 0.0,
    ) -> web.StreamResponse:  # fmt: skip
        """A stream of `give` tokens, and `instead` in place of its end, where they are given.

        pause_s: after the first token, in addition to the gap.
        """
        due_s = self._queue.ends(arrival_s)
        response = protocol.stream()
        await self._timer.until(due_s)
        await response.prepare(request)
        count = asked.tokens if give is None else give
        for number in range(count):
            if number:
                due_s += self.what.gap_s + (pause_s if number == 1 else 0.0)
                await self._timer.until(due_s)
            one = protocol.token(number % VOCABULARY, number, chat=asked.chat, last=number == asked.tokens - 1)
            await response.write(protocol.event(one))
        if instead is None:
            told = count if told is None else told
            instead = (protocol.event(protocol.usage(len(asked.prompt), told)) if asked.usage else b"") + protocol.DONE
        if instead:
            await response.write(instead)
        self.seen["answered"] += 1
        return response


Fault = Callable[[Handler, web.Request, protocol.Asked, float], Awaitable[web.StreamResponse]]


async def _cut(handler: Handler, request: web.Request, asked: protocol.Asked, arrival_s: float) -> web.StreamResponse:
    response = await handler.whole(request, asked, arrival_s, give=max(1, asked.tokens // 2), instead=b"")
    if request.transport is not None:
        request.transport.close()
    return response


async def _malformed(
    handler: Handler, request: web.Request, asked: protocol.Asked, arrival_s: float
) -> web.StreamResponse:
    broken = b'data: {"choices": [{"text": \n\n' + protocol.DONE
    return await handler.whole(request, asked, arrival_s, give=1, instead=broken)


async def _hang(handler: Handler, request: web.Request, asked: protocol.Asked, arrival_s: float) -> web.StreamResponse:
    response = await handler.whole(request, asked, arrival_s, give=1, instead=b"")
    # Until the client goes away, which cancels the handler, or the server ends.
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(0.05)
    return response


async def _pause(handler: Handler, request: web.Request, asked: protocol.Asked, arrival_s: float) -> web.StreamResponse:
    return await handler.whole(request, asked, arrival_s, pause_s=PAUSE_S)


async def _early(handler: Handler, request: web.Request, asked: protocol.Asked, arrival_s: float) -> web.StreamResponse:
    return await handler.whole(request, asked, arrival_s, give=max(1, asked.tokens // 2))


async def _wrong_usage(
    handler: Handler, request: web.Request, asked: protocol.Asked, arrival_s: float
) -> web.StreamResponse:
    return await handler.whole(request, asked, arrival_s, told=asked.tokens + 3)


async def _error_event(
    handler: Handler, request: web.Request, asked: protocol.Asked, arrival_s: float
) -> web.StreamResponse:
    broken = protocol.event({"error": {"message": "out of memory"}}) + protocol.DONE
    return await handler.whole(request, asked, arrival_s, give=1, instead=broken)


def _status(status: int) -> Fault:
    async def answer(*_: object) -> web.StreamResponse:
        return protocol.error(status, "a fault that was asked for")

    return answer


async def _redirect(*_: object) -> web.StreamResponse:
    return web.Response(status=307, headers={"Location": "http://198.51.100.1/v1/completions"})


async def _html(*_: object) -> web.StreamResponse:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")


@functools.cache
def _bomb() -> bytes:
    """64 MiB in some kilobytes; made before the first request, since it takes as long as many services."""
    return gzip.compress(b"data: " + b" " * (64 << 20), 1)


async def _gzip(*_: object) -> web.StreamResponse:
    head = {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
    return web.Response(body=_bomb(), headers=head)


async def _huge(handler: Handler, request: web.Request, *_: object) -> web.StreamResponse:
    response = protocol.stream()
    await response.prepare(request)
    await response.write(b"data: ")
    for _piece in range(HUGE >> 16):
        await response.write(b"x" * (1 << 16))
    return response


async def _endless(
    handler: Handler, request: web.Request, asked: protocol.Asked, arrival_s: float
) -> web.StreamResponse:
    response = protocol.stream()
    await response.prepare(request)
    number = 0
    while request.transport is not None and not request.transport.is_closing():
        await response.write(protocol.event(protocol.token(1, number, chat=asked.chat, last=False)))
        number += 1
    return response


# What a server may do wrong, by name.
FAULTS: dict[str, Fault] = {
    "cut": _cut,
    "malformed": _malformed,
    "hang": _hang,
    "pause": _pause,
    "early": _early,
    "wrong-usage": _wrong_usage,
    "error": _error_event,
    "429": _status(429),
    "500": _status(500),
    "404": _status(404),
    "redirect": _redirect,
    "html": _html,
    "gzip": _gzip,
    "huge": _huge,
    "endless": _endless,
}
