"""Format: how a file of untrusted code is written, and `CandidateFormat`, the class that reads it.

A plugin contributes `Format` records with the hook `aiperf_formats`. `aiperf judge --format NAME` imports the class
that a record names in `load`: in the supervisor, which executes nothing of a candidate, in the judge, which makes the
benchmark from the reference, and in the sandboxed process of the candidate.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import field, frozen

from aiperf_core.contributed import class_path, known, make, named, one_line

if TYPE_CHECKING:
    from aiperf_core.benchmark import Benchmark

_NAME = re.compile(r"[a-z][a-z0-9-]*")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


@frozen
class Format:
    """A format of candidates. A field that breaks a rule below raises `ValueError`, and its plugin is skipped.

    name: as in `--format`.
    summary: one line: what a candidate defines, and what `--target` names.
    load: its class, `"package.module:Class"`, derived from `CandidateFormat`.
    """

    name: str = field(
        validator=named("format", _is_name, "lower-case letters, digits and hyphens can, such as 'kernelbench'")
    )
    summary: str = field(validator=one_line("format"))
    load: str = field(validator=class_path("format"))

    def resolve(self) -> "CandidateFormat":
        """Import the class and create an instance. Raises `SkipError` with the reason when that fails."""
        return adapter(self.load)


def adapter(load: str) -> "CandidateFormat":
    """An instance of the class of a format. Raises `SkipError` with the reason when that fails."""
    return make(load, CandidateFormat)


@frozen
class Code:
    """The code of a candidate.

    text: its Python source.
    entry: the name of the class or function that it must define.
    load: the class that adapts this entry, where what the file says asks for another than that of the format.
    """

    text: str
    entry: str
    load: str = ""


class CandidateFormat:
    """The interface of a format. An instance keeps nothing between calls.

    needs_reference: `--target` names a trusted file, from which `benchmark` makes the benchmark; otherwise it names an
        installed target.
    method: the method of the class that is timed, for messages; None where the entry is a function.
    by_position: the inputs are passed by position, in the order of the workload; False by name; None in another way, so
        that the arguments of a candidate are not checked.
    hidden: arguments of the benchmark that `adapt` uses itself, and that the candidate's code does not receive.
    calling: how the entry is called, for the message to a candidate that cannot be called so.
    """

    needs_reference: ClassVar[bool] = True
    method: ClassVar[str | None] = None
    by_position: ClassVar[bool | None] = True
    hidden: ClassVar[frozenset[str]] = frozenset()
    calling: ClassVar[str] = ""

    def code(self, path: Path, data: bytes) -> Code:
        """The code in a candidate's file. In the supervisor: it must not execute any of it.

        Raises `UsageError`, with the file, for what the format does not accept.
        """
        raise NotImplementedError

    def benchmark(self, reference: Path) -> "Benchmark":
        """The benchmark of a trusted reference file. In the describer and the judge, which execute it.

        Its presets need `smoke`, `cpu` and `cuda`. Raises `BenchmarkError`, with the file, for what it lacks.
        """
        raise NotImplementedError

    def arguments(self, names: Sequence[str]) -> list[str]:
        """The arguments of the entry, of the inputs and static arguments of the benchmark. In the supervisor."""
        return [name for name in names if name not in self.hidden]

    def adapt(self, found: Any, input_names: Sequence[str]) -> Any:
        """A class with `run`, and optionally `prepare`, from what the candidate's entry is bound to.

        In the sandboxed process. `input_names` are the inputs in the order of the workload. Raises `ContractError`.
        """
        raise NotImplementedError


AIPERF = Format(
    "aiperf", "class Implementation with run(self, ...); --target is a target", "aiperf_core.formats.own:Own"
)
KERNELBENCH = Format(
    "kernelbench",
    "class ModelNew; --target is a file with Model, get_inputs, get_init_inputs",
    "aiperf_core.formats.kernelbench:KernelBench",
)
FLASHINFER_TRACE = Format(
    "flashinfer-trace",
    "a solution in JSON; --target is a definition in JSON",
    "aiperf_core.formats.flashinfer_trace:FlashInferTrace",
)
# The core's own formats by name.
BUILT_IN: Mapping[str, Format] = {one.name: one for one in (AIPERF, KERNELBENCH, FLASHINFER_TRACE)}


def known_format(name: str, formats: Mapping[str, Format]) -> Format:
    """The format of that name. Raises `UsageError` for an unknown name."""
    return known(name, formats, "format")


# --- a reference file in place of the module of a target


@frozen
class Reference:
    """A trusted reference file, and the class of the format that reads it."""

    load: str
    path: Path

    @property
    def module(self) -> str:
        """Stand-in for the module of a target."""
        return f"{self.load}@{self.path}"


def reference_of(module: str) -> Reference | None:
    """The reference file that a target's module stands for; None for a module."""
    load, at, path = module.partition("@")
    return Reference(load, Path(path)) if at else None
