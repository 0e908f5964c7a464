"""Machines that measure nothing, in place of `python -m aiperf_fleet.machine`."""

import sys
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.contributions import Installed
from aiperf_core.fleet import Fleet
from aiperf_core.plugins import load_plugins

STUB = Path(__file__).with_name("stub_machine.py")
# The folder of `pretend_engine` and `stub_machine`.
sys.path.append(str(STUB.parent))


@pytest.fixture(scope="session")
def plugins():
    """All plugins, and the engine `pretend`."""
    loaded = load_plugins()
    pretend = Fleet("pretend", "Three machines that measure nothing", "pretend_engine:Pretend")
    return evolve(loaded, fleets={**loaded.fleets, "pretend": Installed(pretend, "aiperf-tests", "1")})


@pytest.fixture
def targets(plugins):
    """The targets of the core, which are installed wherever this package is."""
    return [one.name for one in plugins.targets if one.group == "practice"]


@pytest.fixture
def called(plugins, monkeypatch, tmp_path, stub):
    """Call the command in a folder with a suite; its exit code and all that it printed."""
    import pretend_engine

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pretend_engine.Pretend, "tasks", {})

    def call(*arguments):
        done = CliRunner().invoke(Shell(plugins), ["fleet", *map(str, arguments)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.output

    return call


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """The folder that tells the stub what to do; `python` in it is to be given as the Python of the machines."""
    folder = tmp_path / "stub"
    folder.mkdir()
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexport STUB={folder}\nexec {sys.executable} {STUB} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("STUB", str(folder))
    return folder
