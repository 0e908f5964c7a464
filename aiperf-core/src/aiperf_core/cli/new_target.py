"""`aiperf new --target`: add a target to an installed package: its file, its kernel, and its line in plugin.py."""

import ast
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template

from attrs import frozen

from aiperf_core.errors import UsageError
from aiperf_core.hookspecs import PROJECT
from aiperf_core.plugins import Plugins
from aiperf_core.targets import is_name

_LINE = '{indent}yield Target("{name}", "What {name} teaches", goal="speed", devices=("cpu", "cuda"))'


@frozen
class Added:
    """The files of a new target: two new ones, and the plugin's module with one more line."""

    file: Path
    kernel: Path
    plugin: Path


def add_target(plugins: Plugins, full_name: str) -> Added:
    """Write the files. Raises `UsageError`, and changes nothing, where that is not possible."""
    group, _, name = full_name.partition(".")
    if not is_name(name):
        raise UsageError(f"{full_name!r} cannot name a target. A valid name is 'acme.row_means'.")
    plugin = _plugin_file(plugins, group)
    added = Added(plugin.with_name(f"{name}.py"), plugin.parent / "kernels" / f"{name}.cu", plugin)
    if any(target.name == full_name for target in plugins.targets):
        raise UsageError(f"{full_name!r} exists already. Choose another name.")
    for path in (added.file, added.kernel):
        if path.exists():
            raise UsageError(f"'{path}' already exists, and is not overwritten. Choose another name.")
    listed = _with_line(plugin, name)
    folder = files("aiperf_core") / "templates" / "target"
    texts = {
        added.file: folder / "NAME.py.in",
        added.kernel: folder / "kernels" / "NAME.cu.in",
    }
    written = []
    try:
        added.kernel.parent.mkdir(exist_ok=True)
        for path, template in texts.items():
            written.append(path)
            path.write_text(Template(template.read_text("utf-8")).substitute(name=name), "utf-8")
        plugin.write_text(listed, "utf-8")
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise UsageError(f"cannot write to '{plugin.parent}': {error.strerror}.") from None
    return added


def _plugin_file(plugins: Plugins, group: str) -> Path:
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


def _with_line(plugin: Path, name: str) -> str:
    """The text of the plugin's module, with the target's line at the end of `aiperf_targets`."""
    text = plugin.read_text("utf-8")
    functions = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]
    hook = next((one for one in functions if one.name == "aiperf_targets"), None)
    nodes = list(ast.walk(hook)) if hook else []
    yields = any(isinstance(one, ast.Yield) for one in nodes)
    if hook is None or not yields or any(isinstance(one, ast.Return) for one in nodes):
        line = _LINE.format(indent="", name=name).removeprefix("yield ")
        raise UsageError(
            f"'{plugin}' has no function aiperf_targets that yields its targets one by one, so no line can be added. "
            f"Write it so, or add the target by hand: {line}"
        )
    lines = text.splitlines()
    lines.insert(hook.end_lineno or len(lines), _LINE.format(indent=" " * hook.body[0].col_offset, name=name))
    return "\n".join([*lines, ""])
