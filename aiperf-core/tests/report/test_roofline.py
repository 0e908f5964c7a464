"""What belongs on a roofline."""

import attrs
import pytest

from aiperf_core.errors import AiperfError
from aiperf_core.report.roofline import Roof, roofline
from aiperf_core.results import example


def test_marks_and_roofs() -> None:
    found = roofline([example.result()], example.manifest())
    (panel,) = found.panels
    assert panel.device == "NVIDIA H200"
    assert panel.memory == Roof("copy 4.34 TB/s", slope=4.34e12)
    assert panel.others == (Roof("fp32 59.0 TFLOP/s", level=5.9e13),)
    assert [(mark.name, mark.kind) for mark in panel.marks] == [
        ("strided", "baseline"),
        ("coalesced", "variant"),
        ("wide", "best"),
        ("prefetched", "variant"),
        ("memcpy", "yardstick"),
    ]
    wide = panel.marks[2]
    assert wide.intensity == 0.25
    assert wide.flop_per_s == pytest.approx((1 << 29) / 0.6013e-3)
    assert wide.fraction is not None
    assert wide.ceiling == pytest.approx(wide.flop_per_s / wide.fraction)
    assert found.left_out == (
        "ch07.memory_access:remembered: INVALID",
        "ch07.memory_access:swizzled: FAILED",
        "ch07.memory_access:tensor_memory: SKIPPED",
    )


def test_a_control_is_the_baseline_once_more() -> None:
    rows = [*example.rows()[:2], attrs.evolve(example.rows()[0], name="strided again", role="control")]
    found = roofline([attrs.evolve(example.result(), rows=rows)], example.manifest())
    assert [mark.name for mark in found.panels[0].marks] == ["strided", "coalesced"]
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("amounts", "reason"),
    [
        ({"flops": 0.0}, "ch07.memory_access: its cost declares no arithmetic, so it has no intensity"),
        (
            {"bytes_read": 0.0, "bytes_written": 0.0},
            "ch07.memory_access: its cost declares no memory traffic, so it has no intensity",
        ),
    ],
)
def test_work_without_intensity_has_no_place(amounts: dict[str, float], reason: str) -> None:
    result = attrs.evolve(example.result(), problem=attrs.evolve(example.result().problem, **amounts))
    with pytest.raises(AiperfError) as caught:
        roofline([result], example.manifest())
    assert str(caught.value) == f"There is nothing to draw on a roofline: {reason}."


def test_a_memory_without_a_rate_has_no_roof() -> None:
    ceilings = attrs.evolve(example.manifest().ceilings["cuda"], copy_bytes_per_s=0.0)
    with pytest.raises(AiperfError, match="no ceilings of 'cuda' were measured in that run"):
        roofline([example.result()], attrs.evolve(example.manifest(), ceilings={"cuda": ceilings}))


def test_nothing_at_all() -> None:
    with pytest.raises(AiperfError) as caught:
        roofline([], example.manifest())
    assert str(caught.value) == "There is nothing to draw on a roofline: it holds no results."


def test_a_panel_for_each_device() -> None:
    one = example.manifest().ceilings["cuda"]
    manifest = attrs.evolve(example.manifest(), ceilings={"cuda": one, "cpu": attrs.evolve(one, device="A CPU")})
    other = attrs.evolve(example.result(), target="ch07.on_cpu", device="cpu")
    found = roofline([example.result(), other], manifest)
    assert [panel.device for panel in found.panels] == ["A CPU", "NVIDIA H200"]


def test_the_cache_is_a_roof_of_work_that_lives_in_it() -> None:
    manifest = example.manifest()
    one = attrs.evolve(manifest.ceilings["cuda"], cache_bytes_per_s=1.1e13)
    manifest = attrs.evolve(manifest, ceilings={"cuda": one})
    warm = attrs.evolve(example.result(), cache="warm")
    labels = [[roof.label for roof in roofline([each], manifest).panels[0].others] for each in (example.result(), warm)]
    assert labels == [["fp32 59.0 TFLOP/s"], ["last-level cache 11.0 TB/s", "fp32 59.0 TFLOP/s"]]
