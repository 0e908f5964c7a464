"""Run a test server until a signal ends it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

from aiohttp import web

from aiperf_core.errors import AiperfError
from aiperf_load.servers import clockwork, tiny


def run(what: clockwork.Clockwork | tiny.Tiny, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve on `host`; port 0 takes a free one. `ready` gets the URL. Ends with SIGINT or SIGTERM.

    Raises AiperfError for an address that cannot be used.
    """
    asyncio.run(_serve(what, host, port, ready))


async def _serve(what: clockwork.Clockwork | tiny.Tiny, host: str, port: int, ready: Callable[[str], None]) -> None:
    handler = clockwork.Handler(what) if isinstance(what, clockwork.Clockwork) else tiny.Handler(what)
    runner = web.AppRunner(handler.application(), access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=4096)
        try:
            await site.start()
        except OSError as error:
            raise AiperfError(
                f"cannot serve on {host}:{port}: {error.strerror or os.strerror(error.errno or 0)}. "
                "Choose another --port, or 0 for a free one."
            ) from None
        address = runner.addresses[0]
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, ended.set)
        ready(f"http://{f'[{address[0]}]' if ':' in address[0] else address[0]}:{address[1]}")
        with contextlib.suppress(asyncio.CancelledError):
            await ended.wait()
    finally:
        await runner.cleanup()
