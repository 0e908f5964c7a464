"""Bad input of the dashboard: hostile and damaged bundles, very many bundles, very many clients. No 500, no traceback."""

import json
import os
import random
import re
import runpy
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from attrs import evolve

from aiperf_analysis.sources import source
from aiperf_core.results import example, jsontext, seal, structure
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.filenames import MANIFEST
from aiperf_core.results.models import Document

HERE = Path(__file__).parent
SITE = runpy.run_path(str(HERE / "dashboard_site.py"))
BUNDLES = runpy.run_path(str(HERE / "dashboard_bundles.py"))
served = runpy.run_path(str(HERE / "dashboard_server.py"))["served"]
client_of, crawled = SITE["client_of"], SITE["crawled"]

# What stands in the place of a value of a document.
HOSTILE_VALUES = (
    None, True, -1, 0, 1e308, -1e308, 2**64, "", "x" * 10_000, "\u202eabc", "<script>alert(1)</script>", "../" * 40,
    "\ud800", [], {}, [[]], {"a": {"b": []}}, "NaN", "2026-99-99T99:99:99+99:99",
)  # fmt: skip
FUZZED = 40  # bundles of a folder
CLIENTS = 100

OPENED: list[str] = []
LISTENING = False


def _hear(event, arguments):
    if LISTENING and event == "open" and isinstance(arguments[0], str | bytes | Path):
        OPENED.append(str(arguments[0]))


@pytest.fixture
def opened():
    """The paths that this process opens during the test."""
    global LISTENING
    if not getattr(_hear, "added", False):
        sys.addaudithook(_hear)
        _hear.added = True
    OPENED.clear()
    LISTENING = True
    yield OPENED
    LISTENING = False


def is_below(path, folder):
    """Whether a path is below a folder, links followed."""
    return Path(path).resolve().is_relative_to(folder.resolve())


def faults(found):
    """The answers that are errors of ours."""
    return {address: one.status_code for address, one in found.items() if one.status_code >= 500}


