"""Folders outside of a project."""

import os
import pwd

import pytest

from aiperf_core.errors import AiperfError
from aiperf_core.folders import cache_folder, config_folder, data_folder, home_folder, runtime_folder

VARIABLES = ("HOME", "AIPERF_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")


@pytest.fixture
def homeless(monkeypatch, tmp_path):
    """A user without a home in the environment or in the list of users."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"aiperf-{os.getuid()}"


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("AIPERF_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert str(cache_folder()) == "/home/ada/.cache/aiperf"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert str(cache_folder()) == "/xdg/aiperf"
    monkeypatch.setenv("AIPERF_CACHE_DIR", "/mine")
    assert str(cache_folder()) == "/mine"


def test_the_data_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert str(data_folder()) == "/home/ada/.local/share/aiperf"
    monkeypatch.setenv("XDG_DATA_HOME", "/xdg")
    assert str(data_folder()) == "/xdg/aiperf"


@pytest.mark.parametrize("value", ["", "here", "~", "../there"])
def test_relative_folders_are_ignored(monkeypatch, value):
    home = pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.delenv("AIPERF_CACHE_DIR", raising=False)
    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(variable, value)
    found = [str(home_folder()), str(cache_folder()), str(config_folder()), str(data_folder()), runtime_folder()]
    assert found == [home, f"{home}/.cache/aiperf", f"{home}/.config/aiperf", f"{home}/.local/share/aiperf", None]


def test_a_user_without_a_home(homeless):
    assert (home_folder(), config_folder(), data_folder(), cache_folder()) == (None, None, None, homeless)
    assert homeless.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("prepare", [lambda it: it.mkdir() or it.chmod(0o777), lambda it: it.symlink_to("/tmp")])
def test_a_temporary_folder_that_others_may_write_is_refused(homeless, prepare):
    prepare(homeless)
    with pytest.raises(AiperfError) as caught:
        cache_folder()
    assert str(caught.value) == (
        f"The user has no home folder for the cache, and others can write to '{homeless}'. Name a folder of your own in "
        "AIPERF_CACHE_DIR."
    )


def test_a_temporary_folder_that_cannot_be_made(homeless):
    homeless.write_text("")
    with pytest.raises(AiperfError) as caught:
        cache_folder()
    assert str(caught.value) == (
        f"The user has no home folder for the cache, and '{homeless}' cannot be made: File exists. Name a folder of your "
        "own in AIPERF_CACHE_DIR."
    )
