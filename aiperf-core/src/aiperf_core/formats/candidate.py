"""A candidate: a file of untrusted code. Its form is checked by the syntax tree alone; nothing is executed.

The supervisor reads the file once and sends its text to the worker, which executes it after confinement. Later changes
of the file have no effect. How the file is written is a matter of its format: see `aiperf_core.candidate_format`.
"""

import ast
import hashlib
import os
import stat
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from aiperf_core.candidate_format import BUILT_IN, CandidateFormat, Format
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import path_words

MAX_BYTES = 1 << 20
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@frozen
class CandidateSource:
    """A candidate's file as it was read.

    text: its Python source.
    sha256: of the bytes of the file.
    format: with the class that adapts the entry.
    entry: the name of the class or function that the text must define.
    """

    path: Path
    text: str
    sha256: str
    format: Format
    entry: str = "Implementation"


def check_candidate(path: Path, format: Format, formats: Mapping[str, Format] = BUILT_IN) -> CandidateSource:  # noqa: A002
    """Read a candidate's file and check its form.

    formats: the known ones, to name that of a file that has another.

    Raises `UsageError` for a file that cannot be read, is no Python, or has nothing to run. Code that may create its
    class when executed passes.
    """
    kind, data = format.resolve(), _read(path)
    code = kind.code(path, data)
    tree = _parse(path, code.text)
    found = _entry(tree, code.entry)
    if found is None and not _may_bind(tree, code.entry):
        raise UsageError(_without_entry(path, data, tree, code.entry, kind, formats))
    if isinstance(found, ast.ClassDef) and kind.method:
        _check_methods(path, found, kind.method)
    adapted = evolve(format, load=code.load or format.load)
    return CandidateSource(path, code.text, hashlib.sha256(data).hexdigest(), adapted, code.entry)


def check_inputs(source: CandidateSource, input_names: Sequence[str], more: Collection[str] = ()) -> None:
    """Check that a candidate can be called with a target's inputs and static arguments. Raises `UsageError` if not.

    input_names: in the order of the workload.
    more: the names of sizes, which may be taken by name only.
    """
    kind, tree = source.format.resolve(), _parse(source.path, source.text)
    found = _entry(tree, source.entry)
    if found is None or kind.by_position is None:
        return
    names = kind.arguments(input_names)
    if kind.by_position:
        method = _methods(found).get(kind.method or "") if isinstance(found, ast.ClassDef) else found
        if method is not None:
            _check_positions(source.path, method, names, kind.calling, bound=isinstance(found, ast.ClassDef))
        return
    for name in ("prepare", "run"):
        method = _methods(found).get(name) if isinstance(found, ast.ClassDef) else None
        if method is not None and not method.decorator_list:
            _check_names(source.path, method, [*names, *more])


