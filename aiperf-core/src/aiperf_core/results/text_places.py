"""The line of a place in a TOML or JSON file, such as `gates[1].floor`, for error messages."""

import json
import re


def line_of(text: str, place: str, *, toml: bool) -> int | None:
    """The line of a place, the first being 1; None where it is not found."""
    steps = [int(one) if one.isdigit() else one for one in re.findall(r"\w[\w-]*", place)]
    if not steps or place == "the top level":
        return None
    return _in_toml(text, steps) if toml else _in_json(text, steps)


def _in_toml(text: str, steps: list[str | int]) -> int | None:
    """The line of the key, or of the header of the table that should have it."""
    table: list[str | int] = []
    counts: dict[str, int] = {}
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        here: list[str | int]
        if found := re.match(r"\s*\[\[\s*([^\]]+?)\s*\]\]", line):
            name = found[1].replace('"', "")
            counts[name] = counts.get(name, -1) + 1
            table = here = [*name.split("."), counts[name]]
        elif found := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$", line):
            table = here = [*found[1].replace('"', "").split(".")]
        elif found := re.match(r"""\s*([\w."'-]+)\s*=""", line):
            here = [*table, *re.sub("[\"']", "", found[1]).split(".")]
        else:
            continue
        if here == steps[: len(here)] and (best is None or len(here) > best[0]):
            best = len(here), number
    return best[1] if best else None


def _in_json(text: str, steps: list[str | int]) -> int | None:
    """The line of the value, or of the innermost value around it that there is."""
    decoder, at, found = json.JSONDecoder(), 0, None
    for step in steps:
        at = _past_space(text, at)
        if at >= len(text) or text[at] != ("[" if isinstance(step, int) else "{"):
            break
        inner = _entry(text, at, step, decoder)
        if inner is None:
            break
        found = at = inner
    return text.count("\n", 0, found) + 1 if found is not None else None


def _entry(text: str, at: int, step: str | int, decoder: json.JSONDecoder) -> int | None:
    """Where the value of a key, or of an item, begins."""
    number, at = 0, _past_space(text, at + 1)
    while at < len(text) and text[at] not in "]}":
        key: str | int = number
        if isinstance(step, str):
            key, at = decoder.raw_decode(text, at)
            at = _past_space(text, at) + 1
        at = _past_space(text, at)
        if key == step:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _past_space(text, at)
        if text[at : at + 1] == ",":
            at = _past_space(text, at + 1)
        number += 1
    return None


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
