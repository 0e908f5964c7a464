"""Switches: a ladder of variants, and the whole without each mechanism, from the flags of one class."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from aiperf_core import Benchmark, lossy
from aiperf_core.errors import BenchmarkError
from aiperf_core.switches import switch

ROUNDED = lossy("rel_l2", at_most=0.01)


@dataclass(frozen=True)
class Flags:
    tiled: bool = switch(adds="tiles", why="fewer loads", predict="2 to 3x: bytes")
    padded: bool = switch(
        "without_conflicts", adds="padding", why="no conflicts", less="the padding", requires="package:triton"
    )
    narrow: bool = switch(adds="bf16", why="half the bytes", lossy=ROUNDED, teaches="the bytes are not the bound")


def declared(**options: Any) -> dict[str, Any]:
    """The variants of a class with switches, by name."""
    bench = Benchmark(goal="speed")
    cuda = bench.on("cuda", requires="sm_80")

    @cuda.switches(Flags, **options)
    @cuda.baseline(kind="naive")
    class Product:
        flags = Flags()

        def run(self) -> Flags:
            return self.flags

    baseline, *variants = bench.implementations_on("cuda")
    assert (baseline.name, baseline.code().run()) == ("product", Flags())
    return {variant.name: variant for variant in variants}


def test_a_ladder_turns_on_one_flag_after_the_other() -> None:
    steps = declared()
    assert {name: (step.builds_on, step.adds, step.why, step.lossy) for name, step in steps.items()} == {
        "tiled": (None, ("tiles",), "fewer loads", None),
        "without_conflicts": ("tiled", ("padding",), "no conflicts", None),
        "narrow": ("without_conflicts", ("bf16",), "half the bytes", ROUNDED),
    }
    assert [step.code().run() for step in steps.values()] == [Flags(True), Flags(True, True), Flags(True, True, True)]
    assert [step.requires for step in steps.values()] == [
        ("sm_80",),
        ("sm_80", "package:triton"),
        ("sm_80", "package:triton"),
    ]
    assert [(step.predict, step.teaches) for step in steps.values()] == [
        ("2 to 3x: bytes", ""),
        ("", ""),
        ("", "the bytes are not the bound"),
    ]


def test_the_whole_ladder_without_each_mechanism_but_the_last() -> None:
    variants = declared(leave_one_out=True)
    less = {name: variant for name, variant in variants.items() if variant.builds_on is None and name != "tiled"}
    assert {name: (one.adds, one.why, one.lossy, one.code().run()) for name, one in less.items()} == {
        "without_tiled": (("padding", "bf16"), "the whole ladder, less tiles", ROUNDED, Flags(False, True, True)),
        "without_padded": (("tiles", "bf16"), "the whole ladder, less the padding", ROUNDED, Flags(True, False, True)),
    }
    assert less["without_padded"].requires == ("sm_80",)
    assert re.fullmatch(r".*test_switches\.py:\d+ \(without_padded\)", less["without_padded"].where)


def test_the_first_step_of_a_ladder_builds_on_the_variant_that_its_class_is() -> None:
    bench = Benchmark(goal="speed")

    @bench.switches(Flags, device="cuda", ladder=["tiled", "padded"])
    @bench.variant(device="cuda", adds="blocks", why="work for every SM")
    class Product:
        def run(self) -> None: ...

    steps = {one.name: one.builds_on for one in bench.implementations_on("cuda")}
    assert steps == {"product": None, "tiled": "product", "without_conflicts": "tiled"}


def test_a_ladder_of_some_flags_in_another_order() -> None:
    steps = declared(ladder=["narrow", "tiled"])
    assert {name: step.builds_on for name, step in steps.items()} == {"narrow": None, "tiled": "narrow"}
    assert steps["tiled"].lossy == ROUNDED


@dataclass(frozen=True)
class Unlabelled:
    tiled: bool = switch(adds="tiles", why="fewer loads")
    other: bool = field(default=False)


@pytest.mark.parametrize(
    ("flags", "ladder", "message"),
    [
        (Flags, ["tilled"], "has a ladder with tilled; the switches are tiled, padded, narrow."),
        (Unlabelled, [], "accepted is a frozen dataclass whose fields are switch(...)."),
        (int, [], "has switches of <class 'int'>; accepted is a frozen dataclass whose fields are switch(...)."),
    ],
)
def test_mistakes_name_the_class(flags: type, ladder: list[str], message: str) -> None:
    class Product:
        def run(self) -> None: ...

    with pytest.raises(BenchmarkError) as caught:
        Benchmark(goal="speed").switches(flags, device="cuda", ladder=ladder)(Product)
    assert "(Product): has " in str(caught.value)
    assert str(caught.value).endswith(message)


def test_a_function_has_no_switches() -> None:
    with pytest.raises(BenchmarkError, match=r"has switches; accepted is a class that reads self.flags\.$"):
        Benchmark(goal="speed").switches(Flags, device="cuda")(declared)
