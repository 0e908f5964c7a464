"""A client of servers that stream tokens in the form of OpenAI's API.

A token's time is that of the read of the socket that brought it, by the monotonic clock. The client follows no
redirect, accepts no compression, uses no proxy and keeps no cookie; whatever a server sends, memory and time are
bounded.
"""

import asyncio
import json
from types import TracebackType
from typing import Any

import aiohttp

from aiperf_load import prompts
from aiperf_load.outcomes import Flag, Kind, Reply
from aiperf_load.spec import ENDPOINTS, LoadSpec
from aiperf_load.sse import Events, TooLarge

# A stream may have some events without tokens. One that goes on beyond this is endless.
MORE_EVENTS = 64
MOST_TEXT = 1 << 24  # characters of an answer that are kept for the tokenizer
# The end of its HTTP message follows the last event of a stream: the limits of waiting for it, in seconds and bytes.
END_S, MOST_AFTER = 1.0, 1 << 16
# Shorter than servers keep idle connections, so that none is closed while a request is written to it.
KEEP_S = 2.0
HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "identity"}


class Ended(Exception):
    """A request ended with this kind."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind.name)
        self.kind = kind


class Client:
    """Sends requests of a load. Use as an async context manager."""

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self._url = spec.server.url.rstrip("/") + ENDPOINTS[spec.server.endpoint]
        self._count = prompts.counter(spec.workload.tokenizer)

    async def __aenter__(self) -> "Client":
        # Read when a request is made, so that a key never stands on a command line or in a result.
        import os

        key = os.environ.get("AIPERF_LOAD_KEY")
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
        asked: dict[str, Any] = {
            "model": server.model,
            "max_tokens": output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
        }
        if work.exact_output:
            asked |= {"ignore_eos": True, "min_tokens": output_tokens}
        if server.endpoint == "chat":
            asked["messages"] = [{"role": "user", "content": prompt}]
        else:
            asked["prompt"] = prompt
        return json.dumps(asked).encode()

    async def send(self, reply: Reply, body: bytes) -> None:
        """Send a request and read its answer into `reply`. Raises nothing but a cancellation."""
        loop = asyncio.get_running_loop()
        stream, response = _Stream(reply, self._count is not None), None
        reply.sent_s = loop.time()
        try:
            async with asyncio.timeout_at(reply.scheduled_s + self.spec.rules.timeout_s):
                response = await self._session.post(self._url, data=body, allow_redirects=False)
                reply.status = response.status
                _check_head(response)
                await self._read(response, stream)
            reply.kind = Kind.OK
        except Ended as ended:
            reply.kind = ended.kind
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
        finally:
            reply.done_s = loop.time()
            if response is not None and not stream.done:
                # The rest of a stream that is not wanted is not read.
                response.close()
        if response is not None and stream.done:
            await _read_end(response)

    async def _read(self, response: aiohttp.ClientResponse, stream: "_Stream") -> None:
        events = Events()
        now = asyncio.get_running_loop().time
        read = response.content.readany
        while not stream.done:
            piece = await read()
            at_s = now()
            if not piece:
                raise Ended(Kind.CUT)
            try:
                found = events.feed(piece)
            except TooLarge:
                raise Ended(Kind.TOO_LARGE) from None
            for data in found:
                stream.take(data, at_s)
        stream.finish(self._count, exact=self.spec.workload.exact_output, ids=self.spec.workload.prompt == "ids")


async def _read_end(response: aiohttp.ClientResponse) -> None:
    """Read what follows the last event, the end of the HTTP message, so that the connection serves another request.

    A server that does not end the message in time, or goes on beyond it, loses the connection.
    """
    left = MOST_AFTER
    try:
        async with asyncio.timeout(END_S):
            while left > 0 and (piece := await response.content.readany()):
                left -= len(piece)
    except (TimeoutError, aiohttp.ClientError, ConnectionError):
        pass
    finally:
        # Of a message that was read whole, the connection is given back already, and stays open.
        response.close()


def _check_head(response: aiohttp.ClientResponse) -> None:
    status = response.status
    if 300 <= status < 400:
        raise Ended(Kind.REDIRECTED)
    if status == 429:
        raise Ended(Kind.HTTP_429)
    if 500 <= status < 600:
        raise Ended(Kind.HTTP_5XX)
    if status != 200:
        raise Ended(Kind.HTTP_OTHER)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Ended(Kind.ENCODED)
    if response.content_type != "text/event-stream":
        raise Ended(Kind.WRONG_TYPE)


class _Stream:
    """The events of one answer."""

    def __init__(self, reply: Reply, keep_text: bool) -> None:
        self.reply, self.done = reply, False
        self._keep_text, self._text = keep_text, list[str]()
        self._usage: dict[str, Any] | None = None
        self._events = self._taken = self._tokens = 0
        self._known = True  # whether every event told the number of its tokens
        self._reason: str | None = None
        self._length = 0

    def take(self, data: bytes, at_s: float) -> None:
        """An event. Raises `Ended`."""
        if self.done:
            return
        if data == b"[DONE]":
            self.done = True
            return
        try:
            found = json.loads(data)
            if "error" in found:
                raise Ended(Kind.SERVER_ERROR)
            usage = found.get("usage")
            before = self._usage
            if usage is not None:
                self._usage = {name: int(usage[name]) for name in ("prompt_tokens", "completion_tokens")}
            for choice in found["choices"][:1]:
                self._choice(choice, before, at_s)
        except Ended:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise Ended(Kind.MALFORMED) from None
        self._taken += 1
        if self._taken > self.reply.asked_tokens * 2 + MORE_EVENTS:
            raise Ended(Kind.ENDLESS)

    def _choice(self, choice: dict[str, Any], before: dict[str, Any] | None, at_s: float) -> None:
        text = choice["text"] if "text" in choice else choice["delta"].get("content")
        self._reason = choice.get("finish_reason") or self._reason
        ids = choice.get("token_ids")
        if not text and not ids:
            return
        if text is not None and not isinstance(text, str):
            raise Ended(Kind.MALFORMED)
        self._length += len(text or "")
        if self._length > MOST_TEXT:
            raise Ended(Kind.ENDLESS)
        if self._keep_text:
            self._text.append(text or "")
        self._token(self._number(ids, before), at_s)

    def _number(self, ids: Any, before: dict[str, Any] | None) -> int:
        """The tokens of an event: its ids, or the growth of a running usage; else 1, which the last usage checks."""
        if isinstance(ids, list):
            return len(ids)
        if self._usage is not None and self._usage is not before:
            earlier = before["completion_tokens"] if before else 0
            return max(1, int(self._usage["completion_tokens"]) - int(earlier))
        self._known = False
        return 1

    def _token(self, count: int, at_s: float) -> None:
        reply = self.reply
        if self._events:
            gap_s = at_s - reply.last_s
            if count == 1:
                reply.gaps_s.append(gap_s)
            else:
                reply.gaps_s += [gap_s / count] * count
        else:
            reply.first_s = at_s
        if count > 1:
            reply.flags |= Flag.SPLIT
        reply.last_s = at_s
        self._events += 1
        self._tokens += count
        if self._tokens > reply.asked_tokens * 2 + MORE_EVENTS:
            raise Ended(Kind.ENDLESS)

    def finish(self, count: prompts.Counter | None, *, exact: bool, ids: bool) -> None:
        """Settle the numbers of tokens. Raises `Ended` where they are wrong."""
        reply, usage = self.reply, self._usage
        if usage is None:
            reply.flags |= Flag.NO_USAGE
        told = usage["completion_tokens"] if usage else None
        reply.output_tokens = self._tokens if told is None else told
        if not self._events:
            raise Ended(Kind.EARLY_STOP if not told else Kind.WRONG_COUNT)
        counted = count("".join(self._text)) if count else self._tokens if self._known else None
        if told is not None and counted is not None and told != counted:
            raise Ended(Kind.WRONG_COUNT)
        if told is not None and told < self._tokens:
            raise Ended(Kind.WRONG_COUNT)
        if told is not None and told > self._tokens:
            reply.flags |= Flag.UNEVEN
        if usage is not None and ids and usage["prompt_tokens"] != reply.input_tokens:
            raise Ended(Kind.WRONG_COUNT)
        if reply.output_tokens > reply.asked_tokens:
            raise Ended(Kind.WRONG_COUNT)
        if reply.output_tokens < reply.asked_tokens and exact:
            raise Ended(Kind.EARLY_STOP)
