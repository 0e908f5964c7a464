"""Read manifests, decide their kind, and hold them against the rules."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attrs import frozen

from aiperf_ch03.manifests import dockerfile, kubernetes, slurm
from aiperf_ch03.manifests.rules import RULES, Mark
from aiperf_core import units
from aiperf_core.errors import UsageError

# No manifest that people write is larger, and a parser takes seconds from there on.
MOST_BYTES = 256 << 10
_ACCEPTED = "accepted are Dockerfiles, Slurm scripts with #SBATCH lines, and Kubernetes manifests"
_INSTRUCTION = re.compile(r"\s*(ARG|FROM)\s+\S", re.IGNORECASE)


@frozen
class Finding:
    """A place of a file that breaks a rule.

    rule: the rule's id.
    path, line: the place.
    text: what stands there.
    reason, write: of the rule.
    """

    rule: str
    path: str
    line: int
    text: str
    reason: str
    write: str


def lint(paths: Sequence[Path]) -> list[Finding]:
    """The findings of files, by file and line.

    Raises `UsageError` for a file that cannot be read or is of no known kind, and `AiperfError` for a manifest of
    Kubernetes without PyYAML.
    """
    return [finding for path in paths for finding in _findings(path)]


def _findings(path: Path) -> Iterator[Finding]:
    text = read(path)
    rules_of: dict[str, Callable[[], Iterator[Mark]]] = {
        "dockerfile": lambda: dockerfile.lint(text),
        "slurm": lambda: slurm.lint(text),
        "kubernetes": lambda: kubernetes.lint(text, str(path)),
    }
    marks = sorted(rules_of[kind_of(path, text)](), key=lambda mark: (mark.line, mark.rule))
    for mark in marks:
        rule = RULES[mark.rule]
        yield Finding(rule.id, _printable(str(path)), mark.line, _shortened(mark.text), rule.reason, rule.write)


def read(path: Path) -> str:
    """The text of a file. Raises `UsageError` for one that is no file, empty, too large, or not UTF-8."""
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"'{name}' cannot be read ({error.strerror}); {_ACCEPTED}") from None
    if len(data) > MOST_BYTES:
        raise UsageError(f"'{name}' is larger than {units.size(MOST_BYTES)}, which no manifest is; {_ACCEPTED}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{data[error.start]:02x} at position {error.start}"
        raise UsageError(f"'{name}' is not UTF-8: {wrong}. Save it as UTF-8.") from None
    if not text.strip():
        raise UsageError(f"'{name}' is empty; {_ACCEPTED}")
    if "\0" in text:
        raise UsageError(f"'{name}' has a NUL, so it is no text; {_ACCEPTED}")
    return text


def kind_of(path: Path, text: str) -> str:
    """The kind of a file, by its name and its text. Raises `UsageError` for any other."""
    lines = [line for line in text.splitlines() if line.strip()]
    code = [line for line in lines if not line.lstrip().startswith("#")]
    name = path.name.lower()
    if name.endswith((".yaml", ".yml", ".json")):
        return "kubernetes"
    if name.startswith(("dockerfile", "containerfile")) or name.endswith((".dockerfile", ".containerfile")):
        return "dockerfile"
    if any(slurm.DIRECTIVE.match(line) for line in lines):
        return "slurm"
    if any(line.startswith("apiVersion:") for line in code):
        return "kubernetes"
    if code and _INSTRUCTION.match(code[0]):
        return "dockerfile"
    raise UsageError(f"'{path}' is of no known kind; {_ACCEPTED}")


def _shortened(text: str) -> str:
    text = _printable(" ".join(text.split()))
    return text if len(text) <= 80 else f"{text[:77]}..."


def _printable(text: str) -> str:
    """The text for a terminal, which a file must not steer."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
