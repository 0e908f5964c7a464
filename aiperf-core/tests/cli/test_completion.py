import os
import pty
import re
import resource
import select
import shutil
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

from aiperf_core.cli.completion import SHELLS, WORDS, teach
from aiperf_core.cli.declared_in import declarations
from aiperf_core.cli.main import Shell
from aiperf_core.commands import Command
from aiperf_core.plugins import Installed, Plugins, load_plugins
from aiperf_core.targets import InstalledTarget

pytestmark = pytest.mark.quiet


def complete(line, folder=None, *, shell="bash", program="aiperf", **environment):
    """Ask as a shell does: what completes the last word of a line. `kind value` of each answer."""
    words = [*line.split(), *([""] if line.endswith(" ") else [])]
    asked = {
        f"_{program.upper().replace('-', '_')}_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1),
    }
    code = f"import sys; sys.argv[0] = {program!r}; from aiperf_core.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **environment, **asked},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [one.replace(",", " ", 1) for one in done.stdout.splitlines() if one]


def completed(line):
    """The same within this process, by the names alone."""
    words = [*line.split(), *([""] if line.endswith(" ") else [])]
    asked = {"_AIPERF_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = CliRunner().invoke(Shell(load_plugins()), [], prog_name="aiperf", env=asked)
    assert (done.exit_code, done.stderr) == (0, "")
    return [one.partition(",")[2] for one in done.stdout.splitlines() if one]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("aiperf va", ["validity"]),
        ("aiperf --ver", ["--version"]),
        ("aiperf run --ti", ["--tier", "--timeout"]),
        ("aiperf run --tier ", ["quick", "standard", "audit"]),
        ("aiperf run --tier=st", ["standard"]),
        ("aiperf run practice.s", ["practice.sum_rows", "practice.softmax"]),
        ("aiperf run practice.sum_rows practice.ma", ["practice.matmul"]),
        ("aiperf run ch07.mem", ["ch07.memory_access"]),
        ("aiperf run ch07.memory_access:w", ["ch07.memory_access:wide"]),
        ("aiperf run nothing:", []),
        ("aiperf show ch07.tran", ["ch07.transpose", "ch07.tran"]),
        ("aiperf list tag:me", ["tag:memory"]),
        ("aiperf list ta", ["tag:memory"]),
        ("aiperf judge x.py --target practice.ma", ["practice.matmul"]),
        ("aiperf validity output.wrong_v", ["output.wrong_values"]),
        ("aiperf validity outp", ["output"]),
        ("aiperf schema ta", ["target"]),
        ("aiperf selftest --issue output.wrong_v", ["output.wrong_values"]),
        ("aiperf results rm --y", ["--yes"]),
        ("aiperf ch07 access-report ch07.ga", ["ch07.gather"]),
        ("aiperf run --device cu", ["cuda"]),
        ("aiperf run --executor h", ["here"]),
        ("aiperf profile x --tool n", ["nsys", "ncu"]),
        ("aiperf profile x --metrics me", ["memory"]),
        ("aiperf completion ", ["bash", "zsh", "fish"]),
        ("aiperf nosuchcommand x", []),
    ],
)
def test_a_word_is_completed(line, expected):
    found = completed(line)
    assert [one for one in found if one in expected] == expected
    assert all(one.startswith(line.split()[-1].partition("=")[2]) for one in found)
    if len(expected) == 1 and line != "aiperf list ta" and line != "aiperf validity outp":
        assert len(found) == 1


def test_every_command_is_completed_without_being_imported():
    def load():
        raise AssertionError("imported")

    shell = Shell(Plugins(commands={"tea": Installed(Command("tea", "Make tea.", load), "aiperf-acme", "0.3")}))
    asked = {"_AIPERF_COMPLETE": "zsh_complete", "COMP_WORDS": "aiperf t", "COMP_CWORD": "1"}
    assert CliRunner().invoke(shell, [], prog_name="aiperf", env=asked).stdout == "plain\ntea\nMake tea.\n"
    # One that cannot be imported has no completions, and says so when it is called.
    asked |= {"COMP_WORDS": "aiperf tea x", "COMP_CWORD": "2"}
    done = CliRunner().invoke(shell, [], prog_name="aiperf", env=asked)
    assert (done.exit_code, done.stdout.strip(), done.stderr) == (0, "", "")


