import json

import attrs
import pytest

from aiperf_core.errors import BundleError
from aiperf_core.results import example, records, seal
from aiperf_core.results.bundle import Bundle

FILE = "targets/ch07.memory_access.json"


def stored(bundle):
    return json.loads((bundle.path / FILE).read_text())["sample_file"]


def test_a_bundle_is_sealed_when_it_is_closed(bundle):
    found = bundle.manifest.hashes
    samples = bundle.target_path("ch07.memory_access").with_name(stored(bundle)["name"])
    assert list(found) == [f"targets/{samples.name}", FILE, "manifest.json"]
    assert found == {
        **{file: bundle.digest(file) for file in bundle.result_files},
        "manifest.json": found["manifest.json"],
    }
    document = json.loads((bundle.path / "manifest.json").read_text())
    assert seal.seal_of(document) == found["manifest.json"]


def test_a_run_in_progress_is_not_sealed(tmp_path):
    made = Bundle.create_at(tmp_path / "run")
    made.write_manifest(attrs.evolve(example.manifest(), exit_code=None))
    assert made.manifest.hashes == {}


def test_closing_again_seals_anew(bundle):
    before = bundle.manifest
    rows = [attrs.evolve(row, samples=example.samples(0.5)) for row in example.rows()]
    bundle.write_target(attrs.evolve(example.result(), rows=rows))
    bundle.write_manifest(before)
    after = bundle.manifest
    assert len(after.hashes) == len(before.hashes) == 3
    assert not after.hashes.items() & before.hashes.items()


@pytest.mark.parametrize("field", ["exit_code", "complete", "git", "packages", "hashes"])
def test_the_seal_covers_the_whole_manifest(bundle, field):
    document = json.loads((bundle.path / "manifest.json").read_text())
    before = seal.seal_of(document)
    document[field] = {"a": "b"}
    assert seal.seal_of(document) != before


def test_the_seal_does_not_depend_on_how_the_file_is_laid_out(bundle):
    document = json.loads((bundle.path / "manifest.json").read_text())
    assert seal.seal_of(dict(reversed(document.items()))) == document["hashes"]["manifest.json"]


def test_what_cannot_be_written_is_not_sealed(bundle):
    with pytest.raises(BundleError, match="was not written"):
        bundle.write_manifest(_not_finite())


def _not_finite():
    ceilings = attrs.evolve(example.manifest().ceilings["cuda"], copy_bytes_per_s=float("nan"))
    return attrs.evolve(example.manifest(), ceilings={"cuda": ceilings})


def test_a_manifest_from_before_there_were_seals_is_read(bundle):
    file = bundle.path / "manifest.json"
    document = json.loads(file.read_text())
    document["hashes"] = {}
    file.write_text(json.dumps(document))
    assert records.read_manifest(file) == example.manifest()


# --- outlines


def test_an_outline_is_the_result_without_its_samples(bundle):
    whole, outline = bundle.target("ch07.memory_access"), bundle.outline("ch07.memory_access")
    empty = [attrs.evolve(row, samples=type(row.samples)()) for row in whole.rows]
    assert outline == attrs.evolve(whole, rows=empty)


def test_what_looks_like_a_column_in_a_text_stays(bundle):
    text = 'said "block": [1, 2] and \\"step": [3], {"round":[4]}'
    row = attrs.evolve(example.rows()[0], log=[text], why=text)
    bundle.write_target(attrs.evolve(example.result(), rows=[row]))
    assert (bundle.outline("ch07.memory_access").rows[0].log, row.why) == ([text], text)


def test_an_outline_does_not_need_the_samples(bundle):
    (bundle.path / "targets" / stored(bundle)["name"]).unlink()
    assert bundle.outline("ch07.memory_access").rows[0].name == "strided"


def test_an_outline_of_a_number_of_samples_that_is_none_is_refused(bundle):
    file = bundle.path / FILE
    file.write_text(file.read_text().replace('"samples": 3', '"samples": -1', 1))
    with pytest.raises(BundleError, match=r"rows\[0\]\.samples: found -1; expected an integer from 0"):
        bundle.outline("ch07.memory_access")
