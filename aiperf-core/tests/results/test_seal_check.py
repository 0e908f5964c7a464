import json
import time

import attrs
import measured
import numpy as np
import pytest

from aiperf_core.errors import BundleError, ExitCode
from aiperf_core.results import example, seal_check
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.seal_check import check

TARGET, OTHER = "ch07.memory_access", "ch07.other"
FILE = f"targets/{TARGET}.json"


@pytest.fixture
def bundle(tmp_path):
    made = measured.bundle(tmp_path / "run")
    made.write_target(attrs.evolve(measured.result(), target=OTHER))
    made.write_manifest(made.manifest)
    return made


def whats(found):
    return [(one.where, one.what) for one in found.differences]


def samples_of(bundle, target=TARGET):
    (file,) = (bundle.path / "targets").glob(f"{target}.*.npz")
    return file


def edit(bundle, **changes):
    """Change the manifest as a text editor does."""
    file = bundle.path / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_a_seal_that_holds(bundle):
    found = check(bundle)
    assert (found.sealed, found.holds, found.told()) == (True, True, "")


def test_a_verdict_that_was_edited(bundle):
    file = bundle.path / FILE
    file.write_text(file.read_text().replace('"SLOWER"', '"FASTER"'))
    for targets in (None, [TARGET], [TARGET, OTHER]):
        assert whats(check(bundle, targets, samples=False)) == [(FILE, "SHA-256")]
    assert check(bundle, [TARGET]).told() == (
        f"'{bundle.path}' was changed after its run ended: {FILE} has other content. What is read from it is no "
        f"evidence. All differences: aiperf recheck {bundle.path}"
    )


def test_only_the_files_that_are_read_are_checked(bundle):
    file = bundle.path / FILE
    file.write_text(file.read_text() + " ")
    samples_of(bundle).write_bytes(b"")
    assert whats(check(bundle, [OTHER])) == []
    assert whats(check(bundle, [TARGET], samples=False)) == [(FILE, "SHA-256")]
    assert whats(check(bundle, [TARGET])) == [(f"targets/{samples_of(bundle).name}", "SHA-256"), (FILE, "SHA-256")]
    assert len(whats(check(bundle))) == 2


def test_the_names_of_all_files_are_checked(bundle):
    (bundle.path / FILE).rename(bundle.path / "targets/ch07.new.json")
    samples_of(bundle, OTHER).unlink()
    found = check(bundle, [OTHER], samples=False)
    assert {what for _, what in whats(found)} == {"file"}
    assert found.told().startswith(
        f"'{bundle.path}' was changed after its run ended: targets/ch07.memory_access.json is missing; "
        "targets/ch07.new.json was added; targets/ch07.other."
    )


def test_of_many_differences_some_are_told(bundle):
    for file in (bundle.path / "targets").iterdir():
        file.unlink()
    assert "; and 1 more. What is read" in check(bundle).told()


@pytest.mark.parametrize("changes", [{"exit_code": 0}, {"git": None}, {"labels": {"branch": "main"}}])
def test_a_manifest_that_was_edited(bundle, changes):
    edit(bundle, **changes)
    assert whats(check(bundle, [TARGET], samples=False)) == [("manifest.json", "SHA-256")]


@pytest.mark.parametrize("changes", [{}, {"exit_code": None}, {"complete": False}])
def test_a_seal_that_was_removed(bundle, changes):
    edit(bundle, hashes={}, **changes)
    found = check(bundle)
    assert (found.sealed, whats(found)) == (True, [("manifest.json", "hashes")])
    assert "manifest.json has no seal any more" in found.told()


def test_a_run_that_was_killed_is_not_a_broken_bundle(tmp_path):
    made = Bundle.create_at(tmp_path / "run")
    made.write_target(example.result())
    made.write_manifest(attrs.evolve(example.manifest(), complete=False, exit_code=None))
    found = check(made)
    assert (found.sealed, found.holds) == (False, True)
    assert found.told() == (
        f"'{made.path}' has no seal yet, since its run goes on or was killed: a change of its files would not be seen. "
        f"If it was killed: aiperf run --resume {made.path}"
    )


def test_an_interrupted_run_has_a_seal(tmp_path):
    made = Bundle.create_at(tmp_path / "run")
    made.write_target(example.result())
    made.write_manifest(attrs.evolve(example.manifest(), complete=False, exit_code=130))
    assert (check(made).sealed, check(made).told()) == (True, "")
    (made.path / FILE).unlink()
    assert not check(made).holds


def test_a_manifest_that_cannot_be_read(bundle):
    (bundle.path / "manifest.json").write_text("{")
    with pytest.raises(BundleError, match="is not a manifest file"):
        check(bundle)


def test_the_error_has_the_exit_code_of_bad_evidence():
    assert seal_check.SealError("x").exit_code == ExitCode.INVALID


@pytest.mark.quiet
def test_the_check_of_a_large_bundle_is_quick(tmp_path):
    """300 targets with a million samples: at most 0.9 s for every file, and less for the files that `show` reads."""
    targets, rows = 300, 5
    count = 1_000_000 // targets // rows
    one = measured.result()
    taken = attrs.evolve(
        one.rows[0].samples,
        **{
            field.name: (getattr(one.rows[0].samples, field.name) * count)[:count]
            for field in attrs.fields(type(one.rows[0].samples))
        },
    )
    made = Bundle.create_at(tmp_path / "run")
    # Random times: files of samples are as large as those of a run.
    for number in range(targets):
        times = np.random.default_rng(number).normal(4e-3, 1e-5, (2, count)).tolist()
        samples = attrs.evolve(taken, device_s=times[0], bracket_s=times[1])
        stored = [attrs.evolve(row, samples=samples) for row in one.rows]
        made.write_target(attrs.evolve(one, target=f"ch07.target_{number}", rows=stored))
    made.write_manifest(measured.manifest())

    def seconds(names, *, samples):
        spent = []
        for _ in range(3):
            start = time.perf_counter()
            assert check(made, names, samples=samples).holds
            spent.append(time.perf_counter() - start)
        return min(spent)

    names = list(made.targets)
    whole, shown = seconds(None, samples=True), seconds(names, samples=False)
    print(f"seal: {whole:.3f} s for all files, {shown:.3f} s for those that show reads")
    assert whole <= 0.9
    assert shown < whole
    assert seconds(names[:1], samples=True) < shown