def test_bundles_are_completed_the_latest_first_with_their_targets_and_paths(tmp_path):
    for name in ("20260101-1", "20260102-2", "unfinished"):
        (tmp_path / "artifacts/runs" / name / "targets").mkdir(parents=True)
    for name in ("20260101-1", "20260102-2"):
        (tmp_path / "artifacts/runs" / name / "manifest.json").touch()
    (tmp_path / "artifacts/runs/20260102-2/targets/ch07.gather.json").touch()
    (tmp_path / "artifacts/runs/20260102-2/targets/a b\n.json").touch()
    latest, first = "20260102-2", "20260101-1"
    names = ["plain latest", f"plain {latest}", f"plain {first}"]
    paths = [f"plain artifacts/runs/{latest}", f"plain artifacts/runs/{first}"]
    for line in ("recheck ", "run --resume ", "results rm ", "results show ", "reproduce ", "export "):
        assert complete(f"aiperf {line}", tmp_path) == [*names, "file "]
    assert complete("aiperf compare x la", tmp_path) == ["plain latest", "file la"]
    assert complete("aiperf compare x 2026", tmp_path) == [*names[1:], "file 2026"]
    assert complete("aiperf compare x ar", tmp_path) == [*paths, "file ar"]
    for name in (f"artifacts/runs/{latest}", latest, "20260102"):
        assert complete(f"aiperf show {name}:", tmp_path) == [f"plain {name}:ch07.gather", f"file {name}:"]
    (tmp_path / "artifacts/runs").rename(tmp_path / "elsewhere")
    assert complete("aiperf results show --in elsewhere 20260102", tmp_path) == [f"plain {latest}", "file 20260102"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_protocol_of_every_shell_under_both_names(shell):
    said = {"bash": [], "zsh": [], "fish": []}
    for program in ("aiperf", "aiperf-bench"):
        said[shell] += complete(f"{program} run practice.sum_", shell=shell, program=program)
    once = {
        "bash": ["plain practice.sum_rows"],
        "zsh": ["plain", "practice.sum_rows"],
        "fish": ["plain practice.sum_rows"],
    }[shell]
    lines = [one.partition("\t")[0] for one in said[shell]]
    assert [one for one in lines if one in once] == once * 2


def test_completing_imports_nothing_heavy_and_is_quick(tmp_path):
    for name in ("torch", "triton", "numpy", "rich"):
        (tmp_path / f"{name}.py").write_text(f"raise BaseException('{name} was imported')")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    lines = ("aiperf ", "aiperf run practice.", "aiperf run ch07.memory_access:", "aiperf show x", "aiperf validity o")
    seconds = []
    for line in lines:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert complete(line, tmp_path, PYTHONPATH=path)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # Of the processor, since others may use it too. Some 0.2 s are usual, and importing torch takes more than one.
    assert min(seconds) < 0.7


def target(module):
    return InstalledTarget("acme.x", module)


BENCHMARK = """
raise ImportError("read, not imported")

@bench.baseline(device="cpu", kind="naive")
def plain(a): ...

@bench.baseline(device="cuda", kind="naive", name="plain")
def plain_cuda(a): ...

@bench.variant(device="cpu", why="w")
class InOneGo: ...

@bench.yardstick(device="cpu")
def torch(a): ...

@bench.cost
def cost(n): ...

def helper(a): ...
"""


def test_implementations_are_read_from_the_file(site):
    site.write("aiperf_acme/__init__.py", "")
    site.write("aiperf_acme/x.py", BENCHMARK)
    site.write("aiperf_acme/bad.py", "def (")
    assert list(declarations(target("aiperf_acme.x")).lines) == ["plain", "in_one_go"]
    for module in ("aiperf_acme.bad", "aiperf_acme.none", "no_such_package.x", "aiperf_acme"):
        found = declarations(target(module))
        assert found is None or found.lines == {}


def test_the_commands_of_plugins_are_taught_by_their_metavars():
    @click.group()
    def group(): ...

    @group.command()
    @click.argument("what", metavar="TARGET[:IMPL]")
    @click.option("--after", metavar="BUNDLE")
    @click.option("--issue", "ids", metavar="ID")
    @click.option("--name", metavar="NAME")
    @click.option("--count", type=int, metavar="TARGET")
    def one(what, after, ids, name, count): ...

    teach(group)
    taught = {param.name: getattr(param.type, "complete", None) for param in one.params}
    assert taught == {
        "what": WORDS["TARGET"], "after": WORDS["BUNDLE"], "ids": WORDS["ISSUE"], "name": None, "count": None,
    }  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_ends_with_the_line_for_the_start_file(shell):
    plugins = load_plugins([])
    for program in ("aiperf", "aiperf-bench"):
        done = CliRunner().invoke(Shell(plugins), ["completion", shell], prog_name=program)
        assert (done.exit_code, done.stderr) == (0, "")
        *_, where, _, line = done.stdout.splitlines()
        file, expected = SHELLS[shell]
        assert where == f"# To enable completion of {program} in {shell}, add this line to {file}:"
        assert line == f"#     {expected.format(program)}"
        assert f"_{program.upper().replace('-', '_')}_COMPLETE={shell}_complete" in done.stdout
    assert CliRunner().invoke(Shell(plugins), ["completion"], env={"SHELL": f"/bin/{shell}"}).exit_code == 0


def test_a_shell_without_completion():
    done = CliRunner().invoke(Shell(load_plugins([])), ["completion"], env={"SHELL": "/bin/tcsh"})
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == ("aiperf: $SHELL is 'tcsh', which has no completion. Give a shell: 'bash', 'zsh', 'fish'.\n")


def programs(folder):
    """Write `aiperf` and `aiperf-bench` into a folder."""
    for program in ("aiperf", "aiperf-bench"):
        code = f"import sys; sys.argv[0] = '{program}'; from aiperf_core.cli.main import main; main()"
        (folder / program).write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
        (folder / program).chmod(0o755)


class Terminal:
    """A shell in a terminal: what is typed is what a user types, and Tab is a key."""

    def __init__(self, folder, shell, *arguments):
        programs(folder)
        environment = {
            **os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PS1": "> ", "TERM": "dumb", "INPUTRC": "/dev/null",
            "HOME": str(folder), "ZDOTDIR": str(folder), "XDG_CONFIG_HOME": str(folder),
        }  # fmt: skip
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execvpe(shell, [shell, *arguments], environment)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def until(self, pattern, seconds=60):
        """Read until a pattern is seen, and return its first group."""
        seen, end = "", time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.2)[0]:
                seen += os.read(self.terminal, 4096).decode(errors="replace")
            if found := re.search(pattern, seen):
                return found[1]
        raise AssertionError(f"{pattern!r} was not seen in {seen!r}")

    def close(self):
        os.close(self.terminal)
        os.kill(self.process, 9)
        os.waitpid(self.process, 0)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("program", ["aiperf", "aiperf-bench"])
