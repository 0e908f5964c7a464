"""HTTP connections with limits of time, and without requests whose length a proxy may read in another way.

uvicorn limits the time between requests only. Here a head arrives within `PATIENCE_S`; after that, a body and an answer
make progress within each `PATIENCE_S`.
"""

import asyncio
import re
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE_S = 10.0
LEAST_BYTES = 1 << 16  # of a body in that time; a body that needs no more has to be complete by then

_LENGTH = re.compile(rb"(?im)^(?:content-length|transfer-encoding)[ \t]*:")
# A folded line, or a length that is no plain number.
_AMBIGUOUS = re.compile(rb"(?im)\n[ \t]|^content-length[ \t]*:(?![ \t]*[0-9]+[ \t]*\r?$)")
_HEAD_END = re.compile(rb"\n\r?\n")


class _Strict(h11.Connection):
    """A connection that refuses what h11 repairs: two lengths, a length beside an encoding, folded lines."""

    def next_event(self) -> Any:
        """The next event. Raises RemoteProtocolError, which is answered with 400."""
        if self.their_state is h11.IDLE:
            head = _HEAD_END.split(self.trailing_data[0], 1)[0]
            if len(_LENGTH.findall(head)) > 1 or _AMBIGUOUS.search(head):
                raise h11.RemoteProtocolError("the length of the request is ambiguous")
        return super().next_event()


class Connection(H11Protocol):
    """A connection that ends where the client stays silent, sends a drop at a time, or does not read the answer."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = _Strict(h11.SERVER)
        self._timer: asyncio.TimerHandle | None = None
        self._awaited = ""
        self._got = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the waiting."""
        self._wait_for("")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what arrives."""
        self._got += len(data)
        super().data_received(data)

    def handle_events(self) -> None:
        """Take the events that have arrived, then wait for what is missing."""
        super().handle_events()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for a client that does not read."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Wait for the request again."""
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        if self.flow.write_paused:
            awaited = "reader"
        elif self.conn.their_state is h11.SEND_BODY:
            awaited = "body"
        elif self.conn.their_state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            awaited = "head"
        else:  # the application answers, or uvicorn waits for the next request
            awaited = ""
        if awaited != self._awaited:
            self._wait_for(awaited)

    def _wait_for(self, awaited: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._awaited, self._got = awaited, 0
        self._timer = self.loop.call_later(PATIENCE_S, self._expire) if awaited else None

    def _expire(self) -> None:
        moves = self._got >= LEAST_BYTES or self.flow.read_paused
        if self._awaited == "body" and moves and not self.cycle.response_complete:
            self._wait_for("body")
        else:
            self.transport.abort()
