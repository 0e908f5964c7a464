"""Bundles added by PUT: those that are whole, and all that is refused."""

import bz2
import gzip
import io
import runpy
import tarfile
from pathlib import Path

import pytest
from attrs import evolve

from aiperf_analysis.dashboard.api import adding
from aiperf_core.results import incoming
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST

HERE = Path(__file__).parent
SITE = runpy.run_path(str(HERE / "dashboard_site.py"))
SECRET = {"authorization": "Bearer secret"}


@pytest.fixture
def bundle(example_runs):
    return Bundle(example_runs / "whole")


@pytest.fixture
def seal(bundle):
    return bundle.manifest.hashes[MANIFEST]


@pytest.fixture
def kept(tmp_path):
    return tmp_path / "kept"


@pytest.fixture
def client(url, kept, plugins):
    return SITE["client_of"](url, plugins, add_token="secret", accepted=kept)


def packed(folder, mode="w", **changes):
    """The tar stream of a bundle; `changes` are contents by path, None leaves a file out."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_file() and name not in changes:
                archive.add(path, name)
        for name, content in changes.items():
            if content is not None:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def left(kept):
    return sorted(path.name for path in kept.iterdir()) if kept.exists() else []


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_a_bundle_is_added_once(client, bundle, seal, kept, mode):
    before = client.get("/api/v1/bundles").json()["details"]["total"]
    for status, ending in ((201, "added"), (200, "known")):
        answer = client.put(f"/api/v1/bundles/{seal}", content=packed(bundle.path, mode), headers=SECRET)
        assert (answer.status_code, answer.json()) == (status, {"id": seal, "ending": ending, "name": seal})
    assert client.get("/api/v1/bundles").json()["details"]["total"] == before + 1
    assert left(kept) == [seal]
    found = client.get(f"/api/v1/bundles/{seal}/samples", params={"of": "ch09.matmul", "row": "tiled"})
    assert found.json()["details"]["total"] == 48


def test_a_bundle_of_a_load_is_added(client, kept, tmp_path):
    loads = runpy.run_path(str(HERE.parents[1] / "aiperf-calc" / "tests" / "load_bundles.py"))
    path = loads["stored"](tmp_path / "load")
    seal = Bundle(path).manifest.hashes[MANIFEST]
    answer = client.put(f"/api/v1/bundles/{seal}", content=packed(path), headers=SECRET)
    assert (answer.status_code, answer.json()["ending"]) == (201, "added")
    (record,) = client.get("/api/v1/loads").json()["tables"][0]["records"]
    assert record["cells"]["name"] == "chat"
    other = loads["written"](tmp_path / "other", chat={"rate": 3})
    seal = Bundle(other).manifest.hashes[MANIFEST]
    answer = client.put(f"/api/v1/bundles/{seal}", content=packed(other), headers=SECRET)
    assert answer.status_code == 400
    assert "holds no load of format 1: at the top level: found no field" in answer.text
    assert len(left(kept)) == 1


def test_a_folder_and_a_dot_in_front_are_accepted(client, bundle, seal):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(bundle.path, ".")
    assert client.put(f"/api/v1/bundles/{seal}", content=out.getvalue(), headers=SECRET).status_code == 201


def test_a_token_of_the_scope_is_needed(client, bundle, seal, example_runs, plugins):
    body = packed(bundle.path)
    for headers in (
        {},
        {"authorization": "Bearer x"},
        {"cookie": client.get("/").headers["set-cookie"].partition(";")[0]},
    ):
        assert client.put(f"/api/v1/bundles/{seal}", content=body, headers=headers).status_code == 401
    reader = SITE["client_of"](example_runs, plugins, token="read", hosts=("x",))
    answer = reader.put(f"/api/v1/bundles/{seal}", content=body, headers={"authorization": "Bearer read"})
    assert answer.status_code == 403
    assert "--accept FOLDER" in answer.json()["detail"]


def members(*made):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind, target in made:
            member = tarfile.TarInfo(name)
            member.type = kind
            member.linkname = target
            archive.addfile(member)
    return out.getvalue()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "no whole tar stream"),
        (b"not a tar" * 1000, "no whole tar stream"),
        (gzip.compress(b"x" * 10_000, mtime=0), "no whole tar stream"),
        (bz2.compress(b"x" * 10_000), "no whole tar stream"),
        (members(("../evil", tarfile.REGTYPE, "")), "leads out of the bundle"),
        (members(("/etc/evil", tarfile.REGTYPE, "")), "leads out of the bundle"),
        (members(("targets/../../evil", tarfile.REGTYPE, "")), "leads out of the bundle"),
        (members(("a/b/c/d/e/f", tarfile.REGTYPE, "")), "leads out of the bundle"),
        (members(("manifest.json", tarfile.SYMTYPE, "/etc/passwd")), "is no regular file"),
        (members(("manifest.json", tarfile.LNKTYPE, "/etc/passwd")), "is no regular file"),
        (members(("manifest.json", tarfile.CHRTYPE, "")), "is no regular file"),
        (members(("manifest.json", tarfile.FIFOTYPE, "")), "is no regular file"),
        (members(("evil.py", tarfile.REGTYPE, "")), "is no file of a bundle"),
        (members(("targets/.hidden", tarfile.REGTYPE, "")), "is no file of a bundle"),
        (members(("manifest.json", tarfile.REGTYPE, ""), ("manifest.json", tarfile.REGTYPE, "")), "no whole tar stream"),
        (members(("targets", tarfile.DIRTYPE, "")), "is not the bundle"),
    ],
    # A compressed stream holds the time, and so would the name of its test.
    ids=lambda value: value if isinstance(value, str) else "stream",
)  # fmt: skip
def test_streams_that_are_refused(client, seal, kept, body, told, tmp_path):
    answer = client.put(f"/api/v1/bundles/{seal}", content=body, headers=SECRET)
    assert answer.status_code == 400
    assert told in answer.json()["detail"]
    assert left(kept) == []
    assert not (tmp_path / "evil").exists()


def test_changed_and_foreign_bundles_are_refused(client, bundle, seal, kept):
    target = next(path for path in bundle.result_files if path.endswith(".json"))
    changed = bundle.file_bytes(target).replace(b"tiled", b"tided")
    for body in (packed(bundle.path, **{target: changed}), packed(bundle.path, **{target: None}),
                 packed(bundle.path, **{"targets/extra.json": b"{}"})):  # fmt: skip
        answer = client.put(f"/api/v1/bundles/{seal}", content=body, headers=SECRET)
        assert answer.status_code == 400
        assert "do not agree with its seal" in answer.json()["detail"]
    answer = client.put(f"/api/v1/bundles/{'0' * 64}", content=packed(bundle.path), headers=SECRET)
    assert "it has the seal" in answer.json()["detail"]
    assert client.put("/api/v1/bundles/x", content=packed(bundle.path), headers=SECRET).status_code == 400
    for cut in (600, 5000):
        answer = client.put(f"/api/v1/bundles/{seal}", content=packed(bundle.path)[:cut], headers=SECRET)
        assert answer.status_code == 400
    assert left(kept) == []
    assert client.get("/api/v1/bundles").json()["details"]["total"] == 0


def test_the_limits(client, bundle, seal, kept, monkeypatch):
    body = packed(bundle.path)
    for limit, told in (({"sent": 1000}, "longer than 1,000 bytes"), ({"files": 1}, "more than 1 files"),
                        ({"unpacked": 1000}, "larger than 1,000 bytes")):  # fmt: skip
        monkeypatch.setattr(adding, "LIMITS", evolve(incoming.Limits(), **limit))
        monkeypatch.setattr(adding.unpack, "__defaults__", (adding.LIMITS,))
        answer = client.put(f"/api/v1/bundles/{seal}", content=body, headers=SECRET)
        assert (answer.status_code, told in answer.json()["detail"]) == (400, True), answer.text
    monkeypatch.setattr(adding.unpack, "__defaults__", (incoming.Limits(),))
    monkeypatch.setattr(adding, "LIMITS", incoming.Limits())
    bomb = packed(bundle.path, "w:gz", **{"logs/zeros": bytes(1 << 24)})
    answer = client.put(f"/api/v1/bundles/{seal}", content=bomb, headers=SECRET)
    assert "compressed more than 100 times" in answer.json()["detail"]
    assert left(kept) == []
