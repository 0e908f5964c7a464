"""Test servers: within this process, or as processes of their own; and the command in this process."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from attrs import field, frozen

from aiperf_load.servers.clockwork import Clockwork, Handler

# Modules beside the tests.
sys.path.append(str(Path(__file__).parent))


@frozen
class Here:
    """Servers of the kind `clockwork` on the loop of a thread: nothing to start, but no times to measure."""

    loop: asyncio.AbstractEventLoop
    runners: list[web.AppRunner] = field(factory=list)

    def start(self, what: Clockwork) -> str:
        """Start a server; its URL."""
        return asyncio.run_coroutine_threadsafe(self._start(what), self.loop).result(20)

    async def _start(self, what: Clockwork) -> str:
        runner = web.AppRunner(Handler(what).application(), access_log=None, handle_signals=False, shutdown_timeout=0.1)
        self.runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def end(self) -> None:
        """End all servers."""
        for runner in self.runners:
            await runner.cleanup()


async def _end_all() -> None:
    """End what still serves a connection: the other side may have left a moment ago."""
    serving = asyncio.all_tasks() - {asyncio.current_task()}
    for one in serving:
        one.cancel()
    await asyncio.gather(*serving, return_exceptions=True)
    await asyncio.sleep(0.05)  # closed transports end in a later turn of the loop


@pytest.fixture(scope="session")
def here() -> Iterator[Here]:
    """Servers within this process."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers = Here(loop)
    yield servers
    asyncio.run_coroutine_threadsafe(servers.end(), loop).result(20)
    asyncio.run_coroutine_threadsafe(_end_all(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="session")
def clockwork(here: Here) -> str:
    """A server whose services take 1 ms and that makes no mistakes; its URL."""
    return here.start(Clockwork(service_s=1e-3))


@pytest.fixture
def server() -> Iterator[Callable[..., str]]:
    """Starts a test server as a process of its own, by the command; its URL."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> str:
        line = [sys.executable, "-m", "aiperf_core", "load", "serve", *arguments, "--port", "0"]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        started.append(process)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://")
        return url

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
    for process in started:
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()
