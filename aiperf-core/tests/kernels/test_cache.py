from collections.abc import Callable
from pathlib import Path

import pytest

from aiperf_core.kernels import cache


def test_what_is_kept_is_found(cache_dir: Path) -> None:
    assert cache.fetch("a.cubin") is None
    assert cache.keep("a.cubin", b"code") == cache_dir / "a.cubin"
    assert cache.fetch("a.cubin") == b"code"
    assert [path.name for path in cache_dir.iterdir()] == ["a.cubin"], "no temporary file is left"


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b"x" + b[1:], lambda b: b + b"\0"])
def test_a_damaged_entry_is_none(cache_dir: Path, damage: Callable[[bytes], bytes]) -> None:
    cache.keep("a.cubin", b"code")
    entry = cache_dir / "a.cubin"
    entry.write_bytes(damage(entry.read_bytes()))
    assert cache.fetch("a.cubin") is None


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIPERF_CACHE_DIR", "/dev/null/nowhere")
    assert cache.keep("a.cubin", b"code") is None
    assert cache.fetch("a.cubin") is None


def test_a_disk_that_fails_midway_leaves_nothing(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full)
    assert cache.keep("a.cubin", b"code") is None
    assert list(cache_dir.iterdir()) == []


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("AIPERF_CACHE_DIR", "/chosen")
    assert cache.kernels_folder() == Path("/chosen/kernels")
    monkeypatch.delenv("AIPERF_CACHE_DIR")
    assert cache.kernels_folder() == Path("/xdg/aiperf/kernels")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.kernels_folder() == Path("/home/someone/.cache/aiperf/kernels")


def test_parts_of_a_key_do_not_run_into_each_other() -> None:
    assert len({cache.key_of("ab", "c"), cache.key_of("a", "bc"), cache.key_of("abc"), cache.key_of("c", "ab")}) == 4
    assert cache.key_of("a") == cache.key_of(b"a")
