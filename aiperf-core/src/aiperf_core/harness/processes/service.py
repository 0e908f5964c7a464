"""The child's side of the protocol: it answers each request with one reply.

A request is `{"do": NAME, "token": T, ...arguments}`. A reply is `{"token": T, "ok": RESULT}` or `{"token": T, "error":
{...}}` with the error's kind, type and message. Before its reply a child may send notices, `{"token": T, "notice":
NAME}`.
"""

import traceback
from pathlib import Path

from aiperf_core.errors import AiperfError, CompileError, ContractError, SkipError, is_out_of_memory
from aiperf_core.harness.processes.channel import MAX_FDS, Channel, Message
from aiperf_core.kernels.triton import triton_compile_error

_OURS = str(Path(__file__).parents[1])


class Service:
    """Answers requests by calling its own `do_*` methods, until the other side closes the channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._token = ""

    def notify(self, notice: str) -> None:
        """Send a notice before the reply."""
        self._channel.send({"token": self._token, "notice": notice})

    @classmethod
    def main(cls, channel: Channel) -> None:
        """Serve a supervisor."""
        cls(channel).serve()

    def serve(self) -> None:
        """Answer requests."""
        while True:
            request = self._channel.receive(most_fds=MAX_FDS)
            self._token, name = request.pop("token"), request.pop("do")
            try:
                reply: Message = {"ok": getattr(self, f"do_{name}")(**request)}
            except BaseException as raised:
                # SystemExit and KeyboardInterrupt too: benchmark code must not end the process silently.
                error = triton_compile_error(raised) or raised
                _show(error)
                reply = {"error": describe_error(error)}
            fds = tuple(reply["ok"].pop("fds", ())) if isinstance(reply.get("ok"), dict) else ()
            self._channel.send({"token": self._token, **reply}, fds)


def describe_error(error: BaseException) -> Message:
    """An exception as a message: its kind, type and text.

    The kind is `skip`, `contract`, `compile`, `memory`, `mistake` or `raised`.
    """
    return {"kind": _kind(error), "type": type(error).__name__, "message": str(error)[:4000]}


def _show(error: BaseException) -> None:
    """Print a traceback to the log, without the harness's outermost frames; none for the errors of a compiler."""
    if isinstance(error, CompileError):
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    # An error of the harness itself keeps all its frames.
    traceback.print_exception(type(error), error, trace or error.__traceback__)


def _kind(error: BaseException) -> str:
    for kind, name in (
        (SkipError, "skip"),
        (ContractError, "contract"),
        (CompileError, "compile"),
        (AiperfError, "mistake"),
    ):
        if isinstance(error, kind):
            return name
    return "memory" if is_out_of_memory(error) else "raised"
