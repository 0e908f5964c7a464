"""Where the implementations of a target are declared, read from its file without an import, which takes seconds."""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from attrs import field, frozen

from aiperf_core.benchmark import snake_case
from aiperf_core.targets import InstalledTarget

# Decorators of implementations that a pattern can choose.
DECORATORS = ("baseline", "variant")

# Larger benchmark files are not parsed.
MAX_SOURCE_BYTES = 1 << 20


@frozen
class Declarations:
    """The file of a target, and the first line of each implementation in it."""

    file: Path
    lines: dict[str, int] = field(factory=dict)


def declarations(target: InstalledTarget) -> Declarations | None:
    """What the file of a target declares; None for a module without a readable Python file."""
    try:
        spec = find_spec(target.module)
        source = Path(spec.origin or "") if spec else Path()
        if source.suffix != ".py" or source.stat().st_size > MAX_SOURCE_BYTES:
            return None
        tree = ast.parse(source.read_text())
    except Exception:  # the package or file of a plugin may be broken
        return None
    lines: dict[str, int] = {}
    for name, line in _named(tree):
        lines.setdefault(name, line)
    return Declarations(source, lines)


def _named(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and (name := _declared(node)):
            yield name, node.lineno
    for node in tree.body:
        if isinstance(node, ast.Expr | ast.Assign) and (name := _called(node.value)):
            yield name, node.lineno


def _called(value: ast.expr) -> str:
    """The name in `cuda.variant(turn("tiled"), why="...")`; empty for other expressions."""
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in DECORATORS):
        return ""
    first = value.args[0] if value.args else None
    name = first.args[0] if isinstance(first, ast.Call) and first.args else None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def _declared(node: ast.FunctionDef | ast.ClassDef) -> str:
    """The name of the implementation that a decorator declares; empty for other definitions."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else None
        if isinstance(decorator, ast.Call) and isinstance(called, ast.Attribute) and called.attr in DECORATORS:
            given = [one.value for one in decorator.keywords if one.arg == "name"]
            if not given:
                return snake_case(node.name) if isinstance(node, ast.ClassDef) else node.name
            if isinstance(given[0], ast.Constant):
                return str(given[0].value)
    return ""
