"""The model's switches: the same answer whichever are on, but for the sabotage; and the same gradients."""

from itertools import pairwise

import pytest
import torch
from attrs import evolve

from aiperf_core.errors import SkipError, UsageError
from aiperf_labs.one_model import chapters, model, schedule, trained
from aiperf_labs.one_model.serving import Server
from aiperf_labs.one_model.sizes import PRESETS, Schedule, Sizes, preset
from aiperf_labs.one_model.switches import (
    BASELINE,
    BY_NAME,
    SWITCHES,
    Switch,
    Switches,
    combined,
    ladder,
    rungs,
    without,
)
from aiperf_labs.one_model.train import Step
from aiperf_labs.techniques import TECHNIQUES

SMALL = Sizes(
    layers=3, dense=1, width=24, heads=4, kv_heads=2, inner=20, experts=5, chosen=2, hidden=12, vocabulary=300
)
TINY = evolve(PRESETS["ci"], model=SMALL, schedule=Schedule(steps=3, batch=2, length=40, rate=1e-3, warm=1))
LENGTHS, WANTED, SHARED = [9, 5, 12, 7, 5], [4, 1, 7, 3, 6], [4, 4, 4, 4, 2]


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    return model.drawn(SMALL, torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def texts(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    drawn = torch.randint(SMALL.vocabulary, (5, max(LENGTHS) + max(WANTED)), generator=torch.Generator().manual_seed(1))
    drawn[:4, :4] = drawn[0, :4]
    return trained._answers(TINY, weights, drawn, LENGTHS)


def served(
    weights: dict[str, torch.Tensor], texts: torch.Tensor, switches: Switches, slots: int = 2
) -> dict[str, torch.Tensor]:
    server = Server(weights, SMALL, switches, LENGTHS, WANTED, SHARED, slots=slots, forced=switches.is_lossy)
    first = server.run(texts)
    first = {name: one.clone() for name, one in first.items()}
    again = server.run(texts)
    assert all(torch.equal(first[name], again[name]) for name in first)
    return first


def answers(texts: torch.Tensor) -> torch.Tensor:
    found = torch.zeros(5, max(WANTED), dtype=torch.int64)
    for row, (length, wanted) in enumerate(zip(LENGTHS, WANTED, strict=True)):
        found[row, :wanted] = texts[row, length : length + wanted]
    return found


SERVING = {one.name: one.switches for one in rungs("serve", "cpu") if one.role not in ("baseline", "sabotage")}


@pytest.mark.parametrize("name", SERVING)
def test_every_rung_of_serving_says_what_the_model_says(
    name: str, weights: dict[str, torch.Tensor], texts: torch.Tensor
) -> None:
    plain = served(weights, texts, BASELINE)
    assert torch.equal(plain["tokens"], answers(texts))
    found = served(weights, texts, SERVING[name])
    assert torch.equal(found["tokens"], plain["tokens"])
    assert torch.allclose(found["scores"], plain["scores"], atol=0.3 if SERVING[name].is_lossy else 1e-4)


@pytest.mark.parametrize("slots", [1, 3, 7])
def test_any_number_of_slots_serves_all_requests(
    slots: int, weights: dict[str, torch.Tensor], texts: torch.Tensor
) -> None:
    switches = combined(one for one in ladder("serve", "cpu") if not one.is_lossy)
    assert torch.equal(served(weights, texts, switches, slots)["tokens"], answers(texts))


def test_the_sabotage_says_something_else(weights: dict[str, torch.Tensor], texts: torch.Tensor) -> None:
    wrong = served(weights, texts, Switches(skips_layer=True))
    assert not torch.allclose(wrong["scores"], served(weights, texts, BASELINE)["scores"], atol=1e-2)


def test_graphs_are_for_gpus(weights: dict[str, torch.Tensor], texts: torch.Tensor) -> None:
    with pytest.raises(SkipError, match="needs a GPU"):
        served(weights, texts, Switches(graphs=True, experts="one_call", rotary_table=True))


def test_a_chapter_that_is_not_installed_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiperf_labs.one_model.chapters.load_plugins", lambda: type("None", (), {"targets": ()}))
    with pytest.raises(SkipError) as caught:
        chapters.code("ch15.moe_grouped_gemm", "InCache")
    assert str(caught.value) == (
        "needs ch15.moe_grouped_gemm, which is not installed. Get it, in a clone of aiperf: pip install -e ./aiperf-ch15"
    )


# --- training


def step(weights: dict[str, torch.Tensor], switches: Switches) -> dict[str, dict[str, torch.Tensor]]:
    state = [{name: one.clone() for name, one in weights.items()}]
    state += [{name: torch.full_like(one, 0.01) for name, one in weights.items()} for _ in range(2)]
    counts = {name: torch.tensor(5.0) for name in weights}
    texts = torch.randint(SMALL.vocabulary, (3, 41), generator=torch.Generator().manual_seed(2))
    return Step(TINY, switches, *state, counts).run(texts)


TRAINING = {one.name: one.switches for one in rungs("train", "cpu") if one.role not in ("baseline", "sabotage")}


@pytest.mark.parametrize("name", TRAINING)
def test_every_rung_of_training_has_the_same_gradients(name: str, weights: dict[str, torch.Tensor]) -> None:
    plain, found = step(weights, BASELINE), step(weights, TRAINING[name])
    for part in ("gradients", "new"):
        for key, one in plain[part].items():
            torch.testing.assert_close(found[part][key], one, rtol=1e-3, atol=1e-6)


def test_a_training_reaches_a_lower_loss_and_keeps_what_it_made(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIPERF_CACHE_DIR", str(tmp_path))
    short = evolve(PRESETS["ci"], schedule=evolve(PRESETS["ci"].schedule, steps=6, batch=4, warm=2))
    with pytest.raises(UsageError, match="is not trained yet"):
        trained.load(short)
    told: list[str] = []
    made = trained.trained(short, "cpu", told.append)
    assert len(told) == len(made.milestones) == 6
    assert made.milestones[-1][2] < made.milestones[0][2]
    assert made.texts.shape == (16, max(made.lengths) + max(made.wanted))
    again = trained.trained(short, "cpu", told.append)
    assert len(told) == 6
    assert torch.equal(again.texts, made.texts)


def test_an_unknown_size_is_refused() -> None:
    with pytest.raises(UsageError, match="accepted are ci, one, two"):
        preset("three")


# --- switches


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"narrow_wire": True}, "narrow_wire needs bucketed"),
        ({"graphs": True}, "graphs need experts='one_call'"),
        ({"graphs": True, "experts": "one_call"}, "graphs need rotary_table"),
        (
            {"graphs": True, "experts": "one_call", "rotary_table": True, "grown_cache": True},
            "exclude each other",
        ),
    ],
)
def test_an_illegal_combination_is_one_sentence(values: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        Switches(**values)
    assert str(caught.value).count("\n") == 0


def test_a_switch_left_out_takes_those_that_need_it_along() -> None:
    left = without(ladder("serve", "cpu"), BY_NAME["sorted_experts"])
    assert not {"sorted_experts", "one_call_experts"} & {one.name for one in left}


def test_every_switch_says_what_it_is() -> None:
    for one in SWITCHES:
        assert one.adds
        assert one.why
        assert {*one.techniques} <= {*TECHNIQUES}
        assert {*one.needs} <= {*BY_NAME}
        assert isinstance(one, Switch)


@pytest.mark.parametrize("name", ["train", "serve", "ranks"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_rungs_of_a_ladder_are_steps_guards_and_what_is_left_out(name: str, device: str) -> None:
    every = rungs(name, device)
    assert len({one.name for one in every}) == len(every)
    assert [one.role for one in every[:1]] == ["baseline"]
    assert [one.role for one in every[-2:]] == ["placebo", "sabotage"]
    steps = [one for one in every if one.role == "step"]
    assert all(one.switches != other.switches for one, other in pairwise(steps))


# --- the schedule


def test_a_lookup_proposes_what_followed_the_last_two_tokens() -> None:
    assert schedule.proposed([1, 2, 3, 4, 1, 2], 3) == [3, 4, 1]
    assert schedule.proposed([1, 2, 9, 1, 2, 3, 1, 2], 1) == [3]
    assert schedule.proposed([1, 2, 3], 2) == []
    assert schedule.proposed([1, 2, 3, 1, 2], 0) == []
    assert schedule.agreed([3, 4, 5], [3, 4, 6]) == 2
