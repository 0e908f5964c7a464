"""The pages that are made from the code when the site is built, as Markdown."""

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import click
from click.testing import CliRunner
from public_api import OFFERED

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.results import schema
from aiperf_learn.glossary.terms import markdown
from aiperf_learn.surprises.catalogue import SURPRISES, Surprise
from aiperf_learn.surprises.tool import source_of


def commands() -> str:
    """Every command that is installed, with its arguments and options, those of plugins after ours."""
    plugins = load_plugins()
    if plugins.set_aside:
        raise RuntimeError(f"the page on commands would be incomplete: {plugins.set_aside}")
    shell = Shell(plugins)
    context = click.Context(shell, info_name="aiperf")
    return "\n".join(part for name in shell.list_commands(context) for part in _command(shell, name, context, depth=2))


def _command(group: click.Group, name: str, parent: click.Context, depth: int) -> Iterator[str]:
    command = group.get_command(parent, name)
    assert command is not None
    context = click.Context(command, info_name=name, parent=parent)
    yield f"{'#' * depth} `{context.command_path}`\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {usage}\n```\n"
    yield f"{_prose(inspect.cleandoc(command.help or ''))}\n"
    records = [one.get_help_record(context) for one in command.params]
    rows = [record for record in records if record and record[1]]
    if rows:
        yield "| option | |\n| --- | --- |"
        yield from (f"| `{_cell(flags)}` | {_cell(text)} |" for flags, text in rows)
        yield ""
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from _command(command, inner, context, depth + 1)


def api() -> str:
    """What is promised to authors of benchmarks and plugins: the list against which the tests hold the code."""
    return "\n".join(part for name, names in OFFERED.items() for part in _module(import_module(name), names))


def _module(module: ModuleType, names: tuple[str, ...]) -> Iterator[str]:
    yield f"## `{module.__name__}`\n"
    yield f"{_prose(inspect.getdoc(module) or '')}\n"
    for name in names or _offered(module):
        yield from _object(name, getattr(module, name))


def _offered(module: ModuleType) -> list[str]:
    defined = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and _documented(value)
    ]
    return list(getattr(module, "__all__", defined))


def _documented(value: object) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)


def _object(name: str, value: Any) -> Iterator[str]:
    if not _documented(value):
        yield f"### `{name}`\n\n```python\n{name} = {value!r}\n```\n"
        return
    yield f"### `{name}`\n"
    yield f"```python\n{_signature(name, value)}\n```\n"
    yield f"{_prose(inspect.getdoc(value) or '')}\n"
    if inspect.isclass(value):
        for inner, member in vars(value).items():
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if not inner.startswith("_") and inspect.isfunction(function) and inspect.getdoc(function):
                yield f"#### `{name}.{inner}`\n"
                yield f"```python\n{_signature(inner, function)}\n```\n"
                yield f"{_prose(inspect.getdoc(function) or '')}\n"


def _signature(name: str, value: Any) -> str:
    """How it is called, with an argument a line where one line is too long."""
    if inspect.isclass(value) and (issubclass(value, BaseException | Enum)):
        return f"class {name}({value.__bases__[0].__name__})"
    signature = inspect.signature(value)
    kind = "def"
    if inspect.isclass(value):
        kind, signature = "class", signature.replace(return_annotation=signature.empty)
    line = _short(f"{kind} {name}{signature}")
    if len(line) <= 88:
        return line
    arguments = [_short(str(one)) for one in signature.parameters.values()]
    returned = line.rpartition(")")[2]
    return "\n".join([f"{kind} {name}(", *(f"    {one}," for one in arguments), f"){returned}"])


def _short(text: str) -> str:
    """A signature without the modules that its types are from."""
    modules = r"(?:typing|collections\.abc|attr|aiperf_core)(?:\.\w+)*\.(?=\w)"
    return re.sub(rf"{modules}|~", "", text).replace("NoneType", "None")


