"""Requests and events of both test servers, in the form of OpenAI's API."""

import json
from typing import Any

from aiohttp import web
from attrs import frozen

MOST_TOKENS = 100_000


@frozen
class Asked:
    """A request: its prompt as token ids, and the number of tokens to give."""

    prompt: list[int]
    tokens: int
    chat: bool
    usage: bool


class BadRequest(Exception):
    """A request that the server does not serve; the message is its answer."""


def asked(body: bytes, *, chat: bool, vocabulary: int) -> Asked:
    """Read a request. Raises `BadRequest`."""
    try:
        found = json.loads(body)
        if not found.get("stream"):
            raise BadRequest("this server only streams; set stream to true")
        prompt = found["messages"][-1]["content"] if chat else found["prompt"]
        ids = prompt if isinstance(prompt, list) else [int(one.removeprefix("t")) for one in prompt.split()]
        tokens = int(found.get("max_tokens", 16))
        usage = bool((found.get("stream_options") or {}).get("include_usage"))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise BadRequest(f"a request has a prompt of ids or of words such as t12; {error!r}") from None
    if not ids or not all(type(one) is int and 0 <= one < vocabulary for one in ids):
        raise BadRequest(f"a prompt has ids from 0 to {vocabulary - 1}")
    if not 1 <= tokens <= MOST_TOKENS:
        raise BadRequest(f"max_tokens is {tokens}; accepted are 1 to {MOST_TOKENS}")
    return Asked(ids, tokens, chat, usage)


def event(document: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def token(one: int, number: int, *, chat: bool, last: bool) -> dict[str, Any]:
    """A token as the document of an event; `number` is its place in the answer."""
    text = f"t{one}" if number == 0 else f" t{one}"
    content: dict[str, Any] = {"delta": {"content": text}} if chat else {"text": text}
    return {"choices": [{"index": 0, **content, "finish_reason": "length" if last else None}]}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    """The last event but one: the numbers of tokens."""
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion,
                                     "total_tokens": prompt + completion}}  # fmt: skip


def stream() -> web.StreamResponse:
    """The head of an answer."""
    return web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})


def error(status: int, message: str) -> web.Response:
    """An answer without a stream."""
    return web.json_response({"error": {"message": message}}, status=status)
