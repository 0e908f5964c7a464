"""The picture of a roofline: axes, roofs, and a mark with a name for each implementation."""

import math
from collections.abc import Callable, Sequence

from aiperf_core import units
from aiperf_core.render import svg
from aiperf_core.render.labels import GAP, Box, Label, around, place
from aiperf_core.render.layout import WIDE, heading
from aiperf_core.render.marks import FORMS, form_of
from aiperf_core.render.roofline import Mark, Panel
from aiperf_core.render.svg import Picture, Scale, Shape, Text, log_scale, text_width

HIGH = 350.0  # of the plane within it
LEFT, RIGHT, TOP = 66.0, 12.0, 44.0  # space around the plane
LABEL = 13.0  # height of a label
LONGEST = 260.0  # width of a label
NAMED = 24  # labels; more would cover each other


# From a mark to the address where its row is shown.
Link = Callable[[Mark], str]


def draw(panels: Sequence[Panel], title: str = "", wide: float = WIDE, link: Link | None = None) -> Picture:
    """The rooflines of devices below each other, under a title. `wide` is the width of the picture."""
    shapes, bottom = heading(title, (), wide) if title else ([], 0.0)
    for panel in panels:
        drawn, bottom = _panel(panel, bottom, wide, link)
        shapes += drawn
    told = [_told(mark) for panel in panels for mark in panel.marks]
    more = f"; and {len(told) - NAMED} more" if len(told) > NAMED else ""
    devices = ", ".join(panel.device for panel in panels)
    return Picture(wide, bottom, f"roofline of {devices}", f"{'; '.join(told[:NAMED])}{more}", shapes, "roof")


def _panel(panel: Panel, top: float, wide: float, link: Link | None) -> tuple[list[Shape], float]:
    """The roofs of a device with the marks below them, and the bottom of the panel."""
    x, y = _plane(panel, top + TOP, wide)
    device = svg.shortened(f"{panel.device}, ceilings of {panel.measured[:10]}", wide - 24)
    shapes: list[Shape] = [Text(12, top + 18, device, "label")]
    ticks = [(value, f"{value:,g}") for value in x.ticks(int(wide / 90))]
    shapes += svg.axis_below(x, y.right, y.left, ticks, "arithmetic intensity, FLOP per byte that must be moved")
    shapes += svg.axis_left(y, x.left, x.right, [(value, _round(value)) for value in y.ticks(7)], "FLOP/s")
    roofs, taken = _roofs(panel, x, y)
    leaders, names = _names(panel, named(panel, wide), x, y, taken)
    shapes += [*roofs, *_stems(panel.marks, x, y), *leaders]
    colours = _colours(panel.marks)
    for mark in sorted(panel.marks, key=lambda mark: mark.kind == "yardstick"):
        form, kind = form_of(mark.kind)
        colour = colours[mark.target] if len(colours) > 1 else mark.colour
        radius = 5 if mark.kind == "best" else 4
        shapes.append(
            svg.mark(*_at(mark, x, y), radius, form, f"{kind} {colour}", _told(mark), link(mark) if link else "")
        )
    key, bottom = svg.legend(_legend(panel.marks), x.left, x.right, y.left + 34)
    return [*shapes, *names, *key], bottom + 6


def named(panel: Panel, wide: float = WIDE) -> list[Mark]:
    """The marks that get a name: all where there are few, else baselines and the best, or the best alone.

    In a narrow picture of several targets these are the best alone.
    """
    is_crowded = wide < WIDE and len(_targets(panel.marks)) > 1
    for kinds in (("best",),) if is_crowded else (FORMS, ("baseline", "best"), ("best",)):
        marks = [mark for mark in panel.marks if mark.kind in kinds]
        if len(marks) <= NAMED:
            return marks
    return []


def _plane(panel: Panel, top: float, wide: float) -> tuple[Scale, Scale]:
    """The scales: the marks, the corners of the roof near them, and room for names."""
    slope = panel.memory.slope or 1.0
    levels = [roof.level for roof in panel.others if roof.level]
    xs = [mark.intensity for mark in panel.marks]
    ys = [mark.flop_per_s for mark in panel.marks] + (levels or [intensity * slope for intensity in xs])
    left, furthest = min(xs) / 10, max(xs + [level / slope for level in levels])
    # On the right, room for a name beside the last mark, and for what stands on the level roofs.
    room = 0.25 if wide == WIDE else 0.5
    right = furthest * 10 ** max(0.9, room * math.log10(max(furthest / left, 1.0)))
    across = log_scale(left, right, LEFT, wide - RIGHT)
    return across, log_scale(min([*ys, left * slope]) / 4, max(ys) * 3, top + HIGH, top)


def _at(mark: Mark, x: Scale, y: Scale) -> tuple[float, float]:
    return x(mark.intensity), y(mark.flop_per_s)


def _roofs(panel: Panel, x: Scale, y: Scale) -> tuple[list[Shape], list[Box]]:
    """The roofs with their names, and the boxes that they cover."""
    roofs = (panel.memory, *panel.others)
    highest = max((roof.level for roof in panel.others if roof.level), default=y.high)
    steepest = max(roof.slope for roof in roofs if roof.slope)
    shapes: list[Shape] = []
    boxes: list[Box] = []
    for roof in roofs:
        reach = text_width(roof.label)
        if roof.slope:
            left, right = max(x.low, y.low / roof.slope), min(x.high, highest / roof.slope)
            ends = (x(left), y(left * roof.slope), x(right), y(right * roof.slope))
            angle = math.atan2(ends[1] - ends[3], ends[2] - ends[0])
            # Near its left end, where marks are rare, and turned as the roof is.
            at_x, at_y = ends[0] + 0.06 * (ends[2] - ends[0]), ends[1] + 0.06 * (ends[3] - ends[1])
            label = Text(at_x, at_y - 6, roof.label, "label", turned=math.degrees(angle))
            boxes += _pieces(at_x, at_y - 10, at_x + reach * math.cos(angle), at_y - 10 - reach * math.sin(angle))
        else:
            level = roof.level or y.low
            ends = (x(max(x.low, level / steepest)), y(level), x.right, y(level))
            label = Text(x.right - 2, ends[1] - 6, roof.label, "label", "end")
            boxes.append(Box(x.right - reach, -ends[1] + 3, x.right, -ends[1] + 16))
        second = roof.slope and roof is not panel.memory
        shapes += [svg.line(*ends, "roof second" if second else "roof"), label]
        boxes += _pieces(*ends)
    return shapes, boxes


