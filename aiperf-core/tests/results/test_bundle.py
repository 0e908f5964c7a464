import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf_core.errors import BundleError
from aiperf_core.results import bundle as bundle_module
from aiperf_core.results import example, listing
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import file_name, target_name
from aiperf_core.results.models import Document

RESULT = example.result()
MANIFEST = example.manifest()


def without_seal(manifest):
    return attrs.evolve(manifest, hashes={})


def samples_of(bundle):
    (file,) = (bundle.path / "targets").glob("*.npz")
    return file


def message_of(action, *arguments):
    with pytest.raises(BundleError) as caught:
        action(*arguments)
    return str(caught.value)


# --- making one


def test_a_new_bundle_is_named_after_the_time_and_the_target(tmp_path):
    path = Bundle.create(tmp_path / "artifacts/runs", "ch07.memory_access").path
    assert path.parent == tmp_path / "artifacts/runs"
    assert re.fullmatch(r"\d{8}-\d{6}-ch07\.memory_access", path.name)
    assert [one.name for one in path.iterdir()] == ["targets"]


def test_without_a_name_it_is_the_time(tmp_path):
    assert re.fullmatch(r"\d{8}-\d{6}", Bundle.create(tmp_path).path.name)


def test_by_default_bundles_lie_in_artifacts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Bundle.create().path.parent == Path("artifacts/runs")


def test_a_pattern_as_name_stays_one_folder(tmp_path):
    assert Bundle.create(tmp_path, "../ch0[17].*").path.parent == tmp_path


