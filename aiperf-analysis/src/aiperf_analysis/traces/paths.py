"""Names of work that are alike in two traces: normalised names of kernels, and paths of operators."""

import re
from collections.abc import Iterable

from aiperf_analysis.traces.model import NONE, Kind, Trace

MOST_DEPTH = 64  # of a path; the outermost operators beyond it are left out
# What differs from one compilation to the next: addresses, numbers of lambdas, numbers behind the names of Triton.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|_[0-9a-f]{16,}")
_LAMBDA = re.compile(r"#\d+\}|\}::operator\(\)\(\d+\)")
_TRITON = re.compile(r"^(triton_\w+?)_\d+(?:d\w*)?$")
_NUMBER = re.compile(r"\d+")

Path = tuple[str, ...]


def normalised(name: str) -> str:
    """The name of a kernel without what differs between two compilations of the same source."""
    name = _TRITON.sub(r"\1", name)
    return " ".join(_LAMBDA.sub("#}", _ADDRESS.sub("", name)).split())


class Paths:
    """The paths of slices: the names of the operators and ranges around them, the outermost first."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._known: dict[int, Path] = {NONE: ()}

    def around(self, row: int) -> Path:
        """The names around a slice, without its own."""
        return self.of(int(self._trace.slices.parent[row]))

    def of(self, row: int) -> Path:
        """The names around a slice of the host, and its own."""
        chain: list[int] = []
        while row not in self._known:
            chain.append(row)
            row = int(self._trace.slices.parent[row])
        path = self._known[row]
        for one in reversed(chain):
            path = (*path, self._name(one))[-MOST_DEPTH:]
            self._known[one] = path
        return path

    def _name(self, row: int) -> str:
        name = self._trace.names[self._trace.slices.name[row]]
        # The name of a range may count iterations.
        return _NUMBER.sub("N", name) if self._trace.slices.kind[row] == Kind.RANGE else name


def shown(path: Iterable[str], most: int = 3) -> str:
    """The innermost names of a path."""
    names = tuple(path)
    return ("… / " if len(names) > most else "") + " / ".join(names[-most:])
