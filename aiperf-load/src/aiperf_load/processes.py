"""One generator, in this process or divided over several."""

import asyncio
import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection

from aiperf_core.errors import AiperfError
from aiperf_load.arrivals import Plan
from aiperf_load.generator import Generator, Progress, soon
from aiperf_load.outcomes import Outcomes, Reply, outcomes
from aiperf_load.spec import LoadSpec

_PR_SET_PDEATHSIG = 1


def generate(spec: LoadSpec, plan: Plan, progress: Progress | None = None) -> tuple[Outcomes, bool]:
    """Send the requests of a plan; the outcomes, and whether the run was interrupted.

    Request i is sent by process i modulo their number; all count from one start on one clock.
    """
    start_s = soon(spec, len(plan) if not plan.clients else 0)
    if spec.rules.processes == 1:
        replies, interrupted = asyncio.run(_sent(spec, plan, range(len(plan)), start_s, progress))
    else:
        replies, interrupted = _divided(spec, plan, start_s)
    return outcomes(replies, start_s), interrupted


async def _sent(
    spec: LoadSpec, plan: Plan, members: range, start_s: float, progress: Progress | None = None
) -> tuple[list[Reply], bool]:
    generator = Generator(spec, plan, members, start_s, progress)
    await generator.run()
    return generator.replies, generator.interrupted


def _divided(spec: LoadSpec, plan: Plan, start_s: float) -> tuple[list[Reply], bool]:
    fresh = multiprocessing.get_context("spawn")
    count = spec.rules.processes
    pipes = [fresh.Pipe(duplex=False) for _ in range(count)]
    children = [
        fresh.Process(
            target=_child, args=(os.getpid(), send, spec, plan, range(index, len(plan), count), start_s), daemon=True
        )
        for index, (_, send) in enumerate(pipes)
    ]
    for child, (_, send) in zip(children, pipes, strict=True):
        child.start()
        send.close()
    try:
        found = [_received(receive) for receive, _ in pipes]
    finally:
        for child, (receive, _) in zip(children, pipes, strict=True):
            receive.close()
            child.join(5)
            if child.is_alive():
                child.kill()
                child.join()
    return [reply for replies, _ in found for reply in replies], any(one for _, one in found)


def _received(receive: Connection) -> tuple[list[Reply], bool]:
    """Replies of a generator. Ctrl-C reaches each process by itself, so this one goes on to wait."""
    while True:
        try:
            found: tuple[list[Reply], bool] | str = receive.recv()
        except KeyboardInterrupt:
            continue
        except EOFError:
            raise AiperfError(
                "a process of the generator died, perhaps for lack of memory; the point has no result. Free memory, or "
                "ask for fewer requests."
            ) from None
        if isinstance(found, str):
            raise AiperfError(f"a process of the generator failed: {found}")
        return found


def _child(parent: int, send: Connection, spec: LoadSpec, plan: Plan, members: Sequence[int], start_s: float) -> None:
    assert isinstance(members, range)
    # A run that is killed leaves nothing that goes on to load the server.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    with contextlib.closing(send):
        try:
            send.send(asyncio.run(_sent(spec, plan, members, start_s)))
        except Exception as error:  # told by the parent, whose message it becomes
            send.send(f"{type(error).__name__}: {error}")