def test_bash_completes_as_one_types(tmp_path, program):
    (tmp_path / "a_file_of_mine").touch()
    bash = Terminal(tmp_path, "bash", "--norc", "--noprofile", "-i")
    try:
        bash.type(f'eval "$({program} completion bash)"; echo rea""dy\n')
        bash.until("(ready)")
        # Completed, then echoed: Ctrl-A goes to the start of the line.
        for typed, expected in (
            ("run practice.sum_", "run practice.sum_rows"),
            ("run ch07.memory_access:co", "run ch07.memory_access:coalesced"),
            ("run 'ch07.memory_access' ch07.transp", "run ch07.memory_access ch07.transpose"),
            ("run x --tier=st", "run x --tier=standard"),
            ("recheck a_fi", "recheck a_file_of_mine"),
        ):
            if program == "aiperf-bench" and "=" not in typed:
                continue
            bash.type(f"{program} {typed}\t")
            time.sleep(0.1)
            bash.type("\x01echo so: \x05 .\n")
            assert bash.until(rf"\nso: {program} (.*?) +\.\r") == expected
    finally:
        bash.close()


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes(tmp_path):
    programs(tmp_path)
    lines = ("aiperf run practice.sum_", "aiperf run ch07.memory_access:co", "aiperf recheck a_fi")
    (tmp_path / "a_file_of_mine").touch()
    script = "aiperf completion fish | source; " + "; ".join(f"complete --do-complete '{line}'" for line in lines)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(["fish", "-c", script], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == [
        "practice.sum_rows",
        "ch07.memory_access:coalesced",
        "a_file_of_mine",
    ]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_as_one_types(tmp_path):
    (tmp_path / "a_file_of_mine").touch()
    zsh = Terminal(tmp_path, "zsh", "-f", "-i")
    try:
        zsh.type("unsetopt zle_bracketed_paste; autoload -U compinit; compinit -u -D; bindkey -e\n")
        zsh.type('eval "$(aiperf completion zsh)"; echo rea""dy\n')
        zsh.until("(ready)")
        for typed, expected in (
            ("run practice.sum_", "run practice.sum_rows"),
            ("run ch07.memory_access:co", "run ch07.memory_access:coalesced"),
            ("recheck a_fi", "recheck a_file_of_mine"),
        ):
            zsh.type(f"aiperf {typed}\t")
            time.sleep(0.1)
            zsh.type("\x01echo so: \x05 .\n")
            assert zsh.until(r"\nso: aiperf (.*?) +\.\r") == expected
    finally:
        zsh.close()
