"""A client of servers that stream tokens in the form of OpenAI's API.

A token's time is that of the read of the socket that brought it, by the monotonic clock. The client follows no
redirect, accepts no compression, uses no proxy and keeps no cookie; whatever a server sends, memory and time are
bounded.
"""

import asyncio
import json
from contextlib import suppress
from types import TracebackType
from typing import Any

import aiohttp

from aiperf_load import prompts, server_message
from aiperf_load.outcomes import Kind, Reply
from aiperf_load.spec import LoadSpec, asked_url
from aiperf_load.sse import Events, TooLarge
from aiperf_load.stream import Ended, Stream

# The end of its HTTP message follows the last event of a stream: the limits of waiting for it, in seconds and bytes.
END_S, MOST_AFTER = 1.0, 1 << 16
# Shorter than servers keep idle connections, so that none is closed while a request is written to it.
KEEP_S = 2.0
HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "identity"}


class Client:
    """Sends requests of a load. Use as an async context manager."""

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self._url = asked_url(spec.server)
        self._count = prompts.counter(spec.workload.tokenizer)

    async def __aenter__(self) -> "Client":
        # Read when a request is made, so that a key never stands on a command line or in a result.
        import os

        self._key = key = os.environ.get("AIPERF_LOAD_KEY")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_S),
            timeout=aiohttp.ClientTimeout(total=None),
            headers=HEADERS | ({"Authorization": f"Bearer {key}"} if key else {}),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    def body(self, number: int, input_tokens: int, output_tokens: int) -> bytes:
        """The content of request `number`."""
        work, server = self.spec.workload, self.spec.server
        ids = prompts.tokens(self.spec, number, input_tokens)
        prompt: Any = ids if work.prompt == "ids" else prompts.text(ids)
        options = {"include_usage": True}
        asked: dict[str, Any] = {
            "model": server.model,
            "max_tokens": output_tokens,
            "stream": True,
            "stream_options": options,
            "temperature": 0,
        }
        if work.exact_output:
            # Extensions of vLLM, which others ignore. By the last, each event tells how many tokens it has.
            asked |= {"ignore_eos": True, "min_tokens": output_tokens}
            options["continuous_usage_stats"] = True
        if server.endpoint == "chat":
            asked["messages"] = [{"role": "user", "content": prompt}]
        else:
            asked["prompt"] = prompt
        return json.dumps(asked).encode()

    async def send(self, reply: Reply, body: bytes) -> None:
        """Send a request and read its answer into `reply`. Raises nothing but a cancellation."""
        loop = asyncio.get_running_loop()
        stream, response = Stream(reply, self._count), None
        reply.sent_s = loop.time()
        try:
            async with asyncio.timeout_at(reply.scheduled_s + self.spec.rules.timeout_s):
                response = await self._session.post(self._url, data=body, allow_redirects=False)
                reply.status = response.status
                await _check_head(response)
                await self._read(response, stream)
            reply.kind = Kind.OK
        except Ended as ended:
            reply.kind = ended.kind
            reply.message = server_message.shortened(ended.message, self._key)
        except TimeoutError:
            reply.kind = Kind.TIMEOUT
        except aiohttp.ClientConnectorError:
            reply.kind = Kind.REFUSED
        except (aiohttp.ClientResponseError, aiohttp.InvalidURL):
            reply.kind = Kind.MALFORMED
        except (aiohttp.ClientError, ConnectionError):
            reply.kind = Kind.CUT
        except asyncio.CancelledError:
            reply.kind = Kind.INTERRUPTED
            raise
        except Exception as error:  # an answer that no server may send, or the tokenizer: one request, not the run
            reply.kind, reply.message = Kind.MALFORMED, server_message.shortened(f"{type(error).__name__}: {error}")
        finally:
            reply.done_s = loop.time()
            stream.record()
            if response is not None and not stream.done:
                # The rest of a stream that is not wanted is not read.
                response.close()
        if response is not None and stream.done:
            await _read_end(response)

    async def _read(self, response: aiohttp.ClientResponse, stream: Stream) -> None:
        events = Events()
        now = asyncio.get_running_loop().time
        read = response.content.readany
        while not stream.done:
            piece = await read()
            at_s = now()
            if not piece:
                stream.end()
            try:
                found = events.feed(piece)
            except TooLarge:
                raise Ended(Kind.TOO_LARGE) from None
            for data in found:
                stream.take(data, at_s)
        stream.finish(exact=self.spec.workload.exact_output, ids=self.spec.workload.prompt == "ids")


async def _read_end(response: aiohttp.ClientResponse) -> bytes:
    """Read what is left of the HTTP message, so that the connection serves another request.

    A server that does not end the message in time, or goes on beyond it, loses the connection.
    """
    read = bytearray()
    try:
        # Whatever follows the last event changes nothing in what was measured.
        with suppress(Exception):
            async with asyncio.timeout(END_S):
                while len(read) < MOST_AFTER and (piece := await response.content.readany()):
                    read += piece
    finally:
        # Of a message that was read whole, the connection is given back already, and stays open.
        response.close()
    return bytes(read)


async def _check_head(response: aiohttp.ClientResponse) -> None:
    plain = response.headers.get("Content-Encoding", "identity").lower() == "identity"
    status = response.status
    if 300 <= status < 400:
        kind = Kind.REDIRECTED
    elif status == 429:
        kind = Kind.HTTP_429
    elif 500 <= status < 600:
        kind = Kind.HTTP_5XX
    elif status != 200:
        kind = Kind.HTTP_OTHER
    elif not plain:
        kind = Kind.ENCODED
    elif response.content_type != "text/event-stream":
        kind = Kind.WRONG_TYPE
    else:
        return
    raise Ended(kind, (await _read_end(response)).decode(errors="replace") if plain else "")
