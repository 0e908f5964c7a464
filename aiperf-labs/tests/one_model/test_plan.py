"""The plan, its predictions, its screen and its page; the proofs of techniques; and the commands."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins, load_plugins
from aiperf_labs import coverage
from aiperf_labs.cli import labs
from aiperf_labs.one_model import costs, plan, screen
from aiperf_labs.one_model.costs import Requests
from aiperf_labs.one_model.sizes import PRESETS
from aiperf_labs.one_model.switches import BASELINE, BY_NAME, Switches, combined, ladder, rungs
from aiperf_labs.techniques import TECHNIQUES, claims

REQUESTS = Requests(
    texts=[[row, row, *range(20), *range(20)] for row in range(6)],
    lengths=[20, 18, 22, 20, 19, 20],
    wanted=[4, 20, 2, 9, 1, 7],
    shared=[1] * 6,
    slots=2,
)


# --- the cost model


def test_continuous_batching_takes_fewer_passes_and_a_lookup_fewer_still() -> None:
    preset = PRESETS["ci"]
    plain = costs.of_serving(preset, BASELINE, REQUESTS, 32)
    # Static batches of two: 1 + 19, 1 + 8 and 1 + 6 passes.
    assert plain.passes == 36
    assert costs.of_serving(preset, Switches(continuous=True), REQUESTS, 32).passes < plain.passes
    assert costs.of_serving(preset, Switches(lookup=3), REQUESTS, 32).passes < plain.passes


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["train", "serve", "ranks"])
def test_every_rung_but_the_guards_has_a_prediction(name: str, device: str) -> None:
    preset = PRESETS["ci" if device == "cpu" else "one"]
    every = rungs(name, device)
    gains = costs.predicted(every, plan.works(preset, name, device, REQUESTS, 40), device)
    assert gains["placebo"]["total"] == costs.Gain(1.0, 1.0)
    for one in every:
        if one.role in ("step", "without", "degraded"):
            low, high = gains[one.name]["step"].low, gains[one.name]["step"].high
            assert 0.1 < low <= high < 200
    # What takes a mechanism from the whole makes it slower.
    assert all(gains[one.name]["step"].high > 1 for one in every if one.role == "degraded")


# --- the screen


def test_any_two_columns_of_the_design_are_orthogonal() -> None:
    rows = screen.design()
    assert len(rows) == 20
    columns = [[1 if row[column] else -1 for row in rows] for column in range(len(screen.SCREENED))]
    for place, one in enumerate(columns):
        assert sum(one) == 0
        for other in columns[place + 1 :]:
            assert sum(a * b for a, b in zip(one, other, strict=True)) == 0


def test_the_screen_finds_gains_that_multiply() -> None:
    factors = [1.0 + number / 10 for number in range(len(screen.SCREENED))]
    times = {}
    for number, row in enumerate(screen.design()):
        times[number] = 1.0
        for is_on, factor in zip(row, factors, strict=True):
            times[number] /= factor if is_on else 1.0
    found = screen.gains(times)
    assert found is not None
    assert [found[name] for name in screen.SCREENED] == pytest.approx(factors)
    assert screen.gains({0: 1.0}) is None


def test_twelve_switches_go_together_in_every_run() -> None:
    assert len({*screen.SCREENED}) == 12
    assert len({str(one) for one in screen.runs()}) == 19


# --- the plan


@pytest.fixture
def document(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    works = plan.works(PRESETS["ci"], "serve", "cpu", REQUESTS, 40)
    return {
        "kind": plan.KIND,
        "size": "ci",
        "device": "cpu",
        "made": "2026-11-30T12:00:00+00:00",
        "sources": plan.sources(()),
        "trained": {
            "sha256": "0",
            "floor": 1.1,
            "above_floor": 0.09,
            "recall": 0.97,
            "milestones": [[10, 1.5, 0.4], [20, 3.0, 0.09]],
            "reached": [20, 3.0, 0.09],
        },
        "entropy": 100.0,
        "words": 60.0,
        "ladders": {"serve": plan._rungs(rungs("serve", "cpu"), works, "cpu")},
        "screen": [*screen.SCREENED],
    }


def test_a_plan_is_written_once(tmp_path: Path, document: dict[str, Any]) -> None:
    digest = plan.write(tmp_path / "new", document)
    assert plan.read(tmp_path / "new") == (document, digest)
    with pytest.raises(UsageError, match="predictions are never edited"):
        plan.write(tmp_path / "new", document)
    (tmp_path / "new" / plan.FILE).write_text("{}")
    with pytest.raises(UsageError, match="is no plan of this version"):
        plan.read(tmp_path / "new")
    with pytest.raises(UsageError, match="cannot be read as a plan"):
        plan.read(tmp_path)


def test_a_changed_implementation_is_refused_in_a_sentence(tmp_path: Path, document: dict[str, Any]) -> None:
    model = tmp_path / "model.pt"
    model.write_bytes(b"1")
    document["trained"]["sha256"] = plan._hash(model)
    plan.check(document, tmp_path, (), model)
    document["sources"]["serving.py"] = "0"
    with pytest.raises(UsageError) as caught:
        plan.check(document, tmp_path, (), model)
    assert str(caught.value) == (
        f"serving.py changed since the plan in '{tmp_path}' was made, so its rungs cannot be compared. Make a new plan "
        "in another folder: aiperf labs one-model plan --out FOLDER"
    )
    model.write_bytes(b"2")
    with pytest.raises(UsageError, match=r"serving.py, the trained model changed"):
        plan.check(document, tmp_path, (), model)


def test_every_part_has_placebo_and_sabotage() -> None:
    for device in ("cpu", "cuda"):
        for part in plan.parts(("train", "serve", "ranks"), device):
            assert {"placebo", "sabotage"} <= {*part.names}
    assert [one.name for one in plan.parts(("serve", "screen"), "cpu")] == ["serve-steps", "serve-without", "screen"]


def test_the_ladders_are_no_installed_targets_and_can_be_loaded() -> None:
    from aiperf_core.loading import load_benchmark

    installed = {one.name for one in load_plugins().targets}
    for target in plan.targets().values():
        assert target.name not in installed
        bench = load_benchmark(target)
        assert {*bench.devices} == {*target.devices}


# --- techniques


def test_every_technique_has_a_verdict_an_artefact_or_a_reason() -> None:
    assert coverage.unproven(claims(load_plugins().targets)) == []


def test_a_technique_without_anything_is_found() -> None:
    assert 8 in coverage.unproven({})
    assert coverage.proof(98, [], []) == coverage.Proof("artefact", "one-model:continuous")
    assert coverage.proof(98, ["ch15.batching"], ["ch15.batching"]) == coverage.Proof("verdict", "ch15.batching")
    assert {*coverage.REASONS} | {*coverage.OPEN} | {*coverage.TOOLS} <= {*TECHNIQUES}


def test_the_commands_that_are_evidence_exist() -> None:
    from aiperf_core.builtin import aiperf_commands

    known = {one.name for one in aiperf_commands()} | {*load_plugins().commands}
    assert {text.removeprefix("aiperf ") for text in coverage.TOOLS.values()} <= known


# --- commands


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(labs, list(arguments), obj=Plugins())


def test_run_and_page_without_a_plan_say_how_to_make_one(tmp_path: Path) -> None:
    for command in ("run", "page"):
        result = invoke("one-model", command, "--out", str(tmp_path))
        assert "Make one: aiperf labs one-model plan" in str(result.exception)


def test_the_page_of_a_plan_without_runs_has_its_predictions(tmp_path: Path, document: dict[str, Any]) -> None:
    plan.write(tmp_path, document)
    result = invoke("one-model", "page", "--out", str(tmp_path))
    assert result.exit_code == 0
    assert result.output == f"{tmp_path / 'page.md'}: 0 of 3 parts are measured\n"
    text = (tmp_path / "page.md").read_text()
    assert "Not measured yet: `aiperf labs one-model run --ladder serve`." in text


def test_a_ladder_that_was_not_planned_is_refused(tmp_path: Path, document: dict[str, Any]) -> None:
    from aiperf_labs.one_model.cli import _parts

    with pytest.raises(UsageError, match="ranks is not in the plan, which has serve, screen"):
        _parts(document, ("ranks",))


def test_techniques_are_listed_with_their_proofs(tmp_path: Path) -> None:
    shown = invoke("techniques", "--json", "--in", str(tmp_path))
    rows = json.loads(shown.output)["techniques"]
    assert [row["id"] for row in rows] == [*TECHNIQUES]
    assert shown.exit_code == 1  # without targets, some have nothing
    assert next(row for row in rows if row["id"] == 131)["kind"] == "reason"


def test_switches_that_need_others_are_on_with_them() -> None:
    for name in ("train", "serve", "ranks"):
        for device in ("cpu", "cuda"):
            chosen = ladder(name, device)
            combined(chosen)
            assert all({*one.needs} <= {*BY_NAME} for one in chosen)
