"""`aiperf results sign` and `aiperf recheck --signers`."""

import json
import shutil
import subprocess

import measured
import pytest
from click.testing import CliRunner

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A folder with a signed bundle, the key, and the allowed signers."""
    folder = tmp_path_factory.mktemp("signed")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
    (folder / "signers").write_text(f"ann@example.org {(folder / 'key.pub').read_text()}")
    measured.bundle(folder / "run")
    found = aiperf("results", "sign", folder / "run", "--key", folder / "key")
    assert (found.exit_code, found.stdout) == (0, f"signed {folder}/run/manifest.json.sig\n")
    return folder


def aiperf(*arguments):
    return CliRunner().invoke(Shell(load_plugins([])), list(map(str, arguments)))


def test_a_signature_that_holds(signed):
    found = aiperf("recheck", signed / "run", "--seal-only", "--signers", signed / "signers")
    assert (found.exit_code, found.stderr) == (0, "")
    _, holds, seal, signature = found.stdout.splitlines()
    assert signature.startswith('signature: Good "aiperf" signature for ann@example.org with ED25519 key SHA256:')
    assert seal.startswith("seal: ")
    assert holds == "holds: 1 target"


def test_json_says_who_signed(signed):
    asked = ("recheck", signed / "run", "--seal-only", "--json")
    assert json.loads(aiperf(*asked).stdout)["signed_by"] is None
    assert json.loads(aiperf(*asked, "--signers", signed / "signers").stdout)["signed_by"] == "ann@example.org"


def test_another_signer_is_wanted(signed):
    found = aiperf("recheck", signed / "run", "--signers", signed / "signers", "--identity", "bob@example.org")
    assert (found.exit_code, found.stdout) == (3, "")
    assert found.stderr == (
        f"aiperf: '{signed}/run' is not signed by 'bob@example.org'; its key is that of 'ann@example.org'.\n"
    )


def test_a_signature_does_not_excuse_a_changed_target(signed, tmp_path):
    shutil.copytree(signed / "run", tmp_path / "run")
    (file,) = (tmp_path / "run" / "targets").glob("*.json")
    file.write_text(file.read_text().replace("Neighbours", "Neighbors", 1))
    found = aiperf("recheck", tmp_path / "run", "--seal-only", "--signers", signed / "signers")
    assert found.exit_code == 3
    assert "\nsignature: Good" in found.stdout
    assert found.stdout.splitlines()[1] == "does not hold: 1 difference in 1 target"


def test_an_identity_needs_signers(signed):
    found = aiperf("recheck", signed / "run", "--identity", "ann@example.org")
    assert (found.exit_code, found.stderr) == (
        2,
        "aiperf: --identity names an allowed signer and needs their file: --signers FILE\n",
    )
