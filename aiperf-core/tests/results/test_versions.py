"""Bundles of earlier versions, one of each as it was written then: `bundles/<version>`."""

import csv
import io
import json
import shutil
from pathlib import Path

import attrs
import measured
import pytest
from click.testing import CliRunner

from aiperf_core import measurements
from aiperf_core.cli.main import Shell
from aiperf_core.errors import BundleError
from aiperf_core.plugins import load_plugins
from aiperf_core.results import models, records
from aiperf_core.results.bundle import Bundle
from aiperf_core.stats.recheck import recheck

TARGET = "ch07.memory_access"
EARLIER = range(1, models.SCHEMA_VERSION)


SEALS = {
    1: "da8820ac7a08d5b4f714f467d3387f4700ef79af79b36219c3a0c471816f97e5",
    2: "9b72463def869939cfceae6c7fd22ea939894d0f2284cc408e45997a26be1b7b",
}


def copied(version, folder):
    shutil.copytree(Path(__file__).parent / "bundles" / str(version), folder / "old")
    return Bundle.open(folder / "old")


@pytest.fixture(params=EARLIER)
def old(request, tmp_path):
    return copied(request.param, tmp_path)


@pytest.fixture
def first(tmp_path):
    """Of the version whose samples stand in the target's file."""
    return copied(models.SAMPLES_IN_JSON, tmp_path)


def run(*arguments):
    done = CliRunner().invoke(Shell(load_plugins([])), [str(one) for one in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done


def test_there_is_one_of_every_version():
    folder = Path(__file__).parent / "bundles"
    assert sorted(int(one.name) for one in folder.iterdir()) == list(EARLIER)
    for version in EARLIER:
        found = Bundle.open(folder / str(version))
        assert (found.manifest.schema_version, found.target(TARGET).schema_version) == (version, version)


def test_it_is_read_with_its_samples(old):
    result = old.target(TARGET)
    assert [(row.name, row.verdict.value) for row in result.rows] == [
        ("strided", "MEASURED"),
        ("coalesced", "FASTER"),
        ("wide", "SLOWER"),
        ("memcpy", "MEASURED"),
        ("remembered", "INVALID"),
    ]
    assert [len(row.samples.block) for row in result.rows] == [24, 24, 24, 24, 3]
    assert result.rows[4].samples.device_s == [1.2e-06, 1.212e-06, None]
    assert old.outline(TARGET) == attrs.evolve(
        result, rows=[attrs.evolve(row, samples=measurements.Samples()) for row in result.rows]
    )


def test_it_holds(old):
    found = recheck(old)
    assert (found.differences, found.samples) == ([], 99)
    assert found.seal == SEALS[old.manifest.schema_version]


def test_a_sample_that_was_changed_is_found(first):
    file = first.target_path(TARGET)
    document = json.loads(file.read_text())
    document["rows"][1]["samples"]["device_s"][3] = 1e-3
    file.write_text(json.dumps(document))
    assert {one.what for one in recheck(first).differences} >= {"SHA-256", "speedup"}


def test_every_command_reads_it(old, tmp_path):
    new = measured.bundle(tmp_path / "new")
    assert "coalesced" in run("show", old.path).stdout
    (shown,) = json.loads(run("show", old.path, "--json").stdout)["targets"]
    assert len(shown["rows"][0]["samples"]["device_s"]) == 24
    assert run("recheck", old.path).stdout.endswith("holds: 1 target, 5 rows, 99 samples\n")
    compared = json.loads(run("compare", old.path, new.path, "--json").stdout)
    assert {row["implementation"]: row["ratio"] and row["ratio"]["value"] for row in compared["rows"]} == {
        "strided": 1.0,
        "coalesced": 1.0,
        "wide": 1.0,
        "memcpy": 1.0,
        "remembered": None,
    }
    pair = [f"{old.path}:{TARGET}:{name}" for name in ("strided", "coalesced")]
    assert "paired, pass by pass" in run("compare", *pair).stdout
    assert len(list(csv.DictReader(io.StringIO(run("export", old.path, "--format", "csv").stdout)))) == 5
    assert json.loads(run("results", "list", "--in", tmp_path, "--json").stdout)[1]["problem"] is None


def test_written_again_it_is_of_this_version(old):
    result = old.target(TARGET)
    old.write_target(result)
    old.write_manifest(old.manifest)
    assert json.loads(old.target_path(TARGET).read_text())["schema_version"] == models.SCHEMA_VERSION
    assert old.manifest.schema_version == models.SCHEMA_VERSION
    assert old.target(TARGET) == attrs.evolve(result, schema_version=models.SCHEMA_VERSION)
    assert recheck(old).holds


def test_what_looks_like_a_column_in_a_text_stays(old):
    file = old.target_path(TARGET)
    text = 'said "block": [1, 2] and \\"step": [3], {"round":[4]}'
    document = json.loads(file.read_text())
    document["rows"][0]["log"] = [text]
    file.write_text(json.dumps(document))
    assert old.outline(TARGET).rows[0].log == [text]


def test_an_outline_of_a_column_that_is_none_is_refused(first):
    file = first.target_path(TARGET)
    file.write_text(file.read_text().replace('"block": [0, 0, 0', '"block": ["\\u001b", 0, 0', 1))
    with pytest.raises(BundleError, match=r"format 1: at rows\[0\]\.samples\.block\[0\]: found .* expected an integer"):
        first.outline(TARGET)


def test_a_document_of_one_version_in_the_form_of_another(old):
    file = old.target_path(TARGET)
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"schema_version": models.SCHEMA_VERSION}))
    with pytest.raises(BundleError, match=f"is not a target file of format {models.SCHEMA_VERSION}: at "):
        old.target(TARGET)
    stored = records.target_files(measured.result(), file)
    newest = f'"schema_version": {models.SCHEMA_VERSION}'
    file.write_text(stored.document.decode().replace(newest, '"schema_version": 1'))
    with pytest.raises(BundleError, match="is not a target file of format 1: at rows"):
        old.target(TARGET)