def _pieces(x1: float, y1: float, x2: float, y2: float) -> list[Box]:
    """The boxes that a line covers, in small pieces. Heights count upwards there, downwards here."""
    count = max(1, math.ceil(math.hypot(x2 - x1, y2 - y1) / 6))
    shares = [index / count for index in range(count + 1)]
    middles = [(x1 + share * (x2 - x1), -y1 - share * (y2 - y1)) for share in shares]
    return [Box(x - 3, y - 3, x + 3, y + 3) for x, y in middles]


def _stems(marks: Sequence[Mark], x: Scale, y: Scale) -> list[Shape]:
    """From each target's lowest mark up to the roof: the distance that is left."""
    stems: list[Shape] = []
    for target in _targets(marks):
        ours = [mark for mark in marks if mark.target == target]
        reach = [*(mark.flop_per_s for mark in ours), *(mark.ceiling for mark in ours if mark.ceiling)]
        at = x(ours[0].intensity)
        stems.append(svg.line(at, y(min(reach)), at, y(max(reach)), "stem"))
    return stems


def _names(
    panel: Panel, marks: Sequence[Mark], x: Scale, y: Scale, taken: Sequence[Box]
) -> tuple[list[Shape], list[Shape]]:
    """The names of these marks, where nothing else is, and lines to those that stand further away."""
    names = [_label(mark, panel.marks, _room(x(mark.intensity), x)) for mark in marks]
    labels = [
        Label(x(mark.intensity), -y(mark.flop_per_s), text_width(name, _size(mark)), mark.target)
        for mark, name in zip(marks, names, strict=True)
    ]
    unnamed = [mark for mark in panel.marks if mark not in marks]
    taken = [*taken, *(around(x(mark.intensity), -y(mark.flop_per_s)) for mark in unnamed)]
    page = Box(x.left, -y.left, x.right, -y.right)
    leaders: list[Shape] = []
    texts: list[Shape] = []
    spots = place(labels, LABEL, page, taken) if labels else []
    for mark, name, spot in zip(marks, names, spots, strict=True):
        at_x, at_y = _at(mark, x, y)
        if abs(-spot.y - at_y) > 5:
            leaders.append(svg.line(at_x, at_y, spot.x + (3 if spot.turned else -3), -spot.y, "leader"))
        kind = "label strong" if mark.kind == "best" else "label"
        texts.append(Text(spot.x, -spot.y + 4, name, kind, "end" if spot.turned else "start"))
    return leaders, texts


def _legend(marks: Sequence[Mark]) -> list[tuple[str, str, str]]:
    """The kinds of marks, and the targets by colour where each has a colour of its own."""
    colours = _colours(marks)
    found = {mark.kind for mark in marks}
    entries = [
        (form, f"{looks} baseline", "best variant" if kind == "best" else kind)
        for kind, (form, looks) in FORMS.items()
        if kind in found
    ]
    if 1 < len(colours) <= len(svg.SERIES):
        entries += [("square", f"mark {colour}", target) for target, colour in colours.items()]
    return entries


def _targets(marks: Sequence[Mark]) -> list[str]:
    return list(dict.fromkeys(mark.target for mark in marks))


def _colours(marks: Sequence[Mark]) -> dict[str, str]:
    """A colour for each target. With more targets than colours, colours come again."""
    return {target: svg.SERIES[index % len(svg.SERIES)] for index, target in enumerate(_targets(marks))}


def _room(at: float, x: Scale) -> float:
    """The longest name that fits beside a mark, at the right or at the left."""
    return min(LONGEST, max(x.right - at, at - x.left) - GAP)


def _size(mark: Mark) -> float:
    """The font size by which the width of a name is taken: names of the best are bold."""
    return 12.0 if mark.kind == "best" else 11.0


def _label(mark: Mark, marks: Sequence[Mark], room: float) -> str:
    """`wide 82 %`, no wider than `room`; with its target where the legend does not tell targets apart."""
    many = len(_targets(marks)) > len(svg.SERIES)
    name = f"{mark.target.rpartition('.')[2]}:{mark.name}" if many else mark.name
    fraction = "" if mark.fraction is None else f" {units.percent(mark.fraction)}"
    return svg.shortened(name, room - text_width(fraction, _size(mark)), _size(mark)) + fraction


def _told(mark: Mark) -> str:
    fraction = "" if mark.fraction is None else f", SOL {units.percent(mark.fraction)}"
    rate = units.rate(mark.flop_per_s, "FLOP/s")
    return f"{mark.target}:{mark.name} {rate} at {mark.intensity:.3g} FLOP/B{fraction}"


def _round(rate: float) -> str:
    """A round number with its prefix: `30 T`."""
    scale, prefix = next(((scale, prefix) for scale, prefix in units.RATE_PREFIXES if rate >= scale), (1.0, ""))
    return f"{rate / scale:g} {prefix}".rstrip()