def _read(path: Path) -> bytes:
    shown = path_words(path)
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"'{shown}' is not a plain file; accepted is one Python file")
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise UsageError(f"'{shown}' is a folder; accepted is one Python file") from None
    except FileNotFoundError:
        raise UsageError(f"'{shown}' does not exist; give the Python file of a candidate") from None
    except (OSError, ValueError) as error:  # a ValueError for a path with a NUL
        raise UsageError(f"'{shown}' cannot be read: {getattr(error, 'strerror', error)}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"'{shown}' is larger than {MAX_BYTES:,} bytes, the most that a candidate may have")
    return data


def _at_once(path: str, flags: int) -> int:
    """Open a file; of a FIFO, do not wait for its writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _parse(path: Path, text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        place = f", line {error.lineno}, column {error.offset}" if error.lineno else ""
        raise UsageError(f"'{path}'{place}: does not parse: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"'{path}' does not parse: {error or 'it is nested too deeply'}") from None


def _entry(tree: ast.Module, name: str) -> ast.ClassDef | _Function | None:
    """The class or function of that name, or None where only executing the file would tell what it is bound to."""
    found: ast.ClassDef | _Function | None = None
    for statement in _statements(tree.body):
        if isinstance(statement, ast.ClassDef | _Function) and statement.name == name:
            found = statement
        elif {name, "*"} & _bound(statement):
            found = None
    return found


def _may_bind(tree: ast.Module, name: str) -> bool:
    """Whether an assignment or import may bind a name."""
    return any({name, "*"} & _bound(statement) for statement in _statements(tree.body))


def _without_entry(
    path: Path, data: bytes, tree: ast.Module, entry: str, kind: CandidateFormat, formats: Mapping[str, Format]
) -> str:
    """Message about the parts that a file lacks, with the format of those it has."""
    sort = ast.ClassDef if kind.method else _Function
    there = [one.name for one in _statements(tree.body) if isinstance(one, sort)]
    other = next((name for name, one in formats.items() if _entry_in(one, path, data) in there), None)
    what, several = ("class", "classes") if kind.method else ("function", "functions")
    hint = f". For a file with {_entry_in(formats[other], path, data)!r}: --format {other}" if other else ""
    names = ", ".join(map(repr, there)) or "none"
    return f"'{path}' has no {what} {entry!r}, which a candidate must define; its {several}: {names}{hint}"


def _entry_in(format: Format, path: Path, data: bytes) -> str | None:  # noqa: A002
    """The entry of a file in another format; None where it is no file of that format."""
    try:
        return format.resolve().code(path, data).entry
    except AiperfError:
        return None


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those within `if`, `try`, `with` and loops."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.ClassDef | _Function):
            for part in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, part, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _statements(handler.body)


def _bound(statement: ast.stmt) -> set[str]:
    """The names that an assignment or import binds; `*` for a star import."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return {node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)}


def _check_methods(path: Path, found: ast.ClassDef, needed: str) -> None:
    methods = _methods(found)
    if needed not in methods and not _may_have(found, needed, bases=("object", "Module")):
        there = ", ".join(map(repr, methods)) or "none"
        raise UsageError(
            f"'{path}', line {found.lineno}: {found.name!r} has no method {needed}(self, ...), which would be timed; "
            f"its methods: {there}"
        )


def _check_names(path: Path, method: _Function, input_names: Collection[str]) -> None:
    given = method.args
    where = f"'{path}', line {method.lineno}: {method.name}"
    if len(given.posonlyargs) > 1:
        raise UsageError(f"{where} takes arguments by position only; inputs are given by name")
    named = [*given.posonlyargs, *given.args][1:]
    required = [arg.arg for arg in named[: len(named) - len(given.defaults)]]
    required += [arg.arg for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    unknown = [name for name in required if name not in input_names]
    if unknown:
        raise UsageError(
            f"{where} asks for {', '.join(map(repr, unknown))}; the target has {', '.join(map(repr, input_names))}"
        )


def _check_positions(path: Path, method: _Function, names: Sequence[str], calling: str, *, bound: bool) -> None:
    """Check that a method (`bound`) or function takes that number of arguments by position."""
    if method.decorator_list:
        return
    given, where = method.args, f"'{path}', line {method.lineno}: {method.name}"
    by_name = [arg.arg for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    if by_name:
        raise UsageError(f"{where} takes {', '.join(map(repr, by_name))} by name only; arguments are given by position")
    most = len(given.posonlyargs) + len(given.args) - bound
    least = most - len(given.defaults)
    if not least <= len(names) <= (len(names) if given.vararg else most):
        raise UsageError(
            f"{where} takes {most} argument{'' if most == 1 else 's'}; it is called with {len(names)}: "
            f"{', '.join(map(repr, names))}{calling}"
        )


def _methods(found: ast.ClassDef) -> dict[str, _Function]:
    return {method.name: method for method in _statements(found.body) if isinstance(method, _Function)}


def _may_have(found: ast.ClassDef, name: str, bases: Collection[str]) -> bool:
    """Whether a method may come from an assignment, a decorator, or a base class that is not among `bases`."""
    theirs = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in found.bases]
    assigned = any(name in _bound(statement) for statement in found.body)
    return assigned or bool(found.decorator_list) or any(base not in bases for base in theirs)
