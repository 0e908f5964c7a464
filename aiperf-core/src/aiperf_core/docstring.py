"""The docstring of a benchmark's file in parts: paragraphs, and sections such as `Question    text`."""

import re
from collections.abc import Iterator

# `Numbers     b = 2a + 1 over n float32 values`, with the lines that follow.
_SECTION = re.compile(r"(?P<label>[A-Z]\w*)  +(?P<text>.+)", re.DOTALL)


def parts(docstring: str) -> Iterator[list[tuple[str, str]]]:
    """The blocks of a docstring, which blank lines separate: of each its sections as label and text.

    A line at the margin with a label begins a section. Text without a label has the label ''.
    """
    for block in docstring.split("\n\n"):
        sections = []
        for section in re.split(r"\n(?=[A-Z]\w*  +\S)", block):
            match = _SECTION.fullmatch(section)
            sections.append((match["label"], match["text"]) if match else ("", section))
        yield sections


def labels(docstring: str) -> tuple[str, ...]:
    """The labels of a docstring's sections, in order."""
    return tuple(label for block in parts(docstring) for label, _ in block if label)


def section(docstring: str, label: str) -> str:
    """The text of the section of that label; empty without one."""
    return next((text for block in parts(docstring) for found, text in block if found == label), "")
