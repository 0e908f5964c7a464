"""Delivery of a task: one file with a line of JSON, the outcome, and the bundle as a tar stream.

The file comes from another machine: it is read with limits, and by the readers of bundles. Nothing in it is unpickled
or executed.
"""

import errno
import io
import json
import os
import secrets
import shutil
import tarfile
import time
from pathlib import Path

from attrs import asdict, evolve, frozen

from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.results import incoming, jsontext, structure
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_fleet.records import Ending

_LONGEST_HEAD = 1 << 16
# Where a shared folder is full, space may come back.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE)
RETRY_S = 2.0


@frozen
class Outcome:
    """Outcome of a task on its machine.

    ending: DONE, FAILED or UNFIT. exit_code: of the run. seal: of the bundle, None without one.
    reason: why the machine is not fit, the end of the run's output, or why the delivery took long.
    lasting: whether the machine will never be fit.
    """

    ending: Ending
    exit_code: int | None = None
    seal: str | None = None
    reason: str = ""
    lasting: bool = False


def write(path: Path, outcome: Outcome, bundle: Path | None, *, patience_s: float = 0.0) -> None:
    """Write the file whole: under another name first. Raises OSError where the folder stays full for `patience_s`."""
    began = time.monotonic()
    while True:
        try:
            return _write(path, outcome, bundle)
        except OSError as error:
            waited = time.monotonic() - began + RETRY_S
            if error.errno not in _FULL or waited > patience_s:
                raise
            time.sleep(RETRY_S)
            if outcome.ending is Ending.DONE:
                outcome = evolve(outcome, reason=f"the folder was full ({error.strerror}) for {waited:.0f} s")


def _write(path: Path, outcome: Outcome, bundle: Path | None) -> None:
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:
            file.write(json.dumps(asdict(outcome)).encode() + b"\n")
            if bundle is not None:
                with tarfile.open(fileobj=file, mode="w|") as archive:
                    for one in sorted(bundle.rglob("*")):
                        if one.is_file() and not one.is_symlink() and not one.name.startswith("."):
                            archive.add(one, arcname=one.relative_to(bundle).as_posix(), recursive=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def outcome_of(bundle: Path, exit_code: int) -> Outcome:
    """The outcome of a run that left a sealed bundle. Raises AiperfError for one without a seal."""
    seal = Bundle.open(bundle).manifest.hashes.get(MANIFEST)
    if seal is None:
        raise AiperfError(
            f"aiperf run ended with {exit_code} and left its bundle without a seal, as on a machine whose disk is full"
        )
    return Outcome(Ending.DONE, exit_code, seal)


def read(path: Path, bundle: Path) -> Outcome:
    """Read a delivered file, and put its bundle at `bundle`, whole or not at all.

    Raises UsageError for a file that is damaged, AiperfError for a disk that is full.
    """
    try:
        with open(path, "rb") as file:
            outcome = _head(file.readline(_LONGEST_HEAD))
            if outcome.ending is Ending.DONE:
                _keep(file, bundle, outcome, path.stat().st_size)
            return outcome
    except OSError as error:
        raise AiperfError(f"the delivered bundle cannot be kept: {error.strerror or error}.") from error


def _head(line: bytes) -> Outcome:
    try:
        outcome: Outcome = structure.structure(jsontext.loads(line), Outcome)
    except ValueError as error:
        raise UsageError(f"the delivered file does not begin with an outcome: {str(error)[:200]}") from None
    if outcome.ending not in (Ending.DONE, Ending.FAILED, Ending.UNFIT):
        raise UsageError(f"the delivered outcome is {outcome.ending}; expected DONE, FAILED or UNFIT")
    return outcome


def _keep(file: io.BufferedReader, bundle: Path, outcome: Outcome, size: int) -> None:
    staging = bundle.with_name(f".{secrets.token_hex(8)}.incoming")
    try:
        staging.mkdir(parents=True)
        incoming.unpack(file, staging, size)
        incoming.validate(staging, outcome.seal or "none")
        os.rename(staging, bundle)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
