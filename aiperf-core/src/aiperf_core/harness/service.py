"""The child's side of the protocol: requests in, one reply each.

A request is `{"do": NAME, ...arguments}`. A reply is `{"ok": RESULT}`, or `{"error": {...}}` with the kind of the error,
its type, message and traceback. Before its reply a child may send notices, `{"notice": NAME}`.
"""

import traceback
from typing import Any

from aiperf_core.errors import AiperfError, SkipError
from aiperf_core.harness.channel import Channel, Message


class ContractError(Exception):
    """An implementation returned something of another form than the reference does."""


def serve(channel: Channel, handler: Any) -> None:
    """Answer requests by calling the handler's public methods until the other side closes the channel."""
    while True:
        request = channel.receive()
        name = request.pop("do")
        try:
            reply: Message = {"ok": getattr(handler, f"do_{name}")(**request)}
        except BaseException as error:
            # SystemExit and KeyboardInterrupt too: benchmark code must not end the process unsaid.
            traceback.print_exc()
            reply = {"error": describe_error(error)}
        fds = tuple(reply["ok"].pop("fds", ())) if isinstance(reply.get("ok"), dict) else ()
        channel.send(reply, fds)


def describe_error(error: BaseException) -> Message:
    """Return an exception as a message: kind (`skip`, `contract`, `memory`, `mistake` or `raised`), type and text."""
    lines = traceback.format_exception(error)
    return {
        "kind": _kind(error),
        "type": type(error).__name__,
        "message": str(error)[:4000],
        "traceback": "".join(lines)[-8000:],
    }


def _kind(error: BaseException) -> str:
    if isinstance(error, SkipError):
        return "skip"
    if isinstance(error, ContractError):
        return "contract"
    if isinstance(error, AiperfError):
        return "mistake"
    # torch has a type for the GPU's memory only; on the host it raises RuntimeError with this text.
    words = ("out of memory", "can't allocate memory", "not enough memory", "Cannot allocate memory")
    if isinstance(error, MemoryError) or any(word in str(error) for word in words):
        return "memory"
    return "raised"
