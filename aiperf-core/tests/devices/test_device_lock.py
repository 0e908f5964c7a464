"""Turns of processes that were forked from one."""

import os
import time
from collections.abc import Callable, Iterator

import pytest

from aiperf_core.devices import device_lock


@pytest.fixture(autouse=True)
def lock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(device_lock, "_lock", None)
    device_lock.create()
    yield
    assert device_lock._lock is not None
    os.close(device_lock._lock)


def forked(do: Callable[[], object]) -> int:
    """A child that does that and ends; its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            do()
        finally:
            os._exit(0)
    return pid


def a_turn(log: int, lasting_s: float = 0.02) -> None:
    with device_lock.held():
        os.write(log, b"(")
        time.sleep(lasting_s)
        os.write(log, b")")


def test_one_process_at_a_time_has_its_turn() -> None:
    read, write = os.pipe()
    pids = [forked(lambda: a_turn(write)) for _ in range(5)]
    for pid in pids:
        os.waitpid(pid, 0)
    assert os.read(read, 100) == b"()" * 5


def test_without_a_common_lock_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_lock, "_lock", None)
    with device_lock.held():
        pass
    monkeypatch.setattr(device_lock, "_lock", os.open("/dev/null", os.O_RDONLY))
    with device_lock.held():  # a descriptor that cannot be locked for writing
        pass


def test_a_process_that_dies_lets_the_others_go_on() -> None:
    read, write = os.pipe()

    def die() -> None:
        with device_lock.held():
            os.write(write, b"!")
            os.kill(os.getpid(), 9)

    pid = forked(die)
    assert os.read(read, 1) == b"!"
    start = time.monotonic()
    with device_lock.held():
        assert time.monotonic() - start < device_lock.LONGEST_S / 2
    os.waitpid(pid, 0)


def test_who_waits_for_long_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_lock, "LONGEST_S", 0.05)
    read, write = os.pipe()
    pid = forked(lambda: a_turn(write, 30.0))
    assert os.read(read, 1) == b"("
    with device_lock.held():
        pass
    os.kill(pid, 9)
    os.waitpid(pid, 0)
