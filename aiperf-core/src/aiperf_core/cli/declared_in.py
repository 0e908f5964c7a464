"""Where the implementations of a target are declared, read from its file without an import, which takes seconds."""

import ast
from importlib.util import find_spec
from pathlib import Path

from attrs import field, frozen

from aiperf_core.declared_code import declared_name
from aiperf_core.targets import InstalledTarget

# Larger benchmark files are not parsed.
MAX_SOURCE_BYTES = 1 << 20


@frozen
class Declarations:
    """The file of a target, and the first line of each implementation in it."""

    file: Path
    lines: dict[str, int] = field(factory=dict)


def declarations(target: InstalledTarget) -> Declarations | None:
    """Declarations in the file of a target; None for a module without a readable Python file."""
    try:
        spec = find_spec(target.module)
        source = Path(spec.origin or "") if spec else Path()
        if source.suffix != ".py" or source.stat().st_size > MAX_SOURCE_BYTES:
            return None
        tree = ast.parse(source.read_text())
    except Exception:  # the package or file of a plugin may be broken
        return None
    lines: dict[str, int] = {}
    # A definition before a call that declares the same name.
    for node in sorted(tree.body, key=lambda node: not isinstance(node, ast.FunctionDef | ast.ClassDef)):
        if name := declared_name(node):
            lines.setdefault(name, node.lineno)
    return Declarations(source, lines)