def test_runs_that_start_together_get_folders_of_their_own(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        paths = list(pool.map(lambda _: Bundle.create(tmp_path, "x").path, range(64)))
    assert len(set(paths)) == 64


def test_an_exact_folder_may_be_new_or_empty(tmp_path):
    assert Bundle.create_at(tmp_path / "a/b").path == tmp_path / "a/b"
    (tmp_path / "c").mkdir()
    assert Bundle.create_at(tmp_path / "c").path == tmp_path / "c"


def test_an_exact_folder_with_something_in_it(bundle):
    path = bundle.path
    assert message_of(Bundle.create_at, path) == (
        f"'{path}' is not empty; results go to a new or an empty folder. Choose another --out, "
        f"or continue that run: aiperf run --resume {path}"
    )


@pytest.mark.parametrize("make", [Bundle.create, Bundle.create_at])
def test_the_parent_is_a_file(tmp_path, make):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file/runs"
    action = "create a folder in" if make == Bundle.create else "create"
    assert message_of(make, path) == (
        f"cannot {action} '{path}': a part of that path is a file, not a folder. "
        "Remove it, or choose another folder with --out."
    )


@pytest.mark.parametrize("make", [Bundle.create, Bundle.create_at])
def test_the_place_itself_is_a_file(tmp_path, make):
    path = tmp_path / "file"
    path.write_text("")
    action = "create a folder in" if make == Bundle.create else "create"
    assert message_of(make, path) == (
        f"cannot {action} '{path}': a part of that path is a file, not a folder. "
        "Remove it, or choose another folder with --out."
    )


def refuse(monkeypatch, module, name, number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module, name, fail)


def test_the_parent_is_read_only(tmp_path, monkeypatch):
    # Permissions do not stop root, so the system's answer is made up.
    refuse(monkeypatch, os, "mkdir", errno.EACCES)
    assert message_of(Bundle.create_at, tmp_path / "run") == (
        f"cannot create '{tmp_path / 'run'}': the folder is read-only for this user. "
        "Change its permissions, or choose another folder with --out."
    )


# --- writing


def test_what_is_written_is_read_back(bundle):
    opened = Bundle.open(bundle.path)
    assert without_seal(opened.manifest) == MANIFEST
    assert opened.target("ch07.memory_access") == RESULT
    assert dict(opened.targets) == {"ch07.memory_access": RESULT}
    assert sorted(str(one.relative_to(bundle.path)) for one in bundle.path.rglob("*") if one.is_file()) == [
        "manifest.json",
        f"targets/{samples_of(bundle).name}",
        "targets/ch07.memory_access.json",
    ]
    assert re.fullmatch(r"ch07\.memory_access\.[0-9a-f]{8}\.npz", samples_of(bundle).name)


def test_writing_returns_the_path_and_replaces(bundle):
    partial = attrs.evolve(RESULT, complete=False)
    assert bundle.write_target(partial) == bundle.path / "targets/ch07.memory_access.json"
    assert bundle.target("ch07.memory_access") == partial
    assert bundle.write_manifest(MANIFEST) == bundle.path / "manifest.json"


def test_a_number_that_is_not_finite_is_not_written(bundle):
    rows = [attrs.evolve(RESULT.rows[0], bytes_per_s=float("nan"))]
    file = bundle.path / "targets/ch07.memory_access.json"
    assert message_of(bundle.write_target, attrs.evolve(RESULT, rows=rows)) == (
        f"'{file}' was not written, since the result does not keep to the format: at rows[0].bytes_per_s: found nan; "
        "expected a finite number, or null for what was not measured."
    )
    assert bundle.target("ch07.memory_access") == RESULT


def test_a_wrong_type_is_not_written(bundle):
    file = bundle.path / "manifest.json"
    assert message_of(bundle.write_manifest, attrs.evolve(MANIFEST, exit_code="0")) == (
        f"'{file}' was not written, since the result does not keep to the format: "
        'at exit_code: found "0"; expected an integer or null.'
    )
    assert without_seal(bundle.manifest) == MANIFEST


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the disk is full. Free some space, or choose another folder with --out; files written before are whole."),
        (errno.EDQUOT, "the disk is full. Free some space, or choose another folder with --out; files written before are whole."),
        (errno.EROFS, "the folder is read-only for this user. Change its permissions, or choose another folder with --out."),
        (errno.EIO, "Input/output error. Remove the cause, or choose another folder with --out."),
    ],
)  # fmt: skip
def test_the_system_refuses_to_write(bundle, monkeypatch, number, reason):
    refuse(monkeypatch, os, "fsync", number)
    samples = samples_of(bundle)
    changed = attrs.evolve(RESULT, complete=False)
    assert message_of(bundle.write_target, changed) == f"cannot write '{samples}': {reason}"
    monkeypatch.undo()
    assert bundle.target("ch07.memory_access") == RESULT
    assert sorted(one.name for one in samples.parent.iterdir()) == [samples.name, "ch07.memory_access.json"]


def test_a_disk_that_is_really_full(tiny_disk, tmp_path):
    bundle = Bundle.create_at(tiny_disk(tmp_path / "disk", 1 << 16) / "run")
    bundle.write_manifest(MANIFEST)
    long = attrs.evolve(RESULT, summary="x" * 100_000)
    assert message_of(bundle.write_target, long) == (
        f"cannot write '{bundle.target_path(RESULT.target)}': the disk is full. Free some space, or choose another "
        "folder with --out; files written before are whole."
    )
    assert list((bundle.path / "targets").iterdir()) == []
    assert without_seal(bundle.manifest) == MANIFEST


def test_a_killed_writer_leaves_no_half_file(bundle):
    """The temporary file of a write that was killed stays, and no reader takes it for a result."""
    (bundle.path / "targets/.0123456789abcdef.tmp").write_text('{"target": ')
    (bundle.path / "targets/.half.json").write_text('{"target": ')
    assert list(bundle.targets) == ["ch07.memory_access"]


def other_result():
    return attrs.evolve(RESULT, rows=[attrs.evolve(row, samples=example.samples(0.5)) for row in RESULT.rows])


