import json

from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins

PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("gather", "Sorted indices", "speed", "cpu", ("memory", "cuda-cpp"))
    yield Target("graph", "One launch for many kernels", "latency", "cuda", ("cuda-cpp",))
"""


def tags(plugins, *arguments):
    return CliRunner().invoke(Shell(plugins), ["tags", *arguments])


def test_each_tag_has_its_number_of_targets(site):
    site.install("aiperf-acme", PLUGIN)
    result = tags(site.load())
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["TAG", "TARGETS"],
        ["cuda-cpp", "2"],
        ["memory", "1"],
    ]
    assert json.loads(tags(site.load(), "--json").stdout) == {"cuda-cpp": 2, "memory": 1}


def test_patterns_choose_the_targets(site):
    site.install("aiperf-acme", PLUGIN)
    assert json.loads(tags(site.load(), "--json", "acme", "-k", "launch").stdout) == {"cuda-cpp": 1}


def test_without_benchmarks_it_says_how_to_get_some():
    result = tags(load_plugins([]))
    assert (result.exit_code, result.stdout) == (0, "No benchmarks are installed. Get some: pip install aiperf-ch07\n")
