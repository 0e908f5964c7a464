import json

import measured
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins


@pytest.fixture
def bundle(tmp_path):
    return measured.bundle(tmp_path / "run")


def recheck(*arguments):
    return CliRunner().invoke(Shell(load_plugins([])), ["recheck", *map(str, arguments)])


def test_a_bundle_that_holds(bundle):
    found = recheck(bundle.path)
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout == (
        f"Recheck of {bundle.path}\nholds: 1 target, 5 rows, 99 samples\nseal: {bundle.manifest.hashes['manifest.json']}\n"
    )


def test_only_the_seal(bundle):
    found = recheck(bundle.path, "--seal-only")
    assert found.stdout.splitlines()[1] == "holds: 1 target"


def test_one_that_does_not(bundle):
    file = bundle.path / "targets/ch07.memory_access.json"
    file.write_text(file.read_text().replace('"verdict": "FASTER"', '"verdict": "SLOWER"'))
    found = recheck(bundle.path)
    assert found.exit_code == 3
    assert "ch07.memory_access:coalesced" in found.stdout
    assert found.stdout.splitlines()[1] == "does not hold: 2 differences in 1 target, 5 rows, 99 samples"
    document = json.loads(recheck(bundle.path, "--json").stdout)
    assert document["holds"] is False
    assert [one["what"] for one in document["differences"]] == ["SHA-256", "verdict"]


def test_a_seal_that_was_noted(bundle):
    noted = bundle.manifest.hashes["manifest.json"]
    assert recheck(bundle.path, "--seal", noted).exit_code == 0
    assert recheck(bundle.path, "--seal", "0" * 64).exit_code == 3
    wrong = recheck(bundle.path, "--seal", "12")
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        "aiperf: --seal takes the 64 hexadecimal digits that 'aiperf recheck' printed for the bundle.\n",
    )


def test_what_is_no_bundle(tmp_path):
    found = recheck(tmp_path)
    assert (found.exit_code, found.stdout) == (1, "")
    assert found.stderr.startswith(f"aiperf: '{tmp_path}' has no manifest.json")
