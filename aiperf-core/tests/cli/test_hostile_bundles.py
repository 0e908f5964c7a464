"""Whatever lies in a bundle, every command answers or refuses with one clear error that names the file."""

import json
import os
import re
import shutil

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins
from aiperf_core.results import example
from aiperf_core.results.bundle import Bundle

MANIFEST, TARGET = "manifest.json", "targets/ch07.memory_access.json"
COMMANDS = (
    ("show", "{bundle}"),
    ("show", "{bundle}", "--json"),
    ("compare", "{bundle}", "{bundle}"),
    ("compare", "{bundle}:ch07.memory_access:strided", "{bundle}:ch07.memory_access:wide"),
    ("recheck", "{bundle}"),
    ("export", "{bundle}", "--format", "html"),
    ("export", "{bundle}", "--format", "csv"),
    ("export", "{bundle}", "--format", "csv", "--samples"),
    ("results", "list", "--in", "{folder}"),
)
# What moves a terminal's cursor, turns text around, or ends a line that is one.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202e<script>alert(1)</script>=cmd|' /C calc'!A0\n../../etc/passwd\x00"
SHELL = Shell(load_plugins([]))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    made = Bundle.create_at(tmp_path_factory.mktemp("whole") / "run")
    made.write_target(example.result())
    made.write_manifest(example.manifest())
    return made.path


@pytest.fixture
def bundle(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "runs/run")


def samples_of(bundle):
    (file,) = (bundle / "targets").glob("*.npz")
    return file


def run(bundle, command):
    places = {"bundle": bundle, "folder": bundle.parent}
    return CliRunner().invoke(SHELL, [one.format(**places) for one in command])


def changed(bundle, what):
    return (
        f"aiperf: '{bundle}' was changed after its run ended: {what}. What is read from it is no evidence. All "
        f"differences: aiperf recheck {bundle}. To read it without this check: --no-verify"
    )


def answers(bundle):
    """Run every command; there is an answer or one error, and nothing that a terminal or a browser would obey."""
    found = []
    for command in COMMANDS:
        done = run(bundle, command)
        assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exception)
        assert done.exit_code in (0, 1, 2, 3, 4), command
        assert "Traceback" not in done.output
        if "--json" not in command:
            assert not CONTROLS.search(done.output), command
            assert "<script>" not in done.stdout or "html" not in command
        found.append(done)
    return found


def texts(document, place=()):
    if isinstance(document, str):
        yield place
    if isinstance(document, dict | list):
        for step, item in document.items() if isinstance(document, dict) else enumerate(document):
            yield from texts(item, (*place, step))


def put(document, place, value):
    for step in place[:-1]:
        document = document[step]
    document[place[-1]] = value


def test_a_whole_bundle_is_answered(bundle):
    codes = [one.exit_code for one in answers(bundle)]
    # Three samples a row support neither a ratio nor an interval: `show` and `recheck` say so.
    assert codes == [3, 3, 0, 1, 3, 0, 0, 0, 0]


@pytest.mark.parametrize("name", [MANIFEST, TARGET])
def test_hostile_words_everywhere_are_shown_and_obeyed_nowhere(bundle, name):
    """Each string by itself: most places take any text, the others refuse it. Then all together that are not refused."""
    whole = (bundle / name).read_text()
    together = json.loads(whole)
    for place in list(texts(together)):
        if place[0] in ("hashes", "sample_file"):
            continue
        document = json.loads(whole)
        put(document, place, HOSTILE)
        (bundle / name).write_text(json.dumps(document))
        done = run(bundle, COMMANDS[0])
        assert done.exception is None or isinstance(done.exception, SystemExit), (place, done.exception)
        assert not CONTROLS.search(done.output), place
        if f"'{bundle / name}' is " not in done.stderr:
            put(together, place, f"{place} {HOSTILE}")  # a long text is cut
    (bundle / name).write_text(json.dumps(together))
    done = run(bundle, COMMANDS[5])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert not CONTROLS.search(done.output)
    assert "<script>" not in done.stdout
    assert done.stdout.count("&lt;script&gt;") >= 15


HAND_MADE = {
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "a huge number": b'{"schema_version": ' + b"9" * 100_000 + b"}",
    "a version that is none": b'{"schema_version": -1}',
    "a fraction of a version": b'{"schema_version": 1.5}',
    "a newer version": b'{"schema_version": 99}',
    "infinity": b'{"wall_s": 1e999, "schema_version": 5}',
    "not text": b"\xff\xfe\x00",
    "twice the same key": b'{"target": 1, "target": 2}',
    "escapes": b'{"\x1b[2J": 1}',
    "a surrogate": b'{"target": "\\ud800", "schema_version": 5}',
}


