import copy
import json
import math
import subprocess
import sys
from pathlib import Path

import attrs
import measured
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiperf_core.errors import AiperfError
from aiperf_core.results import records, seal
from aiperf_core.results.bundle import Bundle
from aiperf_core.stats import recheck as recheck_module
from aiperf_core.stats.distributions import t_expansion, t_quantile
from aiperf_core.stats.recheck import recheck

FILE = "targets/ch07.memory_access.json"
RESULT = measured.result()
ROWS = {row.name: index for index, row in enumerate(RESULT.rows)}


@pytest.fixture
def bundle(tmp_path):
    return measured.bundle(tmp_path / "run")


def change(bundle, edit, *, reseal=False):
    """Edit a target and its samples, and seal the bundle again or not."""
    measured.tamper(bundle, edit)
    if reseal:
        bundle.write_manifest(bundle.manifest)


def whats(found):
    return {(one.where, one.what) for one in found.differences}


def test_a_bundle_that_holds(bundle):
    found = recheck(bundle)
    assert (found.holds, found.differences, found.notes) == (True, [], [])
    assert (found.targets, found.rows, found.samples) == (1, 5, 4 * 24 + 3)
    assert found.seal == bundle.manifest.hashes["manifest.json"]
    assert [row.verdict.value for row in RESULT.rows] == ["MEASURED", "FASTER", "SLOWER", "MEASURED", "INVALID"]


