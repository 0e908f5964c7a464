"""The suite of `aiperf ci`: what is read, what is refused and at which line, and the snippets for schedulers."""

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from aiperf_analysis.ci import templates
from aiperf_analysis.ci.suite import FORMAT, Suite
from aiperf_analysis.ci.templates import SNIPPETS, SUITE
from aiperf_analysis.cli.ci import ci
from aiperf_analysis.schema import SUITE as SUITE_SCHEMA
from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.plugins import load_plugins
from aiperf_core.report.metrics import STORED
from aiperf_core.results import jsontext, structure

TEXT = """\
name = "nightly"
targets = ["ch07.*", "tag:memory"]

[busy]
processors = 0.2

[[gates]]
metric = "time"

[[gates]]
metric = "memory"
floor = 0.02
direction = "both"
"""


def written(folder, text, name="suite.toml"):
    path = folder / name
    path.write_text(text)
    return path


def refused(folder, text, name="suite.toml"):
    with pytest.raises(UsageError) as raised:
        FORMAT.read(written(folder, text, name))
    return str(raised.value).replace(f"{folder}/", "")


def test_a_suite_in_toml_and_in_json_is_the_same(tmp_path):
    suite = FORMAT.read(written(tmp_path, TEXT))
    assert (suite.name, suite.targets, suite.busy.processors) == ("nightly", ["ch07.*", "tag:memory"], 0.2)
    assert [(one.metric, one.floor, one.stops, one.confirm) for one in suite.gates] == [
        ("time", None, "up", 1),
        ("memory", 0.02, "both", 1),
    ]
    assert suite.runs == Path("artifacts/ci/nightly/runs")
    document = json.dumps(tomllib.loads(TEXT))
    assert FORMAT.read(written(tmp_path, document, "suite.json")) == suite


def test_a_speedup_stops_downwards():
    from aiperf_analysis.ci.suite import Gate

    assert Gate("speedup").stops == "down"
    assert Gate("ch", rows=["a"]).is_for("x.y", "a")
    assert not Gate("time", rows=["a"]).is_for("x.y", "b")
    assert not Gate("time", targets=["ch07.*"]).is_for("ch08.x", "b")


def test_the_template_is_a_suite(tmp_path):
    assert FORMAT.read(written(tmp_path, SUITE)).name == "nightly"


END = " All fields: aiperf schema ci-suite"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('metric = "memory"', 'metric = "speed"', 'suite.toml:11: gates[1].metric is "speed"; accepted: one of ' + ', '.join(map(repr, STORED)) + '.'),
        ("floor = 0.02", 'floor = "2%"', 'suite.toml:12: gates[1].floor is "2%"; accepted: a number from 0 to 1 or null.'),
        ("floor = 0.02", "floor = 2.0", "suite.toml:12: gates[1].floor is 2.0; accepted: a number from 0 to 1 or null."),
        ("processors = 0.2", "processors = 20", "suite.toml:5: busy.processors is 20; accepted: a number from 0 to 1."),
        ('name = "nightly"', 'name = "../x"', 'suite.toml:1: name is "../x"; accepted: a name of letters, digits, . _ and -.'),
        ('"tag:memory"', '"rm -rf /; true"', 'suite.toml:2: targets[1] is "rm -rf /; true"; accepted: targets and patterns, such as ch07.*.'),
        ('["ch07.*", "tag:memory"]', "[]", "suite.toml:2: targets is a list of 0; accepted: a list of at least 1."),
        ("processors = 0.2", "procesors = 0.2", "suite.toml:5: busy.procesors is an unknown field; accepted: only the fields of a Busy, such as 'processors'."),
        ('name = "nightly"', 'name = "n"\ntier = "fast"', 'suite.toml:2: tier is "fast"; accepted: one of \'quick\', \'standard\', \'audit\'.'),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(tmp_path, old, new, message):
    assert old in TEXT
    assert refused(tmp_path, TEXT.replace(old, new)) == message + END


def test_shell_commands_are_refused(tmp_path):
    told = refused(tmp_path, f'command = "make bench"\n{TEXT}')
    assert told == (
        "suite.toml:1: command is a command; accepted: targets only; a suite runs no command but that of 'notify'."
        + END
    )
    assert "gates[1].run is a command" in refused(tmp_path, f'{TEXT}run = "ls"\n')


def test_an_unknown_field_names_the_nearest(tmp_path):
    assert refused(tmp_path, f"repeat = 3\n{TEXT}") == (
        "suite.toml:1: repeat is an unknown field; accepted: only the fields of a Suite, such as 'repeats'." + END
    )


