"""A stream of server-sent events (HTML standard, section 9.2) to a client that may be slow, or go away."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import anyio
from attrs import frozen
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from aiperf_analysis.sources.errors import GoneError

MEDIA = "text/event-stream"
MOST_STREAMS = 256  # at once, of a server
# A client that takes an event for longer than this is dropped. It may come back with the id of its last event.
SLOW_S = 10.0
# A comment is sent after such a silence, so that a proxy keeps the connection.
SILENCE_S = 30.0
AGAIN_MS = 2000  # after which a browser comes back


@frozen
class Event:
    """An event: its number, its name, and its data, which become JSON."""

    id: int
    name: str
    data: object

    def encode(self) -> bytes:
        """The lines of the event. JSON has no line breaks."""
        data = json.dumps(self.data, separators=(",", ":"), allow_nan=False)
        return f"id: {self.id}\nevent: {self.name}\ndata: {data}\n\n".encode()


class Streams:
    """The streams of a server: how many there are, and their common end."""

    def __init__(self) -> None:
        self._open: set[anyio.CancelScope] = set()

    def __len__(self) -> int:
        return len(self._open)

    def check(self) -> None:
        """Raise GoneError where there are as many as there may be."""
        if len(self._open) >= MOST_STREAMS:
            raise GoneError(f"{MOST_STREAMS} pages follow runs on this server. Close some, then try again.")

    def end(self) -> None:
        """End all, so that the server can stop."""
        for one in tuple(self._open):
            one.cancel()

    def response(self, events: Callable[[], AsyncGenerator[Event | None]]) -> Response:
        """An answer that sends events as they come; None stands for a silence."""
        return _Stream(self._open, events)


class _Stream(Response):
    def __init__(self, every: set[anyio.CancelScope], events: Callable[[], AsyncGenerator[Event | None]]) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"}, media_type=MEDIA)
        del self.headers["content-length"]
        self._every, self._events = every, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the events end, the client goes away or is too slow, or the server stops."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with anyio.create_task_group() as group:
            group.start_soon(_until_gone, receive, group.cancel_scope)
            in_time = True
            with anyio.CancelScope() as sending:
                self._every.add(sending)
                try:
                    in_time = scope["method"] == "HEAD" or await self._send(send)
                finally:
                    self._every.discard(sending)
            if in_time:
                await _sent(send, b"", more=False)
            group.cancel_scope.cancel()

    async def _send(self, send: Send) -> bool:
        """Send events; whether the client took each in time."""
        if not await _sent(send, f"retry: {AGAIN_MS}\n\n".encode()):
            return False
        async with aclosing(self._events()) as events:
            async for event in events:
                if not await _sent(send, b":\n\n" if event is None else event.encode()):
                    return False
        return True


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _sent(send: Send, body: bytes, *, more: bool = True) -> bool:
    """Send a part of the answer; whether the client took it in time."""
    with anyio.move_on_after(SLOW_S) as patience:
        await send({"type": "http.response.body", "body": body, "more_body": more})
    return not patience.cancelled_caught
