import json

import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.devices import probe
from aiperf_core.plugins import load_plugins

PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("gather", "Sorted indices turn a gather into a copy", "speed", ("cpu", "cuda"), ("memory",))
    yield Target("graph", "One launch for many kernels", "latency", "cuda")
"""


def listed(plugins, *arguments):
    return CliRunner().invoke(Shell(plugins), ["list", *arguments])


def test_the_table(site):
    site.install("aiperf-acme", PLUGIN)
    result = listed(site.load())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "name         goal     devices    summary\n"
        "acme.gather  speed    cpu, cuda  Sorted indices turn a gather into a copy\n"
        "acme.graph   latency  cuda       One launch for many kernels\n"
    )


def test_patterns_choose(site):
    site.install("aiperf-acme", PLUGIN)
    assert listed(site.load(), "tag:memory").stdout == (
        "name         goal   devices    summary\n"
        "acme.gather  speed  cpu, cuda  Sorted indices turn a gather into a copy\n"
    )


def test_a_pattern_that_chooses_nothing(site):
    site.install("aiperf-acme", PLUGIN)
    result = listed(site.load(), "acme.gether")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "aiperf: 'acme.gether' is not a target. Did you mean 'acme.gather'?\n"


def test_json_has_everything_known(site):
    site.install("aiperf-acme", PLUGIN)
    assert json.loads(listed(site.load(), "--json").stdout)[0] == {
        "name": "acme.gather",
        "module": "aiperf_acme.gather",
        "summary": "Sorted indices turn a gather into a copy",
        "goal": "speed",
        "devices": ["cpu", "cuda"],
        "tags": ["memory"],
        "distribution": "aiperf-acme",
        "version": "0.3",
        "formerly": [],
    }


@pytest.mark.parametrize(("cuda", "names"), [(True, ["acme.gather", "acme.graph"]), (False, ["acme.gather"])])
def test_runnable_means_a_device_that_is_here(site, monkeypatch, cuda, names):
    monkeypatch.setattr(probe, "has_cuda_device", lambda: cuda)
    site.install("aiperf-acme", PLUGIN)
    found = json.loads(listed(site.load(), "--runnable", "--json").stdout)
    assert [target["name"] for target in found] == names


def test_nothing_that_can_run_here(site, monkeypatch):
    monkeypatch.setattr(probe, "has_cuda_device", lambda: False)
    site.install("aiperf-acme", PLUGIN)
    result = listed(site.load(), "--runnable", "acme.graph")
    assert (result.exit_code, result.stdout) == (
        0,
        "None of the chosen benchmarks (1) can run here. What is missing: aiperf doctor\n",
    )


def test_without_benchmarks_it_says_how_to_get_some():
    result = listed(load_plugins([]))
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "No benchmarks are installed. Get some, in a clone of aiperf: pip install -e ./aiperf-ch07\n",
        "",
    )
    assert listed(load_plugins([]), "--json").stdout == "[]\n"
    result = listed(load_plugins([]), "ch07")
    assert (result.exit_code, result.stderr) == (
        2,
        "aiperf: 'ch07' is not a target: no benchmarks are installed. Get some, in a clone of aiperf: pip install -e ./aiperf-ch07\n",
    )


def test_skipped_plugins_are_told_on_stderr(site):
    site.install("aiperf-acme", PLUGIN)
    site.install("aiperf-bolt", "import no_such_module")
    result = listed(site.load(), "--json")
    assert len(json.loads(result.stdout)) == 2
    assert result.stderr == (
        "skipped plugin aiperf-bolt 0.3: its import raised ModuleNotFoundError: No module named 'no_such_module'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["gath"], ["acme.gather"]),
        (["memo"], ["acme.gather"]),
        (["launch"], ["acme.graph"]),
        (["-k", "kernels"], ["acme.graph"]),
        (["acme", "--exclude", "tag:memory"], ["acme.graph"]),
        (["--exclude", "acme.graph", "--exclude", "acme.nothing*"], None),
    ],
)
def test_a_word_and_the_options_of_patterns_choose(site, arguments, names):
    site.install("aiperf-acme", PLUGIN)
    result = listed(site.load(), "--json", *arguments)
    if names is None:
        message = "aiperf: 'acme.nothing*' matches no target. See them all: aiperf list\n"
        assert (result.exit_code, result.stderr) == (2, message)
        return
    assert [target["name"] for target in json.loads(result.stdout)] == names


def test_a_filter_that_leaves_nothing(site):
    site.install("aiperf-acme", PLUGIN)
    result = listed(site.load(), "-k", "transpose")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "aiperf: -k transpose leaves none of 2 selected targets. See them: aiperf list\n"