def test_a_mistake_in_json_is_told_with_its_line(tmp_path):
    text = '{\n "name": "n",\n "targets": ["a.b"],\n "gates": [\n  {"metric": "time"},\n  {"metric": "time",\n   "confirm": 9}\n ]\n}\n'
    assert (
        refused(tmp_path, text, "suite.json")
        == "suite.json:7: gates[1].confirm is 9; accepted: an integer from 1 to 3." + END
    )


@pytest.mark.parametrize(
    ("name", "text", "start"),
    [
        ("suite.toml", "name = 1 2\n", "suite.toml:1: "),
        ("suite.json", '{\n"name": }\n', "suite.json:2: Expecting value."),
        ("suite.yaml", "name: x\n", "'suite.yaml' is no suite; accepted are files that end in .toml or .json."),
    ],
)
def test_a_file_that_cannot_be_parsed(tmp_path, name, text, start):
    assert refused(tmp_path, text, name).startswith(start)


def test_a_missing_file(tmp_path):
    with pytest.raises(UsageError) as raised:
        FORMAT.read(tmp_path / "none.toml")
    assert str(raised.value) == (
        f"cannot read the suite '{tmp_path}/none.toml': No such file or directory. A new one: aiperf ci init"
    )


def test_the_schema_accepts_what_the_reader_accepts(tmp_path):
    schema = FORMAT.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for text in (TEXT, SUITE):
        assert list(validator.iter_errors(tomllib.loads(text))) == []
    validator.validate(structure.document(FORMAT.read(written(tmp_path, TEXT))))
    for old, new in (('"memory"', '"speed"'), ("floor = 0.02", "floor = 2.0"), ('name = "nightly"', 'name = "a b"')):
        wrong = TEXT.replace(old, new)
        assert list(validator.iter_errors(tomllib.loads(wrong)))
        refused(tmp_path, wrong)


def test_every_field_is_described():
    document = FORMAT.json_schema()
    for record in (document, *document["$defs"].values()):
        assert all("description" in one or "$ref" in one for one in record["properties"].values()), record["title"]
    assert document["required"] == ["name", "targets"]
    assert Suite.__doc__


# --- aiperf ci init


def test_init_prints_a_suite():
    assert CliRunner().invoke(ci, ["init"]).output == SUITE


def test_the_schema_that_ships_is_that_of_the_records():
    assert jsontext.loads(SUITE_SCHEMA.read_bytes()) == FORMAT.json_schema()
    assert load_plugins().schemas["ci-suite"].record.read_schema() == SUITE_SCHEMA.read_bytes()


@pytest.mark.parametrize("kind", SNIPPETS)
def test_a_snippet_names_suite_and_report(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, TEXT)
    done = CliRunner().invoke(ci, ["init", f"--{kind}", "suite.toml"])
    assert done.exit_code == 0, done.output
    assert "ci run" in done.output
    assert "suite.toml" in done.output
    assert "{" not in done.output.replace("${{", "")
    if kind == "systemd":
        service = done.output.split("\n\n# ~/.config")[0]
        parser = configparser.ConfigParser(strict=True)
        parser.optionxform = str
        parser.read_string(service)
        assert parser["Service"]["ExecStart"].split() == [
            sys.executable,
            "-m",
            "aiperf_core",
            "ci",
            "run",
            str(tmp_path / "suite.toml"),
        ]
        assert "Persistent=true" in done.output
    if kind in ("github", "gitlab"):
        assert "artifacts/ci/nightly/report" in done.output


ODD = ("a b", "50%", "100%%", "q\"u'o", "$HOME", "${x}", "back\\slash", "n\\%d", "über", "-x", "; true #")


def systemd_words(line):
    """The words of a command by systemd.syntax(7), systemd.unit(5) and systemd.service(5): quotes, escapes, `%`, `$`."""
    assert not line.endswith("\\")
    pairs = re.findall(r'"((?:[^"\\]|\\.)*)"(?= |$)|([^"\\ ]+)(?= |$)', line)
    found = []
    for place, (quoted, bare) in enumerate(pairs):
        word = re.sub(
            r"\\(x..|.)", lambda one: chr(int(one[1][1:], 16)) if one[1][0] == "x" else one[1], quoted or bare
        )
        assert "%" not in word.replace("%%", "")
        word = word.replace("%%", "%")
        if place:
            assert "$" not in word.replace("$$", "")
            word = word.replace("$$", "$")
        found.append(word)
    return found


