"""Connections of the dashboard's server that stay silent, send slowly or do not read, and ambiguous requests."""

import contextlib
import runpy
import socket
import threading
import time
from pathlib import Path

import pytest
import uvicorn

from aiperf_analysis.dashboard import connections

served = runpy.run_path(str(Path(__file__).parent / "dashboard_server.py"))["served"]
PATIENCE_S = 0.3
HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


async def application(scope, receive, send):
    """Answer `/large` with 64 MiB, and other requests with the number of bytes in the body, unless they are refused."""
    size, more = 0, scope["path"] != "/refused"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = b"x" * (1 << 26) if scope["path"] == "/large" else str(size).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]}
    )
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def server(monkeypatch):
    """The port of a server with little patience."""
    monkeypatch.setattr(connections, "PATIENCE_S", PATIENCE_S)
    config = uvicorn.Config(application, http=connections.Connection, lifespan="off", ws="none", log_level="critical")
    running = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        yield listening.getsockname()[1]
        running.should_exit = True
        thread.join(20)


def sent(port, *pieces, pause_s=0.0):
    """Return the answer of the server to these pieces, until it ends the connection or is silent for long."""
    with socket.create_connection(("127.0.0.1", port), timeout=10 * PATIENCE_S) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
                time.sleep(pause_s)
            found = b""
            while data := client.recv(1 << 16):
                found += data
        except ConnectionError:
            return b"closed"
    return found or b"closed"


@pytest.mark.parametrize(
    "pieces",
    [
        [b""],
        [b"GET / HT"],
        [b"GET / HTTP/1.1\r\nHost: x\r\n", *[b"X: y\r\n"] * 20],
        [HEAD + b"Content-Length: 50\r\n\r\n", *[b"x"] * 20],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"1\r\nx\r\n"] * 20],
    ],
    ids=["silent", "half a line", "a line at a time", "a byte at a time", "a chunk at a time"],
)
def test_a_request_that_is_never_whole_ends(server, pieces):
    assert sent(server, *pieces, pause_s=PATIENCE_S / 4) == b"closed"


def test_the_second_request_of_a_connection_ends_too(server):
    found = sent(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT")
    assert found.endswith(b"\r\n\r\n0")


def test_a_body_that_is_refused_does_not_stay(server):
    with socket.create_connection(("127.0.0.1", server), timeout=10 * PATIENCE_S) as client:
        client.sendall(b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        cut_off = False
        for _ in range(40):
            time.sleep(PATIENCE_S / 8)
            try:
                client.sendall(b"x" * (1 << 16))
            except ConnectionError:
                cut_off = True
        assert cut_off


def test_a_client_that_does_not_read_is_cut_off(server):
    with socket.create_connection(("127.0.0.1", server), timeout=10 * PATIENCE_S) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(4 * PATIENCE_S)
        size = 0
        with contextlib.suppress(ConnectionError):
            while data := client.recv(1 << 20):
                size += len(data)
    assert size < 1 << 26


def test_a_slow_and_steady_upload_is_taken(server):
    piece = b"x" * connections.LEAST_BYTES
    head = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % (20 * len(piece))
    assert sent(server, head, *[piece] * 20, pause_s=PATIENCE_S / 4).endswith(b"\r\n\r\n%d" % (20 * len(piece)))


def test_half_open_connections_leave_room_for_others(server):
    clients = [socket.create_connection(("127.0.0.1", server)) for _ in range(300)]
    time.sleep(4 * PATIENCE_S)
    for client in clients:
        client.settimeout(10 * PATIENCE_S)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        client.close()
    assert sent(server, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length: 5,6\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: -5\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length: 5_0\r\n",
        b"Content-Length:\r\n",
        b"Content-Length:\r\n 5\r\n",
        b"X: y\r\n\tContent-Length: 5\r\n",
        b"Content-Length : 5\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
    ],
)
def test_an_ambiguous_length_is_refused(server, lines):
    for before in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
        found = sent(server, before + HEAD + lines + b"\r\n5\r\nhello\r\n0\r\n\r\n")
        assert found.count(b"HTTP/1.1 ") == (2 if before else 1)
        assert b"HTTP/1.1 400 " in found
        assert b"\r\nInvalid HTTP request received." in found


def test_the_dashboard_serves_by_these_connections(example_runs, tmp_path):
    with served(example_runs, tmp_path / "errors") as server:
        port = int(server.address.rpartition(":")[2])
        found = sent(port, HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 400 ")
