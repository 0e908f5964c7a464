"""Names of work that are alike in two traces: normalised names of kernels, and paths of operators."""

import re
from collections.abc import Iterable

from aiperf_traces.model import NONE, Kind, Trace

MOST_DEPTH = 64  # of a path; the outermost operators beyond it are left out
# What differs from one compilation to the next: addresses, numbers of lambdas, numbers behind the names of Triton.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|_[0-9a-f]{16,}")
_LAMBDA = re.compile(r"#\d+\}|\}::operator\(\)\(\d+\)")
_TRITON = re.compile(r"^(triton_\w+?)_\d+(?:d\w*)?$")
_NUMBER = re.compile(r"\d+")

Path = tuple[str, ...]
_RANGE = int(Kind.RANGE)


def normalised(name: str) -> str:
    """The name of a kernel without what differs between two compilations of the same source."""
    name = _TRITON.sub(r"\1", name)
    return " ".join(_LAMBDA.sub("#}", _ADDRESS.sub("", name)).split())


def short(name: str) -> str:
    """The name of a kernel without its namespaces, template arguments and parameters, for labels in pictures."""
    head = re.split(r"[<(]", name.removeprefix("void ").replace("(anonymous namespace)", "_"), maxsplit=1)[0]
    return head.rsplit("::", 1)[-1].strip() or name


class Paths:
    """The paths of slices: the names of the operators and ranges around them, the outermost first."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._parent = trace.slices.parent
        self._known: dict[int, Path] = {NONE: ()}
        # One object for each path, and one text for each name of a range.
        self._paths: dict[Path, Path] = {}
        self._ranges: dict[int, str] = {}

    def around(self, row: int) -> Path:
        """The names around a slice, without its own."""
        return self.of(int(self._parent[row]))

    def of(self, row: int) -> Path:
        """The names around a slice of the host, and its own."""
        chain: list[int] = []
        while row not in self._known:
            chain.append(row)
            row = int(self._parent[row])
        path = self._known[row]
        for one in reversed(chain):
            path = (*path, self._name(one))[-MOST_DEPTH:]
            path = self._known[one] = self._paths.setdefault(path, path)
        return path

    def _name(self, row: int) -> str:
        number = int(self._trace.slices.name[row])
        if self._trace.slices.kind[row] != _RANGE:
            return self._trace.names[number]
        # The name of a range may count iterations.
        if number not in self._ranges:
            self._ranges[number] = _NUMBER.sub("N", self._trace.names[number])
        return self._ranges[number]


def shown(path: Iterable[str], most: int = 3) -> str:
    """The innermost names of a path."""
    names = tuple(path)
    return ("… / " if len(names) > most else "") + " / ".join(names[-most:])
