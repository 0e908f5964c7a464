"""Folders outside of a project."""

from aiperf_core.folders import cache_folder


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("AIPERF_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert str(cache_folder()) == "/home/ada/.cache/aiperf"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert str(cache_folder()) == "/xdg/aiperf"
    monkeypatch.setenv("AIPERF_CACHE_DIR", "/mine")
    assert str(cache_folder()) == "/mine"
