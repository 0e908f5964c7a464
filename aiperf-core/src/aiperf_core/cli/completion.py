"""`aiperf completion`: a script with which a shell completes commands, options, targets, bundles and issues.

The metavar of an argument or the name of an option selects the completion: see `WORDS`. This covers commands of
plugins.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiperf_core.cli.declared_in import declarations
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.results.bundle import DEFAULT_PARENT

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# For each shell: its start file, and the line to put there.
SHELLS = {
    "bash": ("~/.bashrc", 'eval "$({} completion bash)"'),
    "zsh": ("~/.zshrc, after compinit", 'eval "$({} completion zsh)"'),
    "fish": ("~/.config/fish/config.fish", "{} completion fish | source"),
}

# Bash also splits words at colons, and replaces only the part after the last colon. So the script splits the line at
# blanks, and removes the part before the last colon from the answers.
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
    """Print a shell completion script for `aiperf`.

    The last lines of the script say how to install it. [default: the shell in $SHELL]
    """
    from click.shell_completion import BashComplete, get_completion_class

    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in SHELLS:
        accepted = ", ".join(map(repr, SHELLS))
        raise UsageError(f"$SHELL is {name!r}, which has no completion. Give a shell: {accepted}.")
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
    # At the end: visible in a terminal, and zsh needs the first line for `#compdef`.
    click.echo(
        f"\n# To enable completion of {program} in {name}, add this line to {file}:\n#\n#     {line.format(program)}"
    )


class Completed(click.types.StringParamType):
    """A text parameter. `complete` maps the plugins and the incomplete word to completions with their help."""

    def __init__(self, complete: "Callable[[Plugins, str], Iterable[tuple[str, str]]]", files: bool) -> None:
        self.complete = complete
        self.files = files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem[str]]":
        """Return the completions of a word. Where the parameter takes a path, the shell completes paths."""
        from click.shell_completion import CompletionItem

        plugins = ctx.find_object(Plugins) or Plugins()
        # One answer per line. The names in a bundle are untrusted.
        items = [
            CompletionItem(text, help=said or None)
            for text, said in self.complete(plugins, incomplete)
            if text.startswith(incomplete) and text.isprintable() and " " not in text
        ]
        return [*items, *([CompletionItem(incomplete, type="file")] if self.files else [])]


def teach(command: click.Command) -> None:
    """Give the text parameters of a command and its subcommands the completion that their metavars name."""
    for param in command.params:
        complete = WORDS.get(_word(param))
        if param.type is click.STRING and complete is not None:
            param.type = Completed(complete, files=complete is bundles)
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            teach(subcommand)


def _word(param: click.Parameter) -> str:
    """The key in `WORDS`: the first word of the metavar, such as TARGET of TARGET[:IMPL], or the option's long name."""
    found = re.match(r"\[?([A-Z_]+)", param.metavar or "")
    return found[1] if found and found[1] in WORDS else max(param.opts, key=len).lstrip("-").upper()


def targets(plugins: Plugins, incomplete: str) -> Iterator[tuple[str, str]]:
    """Names of targets, and after a colon their implementations."""
    name, colon, _ = incomplete.partition(":")
    for target in plugins.targets:
        if not colon:
            yield target.name, target.summary
        elif target.name == name:
            found = declarations(target)
            yield from ((f"{name}:{one}", "") for one in (found.lines if found else ()))


def patterns(plugins: Plugins, incomplete: str) -> Iterator[tuple[str, str]]:
    """Names of targets, and tags once `tag:` is begun."""
    yield from targets(plugins, incomplete)
    if incomplete and (incomplete.startswith("tag:") or "tag:".startswith(incomplete)):
        yield from ((f"tag:{tag}", "") for tag in sorted({tag for one in plugins.targets for tag in one.tags}))


def bundles(plugins: Plugins, incomplete: str, folder: Path = DEFAULT_PARENT) -> Iterator[tuple[str, str]]:
    """`latest`, the names of the bundles in a folder or their paths, and after a colon the targets of a bundle."""
    from aiperf_core.results import naming
    from aiperf_core.results.filenames import TARGETS

    name, colon, _ = incomplete.partition(":")
    if colon:
        with contextlib.suppress(UsageError):
            path = naming.located(name, folder)
            files = sorted(Path(path, TARGETS).glob("*.json")) if path else []
            yield from ((f"{name}:{one.stem}", "") for one in files)
        return
    known = naming.names(folder)
    if known:
        yield naming.LATEST, ""
    yield from ((one, "") for one in known)
    if incomplete:
        yield from ((str(folder / one), "") for one in known)


def issues_and_categories(plugins: Plugins, incomplete: str) -> Iterator[tuple[str, str]]:
    """Arguments of `aiperf validity`."""
    registered = [one.record for one in plugins.issues.values()]
    if "." not in incomplete:
        yield from ((category, "") for category in dict.fromkeys(issue.category for issue in registered))
    yield from ((issue.id, issue.title) for issue in registered)


def documents(plugins: Plugins, incomplete: str) -> Iterator[tuple[str, str]]:
    """Arguments of `aiperf schema`."""
    from aiperf_core.cli.schema import DOCUMENTS

    yield from DOCUMENTS.items()
    yield from ((name, one.summary) for name, one in plugins.known_documents.items() if one.schema)
    yield from ((name, one.record.files) for name, one in plugins.schemas.items())


def _records(kind: str) -> "Callable[[Plugins, str], Iterable[tuple[str, str]]]":
    """Names and summaries of the records in one field of `Plugins`."""
    return lambda plugins, _: [(name, one.record.summary) for name, one in getattr(plugins, kind).items()]


WORDS: "dict[str, Callable[[Plugins, str], Iterable[tuple[str, str]]]]" = {
    "PATTERN": patterns,
    "TARGET": targets,
    "BUNDLE": bundles,
    "ISSUE": issues_and_categories,
    "DOCUMENT": documents,
    "DEVICE": _records("devices"),
    "EXECUTOR": _records("executors"),
    "TOOL": _records("profilers"),
    "METRICS": _records("metrics"),
}
