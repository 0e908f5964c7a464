"""Objects over real sockets: how many requests are under way, which fail and are made again, and when a client gives up."""

import gc
import http.client
import threading
import time
from typing import Any

import pytest
import torch

from aiperf_ch05 import object_server, remote_prefetch
from aiperf_ch05.object_server import ObjectServer
from aiperf_ch05.remote_prefetch import Client
from aiperf_core.errors import AiperfError

SIZE, OBJECTS = 1000, 16
DATA = bytes(range(250)) * (SIZE * OBJECTS // 250)


def server_of(data: bytes = DATA, *, stalls: bool = False) -> ObjectServer:
    return ObjectServer(memoryview(data), SIZE, stalls=stalls)


def status_of(server: ObjectServer, path: str, part: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("GET", path, headers={"range": part})
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_first_request_for_one_object_of_eight_fails_and_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[str] = []
    attempt = Client.attempt

    def noted(client: Client, connection: Any, number: int, first: int, memory: memoryview) -> str:
        reasons.append(str(attempt(client, connection, number, first, memory)))
        return reasons[-1]

    monkeypatch.setattr(Client, "attempt", noted)
    server = server_of()
    with Client(server.port, "5-1") as client:
        for number in range(OBJECTS):
            memory = bytearray(SIZE)
            client.get(number, 0, memoryview(memory))
            assert bytes(memory) == DATA[number * SIZE :][:SIZE]
    failed = sorted(reason for reason in reasons if reason)
    assert failed == ["status 503, Service Unavailable", "the connection was closed after 500 of 1,000 bytes"]
    assert len(reasons) == OBJECTS + OBJECTS // object_server.FAILING
    server.close()


def test_a_range_is_a_part_of_an_object_and_what_is_not_there_is_refused() -> None:
    server = server_of()
    with Client(server.port, "1-1") as client:
        memory = bytearray(7)
        client.get(3, 11, memoryview(memory))
        assert bytes(memory) == DATA[3 * SIZE + 11 :][:7]
    assert status_of(server, "/99", "bytes=0-1") == 416
    assert status_of(server, "/0", f"bytes=0-{SIZE}") == 416
    assert status_of(server, "/name", "bytes=0-1") == 404
    server.close()


def test_a_server_that_stalls_ends_the_work_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_prefetch, "TIMEOUT_S", 0.2)
    server = server_of(stalls=True)
    with Client(server.port, "1-1") as client, pytest.raises(AiperfError) as caught:
        client.get(2, 0, memoryview(bytearray(SIZE)))
    assert str(caught.value) == (
        f"object 2 of 127.0.0.1:{server.port} could not be read from byte 0 on. 3 attempts failed, the last by: timed out. "
        "See whether the server runs."
    )
    server.close()


def test_a_server_that_is_closed_is_a_reason_and_its_thread_has_ended() -> None:
    before = set(threading.enumerate())
    server = server_of()
    (thread,) = (thread for thread in set(threading.enumerate()) - before if thread.name == "objects")
    port = server.port
    del server
    gc.collect()
    thread.join(timeout=60)
    assert not thread.is_alive()
    with Client(port, "1-1") as client, pytest.raises(AiperfError, match="Connection refused"):
        client.get(0, 0, memoryview(bytearray(SIZE)))


@pytest.mark.parametrize(
    ("form", "most"),
    [
        (remote_prefetch.Sequential, 1),
        (remote_prefetch.Ranges, remote_prefetch.RANGES),
        (remote_prefetch.Prefetch, 1),
        (remote_prefetch.Depth, remote_prefetch.DEPTH),
    ],
)
def test_as_many_requests_are_under_way_as_a_variant_says(
    form: type[remote_prefetch.Sequential], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, weight = torch.randn(24, 8, 16), torch.randn(16, 16)
    fetching = form()
    fetching.prepare(data, 24, 16)
    under_way, highest, lock, get = 0, 0, threading.Lock(), Client.get

    def counted(client: Client, *arguments: Any) -> None:
        nonlocal under_way, highest
        with lock:
            under_way += 1
            highest = max(highest, under_way)
        time.sleep(0.02)  # longer than it takes to begin the others
        get(client, *arguments)
        with lock:
            under_way -= 1

    monkeypatch.setattr(Client, "get", counted)
    out = fetching.run(weight, 3)
    assert highest == most
    assert torch.allclose(out, remote_prefetch.use(data, weight))
    fetching.server.close()
