"""Byte code of packages that have none beside their sources."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from aiperf_core.harness.processes.bytecode import kept_for


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `uncompiled` of two modules, for a Python that must not write byte code; the folder of it."""
    folder = tmp_path / "site" / "uncompiled"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from uncompiled import inner\n")
    (folder / "inner.py").write_text("answer = 42\n")
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.delitem(sys.modules, "uncompiled", raising=False)
    monkeypatch.delitem(sys.modules, "uncompiled.inner", raising=False)
    return folder


def kept(tmp_path: Path) -> set[str]:
    return {path.name.partition(".")[0] for path in (tmp_path / "cache").rglob("*.pyc")}


def imported() -> int:
    answer = importlib.import_module("uncompiled").inner.answer
    for name in ("uncompiled", "uncompiled.inner"):
        del sys.modules[name]
    assert isinstance(answer, int)
    return answer


def test_byte_code_that_python_may_not_keep_is_kept_in_the_cache(package: Path, tmp_path: Path) -> None:
    with kept_for("uncompiled"):
        assert imported() == 42
    assert kept(tmp_path) == {"__init__", "inner"}
    assert not list(package.rglob("*.pyc"))
    assert (sys.dont_write_bytecode, sys.pycache_prefix) == (True, None)


def test_it_is_used_the_next_time_and_not_for_sources_that_changed(package: Path, tmp_path: Path) -> None:
    with kept_for("uncompiled"):
        imported()
        (compiled,) = (tmp_path / "cache").rglob("inner.*.pyc")
        written = compiled.stat().st_mtime_ns
        imported()
        assert compiled.stat().st_mtime_ns == written
        (package / "inner.py").write_text("answer = 4_200\n")
        assert imported() == 4200


def test_it_is_kept_for_what_is_imported_after_the_package_too(package: Path, tmp_path: Path) -> None:
    (package / "later.py").write_text("answer = 43\n")
    with kept_for("uncompiled"):
        importlib.import_module("uncompiled")
    with kept_for("uncompiled"):
        importlib.import_module("uncompiled.later")
    assert kept(tmp_path) == {"__init__", "inner", "later"}
    del sys.modules["uncompiled.later"]


def test_where_python_finds_its_own_nothing_is_changed(package: Path, tmp_path: Path) -> None:
    compiled = Path(importlib.util.cache_from_source(str(package / "__init__.py")))
    compiled.parent.mkdir()
    compiled.touch()
    with kept_for("uncompiled"):
        assert (sys.dont_write_bytecode, sys.pycache_prefix) == (True, None)
        imported()
    assert not kept(tmp_path)


@pytest.mark.usefixtures("package")
def test_where_python_may_keep_its_own_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    with kept_for("uncompiled"):
        assert (sys.dont_write_bytecode, sys.pycache_prefix) == (False, None)
    with kept_for("no_such_package"):
        assert sys.pycache_prefix is None
    assert not kept(tmp_path)


@pytest.mark.usefixtures("package")
def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with kept_for("uncompiled"):
        assert imported() == 42
