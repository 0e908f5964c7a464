"""A candidate: a file of untrusted code, checked without being executed, and loaded in a confined process.

The supervisor reads the file once, checks its form by the syntax tree alone (`check_candidate`) and sends its text to
the worker, which executes it after confinement (`load_candidate`). Later changes of the file have no effect.

Two formats:

- `aiperf`: `class Implementation` with `run(self, ...)` and optionally `prepare(self, ...)`, whose arguments name
  inputs.
- `kernelbench`: `class ModelNew`, made from `get_init_inputs()` and called with `get_inputs()`. Both functions, and the
  reference `Model`, come from a trusted file: see `kernelbench.benchmark_from_kernelbench`.
"""

import ast
import hashlib
import inspect
import warnings
from collections.abc import Collection, Iterator, Sequence
from importlib.abc import ExecutionLoader
from pathlib import Path

from attrs import frozen

from aiperf_core.errors import ContractError, UsageError
from aiperf_core.kernelbench import MADE_OF, as_implementation, execute

MAX_BYTES = 1 << 20
_CLASSES = {"aiperf": "Implementation", "kernelbench": "ModelNew"}
FORMATS = tuple(_CLASSES)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@frozen
class CandidateSource:
    """A candidate's file as it was read; `sha256` is of its bytes."""

    path: Path
    text: str
    sha256: str
    format: str


# --- in the supervisor: nothing is executed


def check_candidate(path: Path, format: str) -> CandidateSource:  # noqa: A002
    """Read a candidate's file and check its form.

    Raises `UsageError` for a file that cannot be read, is no Python, or has nothing to run. Code that may create its
    class when executed passes.
    """
    if format not in FORMATS:
        raise UsageError(f"the format {format!r} was requested; accepted are {', '.join(FORMATS)}")
    data = _read(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"'{path}' is not UTF-8: byte 0x{data[error.start]:02x} at position {error.start}. Save it as UTF-8"
        ) from None
    found = _class(path, _parse(path, text), _CLASSES[format])
    if found is not None:
        _check_methods(path, found, "run" if format == "aiperf" else "forward")
    return CandidateSource(path, text, hashlib.sha256(data).hexdigest(), format)


def check_inputs(source: CandidateSource, input_names: Collection[str]) -> None:
    """Check that a candidate can be called with a target's inputs and static arguments. Raises `UsageError` if not.

    For `kernelbench` the inputs are in the order of the call.
    """
    found = _class(source.path, _parse(source.path, source.text), _CLASSES[source.format])
    if found is None:
        return
    if source.format == "kernelbench":
        _check_forward(source.path, found, [name for name in input_names if name != MADE_OF])
        return
    for name in ("prepare", "run"):
        method = _methods(found).get(name)
        if method is not None and not method.decorator_list:
            _check_names(source.path, method, input_names)


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder; accepted is one Python file")
    if not path.exists():
        raise UsageError(f"'{path}' does not exist; give the Python file of a candidate")
    if not path.is_file():
        raise UsageError(f"'{path}' is not a plain file; accepted is one Python file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"'{path}' is larger than {MAX_BYTES:,} bytes, the most that a candidate may have")
    return data


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


def _class(path: Path, tree: ast.Module, name: str) -> ast.ClassDef | None:
    """The class of that name, or None where only executing the file would tell what the name is bound to."""
    found, unsure = None, False
    for statement in _statements(tree.body):
        if isinstance(statement, ast.ClassDef) and statement.name == name:
            found, unsure = statement, False
        else:
            unsure |= bool({name, "*"} & _bound(statement))
    if found is None and not unsure:
        classes = [statement.name for statement in _statements(tree.body) if isinstance(statement, ast.ClassDef)]
        there = ", ".join(map(repr, classes)) or "none"
        other = next((format_name for format_name, needed in _CLASSES.items() if needed in classes), None)
        hint = f". For a file with {_CLASSES[other]!r}: --format {other}" if other else ""
        raise UsageError(f"'{path}' has no class {name!r}, which a candidate must define; its classes: {there}{hint}")
    return None if unsure else found


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


def _check_forward(path: Path, found: ast.ClassDef, input_names: Collection[str]) -> None:
    forward = _methods(found).get("forward")
    if forward is None:
        return
    given = forward.args
    most = len(given.posonlyargs) + len(given.args) - 1
    least = most - len(given.defaults)
    if not (forward.decorator_list or given.vararg or least <= len(input_names) <= most):
        raise UsageError(
            f"'{path}', line {forward.lineno}: forward takes {most} input{'' if most == 1 else 's'}; the reference is "
            f"called with {len(input_names)}: {', '.join(map(repr, input_names))}"
        )


def _methods(found: ast.ClassDef) -> dict[str, _Function]:
    return {method.name: method for method in _statements(found.body) if isinstance(method, _Function)}


def _may_have(found: ast.ClassDef, name: str, bases: Collection[str]) -> bool:
    """Whether a method may come from an assignment, a decorator, or a base class that is not among `bases`."""
    theirs = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in found.bases]
    assigned = any(name in _bound(statement) for statement in found.body)
    return assigned or bool(found.decorator_list) or any(base not in bases for base in theirs)


# --- in the worker, once it is confined


def load_candidate(text: str, format: str, input_names: Sequence[str]) -> type:  # noqa: A002
    """Execute a candidate's text and return its class, adapted to `run` and optionally `prepare`.

    Exceptions of the code pass through. Raises `ContractError` where the expected class does not exist afterwards.
    """
    module = execute("candidate", _Text(text))
    name = _CLASSES[format]
    found = getattr(module, name, None)
    if not inspect.isclass(found):
        raise ContractError(f"the candidate's {name!r} is a {type(found).__name__}; accepted is a class")
    if format == "kernelbench":
        return as_implementation(found, input_names)
    if not callable(getattr(found, "run", None)):
        raise ContractError(f"the candidate's {name!r} has no method run(self, ...)")
    return found


class _Text(ExecutionLoader):
    """Imports from a text. Tools that read sources (triton.jit, tracebacks) get the text from it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_filename(self, fullname: str) -> str:
        """A name that does not reveal the file's folder."""
        return f"{fullname}.py"

    def get_source(self, fullname: str) -> str:
        """The text."""
        return self._text
