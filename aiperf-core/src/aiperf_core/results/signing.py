"""Signatures of bundles, made by OpenSSH: `ssh-keygen -Y sign` with existing SSH keys.

A signature covers the manifest on disk, whose seal covers every figure of the bundle. It is stored in
`manifest.json.sig`, and can be verified without aiperf:

    ssh-keygen -Y verify -f allowed_signers -I NAME -n aiperf -s manifest.json.sig < manifest.json
"""

import os
import subprocess
import tempfile
from pathlib import Path

from attrs import frozen

from aiperf_core import atomic
from aiperf_core.errors import AiperfError, BundleError, ExitCode, UsageError
from aiperf_core.names import words
from aiperf_core.results import seal_check
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST

NAMESPACE = "aiperf"
SIGNATURE = f"{MANIFEST}.sig"
LARGEST = 1 << 16  # bytes of a signature; real ones have some hundreds
SECONDS = 300  # a passphrase may have to be typed, or a token touched


class SignatureError(BundleError):
    """A bundle is not signed as expected, or was changed since."""

    exit_code = ExitCode.INVALID


@frozen
class Signed:
    """The signer of a bundle, by the list of allowed signers, and the line of ssh-keygen with the fingerprint."""

    identity: str
    told: str


def sign(bundle: Bundle, key: Path) -> Path:
    """Sign a closed bundle and return the signature's path; an older signature is replaced.

    `key` is a private key, or a public one whose private half an SSH agent holds. Raises BundleError for a bundle that
    has no seal or whose manifest was changed since it was sealed, and UsageError for a key that cannot sign.
    """
    if not key.is_file():
        raise UsageError(f"--key '{key}' is not a file; give an SSH key, such as ~/.ssh/id_ed25519.")
    data = _manifest(bundle)
    recorded = bundle.manifest.hashes.get(MANIFEST)
    if recorded is None:
        raise BundleError(
            f"'{bundle.path}' has no seal, since its run has not ended; only a closed bundle can be signed."
        )
    found = seal_check.check(bundle)
    if not found.holds:
        raise seal_check.SealError(
            f"'{bundle.path}' was not signed: {words(found.differences[0].where)} was changed since the bundle was "
            f"sealed. All differences: aiperf recheck {bundle.path}"
        )
    done = _ssh_keygen("sign", "-n", NAMESPACE, "-f", str(key), data=data)
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise UsageError(f"ssh-keygen did not sign with '{key}': {_said(done)}.")
    path = bundle.path / SIGNATURE
    try:
        atomic.write(path, done.stdout)
    except OSError as error:
        raise BundleError(f"cannot write '{path}': {error.strerror or error}.") from error
    return path


def verify(bundle: Bundle, signers: Path, identity: str | None = None) -> Signed:
    """The signer of the bundle. Without `identity`, any signer in `signers`, an `allowed_signers` file, is accepted.

    Raises SignatureError if there is no signature, if it is by another key, or if the manifest changed since.
    """
    if not signers.is_file():
        raise UsageError(
            f"--signers '{signers}' is not a file; it has lines such as 'ann@example.org ssh-ed25519 AAAA…'."
        )
    data, signature = _manifest(bundle), _signature(bundle)
    with tempfile.TemporaryDirectory(prefix="aiperf-") as folder:
        # A copy: nothing that another program opens lies in a folder that came from elsewhere.
        copy = Path(folder) / SIGNATURE
        copy.write_bytes(signature)
        found = _ssh_keygen("find-principals", "-f", str(signers), "-s", str(copy), data=b"")
        told = found.stdout.decode("utf-8", errors="replace") if found.returncode == 0 else ""
        principals = told.replace(",", "\n").split()  # a line of the list may name several
        if not principals:
            raise SignatureError(
                f"'{bundle.path}' is signed by a key that '{signers}' does not allow, or its signature is damaged "
                f"({_said(found)})."
            )
        name = identity or principals[0]
        done = _ssh_keygen("verify", "-f", str(signers), "-I", name, "-n", NAMESPACE, "-s", str(copy), data=data)
    if done.returncode == 0:
        return Signed(words(name), words(done.stdout.decode("utf-8", errors="replace")))
    if identity is not None and identity not in principals:
        raise SignatureError(
            f"'{bundle.path}' is not signed by {identity!r}; its key is that of {', '.join(map(repr, principals))}."
        )
    raise SignatureError(
        f"'{bundle.path}' does not carry a valid signature of {name!r}: its {MANIFEST} was changed after it was "
        f"signed, or it was signed for something else ({_said(done)})."
    )


def _manifest(bundle: Bundle) -> bytes:
    """The bytes that are signed. The manifest was read through the bundle before, which follows no link out of it."""
    _ = bundle.manifest
    return (bundle.path / MANIFEST).read_bytes()


def _signature(bundle: Bundle) -> bytes:
    path = bundle.path / SIGNATURE
    try:
        # aiperf never makes links or pipes here; a pipe would never end.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise SignatureError(
            f"'{bundle.path}' is not signed: it has no {SIGNATURE}. "
            "A person who vouches for it signs it: aiperf results sign BUNDLE --key KEY"
        ) from None
    except OSError as error:
        raise SignatureError(f"cannot read '{path}': {error.strerror or error}.") from error
    if len(data) > LARGEST:
        raise SignatureError(f"'{path}' is no signature: it is larger than {LARGEST:,} bytes.")
    return data


def _ssh_keygen(action: str, *arguments: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", action, *arguments], input=data, capture_output=True, timeout=SECONDS, check=False
        )
    except FileNotFoundError:
        raise AiperfError(
            "signatures need ssh-keygen, which is not installed. It comes with OpenSSH 8.2 or later: "
            "apt install openssh-client"
        ) from None
    except subprocess.TimeoutExpired:
        raise AiperfError(f"ssh-keygen did not end within {SECONDS} s.") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    text = (done.stderr or done.stdout).decode("utf-8", errors="replace")
    return words(text).rstrip(".") or f"exit code {done.returncode}"
