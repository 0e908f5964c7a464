"""What belongs on a roofline."""

import attrs
import pytest

from aiperf_core.errors import AiperfError
from aiperf_core.report import layout, svg
from aiperf_core.report.picture import picture
from aiperf_core.report.roofline import Roof, draw, roofline
from aiperf_core.results import example
from aiperf_core.results.models import TargetResult


def target(name: str, intensity: float, bound: str = "memory", **amounts: float) -> TargetResult:
    """The example with another intensity, and each row with this bound."""
    problem = example.result().problem
    flops = intensity * (problem.bytes_read + problem.bytes_written)
    rows = [
        attrs.evolve(row, speed_of_light=row.speed_of_light and attrs.evolve(row.speed_of_light, bound=bound))
        for row in example.rows()
    ]
    return attrs.evolve(example.result(), target=name, problem=attrs.evolve(problem, flops=flops, **amounts), rows=rows)


def along(line: svg.Path) -> list[tuple[float, float]]:
    """Places on a line."""
    return [
        (x1 + (x2 - x1) * step / 100, y1 + (y2 - y1) * step / 100)
        for (x1, y1), (x2, y2) in zip(line.points, line.points[1:], strict=False)
        for step in range(101)
    ]


def middle(mark: svg.Shape) -> tuple[float, float]:
    """The middle of a mark."""
    if isinstance(mark, svg.Dot):
        return mark.x, mark.y
    xs, ys = zip(*mark.points, strict=True)
    return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


def test_marks_and_roofs() -> None:
    found = roofline([example.result()], example.manifest())
    (panel,) = found.panels
    assert panel.device == "NVIDIA H200"
    assert panel.memory == Roof("copy 4.34 TB/s", slope=4.34e12)
    assert panel.others == (Roof("fp32 matmul 59.0 TFLOP/s", level=5.9e13),)
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
    assert wide.fraction.value == pytest.approx(100 * example.result().rows[2].speed_of_light.fraction)
    assert wide.fraction.low < wide.fraction.value < wide.fraction.high
    assert (wide.bound, wide.needs_links) == ("memory", False)
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
    found = roofline([result, target("ch07.dense", 4.0), target("ch07.sparse", 1.0)], example.manifest())
    assert {mark.target for mark in found.panels[0].marks} == {"ch07.dense", "ch07.sparse"}
    assert reason in found.left_out


def test_rows_of_one_target_are_bars_of_their_bound() -> None:
    for flops in (example.result().problem.flops, 0.0):
        result = attrs.evolve(example.result(), problem=attrs.evolve(example.result().problem, flops=flops))
        (panel,) = roofline([result], example.manifest()).panels
        drawing = draw(panel, "ch07.memory_access")
        assert drawing.kind == "bars"
        assert drawing.title == ("ch07.memory_access: 9.5 → 76 → 82 % of copy on NVIDIA H200, ceilings of 2026-11-20")
        assert [(point.label, point.mark) for point in drawing.series[0].points] == [
            ("strided", "baseline"),
            ("coalesced", ""),
            ("wide", "best"),
            ("prefetched", ""),
            ("memcpy", "yardstick"),
        ]
        assert all(point.x.unit == "%" and point.x.low < point.x.value for point in drawing.series[0].points)


def test_rows_without_a_bound_keep_the_plane() -> None:
    rows = [attrs.evolve(row, speed_of_light=None) for row in example.rows()]
    (panel,) = roofline([attrs.evolve(example.result(), rows=rows)], example.manifest()).panels
    assert panel.is_plane
    assert draw(panel).message.startswith("no row has a bound; ")


@pytest.mark.parametrize(
    ("bound", "amounts"),
    [
        ("pcie", {"to_device_bytes": 1e9}),
        ("wire", {"wire_bytes": 1e9, "world_size": 2}),
        ("memory", {"wire_bytes": 1e9, "world_size": 16, "nodes": 2}),
    ],
)
def test_rows_bound_by_links_are_counted_and_not_drawn(bound: str, amounts: dict[str, float]) -> None:
    copied = target("ch02.copies", 0.5, bound=bound, **amounts)
    found = roofline([copied, target("ch07.dense", 4.0), target("ch07.sparse", 1.0)], example.manifest())
    (panel,) = found.panels
    assert {mark.target for mark in panel.marks} == {"ch07.dense", "ch07.sparse"}
    count = "5 implementations bound by links (PCIe, NVLink, between nodes), which have no roof in this plane"
    assert f"ch02.copies: {count}" in found.left_out
    assert draw(panel).message.endswith(f" Not drawn: {count}.")


def test_no_name_in_a_plane_covers_a_mark_a_roof_or_a_leader() -> None:
    targets = [target(f"ch07.a_target_with_a_name_{at}", 0.3 * 1.6**at) for at in range(16)]
    (panel,) = roofline(targets, example.manifest()).panels
    for wide in (layout.WIDE, layout.NARROW):
        made = picture(draw(panel), wide=wide)
        names = [
            shape for shape in made.shapes
            if isinstance(shape, svg.Text) and shape.kind in ("note", "label strong") and shape.anchor == "start"
        ]  # fmt: skip
        lines = [shape for shape in made.shapes if shape.kind in ("course roof", "leader")]
        marks = [shape for shape in made.shapes if shape.kind.startswith("mark ") and shape.title]
        assert len(names) > 20
        assert {shape.kind for shape in lines} == {"course roof", "leader"}
        assert len(marks) == sum(len(series.points) for series in draw(panel).series if not series.joined)
        for name in names:
            wide_of = svg.text_width(name.content) * (layout.BOLD if "strong" in name.kind else 1.0)
            for x, y in [place for shape in lines for place in along(shape)] + [middle(mark) for mark in marks]:
                inside = name.x < x < name.x + wide_of and name.y - 9 < y < name.y
                assert not inside, (name, x, y)


def test_the_best_of_a_target_has_its_name_and_the_others_numbers_with_a_legend() -> None:
    (panel,) = roofline([target("ch07.dense", 4.0), target("ch07.sparse", 1.0)], example.manifest()).panels
    dense = draw(panel).series[-2]
    assert [(point.label, point.short) for point in dense.points] == [
        ("dense:strided 9.5 %", "1"),
        ("dense:coalesced 76 %", "2"),
        ("dense:wide 82 %", ""),
        ("dense:prefetched 9.5 %", "3"),
        ("dense:memcpy 90 %", "4"),
    ]
    texts = [shape.content for shape in picture(draw(panel)).shapes if isinstance(shape, svg.Text)]
    assert {"1", "2", "5", "6", "dense:wide 82 %", "1 dense:strided 9.5 %", "5 sparse:strided 9.5 %"} <= {*texts}
    assert "dense:strided 9.5 %" not in texts


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
    assert labels == [["fp32 matmul 59.0 TFLOP/s"], ["last-level cache 11.0 TB/s", "fp32 matmul 59.0 TFLOP/s"]]
