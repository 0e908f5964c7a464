"""Bundles of known truth and the command, for the tests of stacking, scaling and what-if."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins

# The folder of `simulated.py`.
sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def shell():
    return Shell(load_plugins())


@pytest.fixture
def analyze(shell):
    """Runs `aiperf analyze` in this process. An exception that no user can cause is raised."""

    def run(*arguments):
        done = CliRunner().invoke(shell, ["analyze", *map(str, arguments)], prog_name="aiperf")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return run
