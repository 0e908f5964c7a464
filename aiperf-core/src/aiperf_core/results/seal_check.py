"""Check the files of a bundle against its seal: whether any was changed, removed or added since its run ended.

A command checks the files that it reads, and the names of all files. `aiperf recheck` checks every file.
"""

import math
from collections.abc import Collection, Iterator
from typing import Any

from attrs import field, frozen

from aiperf_core.errors import BundleError, ExitCode
from aiperf_core.names import words
from aiperf_core.results import jsontext, seal
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST, TARGETS, target_name

SHOWN = 3  # differences in a message
# Sums in a different order differ in the last digits.
EXACT = 1e-9


class SealError(BundleError):
    """A bundle does not agree with its seal, or its figures do not agree with its samples."""

    exit_code = ExitCode.INVALID


@frozen
class Difference:
    """A file, or a figure of a row, that does not hold."""

    where: str
    what: str
    recorded: str
    found: str


def differing(where: str, recorded: Any, found: Any, name: str = "") -> Iterator[Difference]:
    """The parts of two documents that differ: what is recorded, and what was computed again."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in {**recorded, **found}:
            yield from differing(where, recorded.get(key), found.get(key), f"{name}.{key}" if name else key)
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for index, pair in enumerate(zip(recorded, found, strict=True)):
            yield from differing(where, *pair, f"{name}[{index}]")
    elif isinstance(recorded, float | int) and isinstance(found, float | int):
        if not math.isclose(recorded, found, rel_tol=EXACT, abs_tol=1e-12):
            yield Difference(where, name, str(recorded), str(found))
    elif recorded != found:
        yield Difference(where, name, str(recorded), str(found))


@frozen
class SealCheck:
    """Result of the check of a bundle's seal.

    sealed: whether the bundle has a seal. It has none while its run goes on, or after the run was killed.
    differences: what does not agree with the seal.
    """

    bundle: Bundle
    sealed: bool
    differences: list[Difference] = field(factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing was changed, as far as a seal can tell."""
        return not self.differences

    def told(self) -> str:
        """The result as one paragraph; empty for a seal that holds."""
        path = f"'{words(str(self.bundle.path))}'"
        if self.differences:
            shown = "; ".join(_told(one) for one in self.differences[:SHOWN])
            more = len(self.differences) - SHOWN
            return (
                f"{path} was changed after its run ended: {shown}{f'; and {more} more' if more > 0 else ''}. What is "
                f"read from it is no evidence. All differences: aiperf recheck {words(str(self.bundle.path))}"
            )
        if not self.sealed:
            return (
                f"{path} has no seal yet, since its run goes on or was killed: a change of its files would not be "
                f"seen. If it was killed: aiperf run --resume {words(str(self.bundle.path))}"
            )
        return ""


def _told(one: Difference) -> str:
    if one.what == "SHA-256":
        return f"{words(one.where)} has other content"
    if one.what == "file":
        return f"{words(one.where)} is missing" if one.found == GONE else f"{words(one.where)} was added"
    if one.where == MANIFEST:
        return f"{words(one.where)} has no seal any more"
    return f"{words(one.where)} has the {one.what} {words(one.recorded)}, and its observations give {words(one.found)}"


GONE = "no such file"
ADDED = "no such file when the bundle was closed"


def check(bundle: Bundle, targets: Collection[str] | None = None, *, samples: bool = True) -> SealCheck:
    """Check the manifest, the names of all files, and the content of some.

    targets: the targets whose files are checked; None checks every file of the bundle.
    samples: whether the files of samples are checked too. A target's file has the SHA-256 of its samples.

    Raises BundleError for a manifest that cannot be read.
    """
    manifest = bundle.manifest
    if not manifest.hashes:
        # A run that goes on, or that was killed, is neither complete nor has an exit code.
        closed = manifest.exit_code is not None or manifest.complete
        removed = Difference(MANIFEST, "hashes", "the seal of a run that ended", "none")
        return SealCheck(bundle, closed, [removed] if closed else [])
    return SealCheck(bundle, True, list(_differences(bundle, manifest.hashes, targets, samples)))


def _differences(
    bundle: Bundle, hashes: dict[str, str], targets: Collection[str] | None, samples: bool
) -> Iterator[Difference]:
    recorded, now = hashes.get(MANIFEST, "none"), seal.seal_of(jsontext.loads((bundle.path / MANIFEST).read_bytes()))
    if recorded != now:
        yield Difference(MANIFEST, "SHA-256", recorded, now)
    there = set(bundle.result_files)
    # Paths in a manifest are compared with the existing files, never opened.
    for path in sorted((hashes.keys() | there) - {MANIFEST}):
        if path not in there:
            yield Difference(path, "file", hashes[path], GONE)
        elif path not in hashes:
            yield Difference(path, "file", ADDED, "a file")
        elif _is_read(path, targets, samples):
            digest = _digest(bundle, path)
            if digest != hashes[path]:
                yield Difference(path, "SHA-256", hashes[path], digest)


def _is_read(path: str, targets: Collection[str] | None, samples: bool) -> bool:
    """Whether a file's content is checked."""
    folder, _, file = path.partition("/")
    spelled = file.removesuffix(".json")
    if file.endswith(".npz"):
        if not samples:
            return False
        # The start of the SHA-256 follows the target's name.
        spelled = file.removesuffix(".npz").rpartition(".")[0]
    return targets is None or (folder == TARGETS and target_name(spelled) in targets)


def _digest(bundle: Bundle, path: str) -> str:
    """The SHA-256 of a file, or why it cannot be read."""
    try:
        return bundle.digest(path)
    except BundleError as error:
        return str(error)
