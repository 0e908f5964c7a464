"""What becomes of a connection after the last event: it serves the next request, and no server sees a reset."""

import asyncio
import json

import numpy as np
import pytest
from attrs import define

from aiperf_load import client
from aiperf_load.arrivals import plan
from aiperf_load.outcomes import Kind
from aiperf_load.processes import generate
from aiperf_load.spec import Arrivals, LoadSpec, Rules, Server, Workload

END_LATER_S = 0.2
USAGE = {"prompt_tokens": 4, "completion_tokens": 2}


@define
class Listener:
    """Streams two tokens, and ends the HTTP message a while after the last event, or sends `after` in its place."""

    after: bytes | None = None
    connections: int = 0
    resets: int = 0

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                (length,) = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(int(length.split(b":")[1]))
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                )
                events = [{"choices": [{"text": "a"}]}, {"choices": [{"text": "b"}]}, {"choices": [], "usage": USAGE}]
                for event in (*map(json.dumps, events), "[DONE]"):
                    writer.write(chunk(f"data: {event}\n\n".encode()))
                await writer.drain()
                await asyncio.sleep(END_LATER_S)
                while self.after is not None:
                    writer.write(chunk(self.after))
                    await writer.drain()
                    await asyncio.sleep(0.001)
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except asyncio.IncompleteReadError:
            pass
        except ConnectionError:
            self.resets += 1
        finally:
            writer.close()


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.fixture
def served(here):
    """Starts a listener; what a client saw of it that waits for its last answer."""

    def load(listener, duration_s):
        start = asyncio.start_server(listener.serve, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(start, here.loop).result(20)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        # On a busy machine the generator may need nearly as long to start as the load lasts; then it sends too little.
        for longer in (1, 2, 4):
            listener.connections = listener.resets = 0
            spec = LoadSpec(
                server=Server(url=url), workload=Workload(input_low=4, input_high=4, output_low=2, output_high=2),
                arrivals=Arrivals(kind="closed", clients=1),
                rules=Rules(duration_s=longer * duration_s, warmup_s=0.0),
            )  # fmt: skip
            found, _ = generate(spec, plan(spec))
            if len(found) >= 2:
                break
        here.loop.call_soon_threadsafe(server.close)
        assert set(found.kind.tolist()) == {Kind.OK}
        return found

    return load


def test_a_message_that_ends_after_the_last_event_keeps_its_connection_and_adds_no_time(served):
    listener = Listener()
    found = served(listener, 1.0)
    assert len(found) >= 2
    assert (listener.connections, listener.resets) == (1, 0)
    # The next request waits for the end of the message, and no figure has that wait.
    assert (np.diff(found.sent_s) >= END_LATER_S).all()
    assert np.median(found.done_s - found.sent_s) < END_LATER_S


@pytest.mark.parametrize("after", [b":", b"x" * client.MOST_AFTER])
def test_a_message_that_does_not_end_loses_its_connection_and_no_request(served, after):
    listener = Listener(after)
    found = served(listener, 2.0)
    assert listener.connections == len(found) >= 2