@pytest.mark.parametrize("odd", [*ODD, "".join(ODD)])
def test_a_unit_of_systemd_names_what_it_is_given(tmp_path, monkeypatch, odd):
    folder = tmp_path / odd
    folder.mkdir()
    monkeypatch.chdir(folder)
    text = templates.snippet("systemd", Path(f"{odd}\n.toml"), "n", Path("home"), "/opt/a b/50%/$x/python")
    fields = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    assert fields["WorkingDirectory"] == f"{tmp_path}/{odd}".replace("%", "%%")
    assert systemd_words(fields["ExecStart"]) == [
        *("/opt/a b/50%/$x/python", "-m", "aiperf_core", "ci", "run", f"{folder}/{odd}\n.toml")
    ]


@pytest.mark.parametrize("character", ["'", '"', "\\"])
def test_a_program_that_systemd_does_not_start_is_refused(character):
    with pytest.raises(UsageError, match=r"^the path '/opt/.*' has the character .*, which the file of the scheduler"):
        templates.snippet("systemd", Path("suite.toml"), "n", Path("home"), f"/opt/{character}/python")


def from_crontab(line):
    """Command that the shell gets by crontab(5): `\\%` is `%`, a bare one ends the command."""
    found, escaped = "", False
    for character in line.split(maxsplit=5)[5]:
        assert escaped or character != "%"
        found = found[:-1] + "%" if escaped and character == "%" else found + character
        escaped = character == "\\" and not escaped
    return found


@pytest.mark.parametrize("odd", [*ODD, "".join(ODD)])
def test_a_line_of_a_crontab_runs_what_it_is_given(tmp_path, monkeypatch, odd):
    """The first time, too, when the suite has no folder yet."""
    folder = tmp_path / odd
    folder.mkdir()
    monkeypatch.chdir(folder)
    stub = folder / "python"
    stub.write_text('#!/bin/sh\npwd\nprintf "%s\\n" "$@"\n')
    stub.chmod(0o755)
    text = templates.snippet("cron", Path(odd), "n", Path("artifacts", odd), str(stub))
    subprocess.run(["sh", "-c", from_crontab(text.splitlines()[1])], cwd="/", check=True)
    told = (folder / "artifacts" / odd / "cron.log").read_text().splitlines()
    assert told == [str(folder), "-m", "aiperf_core", "ci", "run", f"{folder}/{odd}"]


@pytest.mark.parametrize("kind", ["github", "gitlab"])
@pytest.mark.parametrize("odd", [*ODD, "a, b: c", "".join(ODD)])
def test_a_job_names_what_it_is_given(kind, odd):
    yaml = pytest.importorskip("yaml")
    document = yaml.safe_load(templates.snippet(kind, Path(odd), "n", Path(odd), "python"))
    if kind == "github":
        run, show, upload = document["jobs"]["n"]["steps"][1:]
        lines, paths = [run["run"], show["run"]], [upload["with"]["path"]]
    else:
        job = document["aiperf-n"]
        lines, paths = job["script"], [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]
    home = f"./{odd}" if odd[0] == "-" else odd
    assert shlex.split(lines[0]) == ["aiperf", "ci", "run", home]
    assert [shlex.split(line)[1] for line in lines[1:]] == [f"{home}/report/summary.md"] * (len(lines) - 1)
    assert paths == [f"{home}/report", f"{home}/report/junit.xml"][: len(paths)]


@pytest.mark.parametrize(
    ("kind", "name", "character"),
    [
        ("systemd", "a\nb", "'\\n'"),
        ("systemd", "a\\", "'\\\\' at its end"),
        ("systemd", "a ", "' ' at its end"),
        ("cron", "a\nb", "'\\n'"),
        ("cron", "a\x1b", "'\\x1b' at its end"),
        *((kind, os.fsdecode(b"\xe9"), "'\\udce9' at its end") for kind in SNIPPETS),
    ],
)
def test_a_path_that_a_file_cannot_hold_is_refused(tmp_path, monkeypatch, kind, name, character):
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError) as raised:
        templates.snippet(kind, Path(name), "n", Path("home"), "python")
    path = name if kind in ("github", "gitlab") else folder
    assert str(raised.value) == (
        f"the path '{words(str(path))}' has the character {character}, which the file of the scheduler cannot hold. Rename it, "
        "and try again."
    )


def test_a_snippet_needs_a_suite():
    done = CliRunner().invoke(ci, ["init", "--cron"])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == "--cron needs the suite that it runs: aiperf ci init --cron SUITE.toml"


def test_the_module_of_the_commands_imports_nothing_heavy():
    code = "import sys, aiperf_analysis.cli.ci; print([n for n in ('numpy', 'torch', 'psutil') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
