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
        ["tag", "targets"],
        ["cuda-cpp", "2"],
        ["memory", "1"],
    ]
    assert json.loads(tags(site.load(), "--json").stdout) == {"cuda-cpp": 2, "memory": 1}


def test_patterns_choose_the_targets(site):
    site.install("aiperf-acme", PLUGIN)
    assert json.loads(tags(site.load(), "--json", "acme", "-k", "launch").stdout) == {"cuda-cpp": 1}


def test_numbers_in_names_count_as_numbers(site):
    site.install("aiperf-acme", PLUGIN.replace('"memory"', '"step-2", "step-10"'))
    shown = [line.split()[0] for line in tags(site.load()).stdout.splitlines()]
    assert shown == ["tag", "cuda-cpp", "step-2", "step-10"]


def test_many_tags_that_differ_in_a_number_are_one_row(site):
    many = ", ".join(f'"step-{number}"' for number in range(10))
    site.install(
        "aiperf-acme", PLUGIN.replace('"memory"', many).replace('"cuda", ("cuda-cpp",)', '"cuda", ("step-3",)')
    )
    found = tags(site.load()).stdout.splitlines()
    assert [line.split(maxsplit=3) for line in found][1:] == [["cuda-cpp", "1"], ["step-N", "(10", "tags)", "2"]]
    assert len(json.loads(tags(site.load(), "--json").stdout)) == 11


def test_without_benchmarks_it_says_how_to_get_some():
    result = tags(load_plugins([]))
    assert (result.exit_code, result.stdout) == (
        0,
        "No benchmarks are installed. Get some, in a clone of aiperf: pip install -e ./aiperf-ch07\n",
    )
