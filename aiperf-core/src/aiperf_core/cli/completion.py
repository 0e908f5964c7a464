"""`aiperf completion`: a script by which a shell completes commands, options, targets, bundles and issues.

What an argument takes is known from its metavar, or an option's name: see `WORDS`. So it holds for the commands of plugins.
"""

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.benchmark import snake_case
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.targets import InstalledTarget

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Each shell with the line for its start file.
SHELLS = {
    "bash": ("~/.bashrc", 'eval "$({} completion bash)"'),
    "zsh": ("~/.zshrc, after compinit", 'eval "$({} completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "{} completion fish | source"),
}

# What declares an implementation that a pattern can choose.
DECORATORS = ("baseline", "variant")

# Beyond this a benchmark's file is not read for the names of its implementations.
MAX_SOURCE_BYTES = 1 << 20

# Bash parts words at colons too and replaces only what follows the last one. So the line is parted at blanks here, and what
# stands before the last colon is taken off the answers.
BASH = """\
%(complete_func)s() {
    local line=${COMP_LINE:0:COMP_POINT} prefix="" current words kind value
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[-1]}
    [[ $current == --*=* ]] && current=${current#*=}
    [[ $current == *:* && $COMP_WORDBREAKS == *:* ]] && prefix=${current%%"${current##*:}"}
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            plain) COMPREPLY+=("${value#"$prefix"}") ;;
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
        esac
    done < <(COMP_WORDS=$line COMP_CWORD=$((${#words[@]} - 1)) %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@click.command("completion")
@click.argument("shell", type=click.Choice(tuple(SHELLS)), required=False)
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print a script by which your shell completes what you type after `aiperf`.

    The script's last lines say where it goes. Without a SHELL it is the one named by $SHELL.
    """
    from click.shell_completion import BashComplete, get_completion_class

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in SHELLS:
        accepted = ", ".join(map(repr, SHELLS))
        raise UsageError(f"$SHELL names no shell with completion; found {name!r}. Say which: {accepted}.")
    found = get_completion_class(name)
    assert found is not None  # click has had all of them since 8.0
    root = ctx.find_root()
    program = root.info_name or "aiperf"
    variable = f"_{program.replace('-', '_')}_COMPLETE".upper()
    writer = found(root.command, {}, program, variable)
    if isinstance(writer, BashComplete):
        writer.source_template = BASH  # type: ignore[misc]  # of this object alone
    file, line = SHELLS[name]
    click.echo(writer.source().rstrip("\n"))
    # Last, where it is seen in a terminal; zsh wants the first line for itself.
    click.echo(
        f"\n# To complete {program} in every {name}, put this line into {file}:\n#\n#     {line.format(program)}"
    )


class Completed(click.types.StringParamType):
    """Text with completions: a function of the plugins and the incomplete word gives each with its help."""

    def __init__(self, complete: "Callable[[Plugins, str], Iterable[tuple[str, str]]]", files: bool) -> None:
        self.complete = complete
        self.files = files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[str]]":
        """Return what starts like the incomplete word, and where a path is taken leave paths to the shell."""
        from click.shell_completion import CompletionItem

        plugins = ctx.find_object(Plugins) or Plugins()
        # What a shell reads is a line an answer. A bundle may come from anybody, and so may the names in it.
        items = [
            CompletionItem(text, help=said or None)
            for text, said in self.complete(plugins, incomplete)
            if text.startswith(incomplete) and text.isprintable() and " " not in text
        ]
        return [*items, *([CompletionItem(incomplete, type="file")] if self.files else [])]


def teach(command: click.Command) -> None:
    """Let the parameters of a command that take text complete what their metavars say, and those of its subcommands."""
    for param in command.params:
        complete = WORDS.get(_word(param))
        if param.type is click.STRING and complete is not None:
            param.type = Completed(complete, files=complete in (bundles, targets_and_bundles))
    if isinstance(command, click.Group):
        for one in command.commands.values():
            teach(one)


def _word(param: click.Parameter) -> str:
    """What a parameter takes: the first word of its metavar if that is known, as TARGET of TARGET[:IMPL], or else its name."""
    found = re.match(r"\[?([A-Z_]+)", param.metavar or "")
    return found[1] if found and found[1] in WORDS else param.opts[0].lstrip("-").upper()


def targets(plugins: Plugins, incomplete: str) -> Iterator[tuple[str, str]]:
    """Targets by name, and after a colon their implementations."""
    name, colon, _ = incomplete.partition(":")
    for target in plugins.targets:
        if not colon:
            yield target.name, target.summary
        elif target.name == name:
            yield from ((f"{name}:{one}", "") for one in implementations(target))


