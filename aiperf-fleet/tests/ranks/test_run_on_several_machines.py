"""`aiperf run --nnodes`: the same command twice on one machine, and the mistakes that a user can make."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.errors import SkipError
from aiperf_core.plugins import load_plugins
from aiperf_core.results.bundle import Bundle
from aiperf_core.version import __version__
from aiperf_fleet.ranks.joining import nodes_of

RANKS = Path(__file__).parents[3] / "aiperf-core" / "tests" / "harness" / "targets" / "several_ranks.py"
PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("ranks", "Ranks that talk", "latency", ("cpu",))
    yield Target("alone", "One process", "latency", ("cpu",))
"""
SECRET = "the secret of this test"


@pytest.fixture
def acme(site, new_cache, monkeypatch):
    """An installed package `aiperf-acme`, beside this one."""
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(new_cache()))
    site.install("aiperf-acme", PLUGIN)
    site.declare("aiperf-fleet", __version__, "fleet = aiperf_fleet.plugin")
    site.write("aiperf_acme/ranks.py", RANKS.read_text())
    return site


def start(acme, here, *arguments):
    folders = [str(acme.folder), *filter(None, sys.path)]
    command = [sys.executable, "-m", "aiperf_core", "run", "acme.ranks:gathered", "--size", "smoke", *arguments]
    environment = {**os.environ, "AIPERF_RDZV_TOKEN": SECRET, "PYTHONPATH": os.pathsep.join(folders)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=here, env=environment, stdout=pipe, stderr=pipe, text=True)


def places():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return ["--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{one.getsockname()[1]}"]


def test_the_same_command_on_each_machine(acme, tmp_path_factory):
    here, where = tmp_path_factory.mktemp("here"), [*places(), "--budget", "0.1", "--policy", "lenient"]
    second = start(acme, here, *where, "--node-rank", "1")
    first = start(acme, here, *where, "--out", "bundle")
    _, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    out, err = second.communicate(timeout=20)
    assert (second.returncode, out) == (0, ""), err
    assert err == (f"node 1 of 2: connected to {where[3]}\nlibrary: 1 rank\ngathered: 1 rank\n")
    bundle = Bundle.open(here / "bundle")
    result = bundle.target("acme.ranks")
    assert result.executor == "torchrun"
    assert all(row.judgement is not None and row.judgement.samples for row in result.rows)
    devices = sorted(one.device for one in result.rows[1].ranks)
    assert [re.sub(r"\(.*\)", "(...)", one) for one in devices] == ["cpu of node 0 (...)", "cpu of node 1 (...)"]
    assert bundle.manifest.request is None, "nobody can go on with it, or repeat it, on this machine alone"


def test_what_must_be_the_same_on_all_machines(monkeypatch, acme):
    """That machines which differ are refused is tested beside the hub."""

    def identity():
        monkeypatch.setenv("AIPERF_RDZV_TOKEN", SECRET)
        return nodes_of(acme.load().select(["acme.ranks"]), 2, "127.0.0.1:29400", 1).identity

    before = identity()
    assert set(before) == {
        *("the command's targets", "Python", "torch", "the processor's kind"),
        *("the source of aiperf_acme", "the source of aiperf_core", "the source of aiperf_fleet"),
    }
    assert before == identity()
    acme.write("aiperf_acme/ranks.py", RANKS.read_text() + "# and more\n")
    after = identity()
    assert {name for name in before if before[name] != after[name]} == {"the source of aiperf_acme"}


def asked(monkeypatch, *arguments, secret=SECRET, plugins=None):
    monkeypatch.setenv("AIPERF_RDZV_TOKEN", secret)
    found = CliRunner().invoke(Shell(plugins or load_plugins([])), ["run", *arguments])
    assert found.exit_code == 2, found.output
    return found.stderr


def test_what_the_options_need(monkeypatch, acme):
    plugins, where = acme.load(), ["--rdzv-endpoint", "127.0.0.1:29400"]
    two = ["acme.ranks", "--nnodes", "2"]
    said = asked(monkeypatch, *two, plugins=plugins)
    assert said == "aiperf: --nnodes and --node-rank need --rdzv-endpoint HOST:PORT, the same on all machines.\n"
    said = asked(monkeypatch, *two, *where, "--node-rank", "2", plugins=plugins)
    assert said.startswith("aiperf: --node-rank 2 does not fit --nnodes 2: ")
    said = asked(monkeypatch, "acme.ranks", *where, plugins=plugins)
    assert said.startswith("aiperf: --node-rank 0 does not fit --nnodes 1: ")
    said = asked(monkeypatch, *two, "--rdzv-endpoint", "here", plugins=plugins)
    assert said.startswith("aiperf: --rdzv-endpoint takes HOST:PORT")
    said = asked(monkeypatch, *two, *where, secret="short", plugins=plugins)
    assert said.startswith("aiperf: --nnodes needs a shared secret of at least 16 characters in ")
    said = asked(monkeypatch, *two, *where, "--executor", "here", plugins=load_plugins([]))
    assert said == "aiperf: --nnodes cannot be combined with --resume, nor with an --executor other than torchrun.\n"
    said = asked(monkeypatch, "--nnodes", "2", *where, plugins=plugins)
    assert said.startswith("aiperf: Missing argument 'PATTERN...': a target")


def test_the_executor_is_of_use_with_the_options_alone(acme):
    executor = acme.load().known_executors["nodes"]
    with pytest.raises(SkipError, match="^it needs --nnodes, --rdzv-endpoint and --node-rank, and no --executor$"):
        executor.resolve(None)


def test_the_secret_is_taken_out_of_the_environment(monkeypatch, acme):
    """Where the processes of the run would find it."""
    asked(monkeypatch, "acme.ranks", "--nnodes", "2", "--rdzv-endpoint", "nowhere", plugins=acme.load())
    assert "AIPERF_RDZV_TOKEN" not in os.environ