def fields() -> str:
    """The fields of the documents of a bundle, those of packages included, record by record, from their JSON Schema."""
    documents = [schema.generate(kind) for kind in schema.ROOTS]
    documents += [json.loads(one.read_schema()) for one in load_plugins().known_documents.values() if one.schema]
    parts: dict[str, dict[str, Any]] = {}
    for document in documents:
        parts |= {name: one for name, one in document["$defs"].items() if name not in parts}
    pages = [part for one in documents for part in _record(one)]
    return "\n".join(pages + [part for name in sorted(parts) for part in _record(parts[name])])


def _record(record: dict[str, Any]) -> Iterator[str]:
    yield f"## {record['title']}\n"
    yield f"{_prose(record.get('description', ''))}\n"
    if "properties" not in record:
        yield f"One of {_type(record)}.\n"
        return
    yield "| field | type | |\n| --- | --- | --- |"
    for name, one in record["properties"].items():
        yield f"| `{name}` | {_type(one)} | {_cell(one.get('description', ''))} |"
    yield ""


def _type(one: dict[str, Any]) -> str:
    """A JSON Schema in words, with a link to the record that it refers to."""
    if "$ref" in one:
        title = one["$ref"].rpartition("/")[2]
        return f"[{title}](#{title.lower()})"
    if "const" in one:
        return f"`{one['const']}`"
    if "enum" in one:
        return ", ".join(f"`{'null' if value is None else value}`" for value in one["enum"])
    if "anyOf" in one:
        return " or ".join(_type(each) for each in one["anyOf"])
    if one.get("type") == "array":
        return f"list of {_type(one.get('items', {}))}"
    if one.get("type") == "object":
        values = one.get("additionalProperties")
        return f"object of {_type(values)}" if isinstance(values, dict) else "object"
    kinds = one.get("type", "anything")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _prose(text: str) -> str:
    """A docstring as Markdown. What is indented is code already; `name: what it is` in a line becomes an item."""
    text, _, examples = text.partition("\b\nExamples:\n")
    prose = re.sub(r"^(\w+): (?=\S)", r"- `\1`: ", text, flags=re.MULTILINE)
    return f"{prose}```console\n{textwrap.dedent(examples).rstrip()}\n```" if examples else prose


def _cell(text: str) -> str:
    """Text in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def validity() -> str:
    """The page of the issues, as `aiperf validity --markdown` prints it."""
    return _written("validity", "--markdown")


def goals() -> str:
    """The page of the goals, from the expectations files of the installed packages alone."""
    with TemporaryDirectory() as folder:
        page = Path(folder) / "goals.md"
        _written("goals", "--in", folder, "--page", str(page))
        return page.read_text(encoding="utf-8")


def glossary() -> str:
    """The terms, each under a heading, which is its anchor."""
    return "\n\n".join(markdown())


def _written(*arguments: str) -> str:
    """The output of a command. Raises `RuntimeError` where it fails."""
    result = CliRunner().invoke(Shell(load_plugins()), list(arguments))
    if result.exit_code:
        raise RuntimeError(f"aiperf {' '.join(arguments)}: exit code {result.exit_code}: {result.stderr}")
    return result.stdout


def surprises() -> str:
    """Every surprise: the tool that is fooled with its code, the cause, and how aiperf avoids it."""
    return "\n".join(part for surprise in SURPRISES for part in _surprise(surprise))


def _surprise(surprise: Surprise) -> Iterator[str]:
    case = import_module(surprise.module)
    yield f"## {surprise.name}\n"
    yield f"{surprise.summary} The tool is {surprise.tool}:\n"
    yield f"```python\n{source_of(case)}```\n"
    yield f"**The cause.** {inspect.getdoc(case)}\n"
    avoided = surprise.avoided[0].upper() + surprise.avoided[1:]
    yield f"**How aiperf avoids it.** {avoided} (`{surprise.issue}`).\n"


GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands,
    "api": api,
    "fields": fields,
    "validity": validity,
    "goals": goals,
    "surprises": surprises,
    "glossary": glossary,
}