@pytest.mark.parametrize("writes", [0, 1])
def test_a_target_is_never_there_with_other_samples(bundle, monkeypatch, writes):
    """Whichever of the two files a killed writer came to, the target before is whole."""
    write, done = bundle_module.atomic.write, []

    def killed(path, data):
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(path)
        write(path, data)

    monkeypatch.setattr(bundle_module.atomic, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        bundle.write_target(other_result())
    monkeypatch.undo()
    assert bundle.target("ch07.memory_access") == RESULT
    bundle.write_target(other_result())
    assert bundle.target("ch07.memory_access") == other_result()
    assert samples_of(bundle).exists()  # and nothing is left of the others


def test_samples_of_others_stay_when_a_target_is_replaced(bundle):
    names = ["ch07.memory_access.x", "ch07.memory_access.01234567", "ch07_memory_access", "ch07.memory"]
    for name in names:
        bundle.write_target(attrs.evolve(RESULT, target=name))
    bundle.write_target(other_result())
    assert dict(bundle.targets) == {name: attrs.evolve(RESULT, target=name) for name in names} | {
        "ch07.memory_access": other_result()
    }
    assert len(bundle.result_files) == 2 * 5


def test_samples_that_another_target_or_time_left(bundle):
    bundle.write_target(attrs.evolve(other_result(), target="ch07.other"))
    file = samples = next(one for one in (bundle.path / "targets").glob("ch07.memory_access.*.npz"))
    (other,) = (bundle.path / "targets").glob("ch07.other.*.npz")
    samples.write_bytes(other.read_bytes())
    digest = hashlib.sha256(other.read_bytes()).hexdigest()
    assert message_of(bundle.target, "ch07.memory_access") == (
        f"'{file}' does not hold the samples that the target's file was written with: its SHA-256 is {digest}. {RESTORE}"
    )


def test_a_huge_file_is_refused_before_it_is_read(bundle):
    for file in (samples_of(bundle), bundle.path / "targets/ch07.memory_access.json"):
        with file.open("ab") as grown:
            grown.truncate(1 << 40)
        assert f"'{file}' is not a " in message_of(bundle.target, "ch07.memory_access")
        assert "at the top level: found 1099511627776 bytes; expected at most " in message_of(
            bundle.target, "ch07.memory_access"
        )


@pytest.mark.parametrize(
    ("links", "reason"),
    [
        ({"targets": "targets"}, "Too many levels of symbolic links"),
        ({"targets": "other", "other": "targets"}, "Too many levels of symbolic links"),
        ({"targets": "t0", **{f"t{n}": f"t{n + 1}" for n in range(60)}}, "Too many levels of symbolic links"),
        ({"targets": "nowhere"}, "No such file or directory"),
    ],
    ids=["itself", "two", "chain", "dangling"],
)
def test_links_that_lead_nowhere(bundle, links, reason):
    folder = (bundle.path / "targets").rename(bundle.path / "t60")
    for name, to in links.items():
        (bundle.path / name).symlink_to(to)
    message = f"cannot read '{bundle.path / 'targets'}': {reason}."
    assert message_of(list, bundle.targets) == message
    assert [one.problem for one in listing.bundles(bundle.path.parent)] == [message]
    (bundle.path / "targets").unlink()
    folder.rename(bundle.path / "targets")
    file = samples_of(bundle)
    file.unlink()
    file.symlink_to(file.name)
    assert message_of(bundle.digest, f"targets/{file.name}") == (
        f"cannot read '{file}': Too many levels of symbolic links."
    )


def test_a_pipe_in_place_of_a_folder(bundle):
    shutil.rmtree(bundle.path / "targets")
    os.mkfifo(bundle.path / "targets")
    assert message_of(list, bundle.targets) == f"cannot read '{bundle.path / 'targets'}': Not a directory."


def test_a_sparse_file_is_refused_by_its_size(bundle):
    file = samples_of(bundle)
    os.truncate(file, 1 << 34)
    for read in (bundle.digest, bundle.file_bytes):
        assert message_of(read, f"targets/{file.name}") == (
            f"'{file}' has 17,179,869,184 bytes; a file of a bundle has at most 1,073,741,824."
        )


def test_a_digest_is_read_in_parts(bundle, monkeypatch):
    file, (digest, *_) = samples_of(bundle), [bundle.digest(one) for one in bundle.result_files if "npz" in one]
    os.truncate(file, 1 << 26)
    tracemalloc.start()
    assert bundle.digest(f"targets/{file.name}") != digest
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


# --- names


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("ch07.memory_access", "ch07.memory_access"),
        ("../../x", "%2E.%2F..%2Fx"),
        ("..", "%2E."),
        (".hidden", "%2Ehidden"),
        ("/etc/passwd", "%2Fetc%2Fpasswd"),
        ("a:b\0c%2F", "a%3Ab%00c%252F"),
        ("größe", "gr%C3%B6%C3%9Fe"),
    ],
)
def test_names_as_files(name, spelled):
    assert file_name(name) == spelled
    assert target_name(spelled) == name