def patterns(plugins: Plugins, incomplete: str) -> Iterator[tuple[str, str]]:
    """Whatever chooses targets: their names, and tags once `tag:` is begun."""
    yield from targets(plugins, incomplete)
    if incomplete and (incomplete.startswith("tag:") or "tag:".startswith(incomplete)):
        yield from ((f"tag:{tag}", "") for tag in sorted({tag for one in plugins.targets for tag in one.tags}))


def bundles(plugins: Plugins, incomplete: str) -> Iterator[tuple[str, str]]:
    """Bundles where runs leave them, the latest first, and after a colon their targets."""
    from aiperf_core.results.bundle import DEFAULT_PARENT
    from aiperf_core.results.filenames import MANIFEST, TARGETS

    folder, colon, _ = incomplete.partition(":")
    if colon:
        yield from ((f"{folder}:{one.stem}", "") for one in sorted(Path(folder, TARGETS).glob("*.json")))
    elif DEFAULT_PARENT.is_dir():
        yield from ((str(one.parent), "") for one in sorted(DEFAULT_PARENT.glob(f"*/{MANIFEST}"), reverse=True))


def targets_and_bundles(plugins: Plugins, incomplete: str) -> Iterator[tuple[str, str]]:
    """What `aiperf show` takes."""
    yield from targets(plugins, incomplete)
    yield from bundles(plugins, incomplete)


def issues(plugins: Plugins, _: str) -> Iterator[tuple[str, str]]:
    """Validity issues by id."""
    yield from ((one.record.id, one.record.title) for one in plugins.issues.values())


def issues_and_categories(plugins: Plugins, incomplete: str) -> Iterator[tuple[str, str]]:
    """What `aiperf validity` takes."""
    if "." not in incomplete:
        yield from (
            (category, "") for category in dict.fromkeys(one.record.category for one in plugins.issues.values())
        )
    yield from issues(plugins, incomplete)


def devices(plugins: Plugins, _: str) -> Iterator[tuple[str, str]]:
    """Kinds of device."""
    yield from ((name, one.record.summary) for name, one in plugins.devices.items())


def executors(plugins: Plugins, _: str) -> Iterator[tuple[str, str]]:
    """What runs the processes."""
    yield from ((name, one.record.summary) for name, one in plugins.executors.items())


def profilers(plugins: Plugins, _: str) -> Iterator[tuple[str, str]]:
    """Tools of `aiperf profile`."""
    yield from ((name, one.record.summary) for name, one in plugins.profilers.items())


def metrics(plugins: Plugins, _: str) -> Iterator[tuple[str, str]]:
    """Sets of metrics of all tools."""
    yield from ((name, one.record.summary) for name, one in plugins.metrics.items())


WORDS: "dict[str, Callable[[Plugins, str], Iterable[tuple[str, str]]]]" = {
    "PATTERN": patterns,
    "TARGET": targets,
    "TARGET_OR_BUNDLE": targets_and_bundles,
    "BUNDLE": bundles,
    "LEFT": bundles,
    "RIGHT": bundles,
    "ISSUE": issues_and_categories,
    "DEVICE": devices,
    "EXECUTOR": executors,
    "TOOL": profilers,
    "METRICS": metrics,
}


def implementations(target: InstalledTarget) -> list[str]:
    """Name the implementations of a target as its file spells them. It is read and not imported, which would take seconds."""
    try:
        spec = find_spec(target.module)
        source = Path(spec.origin or "") if spec else Path()
        if source.suffix != ".py" or source.stat().st_size > MAX_SOURCE_BYTES:
            return []
        tree = ast.parse(source.read_text())
    except Exception:  # a package or a file of somebody else's; nothing is known then
        return []
    names = [_declared(node) for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return list(dict.fromkeys(filter(None, names)))


def _declared(node: ast.FunctionDef | ast.ClassDef) -> str:
    """The name under which a decorator declares an implementation, empty where none does."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else None
        if isinstance(decorator, ast.Call) and isinstance(called, ast.Attribute) and called.attr in DECORATORS:
            given = [one.value for one in decorator.keywords if one.arg == "name"]
            if not given:
                return snake_case(node.name) if isinstance(node, ast.ClassDef) else node.name
            if isinstance(given[0], ast.Constant):
                return str(given[0].value)
    return ""
