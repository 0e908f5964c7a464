"""Constructions that leave no room for an issue: each test fails where the construction is broken."""

import random
from pathlib import Path
from typing import Any

import pytest

from aiperf_core.described import DescribedImplementation
from aiperf_core.harness.run.participant import Pace, Participant
from aiperf_core.harness.run.sampler import LONGEST_UNJUDGED, Sampler
from aiperf_core.harness.run.setup import Trust
from aiperf_core.harness.run.taking import Method, SampleTaker
from aiperf_core.results import example, jsontext, records
from aiperf_core.results.jsontext import JsonError
from aiperf_core.results.models import Manifest, TargetResult
from aiperf_core.results.structure import ON_DISK, structure
from aiperf_core.stats.observations import Clocks
from aiperf_core.validity.registry import issues

REPOSITORY = Path(__file__).parents[3]
EXCLUDED = [one for one in issues() if one.excluded]


class Judge:
    """A judge that agrees with everything."""

    pid, paused = 0, False

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def ask(self, do: str, *, timeout: float, **arguments: Any) -> Any:
        self.asked.append((do, arguments))
        return {"compare": {"error": None, "worst": 0.0, "quality": None}, "changed": []}.get(do, {})


class Worker:
    """A worker whose calls take a millisecond."""

    pid, last_s, paused, guarded = 0, 0.0, False, True

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def ask(self, do: str, *, timeout: float, on_notice: Any = None, **arguments: Any) -> Any:
        self.asked.append(arguments)
        if do == "output":
            return {"aliases": [], "numbers": {}, "late": False}
        if do != "sample":
            return None
        on_notice("start")
        on_notice("stop")
        nothing = {"cpu_s": 0.0, "hidden": False, "voluntary_switches": 0, "involuntary_switches": 0, "output": None}
        return {"device_s": None, "wall_s": 1e-3, **nothing}


def sampled(passes: int, seed: int = 0) -> tuple[Sampler, Judge, Worker]:
    """A run of so many passes with one implementation."""
    judge, worker = Judge(), Worker()
    declared = DescribedImplementation("wide", "variant", "cpu", "wide.py:1")
    one = Participant(declared, "wide", child=worker, pace=Pace(calls=1))  # type: ignore[arg-type]
    method = Method(
        clock="wall",
        clocks=Clocks(),
        both_clocks=False,
        has_state=False,
        cold=False,
        off=frozenset(),
        trust=Trust(),
        fingerprints=False,
        timeout_s=1.0,
    )
    rng = random.Random(seed)
    taker = SampleTaker(judge, method, rng, 1)  # type: ignore[arg-type]
    sampler = Sampler(taker, [one], lambda _: None)
    for number in range(passes):
        sampler.run_pass(number, lambda _: None)
        assert one.active, one.observed.seen
    return sampler, judge, worker


def test_seeds_are_drawn_from_62_bits_and_none_comes_twice() -> None:
    sampler, judge, _ = sampled(400)
    renewed = [arguments["seed"] for do, arguments in judge.asked if do == "renew"]
    assert renewed == sampler.taker.drawn
    assert len(set(renewed)) == len(renewed) == 400
    assert max(one.bit_length() for one in renewed) == 62
    assert min(one.bit_length() for one in renewed) > 48


def test_a_worker_is_never_told_a_seed() -> None:
    sampler, _, worker = sampled(100)
    said = repr(worker.asked)
    assert len(worker.asked) > 200
    assert [one for one in sampler.taker.drawn if str(one) in said or hex(one) in said] == []


def test_outputs_are_judged_however_chance_falls() -> None:
    class Never(random.Random):
        def random(self) -> float:
            return 0.999

    sampler, _, _ = sampled(4)
    (one,) = sampler.implementations
    sampler.taker.rng = Never()
    for number in range(4, 100):
        sampler.run_pass(number, lambda _: None)
    judged = [index for index, chosen in enumerate(one.observed.samples.judged) if chosen]
    gaps = [after - before for before, after in zip([-1, *judged], [*judged, 100], strict=True)]
    assert max(gaps) <= LONGEST_UNJUDGED + 1


@pytest.mark.parametrize("name", ["seed", "order", "floor", "tier", "sample_file", "problem"])
def test_a_result_without_what_reproduces_it_is_refused(name: str) -> None:
    document = jsontext.loads(records.target_files(example.result(), Path("target.json")).document)
    structure(document, TargetResult, ON_DISK)
    del document[name]
    with pytest.raises(JsonError, match=f"found no field '{name}'"):
        structure(document, TargetResult, ON_DISK)


@pytest.mark.parametrize("name", ["packages", "machine", "command", "git", "plugins"])
def test_a_manifest_without_what_reproduces_it_is_refused(name: str) -> None:
    document = jsontext.loads(records.record_bytes(example.manifest(), Path("manifest.json")))
    structure(document, Manifest, ON_DISK)
    del document[name]
    with pytest.raises(JsonError, match=f"found no field '{name}'"):
        structure(document, Manifest, ON_DISK)


@pytest.mark.parametrize("one", EXCLUDED, ids=lambda one: one.id)
def test_the_test_of_an_exclusion_is_there(one: Any) -> None:
    file, _, name = one.excluded.test.partition("::")
    assert f"\ndef {name}(" in (REPOSITORY / file).read_text()
