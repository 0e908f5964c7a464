"""Suites of a package: what is read, what is refused and at which line, and the JSON Schema of the same rules."""

import json
import tomllib

import jsonschema
import pytest
from attrs import field, frozen

from aiperf_core import suite
from aiperf_core.errors import UsageError
from aiperf_core.results import structure
from aiperf_core.results.jsontext import JsonError
from aiperf_core.suite import SuiteFormat


@frozen
class Alarm:
    """An alarm.

    level: from which on it sounds.
    """

    level: float = 0.5


@frozen
class Suite(suite.Suite):
    """A suite with alarms.

    alarms: when to wake whom.
    names: whom to wake.
    """

    alarms: list[Alarm] = field(factory=list)
    names: list[str] = field(factory=list)


def no_alarm_without_a_name(given):
    if given.alarms and not given.names:
        raise JsonError("names", "an empty list", "a name for each alarm")


FORMAT = SuiteFormat(
    Suite,
    "urn:test",
    {(Alarm, "level"): {"minimum": 0, "maximum": 1}, (Suite, "names"): {"items": {"enum": ["ann", "bob"]}}},
    "aiperf wake init",
    "aiperf schema wake",
    runs=("wake",),
    check=no_alarm_without_a_name,
)
TEXT = """\
name = "n"
targets = ["ch07.*"]
names = ["ann"]
sizes = { n = 3.0, x = 0.1 }

[busy]
processors = 0.2

[[alarms]]
level = 0.7
"""


def read(folder, text, name="suite.toml"):
    path = folder / name
    path.write_text(text)
    return FORMAT.read(path)


def test_the_fields_of_all_suites_and_those_of_the_package(tmp_path):
    found = read(tmp_path, TEXT)
    assert (found.name, found.busy.processors, found.alarms, found.names) == ("n", 0.2, [Alarm(0.7)], ["ann"])
    assert read(tmp_path, json.dumps(tomllib.loads(TEXT)), "suite.json") == found
    assert FORMAT.of(structure.document(found)) == found


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-8"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["suite.toml", "suite.json"])
def test_marks_and_ends_of_lines_of_editors_are_no_part_of_a_suite(tmp_path, name, encoding, end):
    text = TEXT if name == "suite.toml" else json.dumps(tomllib.loads(TEXT), indent=1)
    (tmp_path / name).write_bytes(text.replace("\n", end).encode(encoding))
    assert FORMAT.read(tmp_path / name).name == "n"


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_suite_in_another_encoding_is_refused(tmp_path, encoding):
    (tmp_path / "suite.toml").write_bytes(("# \xe9\n" + TEXT).encode(encoding))
    why = "UTF-16 or UTF-32, not UTF-8" if encoding == "utf-16" else "not UTF-8: byte 0xe9 at position 2"
    with pytest.raises(UsageError) as caught:
        FORMAT.read(tmp_path / "suite.toml")
    assert str(caught.value) == f"'{tmp_path}/suite.toml' is {why}. Save it as UTF-8."


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("level = 0.7", "level = 7", "suite.toml:10: alarms[0].level is 7; accepted: a number from 0 to 1."),
        ('["ann"]', '["ann", "eve"]', "suite.toml:3: names[1] is \"eve\"; accepted: one of 'ann', 'bob'."),
        ('["ann"]', "[]", "suite.toml:3: names is an empty list; accepted: a name for each alarm."),
        ("processors = 0.2", "processors = -1", "suite.toml:7: busy.processors is -1; accepted: a number from 0 to 1."),
        ('name = "n"', 'name = "n"\ntier = "fast"', "suite.toml:2: tier is \"fast\"; accepted: one of 'quick', 'standard', 'audit'."),
        ('name = "n"', 'name = "n"\ntimeout_s = 0', "suite.toml:2: timeout_s is 0; accepted: a number from 0.001 to 1e+06."),
        ('name = "n"', 'name = "n"\nalarm = 1', "suite.toml:2: alarm is an unknown field; accepted: only the fields of a Suite, such as 'alarms'."),
        ("level = 0.7", 'run = "ls"', "suite.toml:10: alarms[0].run is a command; accepted: targets only; a suite runs no command but that of 'wake'."),
        ('targets = ["ch07.*"]', "", "suite.toml: the top level is no field 'targets'; accepted: every required field of a Suite."),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(tmp_path, old, new, message):
    assert old in TEXT
    with pytest.raises(UsageError) as caught:
        read(tmp_path, TEXT.replace(old, new))
    found = str(caught.value).replace(f"{tmp_path}/", "")
    assert found == f"{message} All fields: aiperf schema wake"


def test_the_schema_follows_from_the_same_rules(tmp_path):
    document = FORMAT.json_schema()
    jsonschema.Draft202012Validator.check_schema(document)
    validator = jsonschema.Draft202012Validator(document)
    validator.validate(tomllib.loads(TEXT))
    validator.validate(structure.document(read(tmp_path, TEXT)))
    for old, new in (
        ("0.7", "7"),
        ('["ann"]', '["eve"]'),
        ("0.2", "-1"),
        ('"n"', '"a b"'),
        ("[[alarms]]", "[[alarm]]"),
    ):
        wrong = TEXT.replace(old, new)
        assert not validator.is_valid(tomllib.loads(wrong))
        with pytest.raises(UsageError):
            read(tmp_path, wrong)
    assert sorted(document["$defs"]) == ["Alarm", "Busy"]
    for record in (document, *document["$defs"].values()):
        assert all("description" in one for one in record["properties"].values()), record["title"]


def test_the_options_of_aiperf_run(tmp_path):
    found = read(tmp_path, 'device = "cpu"\nbudget_s = 0.5\n' + TEXT)
    assert found.options({"pool": "a"}) == [
        *(
            "--quiet",
            "--tier",
            "quick",
            "--policy",
            "standard",
            "--device",
            "cpu",
            "--budget",
            "0.5",
            "--timeout",
            "60.0",
        ),
        *("--set", "n=3", "--set", "x=0.1", "--label", "pool=a", "--label", "suite=n"),
    ]
