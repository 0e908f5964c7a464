"""`aiperf run --nnodes` where the package that has it is not installed."""

import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell

PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("ranks", "Ranks that talk", "latency", ("cpu",))
"""


@pytest.mark.parametrize("options", [["--nnodes", "2"], ["--rdzv-endpoint", "a:29400"], ["--node-rank", "1"]])
def test_the_message_says_what_to_install(site, options):
    site.install("aiperf-acme", PLUGIN)
    done = CliRunner().invoke(Shell(site.load()), ["run", "acme.ranks", *options])
    assert (done.exit_code, done.stdout, done.stderr) == (
        2,
        "",
        "aiperf: Ranks on several machines need the package aiperf-fleet. Get it, in a clone of aiperf: pip install -e ./aiperf-fleet\n",
    )
