"""The boxes of the texts of a picture, by the font with the widest letters that a reader may have."""

from aiperf_core.render import svg
from aiperf_core.render.labels import Box
from aiperf_core.render.svg import Picture, Text


def boxes_of(picture: Picture) -> list[tuple[str, Box]]:
    """The content and the box of each text that is not turned; a box counts downwards."""
    found = []
    for text in picture.shapes:
        if isinstance(text, Text) and not text.turned:
            size = float(svg.properties(text)["font-size"].removesuffix("px"))
            width = svg.text_width(text.content, size)
            left = text.x - {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
            found.append((text.content, Box(left, text.y - size * 0.75, left + width, text.y + 2)))
    return found
