"""A server of objects over HTTP, as an object store is: ranges, a latency, a rate for each connection, and failures."""

import asyncio
import re
import threading
import weakref
from asyncio import StreamReader, StreamWriter
from concurrent.futures import Future

LATENCY_S, BYTES_PER_S = 0.010, 200e6  # until an answer begins; of a connection
FAILING = 8  # the first request fails for one object in this number
PIECE_BYTES = 1 << 17

_REQUEST = re.compile(rb"GET /(\d{1,9}) HTTP/1.1\r\n")
_RANGE = re.compile(rb"\r\nrange: bytes=(\d{1,12})-(\d{1,12})\r\n", re.IGNORECASE)
_EPOCH = re.compile(rb"\r\nx-epoch: (\d{1,12})-(\d{1,12})\r\n", re.IGNORECASE)


class ObjectServer:
    """A thread that serves pieces of memory as objects 0, 1 and so on. It ends with this record, or by `close`.

    A thread and not a process, because a run trusts no call beside which a process of its own works. It mostly waits.

    data, size: the memory, and the bytes of an object.
    stalls: answers end in the middle, and the connection stays open.
    port: of 127.0.0.1.
    """

    def __init__(self, data: memoryview, size: int, *, stalls: bool = False) -> None:
        started = Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]]()
        objects = _Objects(data, size, stalls=stalls)
        threading.Thread(target=lambda: asyncio.run(_serve(objects, started)), name="objects", daemon=True).start()
        self.port, loop, ended = started.result()
        self.close = weakref.finalize(self, loop.call_soon_threadsafe, ended.set)


async def _serve(objects: "_Objects", started: "Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
    server, ended = await asyncio.start_server(objects.answer_all, "127.0.0.1", 0), asyncio.Event()
    started.set_result((server.sockets[0].getsockname()[1], asyncio.get_running_loop(), ended))
    await ended.wait()
    server.close()


class _Objects:
    def __init__(self, data: memoryview, size: int, *, stalls: bool) -> None:
        self._data, self._size, self._stalls = data, size, stalls
        self._epoch, self._requested = b"", set[tuple[int, int]]()

    async def answer_all(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while await self._answer(await reader.readuntil(b"\r\n\r\n"), writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client has closed the connection, or sends no requests
        finally:
            writer.close()

    async def _answer(self, head: bytes, writer: StreamWriter) -> bool:
        """Answer a request; return whether the connection stays open."""
        await asyncio.sleep(LATENCY_S)
        request, part = _REQUEST.match(head), _RANGE.search(head)
        number = int(request[1]) if request else -1
        first, last = (int(part[1]), int(part[2])) if part else (0, self._size - 1)
        if not 0 <= number < len(self._data) // self._size or not first <= last < self._size:
            status = b"416 Range Not Satisfiable" if request and part else b"404 Not Found"
            writer.write(b"HTTP/1.1 %s\r\ncontent-length: 0\r\n\r\n" % status)
            return True
        failure = self._failure(head, number, first)
        if failure == "busy":
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")
            return True
        body = self._data[number * self._size + first : number * self._size + last + 1]
        writer.write(b"HTTP/1.1 206 Partial Content\r\ncontent-length: %d\r\n\r\n" % len(body))
        whole = failure != "cut" and not self._stalls
        await self._send(body if whole else body[: len(body) // 2], writer)
        if self._stalls:
            await asyncio.Event().wait()
        return whole

    def _failure(self, head: bytes, number: int, first: int) -> str:
        """The failure of a request: `busy`, `cut` or none. In each epoch the first requests for some objects fail."""
        epoch = _EPOCH.search(head)
        if epoch is None:
            return ""
        if epoch[0] != self._epoch:
            self._epoch, self._requested = epoch[0], set()
        again = (number, first) in self._requested
        self._requested.add((number, first))
        place = (number + int(epoch[1])) % (2 * FAILING)
        return "" if again else {0: "busy", FAILING: "cut"}.get(place, "")

    async def _send(self, body: memoryview, writer: StreamWriter) -> None:
        """Send bytes at the rate of a connection."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        for end in range(PIECE_BYTES, len(body) + PIECE_BYTES, PIECE_BYTES):
            writer.write(body[end - PIECE_BYTES : end])
            await writer.drain()
            await asyncio.sleep(begun + min(end, len(body)) / BYTES_PER_S - loop.time())
