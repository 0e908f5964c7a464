"""The file of a plugin: where it lies, and the declarations of targets in it, which `aiperf lint --fix` corrects."""

import ast
from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path

from aiperf_core import atomic
from aiperf_core.errors import UsageError
from aiperf_core.hookspecs import PROJECT
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget

_FIELDS = ("name", "summary", "goal", "devices")  # of `Target`, in its order


def plugin_file(plugins: Plugins, group: str) -> Path:
    """The file of the plugin that provides a group."""
    loaded = {one.entry_point for one in plugins.loaded}
    known = {point.name: point.module for point in entry_points(group=PROJECT) if point.name in loaded}
    if group not in known:
        raise UsageError(
            f"No installed plugin provides the group {group!r}; there are {', '.join(sorted(known)) or 'none'}. "
            "Create a package with: aiperf new PACKAGE"
        )
    spec = find_spec(known[group])
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def correct(plugin: Path, target: InstalledTarget, goal: str, devices: Sequence[str]) -> None:
    """Rewrite goal and devices of a target's declaration. Raises `UsageError`, and changes nothing, if it cannot."""
    name = target.name.partition(".")[2]
    values = {"goal": goal, "devices": tuple(devices)}
    data = plugin.read_bytes()
    try:
        nodes = _fields(ast.parse(data), name)
        places = [(nodes[field], value) for field, value in values.items()]
    except (SyntaxError, LookupError):
        line = f'Target("{name}", "{target.summary}", goal="{goal}", devices={literal(values["devices"])})'
        raise UsageError(
            f"'{plugin}' does not declare {target.name!r} in a call of Target with the name as a literal, so it is not "
            f"rewritten. Write there: {line}"
        ) from None
    starts = [*accumulate((len(line) + 1 for line in data.split(b"\n")), initial=0)]
    for node, value in sorted(places, key=lambda place: (place[0].lineno, place[0].col_offset), reverse=True):
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        if _value(node) != value:
            data = data[:first] + literal(value).encode() + data[last:]
    try:
        atomic.write(plugin.resolve(), data)
    except OSError as error:
        raise UsageError(f"cannot write '{plugin}': {error.strerror}.") from None


def _fields(tree: ast.Module, name: str) -> dict[str, ast.expr]:
    """The values in the only call of Target for a name. Raises LookupError without it, or where it hides some."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] != "Target":
            continue
        given = dict(zip(_FIELDS, node.args, strict=False)) | {one.arg: one.value for one in node.keywords if one.arg}
        hidden = any(isinstance(one, ast.Starred) for one in node.args) or any(not one.arg for one in node.keywords)
        if not hidden and _value(given.get("name")) == name:
            found.append(given)
    if len(found) != 1:
        raise LookupError(name)
    return found[0]


def _value(node: ast.expr | None) -> object:
    """The value of a literal; None for other expressions."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


def literal(value: object) -> str:
    """Python text of a string or of a tuple of strings, with double quotes."""
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' * (len(value) == 1)})"
    return f'"{value}"'