@pytest.mark.parametrize("name", [MANIFEST, TARGET])
@pytest.mark.parametrize("content", HAND_MADE.values(), ids=HAND_MADE)
def test_a_file_of_something_else_is_named(bundle, name, content):
    (bundle / name).write_bytes(content)
    done = run(bundle, COMMANDS[0])
    # Without a manifest there is no seal to hold the bundle to.
    assert done.exit_code == (1 if name == MANIFEST else 3)
    assert f"'{bundle / name}'" in done.stderr
    answers(bundle)


def test_a_file_of_samples_of_something_else_is_named(bundle):
    file = samples_of(bundle)
    for content in HAND_MADE.values():
        file.write_bytes(content)
        done = run(bundle, COMMANDS[1])
        assert done.exit_code == 3
        assert done.stderr.startswith(f"aiperf: '{file}' ")
    file.unlink()
    assert run(bundle, COMMANDS[1]).stderr.splitlines() == [
        f"aiperf: '{file}' does not exist; the bundle is incomplete. Run its targets again.",
        changed(bundle, f"targets/{file.name} is missing"),
    ]
    answers(bundle)


@pytest.mark.parametrize(
    "name", ["../../secret.npz", "/etc/passwd", "..", "", "a\x00b", "secret.npz", "x/../../../secret.npz"]
)
def test_a_path_in_place_of_a_name_of_samples(bundle, name):
    (bundle.parent / "secret.npz").write_bytes(b"secret")
    document = json.loads((bundle / TARGET).read_text())
    document["sample_file"]["name"] = name
    (bundle / TARGET).write_text(json.dumps(document))
    done = run(bundle, COMMANDS[0])
    assert done.exit_code == 3
    assert f"'{bundle / TARGET}' is not a target file of format 5: at sample_file.name: found '" in done.stderr
    answers(bundle)


def test_a_link_in_place_of_samples(bundle, tmp_path):
    file = samples_of(bundle)
    outside = file.rename(tmp_path / "outside.npz")
    file.symlink_to(outside)
    done = run(bundle, COMMANDS[1])
    assert done.stderr.splitlines() == [
        f"aiperf: '{file}' is a link to '{outside}', outside the bundle; aiperf follows no such link. "
        "Replace it with the file itself.",
        changed(bundle, f"targets/{file.name} has other content"),
    ]
    answers(bundle)


def test_a_folder_in_place_of_samples(bundle):
    file = samples_of(bundle)
    file.unlink()
    file.mkdir()
    assert run(bundle, COMMANDS[1]).stderr.splitlines() == [
        f"aiperf: '{file}' is not a plain file; a bundle holds plain files and folders only.",
        changed(bundle, f"targets/{file.name} has other content"),
    ]
    answers(bundle)


@pytest.mark.parametrize(
    "name",
    [
        "%2E%2E%2F%2E%2E%2Fx.json",
        "%00.json",
        "%FF.json",
        "%1B[2J.json",
        "\x1b[2J.json",
        "%E2%80%AE.json",
        "a\nb.json",
        "%.json",
        "x" * 245 + ".json",
    ],
)
def test_hostile_names_of_files(bundle, name):
    shutil.copy(bundle / TARGET, bundle / "targets" / name)
    codes = [one.exit_code for one in answers(bundle)]
    assert codes[0] == 3


@pytest.mark.parametrize("name", ["\x1b[2Jrun", "a\x9b31m\u202eb", os.fsdecode(b"\xff\x07")])
def test_a_hostile_name_of_the_folder(bundle, name):
    renamed = bundle.rename(bundle.parent / name)
    answers(renamed)
    (renamed / TARGET).write_bytes(b"")
    assert not CONTROLS.search(run(renamed, COMMANDS[0]).stderr)


VALUES = st.sampled_from([None, True, -1, 0, 1.5, 1e308, 10**29, "x", HOSTILE, [], {}, [1], {"a": 1}])


def places(document, place=()):
    if place:
        yield place
    if isinstance(document, dict | list):
        for step, item in document.items() if isinstance(document, dict) else enumerate(document):
            yield from places(item, (*place, step))


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data(), name=st.sampled_from([MANIFEST, TARGET, "samples"]))
def test_any_damage_is_an_answer_or_one_error(whole, tmp_path_factory, data, name):
    folder = tmp_path_factory.mktemp("fuzz")
    bundle = shutil.copytree(whole, folder / "runs/run")
    file = samples_of(bundle) if name == "samples" else bundle / name
    content = file.read_bytes()
    if name != "samples" and data.draw(st.booleans()):
        document = json.loads(content)
        put(document, data.draw(st.sampled_from(sorted(places(document), key=str))), data.draw(VALUES))
        changed = json.dumps(document).encode()
    else:
        place = data.draw(st.integers(0, len(content)))
        changed = content[:place] + data.draw(st.binary(max_size=8)) + content[place + data.draw(st.integers(0, 8)) :]
    file.write_bytes(changed)
    before = {one for one in folder.rglob("*") if not one.is_relative_to(bundle)}
    answers(bundle)
    assert {one for one in folder.rglob("*") if not one.is_relative_to(bundle)} == before
    shutil.rmtree(folder)
