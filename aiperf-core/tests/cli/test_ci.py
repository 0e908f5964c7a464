"""`--junit` and `--github` of `aiperf run` and `aiperf compare`."""

from xml.etree import ElementTree

import attrs
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.harness.processes import child
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

PLUGIN = """
@hookimpl
def aiperf_targets():
    yield Target("memory_access", "Neighbours", "speed", ("cpu", "cuda"))
"""
SOURCE = """
from aiperf_core import Benchmark
bench = Benchmark()


@bench.variant(why="neighbours")
def coalesced(a):
    pass
"""
QUICK = ("--device", "cpu", "--size", "smoke", "--budget", "0.01", "--quiet")


def invoke(plugins, *arguments):
    return CliRunner().invoke(Shell(plugins), list(map(str, arguments)))


def make(path, factor=1.0):
    row = example.rows()[1]
    rows = [example.rows()[0], attrs.evolve(row, time_s=example.estimate(row.time_s.value * factor))]
    made = Bundle.create_at(path)
    made.write_target(attrs.evolve(example.result(), target="acme.memory_access", rows=rows))
    made.write_manifest(example.manifest())
    return path


def test_compare_reports_what_became_slower(site, tmp_path, monkeypatch):
    site.install("aiperf-acme", PLUGIN)
    site.write("aiperf_acme/memory_access.py", SOURCE)
    monkeypatch.chdir(site.folder)
    junit = tmp_path / "junit.xml"
    found = invoke(
        site.load(), "compare", make(tmp_path / "a"), make(tmp_path / "b", 1.1), "--junit", junit, "--github"
    )
    assert found.exit_code == 4
    assert found.stderr == (
        "::error file=aiperf_acme/memory_access.py,line=7,title=acme.memory_access%3Acoalesced::"
        "acme.memory_access:coalesced is SLOWER: left / right 0.909x [0.905, 0.913]\n"
    )
    cases = list(ElementTree.parse(junit).iter("testcase"))
    assert [(case.get("name"), case[0].tag) for case in cases] == [
        ("strided", "system-out"),
        ("coalesced", "failure"),
    ]


def test_compare_without_a_failure_annotates_nothing(tmp_path):
    found = invoke(load_plugins([]), "compare", make(tmp_path / "a"), make(tmp_path / "b"), "--github")
    assert (found.exit_code, found.stderr) == (0, "")


def test_run_writes_a_case_for_each_implementation(tmp_path, new_cache, lent_server, monkeypatch):
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(new_cache()))
    monkeypatch.setattr(child, "ForkServer", lent_server)
    junit = tmp_path / "junit.xml"
    found = invoke(
        load_plugins(), "run", "practice.sum_rows", *QUICK, "-o", tmp_path / "run", "--junit", junit, "--github"
    )
    names = [case.get("name") for case in ElementTree.parse(junit).iter("testcase")]
    assert {"library", "kept_output"} <= {*names}
    assert found.stderr.count("::error ") == len(list(ElementTree.parse(junit).iter("failure")))


def test_a_junit_file_that_cannot_be_written_is_refused_before_measuring(tmp_path):
    file = tmp_path / "missing" / "junit.xml"
    found = invoke(load_plugins(), "run", "practice.softmax", *QUICK, "-o", tmp_path / "run", "--junit", file)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        f"aiperf: --junit '{file}' is a folder, or its folder does not exist; name a file such as junit.xml.\n"
    )
    assert not (tmp_path / "run").exists()
