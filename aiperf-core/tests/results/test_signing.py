import shutil
import subprocess

import attrs
import pytest

from aiperf_core.errors import AiperfError, BundleError, UsageError
from aiperf_core.results import example, listing, signing
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.seal_check import SealError
from aiperf_core.results.signing import SignatureError

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Keys of Ann and Bob, and lists of allowed signers: both, and Bob alone."""
    folder = tmp_path_factory.mktemp("keys")
    lines = {}
    for name in ("ann", "bob"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        lines[name] = f"{name}@example.org {(folder / f'{name}.pub').read_text()}"
    (folder / "both").write_text(lines["ann"] + lines["bob"])
    (folder / "only_bob").write_text(lines["bob"])
    return folder


@pytest.fixture
def signed(bundle, keys):
    assert signing.sign(bundle, keys / "ann") == bundle.path / "manifest.json.sig"
    return bundle


def refused(bundle, signers, identity=None):
    with pytest.raises(SignatureError) as caught:
        signing.verify(bundle, signers, identity)
    assert caught.value.exit_code == 3
    return str(caught.value).replace(str(bundle.path), "RUN").replace(str(signers), "SIGNERS")


@pytest.mark.parametrize("identity", [None, "ann@example.org"])
def test_who_signed(signed, keys, identity):
    found = signing.verify(signed, keys / "both", identity)
    assert found.identity == "ann@example.org"
    assert found.told.startswith('Good "aiperf" signature for ann@example.org with ED25519 key SHA256:')


def test_a_line_may_name_several_people(signed, keys, tmp_path):
    signers = tmp_path / "signers"
    signers.write_text(f"ann@example.org,ann@home {(keys / 'ann.pub').read_text()}")
    assert signing.verify(signed, signers).identity == "ann@example.org"
    assert signing.verify(signed, signers, "ann@home").identity == "ann@home"


def test_a_bundle_without_a_signature(bundle, keys):
    assert refused(bundle, keys / "both") == (
        "'RUN' is not signed: it has no manifest.json.sig. "
        "A person who vouches for it signs it: aiperf results sign BUNDLE --key KEY"
    )


def test_a_wrong_signer(signed, keys):
    assert refused(signed, keys / "both", "bob@example.org") == (
        "'RUN' is not signed by 'bob@example.org'; its key is that of 'ann@example.org'."
    )
    assert refused(signed, keys / "only_bob") == (
        "'RUN' is signed by a key that 'SIGNERS' does not allow, or its signature is damaged (No principal matched)."
    )


def test_a_manifest_that_was_changed_and_sealed_again(signed, keys):
    signed.write_manifest(attrs.evolve(signed.manifest, git=None))
    assert refused(signed, keys / "both").startswith(
        "'RUN' does not carry a valid signature of 'ann@example.org': its manifest.json was changed after it was signed"
    )


def test_a_target_that_was_changed_and_sealed_again(signed, keys):
    signed.write_target(attrs.evolve(example.result(), summary="better"))
    assert signing.verify(signed, keys / "both")  # recheck finds that by the seal
    signed.write_manifest(signed.manifest)
    assert "was changed after it was signed" in refused(signed, keys / "both")


def test_a_signature_for_something_else(bundle, keys):
    data = (bundle.path / "manifest.json").read_bytes()
    command = ["ssh-keygen", "-Y", "sign", "-n", "git", "-f", str(keys / "ann")]
    made = subprocess.run(command, input=data, capture_output=True, check=True)
    (bundle.path / "manifest.json.sig").write_bytes(made.stdout)
    assert "or it was signed for something else" in refused(bundle, keys / "both")


def test_a_damaged_signature(signed, keys):
    file = signed.path / "manifest.json.sig"
    file.write_text("x")
    assert "or its signature is damaged" in refused(signed, keys / "both")
    file.write_bytes(b"x" * (signing.LARGEST + 1))
    assert refused(signed, keys / "both") == "'RUN/manifest.json.sig' is no signature: it is larger than 65,536 bytes."
    file.unlink()
    file.mkdir()
    assert refused(signed, keys / "both") == "cannot read 'RUN/manifest.json.sig': Is a directory."


def test_a_link_is_not_followed(signed, keys, tmp_path):
    file = signed.path / "manifest.json.sig"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert refused(signed, keys / "both").startswith("cannot read 'RUN/manifest.json.sig': ")
    assert signing.sign(signed, keys / "bob") == file
    assert not file.is_symlink()
    assert signing.verify(signed, keys / "only_bob").identity == "bob@example.org"


def test_what_cannot_be_signed(tmp_path, bundle, keys):
    open_ = Bundle.create_at(tmp_path / "open")
    open_.write_manifest(attrs.evolve(example.manifest(), exit_code=None))
    with pytest.raises(
        BundleError, match=r"has no seal, since its run has not ended; only a closed bundle can be signed"
    ):
        signing.sign(open_, keys / "ann")
    file = bundle.path / "manifest.json"
    file.write_text(file.read_text().replace("node7", "node8"))
    with pytest.raises(SealError) as caught:
        signing.sign(bundle, keys / "ann")
    assert str(caught.value) == (
        f"'{bundle.path}' was not signed: manifest.json was changed since the bundle was sealed. All differences: "
        f"aiperf recheck {bundle.path}"
    )
    bundle.write_manifest(bundle.manifest)
    bundle.write_target(attrs.evolve(example.result(), summary="better"))
    with pytest.raises(SealError, match=r"not signed: targets/ch07.memory_access.json was changed since"):
        signing.sign(bundle, keys / "ann")
    assert not (bundle.path / "manifest.json.sig").exists()


def test_what_cannot_sign(bundle, keys, tmp_path):
    with pytest.raises(UsageError, match=r"--key '.*none' is not a file; give an SSH key, such as ~/.ssh/id_ed25519\."):
        signing.sign(bundle, tmp_path / "none")
    with pytest.raises(UsageError, match=r"^ssh-keygen did not sign with '.*both': "):
        signing.sign(bundle, keys / "both")
    with pytest.raises(UsageError, match=r"--signers '.*none' is not a file"):
        signing.verify(bundle, tmp_path / "none")


def test_without_ssh_keygen(bundle, keys, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AiperfError) as caught:
        signing.sign(bundle, keys / "ann")
    assert str(caught.value) == (
        "signatures need ssh-keygen, which is not installed. It comes with OpenSSH 8.2 or later: apt install openssh-client"
    )


def test_a_signed_bundle_can_be_removed(signed):
    path = listing.removable(signed.path)
    listing.remove(path)
    assert not signed.path.exists()