@given(st.text(min_size=1, max_size=20, alphabet=st.characters(exclude_categories=["Cs"])))
def test_every_name_has_a_file_of_its_own(name):
    spelled = file_name(name)
    assert re.fullmatch(r"[\w%-][\w.%-]*", spelled, re.ASCII)
    assert target_name(spelled) == name


@pytest.mark.parametrize("name", ["\ud800", "a\udcff"])
def test_a_name_that_is_no_text(name):
    assert message_of(file_name, name) == f"'{name[:-1]}?' cannot name a file: it is no valid text."


@pytest.mark.parametrize("name", ["", "x" * 300])
def test_a_name_that_no_file_can_have(name):
    shown = name[:40] + ("..." if name else "")
    assert message_of(file_name, name) == (
        f"'{shown}' cannot name a file: it takes {len(name)} bytes; 1 to 240 are accepted."
    )


def test_a_hostile_target_cannot_leave_the_bundle(bundle):
    hostile = attrs.evolve(RESULT, target="../../x")
    path = bundle.write_target(hostile)
    assert path.resolve().is_relative_to(bundle.path.resolve() / "targets")
    assert bundle.target("../../x") == hostile
    assert list(bundle.targets) == ["../../x", "ch07.memory_access"]
    log = bundle.log_path("../../x", "/etc/passwd")
    assert log == bundle.path / "logs/%2E.%2F..%2Fx/%2Fetc%2Fpasswd.log"
    log.write_text("")


def test_logs_lie_by_target(bundle):
    log = bundle.log_path("ch07.memory_access", "wide")
    assert log == bundle.path / "logs/ch07.memory_access/wide.log"
    assert log.parent.is_dir()
    assert not log.exists()


# --- reading


def test_a_folder_that_does_not_exist(tmp_path):
    path = tmp_path / "none"
    assert message_of(Bundle.open, path) == (
        f"'{path}' does not exist; a result bundle is a folder with a manifest.json in it."
    )


def test_a_file_is_no_bundle(bundle):
    path = bundle.path / "manifest.json"
    assert message_of(Bundle.open, path) == (
        f"'{path}' is a file; a result bundle is a folder with a manifest.json in it."
    )


def test_a_missing_manifest(bundle):
    (bundle.path / "manifest.json").unlink()
    assert message_of(Bundle.open, bundle.path) == (
        f"'{bundle.path}' has no manifest.json, so it is not a result bundle or its run never started."
    )


def test_a_manifest_that_goes_missing(bundle):
    file = bundle.path / "manifest.json"
    opened = Bundle.open(bundle.path)
    file.unlink()
    assert message_of(getattr, opened, "manifest") == (
        f"'{file}' does not exist; the bundle is incomplete. Run its targets again."
    )


def test_a_target_that_is_not_there(bundle):
    assert message_of(bundle.target, "ch07.other") == (
        f"'ch07.other' has no result in '{bundle.path}'; results there: 'ch07.memory_access'."
    )
    with pytest.raises(KeyError):
        bundle.targets["ch07.other"]
    assert "ch07.other" not in bundle.targets
    assert bundle.targets.get("ch07.other") is None


