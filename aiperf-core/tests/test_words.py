"""Phrases that help texts, messages, docstrings and documentation must not contain, each with its replacement."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins

ROOT = Path(__file__).parents[2]
REDTEAM = ROOT / "aiperf-redteam" / "src" / "aiperf_redteam"
SOURCES = [
    ROOT / name / "src" for name in ("aiperf-core", "aiperf-analysis", "aiperf-calc", "aiperf-learn", "aiperf-traces")
]
SOURCES += [REDTEAM / "cli", REDTEAM / "selftest"]

# A regular expression for each phrase, and what to write instead.
BANNED = {
    r"nobody|anybody|somebody": "name the actor; 'untrusted code'",
    r"whoever|whomever": "name the actor",
    r"so many|so much": "a number: 'that number of', 'the given number of'",
    r"what comes after": "name it",
    r"(?:not|none of it) in any time": "excluded from all timings",
    r"look(?:s|ed|ing)? again": "resample",
    r"(?<!honest )(?-i:look-alikes?)": "honest look-alike",
    r"(?<!speed )of light": "of the speed of light (SOL)",
    r"seen, and let pass|let pass": "warnings",
    r"surely": "significantly; 'whose interval is ...'",
    r"neither clears|nor stays within": "overlaps the band of ... around 1",
    r"(?:new|fresh) values": "refreshed inputs; input refresh",
    r"(?:looked|looks) at (?:for|\d+ times)|looked at \{\}": "observed",
    r"(?-i:Course)": "time series",
    r"(?:hold|holds|held) \w+ to what": "check for regressions against stored results",
    r"go(?:es)? on with": "continue, resume",
    r"contestants?": "implementation",
    r"undertaker": "reaper",
    r"crews?": "worker, worker handle",
}

# Pages that are generated from sources that are checked, or that quote results.
GENERATED = ("headline-figures.md",)

PATTERN = re.compile(
    "|".join(rf"(?P<p{number}>\b(?:{phrase})\b)" for number, phrase in enumerate(BANNED)), re.IGNORECASE
)


def banned(text: str) -> list[str]:
    """Each banned phrase in a text, with the words around it and the replacement."""
    text = " ".join(text.split())
    found = []
    for match in PATTERN.finditer(text):
        around = text[max(0, match.start() - 30) : match.end() + 30]
        instead = list(BANNED.values())[int(str(match.lastgroup)[1:])]
        found.append(f"{match[0]!r} in '...{around}...'; write: {instead}")
    return found


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    """All subcommands with their full names."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield inner.command_path, command, inner
        if isinstance(command, click.Group):
            yield from commands(command, inner)


def strings(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of each string literal, docstrings included. `{}` stands for a replacement field."""
    inside: set[ast.AST] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            parts = [str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values]
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.lineno, node.value


def prose(page: str) -> str:
    """A page without its code: neither blocks nor spans."""
    page = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", page)


def pages() -> list[Path]:
    """The pages that people write."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    return sorted(page for page in found if not page.name.startswith(GENERATED))


def files() -> list[Path]:
    """The sources of the packages whose texts people read in every command."""
    return sorted(file for folder in SOURCES for file in folder.rglob("*.py"))


def test_help_texts() -> None:
    shell = Shell(load_plugins([]))
    context = click.Context(shell, info_name="aiperf")
    texts = {path: command.get_help(inner) for path, command, inner in commands(shell, context)}
    texts["aiperf"] = shell.get_help(context)
    assert {path: found for path, text in texts.items() if (found := banned(text))} == {}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_documentation(page: Path) -> None:
    assert banned(prose(page.read_text())) == []


def test_messages_and_docstrings() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {phrase}"
        for file in files()
        for line, text in strings(file.read_text())
        # A single word is a name, such as that of an account.
        if not text.isidentifier()
        for phrase in banned(text)
    ]
    assert found == []


# Docstrings that still begin with one of these words, by package. The numbers only shrink.
VAGUE = re.compile(r"(?:What|Who|Those|Of|That)\b")
LEFT = {
    "aiperf-analysis": 79,
    "aiperf-ch01": 3,
    "aiperf-ch02": 1,
    "aiperf-ch04": 8,
    "aiperf-ch05": 3,
    "aiperf-ch07": 2,
    "aiperf-ch11": 1,
    "aiperf-ch19": 2,
    "aiperf-redteam": 4,
}


def test_docstrings_begin_with_a_noun_or_an_imperative() -> None:
    vague: dict[str, list[str]] = {}
    for file in sorted(ROOT.glob("aiperf-*/src/**/*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                continue
            docstring = ast.get_docstring(node)
            if docstring and VAGUE.match(docstring):
                place = f"{file.relative_to(ROOT)}: {docstring.splitlines()[0]}"
                vague.setdefault(file.relative_to(ROOT).parts[0], []).append(place)
    assert {package: len(places) for package, places in vague.items()} == LEFT, {
        package: places for package, places in vague.items() if len(places) > LEFT.get(package, 0)
    }


def test_shares_have_a_space_before_their_sign() -> None:
    """`82 %`, as `units.percent` writes it, and not the `82%` of a format that ends in `%`."""
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for file in sorted(ROOT.glob("aiperf-*/src/**/*.py"))
        if "%}" in (source := file.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FormattedValue) and node.format_spec and ast.unparse(node.format_spec).endswith("%'")
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "Judge code that nobody trusts.",
        "an interval is for\nwhoever measures again",
        "Ranks on so many machines.",
        "none of it in any time",
        "a look-alike that was flagged",
        "it looked again",
        "94 % of light",
        "the rate of light",
        "Seen, and let pass",
        "no variant is surely faster",
        "it neither clears 1",
        "new values 24 ms",
        "the process was looked at 3 times",
        "Course of the samples",
        "Hold runs to what was measured before.",
    ],
)
def test_a_banned_phrase_is_found(text: str) -> None:
    assert len(banned(text)) == 1
    assert [one for _, message in strings(f"raise ValueError(f{text!r})") for one in banned(message)] == banned(text)
    assert len(banned(prose(f"# Title\n\n{text}\n"))) == 1


def test_good_phrases_pass() -> None:
    good = "Untrusted code; an honest look-alike; 94 % of the speed of light; request_census; `nobody`; of course; LOOK-ALIKE"
    assert banned(prose(good)) == []
