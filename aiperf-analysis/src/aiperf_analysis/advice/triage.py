"""The archive of `aiperf triage`: the facts that support needs about this machine, without private data."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from aiperf_analysis.advice import probes
from aiperf_analysis.advice.items import topics
from aiperf_analysis.advice.redaction import Redactor, redactor
from aiperf_core import atomic
from aiperf_core.devices import environment
from aiperf_core.errors import AiperfError, BundleError, UsageError
from aiperf_core.results import seal_check
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST, PLAIN
from aiperf_core.results.listing import Run, Unreadable, bundles
from aiperf_core.results.machine import machine, packages
from aiperf_core.results.models import DOCUMENT_KINDS
from aiperf_core.version import __version__

ENDINGS = (".tar", ".tar.gz", ".tgz")
RUNS = 3
_DOCTOR_S = 180
_LARGEST_BYTES = 32 << 20  # of a document
# The variables that decide results. No other variable is read into the archive.
_VARIABLES = re.compile(
    r"(?:CUDA|NVIDIA|NCCL|TORCH|PYTORCH|TRITON|OMP|GOMP|KMP|MKL|OPENBLAS|CUBLAS|CUDNN|UCX|GLOO|XLA|AIPERF|PYTHON|LD|"
    r"SLURM|MASTER|WORLD|RANK|LOCAL|MALLOC|NVCC)_?\w*"
)


@frozen
class Packed:
    """What was written.

    files: of the archive, with their sizes.
    removed: how often each kind of secret and name was removed.
    left_out: what is not in it, with the reason.
    changed: the runs whose files do not agree with their seal. They are packed all the same.
    """

    files: dict[str, int]
    removed: dict[str, int]
    left_out: dict[str, str]
    changed: list[str]


def check(path: Path) -> None:
    """Raise UsageError where the archive cannot be written to `path`: it exists, or has another ending."""
    if not path.name.endswith(ENDINGS):
        raise UsageError(f"'{path}' is no name of an archive; --out takes a name that ends in {', '.join(ENDINGS)}.")
    if path.exists() or path.is_symlink():
        raise UsageError(f"'{path}' exists, and is not overwritten. Remove it, or choose another --out.")
    if not path.parent.is_dir():
        raise UsageError(f"the folder '{path.parent}' does not exist. Make it, or choose another --out.")


def pack(path: Path, folder: Path, *, runs: int = RUNS, keep_names: bool = False) -> Packed:
    """Write the archive, whole or not at all.

    folder: holds the bundles; the documents of the newest `runs` are taken, without samples and logs.

    Raises UsageError as `check` does, and AiperfError where writing fails.
    """
    check(path)
    listed = bundles(folder)
    newest = [one for one in listed if isinstance(one, Run)][:runs]
    hide = redactor((one.manifest.machine.hostname for one in newest), keep_names=keep_names)
    left_out = {hide.text(one.name): hide.text(one.problem) for one in listed if isinstance(one, Unreadable)}
    changed = [hide.text(one.name) for one in newest if _is_changed(one.path)]
    contents: dict[str, bytes] = {}
    for name, document in _here(hide):
        contents[name] = _bytes(document)
    for run in newest:
        for name, file in _documents(run.path):
            found = _read(file)
            shown = f"runs/{_plain(hide.text(run.name))}/{hide.text(name)}"
            if isinstance(found, str):
                left_out[shown] = found
            else:
                contents[_unused(shown, contents)] = _bytes(hide.value(found))
    about = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "aiperf": __version__,
        "files": {name: len(data) for name, data in contents.items()},
        "removed": dict(+hide.removed),
        "left_out": left_out,
        "changed": changed,
        "names": "kept" if keep_names else "removed",
    }
    contents = {"about.json": _bytes(about), **contents}
    try:
        atomic.write(path, _archive(contents, compressed=not path.name.endswith(".tar")))
    except OSError as error:
        raise AiperfError(f"cannot write '{path}': {error.strerror or error}. Choose another --out.") from error
    return Packed({name: len(data) for name, data in contents.items()}, dict(+hide.removed), left_out, changed)


def _here(hide: Redactor) -> Iterator[tuple[str, Any]]:
    """The documents about this machine."""
    seen = probes.look()
    yield "doctor.json", hide.value(_doctor())
    yield "machine.json", hide.value(asdict(machine()))
    yield "facts.json", hide.value(environment.facts("cuda" if seen.boards else "cpu"))
    yield "gpus.json", hide.value([dict(board) for board in seen.boards])
    yield "packages.json", hide.value(packages())
    yield "environment.json", hide.variables(_variables(os.environ))
    answers = [
        {"item": item.id, "sentence": item.sentence, **asdict(probes.answer(item.probe, seen))}
        for topic in topics()
        for item in topic.items
        if item.automatic
    ]
    yield "checklist.json", hide.value(answers)


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if _VARIABLES.fullmatch(name)}


def _doctor() -> Any:
    """What `aiperf doctor` finds, in a process of its own: a broken driver can hang."""
    # -P: do not import modules from the working directory.
    command = [sys.executable, "-P", "-m", "aiperf_core", "doctor", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_DOCTOR_S, encoding="utf-8", errors="replace")
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"problem": f"aiperf doctor gave no answer within {_DOCTOR_S} s"}
    except (OSError, ValueError) as error:
        return {"problem": f"aiperf doctor gave no document: {error}"}


def _documents(bundle: Path) -> Iterator[tuple[str, Path]]:
    """The documents of a bundle by their names in it. Links are not followed; samples, logs and traces are no part."""
    yield MANIFEST, bundle / MANIFEST
    for kind in ("targets", *DOCUMENT_KINDS):
        for file in sorted((bundle / kind).glob("*.json")):
            yield f"{kind}/{file.name}", file
    for file in sorted((bundle / "profiles").glob("*/*/profile.json")):
        yield str(file.relative_to(bundle)), file


def _is_changed(bundle: Path) -> bool:
    """Whether the files of a bundle do not agree with its seal."""
    try:
        return not seal_check.check(Bundle(bundle)).holds
    except (BundleError, OSError):  # a file that cannot be read is not what aiperf wrote
        return True


def _read(file: Path) -> Any:
    """A document, or as a text the reason why it is left out."""
    if file.is_symlink() or not file.is_file():
        return "it is no plain file"
    if file.stat().st_size > _LARGEST_BYTES:
        return f"it is larger than {_LARGEST_BYTES >> 20} MiB"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        return f"it cannot be read: {type(error).__name__}"
    return found if isinstance(found, dict) else "it is no JSON object"


def _bytes(document: Any) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode("utf-8", errors="replace")


def _plain(name: str) -> str:
    """A name that is one plain file name."""
    return "".join(one if one in PLAIN else "_" for one in name).lstrip(".") or "_"


def _unused(name: str, taken: Mapping[str, bytes]) -> str:
    """The name, with a number where it is taken: two names may be equal without what was removed."""
    names: Sequence[str] = (name, *(f"{name}.{number}" for number in range(2, len(taken) + 3)))
    return next(one for one in names if one not in taken)


def _archive(contents: Mapping[str, bytes], *, compressed: bool) -> bytes:
    """The archive. Its entries have no owner."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in contents.items():
            entry = tarfile.TarInfo(f"aiperf-triage/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0) if compressed else buffer.getvalue()
