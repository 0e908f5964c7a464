"""Every fenced block of the documentation, by its language. A page is a session: its blocks run in order in one scratch folder.

A comment in the line before a block says what it is besides:

    <!-- not run: needs a GPU -->     left out, for one of the reasons below
    <!-- file: src/x.py -->           written to that file; `add to:` appends to it
    <!-- exit: 0 or 4 -->             each of its commands ends with one of these codes
    <!-- printed: by the last command -->   a part of its output from another run: same words, other figures
"""

import contextlib
import json
import re
import runpy
import shlex
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from attrs import frozen

from aiperf_core.cli.main import INTERRUPTED
from aiperf_core.cli.output import OUTPUT_LOST, PIPE_CLOSED
from aiperf_core.errors import ExitCode

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

# Why a block may be left out.
REASONS = {
    "CI runs it itself": "the lines by which CI sets itself up",
    "installs from an index": "tests have no network",
    "needs a GPU": "",
    "needs another tool": "a program that aiperf does not bring, such as ncu",
    "needs a terminal": "aiperf-analysis/tests/tui/test_terminal.py and aiperf-learn/tests/test_learn.py type into it",
    "needs a trace": "a file that another profiler wrote",
    "needs several machines": "aiperf-fleet/tests/ranks/test_run_on_several_machines.py runs it on one",
    "serves until it is stopped": "aiperf-analysis/tests/test_dashboard_command.py starts and stops a server",
    "takes minutes": "",
    "writes beside the sources": "of an installed package, which the tests leave as they are",
    "a fragment": "a few lines of a file, to point at",
    "a small size of it is run below": "",
}
# Languages of blocks that show something and do nothing; those without a language are drawings. The strict build of the
# site reads what is in braces.
SHOWN = {"", "c", "cuda", "text", "{include}", "{literalinclude}", "{toctree}"}

BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*?) -->\n+)?^```(?P<language>[^\s]*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
# What differs from run to run in what a command prints.
VARIABLE = re.compile(r"\b(?:[0-9a-f]{12,}|\d[\d,.:+-]*)")
# What differs besides in a table: units, and verdicts on times.
MEASURED = re.compile(r"\b(?:[nmu]?s|[KMGT]i?B|[KMGT]?B/s|FASTER|SLOWER|SAME|INCONCLUSIVE)(?!\w)")
WORD = re.compile(r"[^\W\d_][\w.]*")
# The folder of a session, as pages show it.
SHOWN_FOLDER = "/home/you"


@frozen
class Block:
    """A fenced block: the line of its page, its mark as `(kind, value)`, its language and text."""

    line: int
    mark: tuple[str, str]
    language: str
    text: str


def blocks(text):
    """The fenced blocks of a page."""
    for match in BLOCK.finditer(text):
        kind, _, value = (match["mark"] or "").partition(": ")
        line = text.count("\n", 0, match.start("language")) + 1
        yield Block(line, (kind, value), match["language"], match["text"])


def words(text):
    """The words of an output, without what differs from run to run."""
    return WORD.findall(MEASURED.sub(" ", VARIABLE.sub(" ", text)))


def name(page):
    return page.relative_to(ROOT).as_posix()


class Session:
    """What a reader of a page has by now: a folder, and what is installed."""

    def __init__(self, environment, folder, home):
        self.environment = environment
        self.folder = self.root = folder
        self.printed = ""
        self.home = home

    def do(self, block):
        """Do what a block says. Fails where it does."""
        kind, value = block.mark
        if kind == "not run":
            assert value in REASONS, f"{value!r} is no reason to leave a block out; known: {', '.join(REASONS)}"
        elif kind in ("file", "add to"):
            path = self.folder / value
            assert path.exists() or kind == "file", f"{value} is not there to be added to"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w" if kind == "file" else "a") as file:
                file.write(block.text)
        elif kind == "printed":
            assert block.language == "text", "what a command printed is text"
            missing = [word for word in words(block.text) if word not in words(self.printed)]
            assert not missing, f"not printed by the last command: {missing}\n{self.printed}"
        elif block.language == "console":
            assert kind in ("", "exit"), f"a mark that is not known: {kind!r}"
            self._run(block.text, {int(code) for code in (value or "0").split(" or ")})
        else:
            assert not kind, f"a mark that is not known: {kind!r}"
            self._read(block)

    def _run(self, text, codes):
        """Run the lines of a block that start with `$`; what is shown between them must be printed by them."""
        first, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
        assert not first, f"a line to be run starts with '$ ': {first!r}"
        for part in parts:
            command, _, shown = part.replace("\\\n", " ").partition("\n")
            told = self.printed = self._line(command, codes).replace(str(self.root), SHOWN_FOLDER)
            printed = {VARIABLE.sub("N", line.strip()) for line in told.splitlines()}
            missing = [one for one in shown.splitlines() if VARIABLE.sub("N", one.strip()) not in {"", "...", *printed}]
            assert not missing, f"not printed by {command!r}: {missing}\n{told}"

    def _line(self, command, codes):
        match shlex.split(command, comments=True):
            case ["cd", where]:
                self.folder = self.folder / where
                assert self.folder.is_dir()
                return ""
        folders = {"AIPERF_CACHE_DIR": str(self.home), "XDG_DATA_HOME": str(self.root / "data")}
        return self.environment.run(command, self.folder, codes, **folders)

    def _read(self, block):
        match block.language:
            case "python":
                path = self.folder / f"line_{block.line}.py"
                path.write_text(block.text)
                with contextlib.chdir(self.folder):
                    runpy.run_path(str(path))
            case "toml":
                tomllib.loads(block.text)
            case "json":
                json.loads(block.text)
            case language:
                assert language in SHOWN, f"nobody knows what to do with {language!r}"


@pytest.fixture(scope="module")
def home(new_cache):
    """The cache of all pages."""
    return new_cache()


@pytest.mark.docs
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_a_page_does_what_it_says(page, offline, home, tmp_path):
    found = list(blocks(page.read_text()))
    if all(one.language in SHOWN for one in found):
        return
    session = Session(offline(tmp_path / "environment"), tmp_path / "session", home)
    session.folder.mkdir()
    for block in found:
        try:
            session.do(block)
        except Exception as error:
            pytest.fail(f"{name(page)}:{block.line}: {type(error).__name__}: {error}", pytrace=False)


def test_a_mark_is_seen_where_a_reader_of_the_source_puts_it():
    """A comment that looks like a mark and stands before no block would be overlooked."""
    for page in PAGES:
        text = page.read_text()
        marks = re.findall(r"^<!-- (?:not run|file|add to|exit|printed): ", text, re.MULTILINE)
        assert len(marks) == sum(1 for one in blocks(text) if one.mark[0]), name(page)


def test_no_reason_is_kept_that_nobody_gives():
    given = Counter(one.mark[1] for page in PAGES for one in blocks(page.read_text()) if one.mark[0] == "not run")
    assert set(given) == set(REASONS)


def test_a_block_that_fails_is_red(offline, home, tmp_path):
    session = Session(offline(tmp_path / "environment"), tmp_path, home)

    def do(text):
        for block in blocks(text):
            session.do(block)

    do("```console\n$ echo 17 rows\n12 rows\n```\n")
    do("```console\n$ echo wide 7.1x FASTER 3 ms $PWD/a.c\nwide 7.1x FASTER 3 ms /home/you/a.c\n```\n")
    do("<!-- printed: by the last command -->\n```text\nwide  2 us   SLOWER\n```\n")
    do("<!-- exit: 2 -->\n```console\n$ aiperf show no.such_target\n```\n")
    do("<!-- file: a/b.txt -->\n```text\nx\n```\n<!-- add to: a/b.txt -->\n```text\ny\n```\n")
    assert (tmp_path / "a/b.txt").read_text() == "x\ny\n"
    for wrong in (
        "```console\n$ false\n```\n",
        "```console\n$ echo 17 rows\n12 columns\n```\n",
        "<!-- exit: 2 -->\n```console\n$ true\n```\n",
        "```console\n$ echo wide\n```\n<!-- printed: by the last command -->\n```text\nwider\n```\n",
        "<!-- not run: it fails -->\n```console\n$ false\n```\n",
        "<!-- nor run: needs a GPU -->\n```console\n$ false\n```\n",
        "<!-- add to: c.txt -->\n```text\nx\n```\n",
        "```toml\n[\n```\n",
        "```json\n{\n```\n",
        "```python\nassert False\n```\n",
        "```pyhton\n```\n",
    ):
        with pytest.raises((AssertionError, ValueError)):
            do(wrong)


def test_the_table_of_exit_codes_is_complete():
    table = (ROOT / "docs" / "exit-codes.md").read_text()
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert codes == {*map(int, ExitCode), OUTPUT_LOST, INTERRUPTED, PIPE_CLOSED}


def test_every_page_is_in_the_table_of_contents():
    """The strict build says so too; this says it where there is no generator."""
    listed, new = set(), {"index"}
    while new:
        listed |= new
        new = {entry for page in new for entry in entries(page)} - listed
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} == listed


def entries(page):
    """The pages in the tables of contents of a page."""
    tables = re.findall(
        r"^```{toctree}\n(.*?)^```$", (ROOT / "docs" / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL
    )
    names = [name for table in tables for name in re.findall(r"^([][a-z0-9*-]+)$", table, re.MULTILINE)]
    return {path.stem for name in names for path in (ROOT / "docs").glob(f"{name}.md")}


def test_chapters_and_their_measured_results_are_one_group_of_the_navigation():
    assert {"ch07", "labs", "goals", "headline-figures"} <= entries("lessons")
    assert {page for page in entries("index") if page.startswith("ch") and page != "changelog"} == set()


def test_pages_outside_the_site_link_to_what_is_there():
    for page in PAGES[:2]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{name(page)} links to {target}"