EDITS = {
    "a sample": lambda rows: rows[1]["samples"]["device_s"].__setitem__(3, 1e-3),
    "a time": lambda rows: rows[1]["time_s"].__setitem__("value", 1.9e-3),
    "an end of an interval": lambda rows: rows[1]["speedup"].__setitem__("low", 1.5),
    "a verdict": lambda rows: rows[2].__setitem__("verdict", "FASTER"),
    "a verdict of one that is not believed": lambda rows: rows[4].__setitem__("verdict", "MEASURED"),
    "a rate": lambda rows: rows[1].__setitem__("bytes_per_s", 9e12),
    "a fraction of light": lambda rows: rows[1]["speed_of_light"].__setitem__("fraction", 0.99),
    "the light": lambda rows: rows[1]["speed_of_light"].update(time_s=1e-3, fraction=0.5),
    "moved samples": lambda rows: rows[1]["samples"]["block"].reverse(),
    "no calls": lambda rows: rows[1]["samples"].__setitem__("calls", [0] * 24),
    "times of zero": lambda rows: rows[1]["samples"].__setitem__("device_s", [0] * 24),
    "huge numbers": lambda rows: rows[1]["samples"].__setitem__("block", [2**62] * 24),
    "huge times": lambda rows: rows[1]["samples"].__setitem__("device_s", [1e308] * 24),
    "no baseline": lambda rows: rows.pop(0),
    "a row taken out": lambda rows: rows.pop(3),
    "no rows": lambda rows: rows.clear(),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("reseal", [False, True], ids=["", "and sealed again"])
def test_what_was_tampered_with_is_found(bundle, edit, reseal):
    change(bundle, lambda document: edit(document["rows"]), reseal=reseal)
    found = recheck(bundle)
    assert not found.holds
    assert ((FILE, "SHA-256") in whats(found)) is not reseal
    # The figures alone tell, but for columns that no figure is made of.
    assert [one for one in found.differences if not one.where.startswith("targets/")]


def test_intervals_hold_by_the_quantile_of_their_run(tmp_path):
    """Runs of today have Student's exact quantile, older ones its expansion: in two rounds 11 % too narrow."""
    width = {}
    for exact in (False, True):
        result = attrs.evolve(RESULT, judging=attrs.evolve(RESULT.judging, exact_quantiles=exact))
        result = attrs.evolve(result, rows=measured.scored(result))
        time = result.rows[ROWS["coalesced"]].time_s
        width[exact] = math.log(time.high / time.low)
        made = Bundle.create_at(tmp_path / str(exact))
        made.write_target(result)
        made.write_manifest(measured.manifest())
        assert recheck(made).holds
        change(
            made,
            lambda document: document["judging"].update(exact_quantiles=not document["judging"]["exact_quantiles"]),
        )
        assert ("ch07.memory_access:coalesced", "time_s") in whats(recheck(made))
    assert width[True] / width[False] == pytest.approx(t_quantile(0.975, 1) / t_expansion(0.975, 1), rel=1e-3)
    # The file of an older run does not have the field; that of a run of today claims an older one without it.
    for exact in (False, True):
        made = Bundle(tmp_path / str(exact))
        change(made, lambda document: document["judging"].pop("exact_quantiles"), reseal=True)
        assert recheck(made).holds is not exact


def by_the_caller():
    """The result by the caller's clock, with the device's time beside it."""
    rows = [
        attrs.evolve(
            row, samples=attrs.evolve(row.samples, wall_s=[2 * (time or 1e-3) for time in row.samples.device_s])
        )
        for row in RESULT.rows
    ]
    found = attrs.evolve(RESULT, rows=rows, clock="wall")
    return attrs.evolve(found, rows=measured.scored(found))


@pytest.mark.parametrize(("factor", "whats"), [(1.0, []), (None, []), (1.1, ["device_s"])])
def test_the_device_s_time_holds_and_older_bundles_have_none(factor, whats):
    result = by_the_caller()
    row = result.rows[1]
    stored = None if factor is None else attrs.evolve(row.device_s, value=factor * row.device_s.value)
    changed = attrs.evolve(result, rows=[result.rows[0], attrs.evolve(row, device_s=stored), *result.rows[2:]])
    found = [one.what for one in recheck_module._of_target(changed, measured.manifest())]
    assert found == whats


@pytest.mark.parametrize(("reason", "holds"), [("up to 3.1 %", True), ("up to 3.2 %", False), (None, False)])
def test_a_reason_holds_in_its_older_spelling(reason, holds):
    stored = attrs.evolve(RESULT.rows[1], reason="up to 3.1%")
    found = list(recheck_module._of_row("x:y", stored, attrs.evolve(stored, reason=reason), same_draws=True))
    assert (found == []) is holds


def test_a_sample_that_changes_no_figure_is_found_by_the_seal(bundle):
    change(bundle, lambda document: document["rows"][1]["samples"]["cpu_s"].__setitem__(3, 1.0))
    for found in (recheck(bundle), recheck(bundle, figures=False)):
        assert {what for where, what in whats(found) if where == FILE} == {"SHA-256"}
        assert {what for where, what in whats(found) if where.endswith(".npz")} == {"file"}
        assert all(one.where.startswith("targets/") for one in found.differences)


def test_one_byte_of_the_samples(bundle):
    (file,) = (bundle.path / "targets").glob("*.npz")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    found = recheck(bundle)
    assert whats(found) == {(f"targets/{file.name}", "SHA-256"), ("ch07.memory_access", "file")}
    assert "does not hold the samples that the target's file was written with" in found.differences[1].found
    bundle.write_manifest(bundle.manifest)
    assert whats(recheck(bundle)) == {("ch07.memory_access", "file")}


def test_several_processes_find_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(recheck_module, "FEW", 1)
    made = Bundle.create_at(tmp_path / "run")
    for name in "abc":
        made.write_target(attrs.evolve(RESULT, target=name))
    made.write_manifest(measured.manifest())
    measured.tamper(made, lambda document: EDITS["a time"](document["rows"]), target="b")
    found = recheck(made, processes=2)
    assert found == recheck(made)
    assert ("b:coalesced", "time_s") in whats(found)
    assert (found.targets, found.rows, found.samples) == (3, 15, 3 * (4 * 24 + 3))


def test_what_differs_is_told_in_figures(bundle):
    change(bundle, lambda document: EDITS["a time"](document["rows"]), reseal=True)
    (one,) = recheck(bundle).differences
    assert (one.where, one.what) == ("ch07.memory_access:coalesced", "time_s")
    assert one.recorded.startswith("0.0019 [0.00")
    assert one.found.startswith(f"{RESULT.rows[1].time_s.value:.9g} [")


def test_faster_than_light_is_found_from_the_samples(bundle):
    def edit(document):
        row = document["rows"][1]
        row["samples"]["device_s"] = [one / 100 for one in row["samples"]["device_s"]]

    change(bundle, edit, reseal=True)
    verdicts = [one for one in recheck(bundle).differences if one.what == "verdict"]
    assert [(one.recorded, one.found) for one in verdicts] == [("FASTER", "INVALID")]


def test_a_row_that_is_believed_against_its_own_finding(bundle):
    finding = {"issue": "output.stale_cache", "severity": "invalid", "message": "x", "evidence": {}}
    change(bundle, lambda document: document["rows"][1]["findings"].append(finding), reseal=True)
    (one,) = recheck(bundle).differences
    assert (one.what, one.recorded, one.found) == ("finding", "output.stale_cache: x", "none")


def test_a_row_whose_observations_do_not_let_it_be_believed(bundle):
    seen = {"issue": "output.stale_cache", "message": "old", "evidence": {}, "verdict": "INVALID", "effects": None}
    change(bundle, lambda document: document["rows"][1]["seen"].append(seen), reseal=True)
    found = recheck(bundle).differences
    assert ("verdict", "FASTER", "INVALID") in {(one.what, one.recorded, one.found) for one in found}


def test_a_change_of_one_sample_changes_the_run_s_judgement_and_the_recheck_alike(tmp_path):
    """A result whose samples change before it is judged, and one whose samples change in the bundle."""
    before = measured.result()
    times = before.rows[1].samples.device_s
    times[3] *= 40
    run, rechecked = measured.scored(before), recheck_module.computed(before, measured.manifest())
    assert run == rechecked != RESULT.rows
    assert run[1].time_s != RESULT.rows[1].time_s
    assert [row.time_s for row in run[2:]] == [row.time_s for row in RESULT.rows[2:]]
    times[3] /= 40
    assert recheck_module.computed(before, measured.manifest()) == measured.scored(before)


@pytest.mark.parametrize(
    ("field", "value"),
    [("exit_code", 0), ("git", None), ("created", "2026"), ("command", []), ("packages", {}), ("complete", False)],
)
def test_a_tampered_manifest_is_found(bundle, field, value):
    file = bundle.path / "manifest.json"
    document = json.loads(file.read_text())
    document[field] = value
    file.write_text(json.dumps(document))
    assert ("manifest.json", "SHA-256") in whats(recheck(bundle, figures=False))


def test_an_exit_code_that_its_verdicts_do_not_support(bundle):
    bundle.write_manifest(attrs.evolve(bundle.manifest, exit_code=0))
    (one,) = recheck(bundle).differences
    assert (one.what, one.recorded, one.found) == ("exit_code", "0", "3")


def test_a_run_that_claims_to_be_whole(bundle):
    change(bundle, lambda document: document.__setitem__("complete", False), reseal=True)
    assert whats(recheck(bundle)) == {("manifest.json", "complete")}


def test_files_that_are_gone_or_came_later(bundle):
    (bundle.path / FILE).rename(bundle.path / "targets/ch07.other.json")
    found = recheck(bundle, figures=False)
    assert whats(found) == {(FILE, "file"), ("targets/ch07.other.json", "file")}


def test_a_bundle_sealed_again_is_told_by_the_seal_that_was_noted(bundle):
    noted = bundle.manifest.hashes["manifest.json"]
    assert recheck(bundle, expected_seal=noted).holds
    change(bundle, lambda document: document["rows"][1]["samples"]["cpu_s"].__setitem__(3, 1.0), reseal=True)
    assert recheck(bundle).holds
    assert whats(recheck(bundle, expected_seal=noted)) == {("manifest.json", "seal")}


def test_without_a_seal_the_figures_are_checked(bundle):
    file = bundle.path / "manifest.json"
    document = json.loads(file.read_text())
    document["hashes"] = {}
    file.write_text(json.dumps(document))
    found = recheck(bundle)
    # A run that ended has a seal: without it, an edited figure would pass.
    assert (whats(found), found.seal, found.rows) == ({("manifest.json", "hashes")}, None, 5)
    document |= {"exit_code": None, "complete": False}
    file.write_text(json.dumps(document))
    found = recheck(bundle)
    assert (found.holds, found.seal) == (True, None)
    assert found.notes == ["no seal: the bundle was never closed; only its figures can be checked"]


def test_paths_in_hashes_are_not_followed(bundle, tmp_path):
    (tmp_path / "secret").write_text("x")
    file = bundle.path / "manifest.json"
    document = json.loads(file.read_text())
    document["hashes"] |= {"../secret": "0" * 64, "/etc/passwd": "0" * 64}
    document["hashes"]["manifest.json"] = seal.seal_of(document)
    file.write_text(json.dumps(document))
    found = recheck(bundle, figures=False)
    assert {(one.where, one.found) for one in found.differences} == {
        ("../secret", "no such file"),
        ("/etc/passwd", "no such file"),
    }


def test_a_link_out_of_the_bundle_is_not_followed(bundle, tmp_path):
    outside = tmp_path / "outside.json"
    (bundle.path / FILE).rename(outside)
    (bundle.path / FILE).symlink_to(outside)
    found = recheck(bundle)
    assert {one.what for one in found.differences} == {"SHA-256", "file"}
    assert all("outside the bundle; aiperf follows no such link" in one.found for one in found.differences)


def test_another_numpy_may_draw_otherwise(bundle):
    packages = {**bundle.manifest.packages, "numpy": "1.0.0"}
    bundle.write_manifest(attrs.evolve(bundle.manifest, packages=packages))

    def edit(document):
        speedup = document["rows"][1]["speedup"]
        speedup["low"] -= 0.1 * (speedup["high"] - speedup["low"])

    change(bundle, edit, reseal=True)
    found = recheck(bundle)
    assert found.holds
    assert found.notes[0].startswith("intervals were made with numpy 1.0.0 and are made again with ")
    change(bundle, edit, reseal=True)
    assert not recheck(bundle).holds


def test_it_needs_no_torch(bundle, tmp_path):
    for name in ("torch", "triton"):
        (tmp_path / f"{name}.py").write_text(f"raise BaseException('{name} was imported')")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from aiperf_core.results.bundle import Bundle\n"
        "from aiperf_core.stats.recheck import recheck\n"
        "print(recheck(Bundle.open(Path(sys.argv[2]))).holds)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path, bundle.path], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


# --- whatever is in a file, there is an answer or one clear error

DOCUMENT = json.loads(records.target_files(RESULT, Path(FILE)).document)
VALUES = st.sampled_from([None, True, -1, 0, 1.5, 1e308, 10**29, "x", "\x1b[2J", [], {}, [1], {"a": 1}])


def places(document, place=()):
    yield place
    if isinstance(document, dict | list):
        for step, item in document.items() if isinstance(document, dict) else enumerate(document):
            yield from places(item, (*place, step))


PLACES = sorted(places(DOCUMENT), key=str)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(PLACES).filter(bool), value=VALUES)
def test_any_change_is_found_and_none_is_a_crash(tmp_path_factory, place, value):
    bundle = measured.bundle(tmp_path_factory.mktemp("fuzz") / "run")
    file = bundle.path / FILE
    document = json.loads(file.read_text())
    before = copy.deepcopy(document)
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    file.write_text(json.dumps(document))
    found = recheck(bundle)
    assert not found.holds or json.dumps(document) == json.dumps(before)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.floats(0, 1), name=st.sampled_from([FILE, "manifest.json"]), junk=st.binary(max_size=8))
def test_a_truncated_file_is_found_and_no_crash(tmp_path_factory, part, name, junk):
    bundle = measured.bundle(tmp_path_factory.mktemp("cut") / "run")
    data = (bundle.path / name).read_bytes()
    changed = data[: int(part * (len(data) - 2))] + junk
    (bundle.path / name).write_bytes(changed)
    try:
        assert not recheck(Bundle.open(bundle.path)).holds
    except AiperfError:
        assert name == "manifest.json"