def test_a_bundle_whose_run_ended_before_any_target(tmp_path):
    bundle = Bundle.create_at(tmp_path / "run")
    bundle.write_manifest(MANIFEST)
    (bundle.path / "targets").rmdir()
    assert len(Bundle.open(bundle.path).targets) == 0
    assert message_of(bundle.target, "x") == f"'x' has no result in '{bundle.path}'; results there: none."


def edited(bundle, edit):
    file = bundle.path / "targets/ch07.memory_access.json"
    document = json.loads(file.read_text())
    edit(document)
    file.write_text(json.dumps(document))
    return file


RESTORE = "It was cut off or changed after aiperf wrote it; restore it or run again."


def test_truncated_json(bundle):
    file = bundle.path / "targets/ch07.memory_access.json"
    text = file.read_text()
    file.write_text(text[: text.index(',\n  "clock"')])
    assert message_of(bundle.target, "ch07.memory_access") == (
        f"'{file}' is not a target file of format 5: at line 4, column 18: found the end of the file; "
        f"expected JSON (Expecting ',' delimiter). {RESTORE}"
    )


def test_an_empty_file(bundle):
    file = bundle.path / "manifest.json"
    file.write_text("")
    assert message_of(getattr, bundle, "manifest") == (
        f"'{file}' is not a manifest file of format 5: at line 1, column 1: found the end of the file; "
        f"expected JSON (Expecting value). {RESTORE}"
    )


def test_a_wrong_type(bundle):
    file = edited(bundle, lambda document: document["rows"][1]["time_s"].update(value="0.1"))
    assert message_of(bundle.target, "ch07.memory_access") == (
        f"'{file}' is not a target file of format 5: at rows[1].time_s.value: found \"0.1\"; "
        f"expected a number above 0. {RESTORE}"
    )


def test_a_field_too_many(bundle):
    file = edited(bundle, lambda document: document["rows"][0].update(speed=1))
    assert message_of(bundle.target, "ch07.memory_access") == (
        f"'{file}' is not a target file of format 5: at rows[0].speed: found an unknown field; "
        f"expected only the fields of a Row, such as 'speedup'. {RESTORE}"
    )


def test_a_huge_number(bundle):
    file = bundle.path / "targets/ch07.memory_access.json"
    file.write_text(file.read_text().replace('"wall_s": 12.3', '"wall_s": 1e999'))
    assert message_of(bundle.target, "ch07.memory_access") == (
        f"'{file}' is not a target file of format 5: at wall_s: found inf; expected a finite number. {RESTORE}"
    )


def test_a_huge_integer(bundle):
    file = bundle.path / "targets/ch07.memory_access.json"
    file.write_text(file.read_text().replace('"wall_s": 12.3', f'"wall_s": {"9" * 5000}'))
    assert message_of(bundle.target, "ch07.memory_access") == (
        f"'{file}' is not a target file of format 5: at some place: found {'9' * 20}... (5000 characters); "
        f"expected integers of at most 30 digits. {RESTORE}"
    )


@pytest.mark.parametrize(("version", "todo"), [(6, "Upgrade aiperf-core."), (4, "Run its targets again.")])
def test_another_format(bundle, version, todo):
    file = edited(bundle, lambda document: document.update(schema_version=version, rows="elsewhere now"))
    assert message_of(bundle.target, "ch07.memory_access") == (
        f"'{file}' has format {version}, and this aiperf reads format 5 only. {todo}"
    )


def test_documents_of_other_packages(bundle):
    steady = Document("load", "steady rate", "2026-11-21T14:25:30+00:00", {"points": [{"rate_per_s": 2.5}]})
    path = bundle.write_document(steady)
    assert path == bundle.path / "load/steady%20rate.json"
    assert (bundle.documents("load"), bundle.documents("fleet")) == (["steady rate"], [])
    assert bundle.document("load", "steady rate") == steady
    assert list(bundle.targets) == ["ch07.memory_access"]
    path.rename(path.with_name("other.json"))
    assert message_of(bundle.document, "load", "other") == (
        f"'{bundle.path}/load/other.json' holds 'load/steady rate'; its path says otherwise."
    )


