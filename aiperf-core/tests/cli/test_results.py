import json

import attrs
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle


@pytest.fixture
def runs(tmp_path):
    for name, created in (("old", "2026-11-20T10:00:00+00:00"), ("new", "2026-11-21T10:00:00+00:00")):
        made = Bundle.create_at(tmp_path / "runs" / name)
        made.write_target(example.result())
        made.write_manifest(attrs.evolve(example.manifest(), created=created))
    return tmp_path / "runs"


def results(*arguments, answer=None):
    return CliRunner().invoke(Shell(load_plugins([])), ["results", *map(str, arguments)], input=answer)


def test_the_list(runs):
    found = results("list", "--in", runs)
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout == (
        "bundle  targets  started               ended             device       command\n"
        "new           1  2026-11-21 10:00 UTC  complete, exit 3  NVIDIA H200  aiperf run ch07.memory_access "
        "ch10.warp_specialized_gemm\n"
        "old           1  2026-11-20 10:00 UTC  complete, exit 3  NVIDIA H200  aiperf run ch07.memory_access "
        "ch10.warp_specialized_gemm\n"
    )


def test_the_list_as_json(runs):
    (runs / "old/manifest.json").write_text("")
    new, old = json.loads(results("list", "--in", runs, "--json").stdout)
    assert (new["path"], new["targets"], new["exit_code"], new["device"]) == (str(runs / "new"), 1, 3, "NVIDIA H200")
    assert old["path"] == str(runs / "old")
    assert "is not a manifest file" in old["problem"]


def test_an_empty_list(tmp_path):
    assert results("list", "--in", tmp_path).stdout == (
        f"'{tmp_path}' holds no bundles. Make one: aiperf run PATTERN\n"
    )


def test_hostile_words_do_not_reach_the_terminal(runs):
    hostile = attrs.evolve(example.manifest(), command=["\x1b]0;owned\x07\x1b[2J", "run\nfake"], created="\x1b[31m9")
    Bundle(runs / "new").write_manifest(hostile)
    (runs / "old").rename(runs / "o\x1b[2Jld")
    found = results("list", "--in", runs).stdout
    assert "\x1b" not in found
    assert len(found.splitlines()) == 3


@pytest.mark.usefixtures("made_up_figures")
def test_show_by_name(runs):
    whole = results("show", "new", "--in", runs)
    assert whole.exit_code == 0
    assert "ch10.warp_specialized_gemm: needs sm_90a" in whole.stdout
    one = results("show", "new:ch07.memory_access", "--in", runs)
    assert "coalesced" in one.stdout
    assert "ch10.warp_specialized_gemm: needs" not in one.stdout
    assert results("show", runs / "new").stdout == whole.stdout
    assert results("show", "./new", "--in", runs).exit_code == 1


def test_removing_asks(runs):
    found = results("rm", "old", "--in", runs, answer="n\n")
    assert found.exit_code == 1
    assert (runs / "old").exists()
    found = results("rm", "old", "--in", runs, answer="y\n")
    assert (found.exit_code, found.stdout.splitlines()[0]) == (0, str(runs / "old"))
    assert [one.name for one in runs.iterdir()] == ["new"]


def test_removing_several_without_asking(runs):
    found = results("rm", "old", "new", "old", "--yes", "--in", runs)
    assert (found.exit_code, found.stdout) == (0, f"removed {runs / 'old'}\nremoved {runs / 'new'}\n")
    assert list(runs.iterdir()) == []


def test_one_wrong_name_and_nothing_is_removed(runs):
    found = results("rm", "old", "nwe", "--yes", "--in", runs)
    assert (found.exit_code, found.stderr) == (
        2,
        f"aiperf: 'nwe' names no bundle. Did you mean 'new'? The newest in '{runs}': new, old. Accepted: a path, the "
        "name of a bundle or the start of it, latest, latest~1 (the bundle before).\n",
    )
    assert (runs / "old").exists()
