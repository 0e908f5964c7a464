"""`aiperf dashboard --export`: a static site without a server, whole or not there at all."""

import html
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from attrs import evolve

from aiperf_analysis.dashboard import exporting
from aiperf_analysis.dashboard.settings import Settings
from aiperf_analysis.sources.source import FolderSource
from aiperf_core.errors import AiperfError

HERE = Path(__file__).parent
SITE = runpy.run_path(str(HERE / "dashboard_site.py"))
HISTORY = runpy.run_path(str(HERE / "history_bundles.py"))
ADDRESS = re.compile(r'\s(?:href|src)="([^"]*)"')


@pytest.fixture
def folder(made):
    """Two runs of a history, hostile names, and a damaged bundle."""
    for number in range(2):
        HISTORY["run"](made.folder, number, 1e-3 + number * 1e-5)
    name = "../" * 9 + "tmp/<script>alert(1)</script>"
    result = made.result({"plain": 2e-3, name: 1e-3, "Upper": 1e-3})
    made.bundle("hostile", evolve(result, target=name), labels={name: name})
    (made.bundle("damaged") / "manifest.json").write_text("{")
    return made.folder


def pages_of(site):
    return {page: page.read_text() for page in sorted(site.rglob("*.html"))}


def test_every_link_of_the_site_is_relative_and_has_its_file(folder, aiperf, tmp_path):
    site = tmp_path / "out" / "site"
    told = aiperf("dashboard", folder, "--export", site)
    assert (told.code, told.err) == (0, "")
    pages = pages_of(site)
    others = [one for one in site.rglob("*") if one.is_file() and one.suffix != ".html"]
    assert re.fullmatch(
        rf"{len(pages)} pages and {len(others)} other files, [0-9.]+ [KM]iB\. Open: {site}/index\.html\n", told.out
    )
    assert sorted(one.name for one in site.parent.iterdir()) == ["site"]
    reached = set()
    for page, text in pages.items():
        for address in map(html.unescape, ADDRESS.findall(text)):
            parts = urlsplit(address)
            if parts.scheme in ("http", "https"):
                continue
            assert not address.startswith("/"), page
            assert not parts.query, page
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert file.is_file(), (page, address)
            assert file.is_relative_to(site), (page, address)
            reached.add(file)
        assert "<form" not in text, page
        assert "openapi" not in text, page
        assert "content-security-policy" in text, page
        assert "<script>alert" not in text, page
    assert {*pages, *others} - reached == set(), "files that no page leads to"
    assert not (site / "calc.html").exists()
    for kind in ("run", "samples", "target", "machine"):
        assert list((site / kind).glob("*.html")), kind
    assert list(site.glob("compare-*.html"))
    for file in (*pages, *others):
        assert re.fullmatch(r"[a-z0-9._/-]+", str(file.relative_to(site))), file


def test_a_locale_without_these_letters_writes_the_same_site(made, tmp_path):
    made.bundle("here", labels={"who": "café"})
    plain = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "aiperf_core", "dashboard", str(made.folder), "--export", str(tmp_path / "site")]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert any("café" in page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html"))


def test_the_data_are_those_of_the_server(folder, aiperf, plugins, tmp_path):
    assert aiperf("dashboard", folder, "--export", tmp_path / "site", "--set", "cost.top=3").code == 0
    client = SITE["client_of"](folder, plugins)
    for address, file in (
        ("/api/v1/rows", "data/rows.json"),
        ("/api/v1/bundles?format=csv", "data/bundles.csv"),
        ("/api/v1/analyses/pareto", "data/analyses/pareto.json"),
    ):
        assert client.get(address).content == (tmp_path / "site" / file).read_bytes()
    assert (tmp_path / "site" / "static" / "style.css").read_bytes() == client.get("/static/style.css").content


def test_folders_and_options_that_are_refused(folder, aiperf, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    new = tmp_path / "new"
    for arguments, message in (
        ((tmp_path / "full",), f"'{tmp_path}/full' is not empty; --export needs a new or an empty folder."),
        ((file,), f"'{file}' is not a folder; --export needs a new or an empty folder."),
        ((tmp_path / "link",), f"'{tmp_path}/link' is not a folder; --export needs a new or an empty folder."),
        ((folder / "site",), f"'{folder}/site' is inside the folder of the results; name a folder elsewhere: --export "
         "FOLDER"),
        ((file / "in",), f"cannot write '{file}/in': File exists."),
        ((new, "--socket", tmp_path / "s"), "--export writes files and serves nothing; give no --host, --socket or "
         "--accept with it."),
        ((new, "--host", "0.0.0.0"), "--export writes files and serves nothing; give no --host, --socket or --accept "
         "with it."),
    ):  # fmt: skip
        told = aiperf("dashboard", folder, "--export", *arguments)
        assert (told.code, told.out, told.err) == (1 if "cannot" in message else 2, "", f"aiperf: {message}\n")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "full", "link", "runs"]


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_export_that_fails_leaves_nothing(folder, plugins, tmp_path, monkeypatch, fault):
    count = 0

    async def failing(app, address, host, real=exporting.answer):
        nonlocal count
        count += 1
        if count > 5:
            raise fault
        return await real(app, address, host)

    monkeypatch.setattr(exporting, "answer", failing)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((KeyboardInterrupt, AiperfError)) as failed:
        exporting.export(FolderSource(folder), plugins, tmp_path / "site", Settings(exported=True), print)
    if isinstance(fault, OSError):
        assert str(failed.value) == f"cannot write '{tmp_path}/site': No space left on device."
    assert sorted(tmp_path.rglob("*")) == before


def test_results_that_vanish_end_the_export(folder, plugins, tmp_path):
    source = FolderSource(folder)
    folder.rename(tmp_path / "away")
    with pytest.raises(AiperfError) as failed:
        exporting.export(source, plugins, tmp_path / "site", Settings(exported=True), print)
    assert "cannot be read: it does not exist. Restore it" in str(failed.value)
    assert str(failed.value).endswith("Nothing was written.")
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("address", "file"),
    [
        ("/", "index.html"),
        ("/runs", "runs.html"),
        ("/target/ch07.x", "target/ch07.x.html"),
        ("/target/..%2F..%2Fetc", f"target/x-{exporting._digest('../../etc')}.html"),
        ("/target/Upper", f"target/x-{exporting._digest('Upper')}.html"),
        ("/rows?page=2", f"rows-{exporting._digest('page=2')}.html"),
        ("/api/v1/rows", "data/rows.json"),
        ("/api/v1/rows?format=csv", "data/rows.csv"),
        ("/static/app.js?0123", "static/app.js"),
    ],
)
def test_the_files_of_addresses(address, file):
    assert exporting.file_of(address) == file