def test_a_document_that_does_not_keep_to_the_format_is_not_written(bundle):
    wrong = Document("load", "steady", "2026-11-21T14:25:30+00:00", {"rate_per_s": float("nan")})
    assert message_of(bundle.write_document, wrong) == (
        f"'{bundle.path}/load/steady.json' was not written, since the result does not keep to the format: at "
        "payload.rate_per_s: found nan; expected a finite number, or null for what was not measured."
    )
    assert not (bundle.path / "load").exists()


def test_a_file_under_another_name(bundle):
    file = bundle.path / "targets/other.json"
    shutil.copy(bundle.path / "targets/ch07.memory_access.json", file)
    assert message_of(bundle.target, "other") == (
        f"'{file}' holds the result of 'ch07.memory_access'; its name says 'other'."
    )


def test_a_file_that_may_not_be_read(bundle, monkeypatch):
    refuse(monkeypatch, Path, "read_bytes", errno.EACCES)
    file = bundle.path / "manifest.json"
    assert message_of(getattr, bundle, "manifest") == f"cannot read '{file}': Permission denied."


# --- links


@pytest.mark.parametrize("place", ["manifest.json", "targets/ch07.memory_access.json", "targets"])
def test_a_link_out_of_the_bundle_is_not_read(bundle, tmp_path, place):
    link, outside = bundle.path / place, tmp_path / "outside"
    link.rename(outside)
    link.symlink_to(outside)
    file = link if link.is_file() else link / "ch07.memory_access.json"
    found = outside if link.is_file() else outside / "ch07.memory_access.json"
    read = (lambda: bundle.manifest) if place == "manifest.json" else (lambda: bundle.target("ch07.memory_access"))
    assert message_of(read) == (
        f"'{file}' is a link to '{found}', outside the bundle; aiperf follows no such link. "
        "Replace it with the file itself."
    )


def test_nothing_is_written_through_a_link_out_of_the_bundle(bundle, tmp_path):
    outside = tmp_path / "outside"
    (bundle.path / "targets").rename(outside)
    (bundle.path / "targets").symlink_to(outside)
    expected = (
        f"'{bundle.path / 'targets'}' is a link to '{outside}', outside the bundle; aiperf follows no such link. "
        "Replace it with the file itself."
    )
    before = {file.name: file.read_bytes() for file in outside.iterdir()}
    assert message_of(bundle.write_target, attrs.evolve(RESULT, complete=False)) == expected
    assert message_of(lambda: list(bundle.targets)) == expected
    assert {file.name: file.read_bytes() for file in outside.iterdir()} == before


def test_a_link_in_place_of_the_logs(bundle, tmp_path):
    (bundle.path / "logs").symlink_to(tmp_path)
    assert message_of(bundle.log_path, "t", "x").startswith(
        f"'{bundle.path / 'logs/t'}' is a link to '{tmp_path / 't'}'"
    )
    assert not (tmp_path / "t").exists()


def test_the_bundle_itself_may_be_a_link(bundle, tmp_path):
    latest = tmp_path / "latest"
    latest.symlink_to(bundle.path)
    assert Bundle.open(latest).target("ch07.memory_access") == RESULT


def test_a_pipe_in_place_of_a_file(bundle):
    file = bundle.path / "manifest.json"
    file.unlink()
    os.mkfifo(file)
    assert message_of(getattr, Bundle.open(bundle.path), "manifest") == (
        f"'{file}' is not a plain file; a bundle holds plain files and folders only."
    )


def test_opening_a_bundle_imports_nothing_heavy():
    code = "import sys, aiperf_core.results.bundle; print([m for m in ('torch', 'jsonschema', 'cattrs') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert bundle_module.MANIFEST == "manifest.json"