def leaves(value, place=()):
    """The places of all values of a document."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield (*place, key)
            yield from leaves(one, (*place, key))
    elif isinstance(value, list):
        for index, one in enumerate(value[:3]):
            yield (*place, index)
            yield from leaves(one, (*place, index))


def with_hostile_value(text, rng):
    """A document with another value in a place, or without the place."""
    document = json.loads(text)
    *above, last = rng.choice(list(leaves(document)))
    holder = document
    for key in above:
        holder = holder[key]
    if rng.random() < 0.2:
        del holder[last]
    else:
        holder[last] = rng.choice(HOSTILE_VALUES)
    return json.dumps(document).encode()


def with_other_bytes(data, rng):
    """Bytes of a file that are cut, changed, doubled or replaced."""
    at = rng.randrange(len(data))
    kind = rng.randrange(5)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + data[max(0, at - 200) :]
    if kind == 3:
        return data[:at] + rng.randbytes(16) + data[at + 16 :]
    return data.replace(b"1", b"9" * 400, 3)


def fuzzed(folder, seed, good):
    """Bundles with a damage each: of a value in most of them, of bytes in the others."""
    rng = random.Random(seed)
    for number in range(FUZZED):
        bundle = folder / f"fuzzed-{number:03d}"
        shutil.copytree(good, bundle)
        file = rng.choice([bundle / MANIFEST, *sorted((bundle / "targets").iterdir())])
        data = file.read_bytes()
        by_value = file.suffix == ".json" and rng.random() < 0.7
        file.write_bytes(with_hostile_value(data, rng) if by_value else with_other_bytes(data, rng))


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 40))])
def test_fuzzed_bundles_give_no_error_of_ours(tmp_path, plugins, seed):
    good = BUNDLES["whole"](tmp_path / "good", 0).path
    folder = tmp_path / "runs"
    folder.mkdir()
    fuzzed(folder, seed, good)
    client = client_of(folder, plugins)
    found = crawled(client, most=260)
    assert faults(found) == {}
    assert len(found) > 60
    assert not any("Traceback" in one.text for one in found.values())


def test_names_of_10_kilobytes(made, plugins):
    for number, name in enumerate(("x" * 10_000, "\u202e" * 10_000, "<b>" * 3_400, "a b" * 3_400)):
        result = made.result({"plain": 2e-3, name: 1e-3}, target=f"ch01.t{number}", row={name: {"why": name}})
        machine = evolve(example.manifest().machine, hostname=name, cpu=name)
        when = f"2026-11-22T10:{number:02}:00+00:00"
        made.bundle(f"run {number}", evolve(result, summary=name), machine=machine,
                    labels={name: name}, command=[name], created=when)  # fmt: skip
    found = crawled(client_of(made.folder, plugins), most=300)
    assert faults(found) == {}
    for address, answer in found.items():
        if answer.headers["content-type"].startswith("text/html"):
            assert not re.search(r"x{8300}", answer.text), f"{address} has a text without end"
            assert "<b><b>" not in answer.text, address
    long = [one for address, one in found.items() if address.startswith("/samples/") and "row=sha256" in address]
    assert {one.status_code for one in long} == {200}
    assert len([one for one in long if "Samples" in one.text]) == 4


def test_nothing_outside_the_folder_is_opened(made, plugins, tmp_path, opened):
    (tmp_path / "secret.json").write_text('{"secret": 1}')
    (tmp_path / "secret" / "targets").mkdir(parents=True)
    up = "../../secret"
    result = made.result({"plain": 2e-3, f"{up}.json": 1e-3}, target="ch01.t")
    made.bundle("one", evolve(result, target=up), labels={up: up})
    made.bundle("two")
    manifest = made.folder / "two" / MANIFEST
    names = manifest.read_text().replace('"targets/', '"../../secret/')
    manifest.write_text(names)
    (made.folder / "three").symlink_to(tmp_path / "secret")
    (made.folder / "two" / "targets" / "link.json").symlink_to(tmp_path / "secret.json")
    client = client_of(made.folder, plugins)
    opened.clear()
    found = crawled(client, most=200)
    for address in (
        "/run/..%2F..%2Fsecret",
        "/static/..%2F..%2Fapp.py",
        "/trace/..%2Fsecret.json",
        "/load/../../secret",
    ):
        assert client.get(address).status_code in (400, 404), address
    assert faults(found) == {}
    assert any(str(made.folder) in one for one in opened), "the test hears what is opened"
    outside = [one for one in opened if str(tmp_path) in one and not is_below(one, made.folder)]
    assert outside == []
    assert all('secret": 1' not in one.text for one in found.values())


def link_to_itself(bundle):
    shutil.rmtree(bundle / "targets")
    (bundle / "targets").symlink_to("targets")


def two_links(bundle):
    (bundle / "load").symlink_to("fleet")
    (bundle / "fleet").symlink_to("load")


def pipe_for_the_manifest(bundle):
    (bundle / MANIFEST).unlink()
    os.mkfifo(bundle / MANIFEST)


def pipe_for_a_target(bundle):
    (file,) = (bundle / "targets").glob("*.json")
    file.unlink()
    os.mkfifo(file)


def pipe_for_a_profile(bundle):
    place = bundle / "profiles/ch07.memory_access/strided"
    place.mkdir(parents=True)
    os.mkfifo(place / "profile.json")


def link_for_profiles(bundle):
    (bundle / "profiles").symlink_to("profiles")


def sparse_samples(bundle):
    (file,) = (bundle / "targets").glob("*.npz")
    os.truncate(file, 1 << 34)


def many_files(bundle):
    for number in range(2_000):
        (bundle / f"targets/{number}.json").touch()


def surrogates(bundle):
    (file,) = (bundle / "targets").glob("*.json")
    file.write_text(file.read_text().replace("strided", "\\ud800<b>").replace("Neighbours", "\\udfff"))
    sealed_again(bundle)


def surrogate_in_a_name(bundle):
    (file,), (samples,) = (bundle / "targets").glob("*.json"), (bundle / "targets").glob("*.npz")
    text = file.read_text().replace(f'"{samples.name}"', f'"%80{samples.name}"')
    (bundle / "targets/%80ch07.memory_access.json").write_text(text.replace('"ch07.', '"\\udc80ch07.', 1))
    file.unlink()
    samples.rename(samples.with_name(f"%80{samples.name}"))
    sealed_again(bundle)


def surrogate_in_the_machine(bundle):
    manifest = Bundle(bundle).manifest
    hashes = {path: Bundle(bundle).digest(path) for path in Bundle(bundle).result_files}
    machine = evolve(manifest.machine, hostname="\udc80", cpu="\ud800")
    odd = seal.sealed(evolve(manifest, machine=machine, labels={"\udfff": "\ud800"}), hashes, bundle)
    (bundle / MANIFEST).write_bytes(jsontext.to_bytes(structure.document(odd)))


def deep_payload(bundle):
    payload = value = {}
    for _ in range(90):
        value["a"] = value = {}
    Bundle(bundle).write_document(Document("load", "deep", "2026-11-22T10:00:00+00:00", payload))
    file = bundle / "load/deep.json"
    file.write_text(file.read_text().replace("{}", '{"a": ' * 500 + "1" + "}" * 500))
    sealed_again(bundle)


def name_that_is_no_text(bundle):
    bundle.rename(bundle.with_name(os.fsdecode(b"\x1b[31m\xff<b>")))


def sealed_again(bundle):
    Bundle(bundle).write_manifest(Bundle(bundle).manifest)


BAD_BUNDLES = (
    link_to_itself, two_links, pipe_for_the_manifest, pipe_for_a_target, pipe_for_a_profile, link_for_profiles,
    sparse_samples, many_files, surrogates, surrogate_in_a_name, surrogate_in_the_machine, deep_payload,
    name_that_is_no_text,
)  # fmt: skip


@pytest.fixture(scope="module")
def beside_bad(tmp_path_factory, plugins):
    """A client of a healthy bundle, the bundle, and a hostile bundle of every kind beside it."""
    folder = tmp_path_factory.mktemp("beside") / "runs"
    healthy = BUNDLES["whole"](folder, 0, labels={"is": "healthy"})
    for number, spoil in enumerate(BAD_BUNDLES, 1):
        bundle = BUNDLES["whole"](folder, number, labels={"is": spoil.__name__}).path
        spoil(bundle.rename(bundle.with_name(spoil.__name__)))
    return client_of(folder, plugins), healthy


def test_no_bad_bundle_takes_a_page_down(beside_bad):
    client, healthy = beside_bad
    found = crawled(client, most=150)
    assert faults(found) == {}
    seal_of_healthy = healthy.manifest.hashes[MANIFEST]
    assert seal_of_healthy in client.get("/api/v1/bundles").text
    assert client.get(f"/run/{seal_of_healthy}").status_code == 200


def test_a_mistake_of_ours_in_one_bundle_leaves_the_others(made, plugins, monkeypatch, caplog):
    made.bundle("good")
    bad = made.bundle("bad", labels={"is": "bad"})

    def read(path, whole=source.read_bundle):
        return 1 / 0 if path == bad else whole(path)

    monkeypatch.setattr(source, "read_bundle", read)
    text = client_of(made.folder, plugins).get("/runs").text
    assert "good" in text
    assert "an error of aiperf; the server&#39;s output has the details" in text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_very_many_bundles(tmp_path, plugins, count):
    folder = tmp_path / "runs"
    good = BUNDLES["whole"](tmp_path / "good", 0).path
    manifest = Bundle(good).manifest
    start = datetime(2026, 9, 1, tzinfo=UTC)
    for number in range(count):
        bundle = folder / f"run-{number:04d}"
        shutil.copytree(good, bundle)
        when = (start + timedelta(hours=number)).isoformat()
        Bundle(bundle).write_manifest(evolve(manifest, created=when, hashes={}))
    client = client_of(folder, plugins)
    found = {path: client.get(path) for path in ("/", "/runs", "/rows", "/machines", "/api/v1/rows?limit=10")}
    assert {path: one.status_code for path, one in found.items()} == dict.fromkeys(found, 200)
    assert f"All {count} runs" in found["/"].text
    assert client.get("/api/v1/bundles?limit=1").json()["details"]["total"] == count


def test_a_hundred_clients_at_once(example_runs, tmp_path):
    paths = ("/", "/runs", "/rows", "/pareto", "/api/v1/overview", "/target/none", "/validity", "/machines")
    with served(example_runs, tmp_path / "errors") as server:
        limits = httpx2.Limits(max_connections=CLIENTS)

        with (
            ThreadPoolExecutor(CLIENTS) as clients,
            httpx2.Client(base_url=server.address, timeout=60, limits=limits) as client,
        ):
            asked = [paths[number % len(paths)] for number in range(CLIENTS)]
            found = list(clients.map(lambda path: client.get(path).status_code, asked))
        assert server.process.poll() is None
        assert server.faults() == ""
    assert found == [404 if path == "/target/none" else 200 for path in asked]


def test_a_long_address_of_data_is_whole(example_runs, plugins):
    query = "&".join(f"target=ch0{number}.*" for number in range(60))
    answer = client_of(example_runs, plugins).get(f"/runs?{query}")
    (address,) = [one for one in SITE["links"](answer.text) if one.startswith("/api/v1/bundles") and "csv" not in one]
    assert address.count("target=") == 60


def test_names_that_no_encoding_has(made, plugins):
    bundle = made.bundle("one", made.result({"plain": 2e-3, "tiled": 1e-3}, target="ch01.t"), labels={"tiled": "tiled"})
    for file in (bundle / MANIFEST, *(bundle / "targets").glob("*.json")):
        text = file.read_text()
        assert '"tiled"' in text
        file.write_text(text.replace('"tiled"', '"\\ud800<b>"').replace('"ch01.t"', '"\\udfff"'))
    found = crawled(client_of(made.folder, plugins), most=150)
    assert faults(found) == {}
    assert "/runs" in found
