"""How an implementation looks in every picture of a target: a colour by its place in the target, a mark by its role."""

from collections.abc import Iterable, Mapping

from aiperf_core.render.svg import SERIES

# By role: the form of a mark (see `svg.mark`) and its classes.
FORMS: Mapping[str, tuple[str, str]] = {
    "baseline": ("circle", "mark hollow"),
    "variant": ("circle", "mark"),
    "best": ("diamond", "mark"),
    # See-through: it often stands where the best variant does.
    "yardstick": ("triangle", "mark open"),
}
_BASELINE, _OTHERS = SERIES[-1], SERIES[:-1]


def form_of(kind: str) -> tuple[str, str]:
    """The form and the classes of a mark by its kind: a role, or `best`."""
    return FORMS.get(kind, FORMS["variant"])


def colours(implementations: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The class of the colour of each implementation, from the names and roles of all in the order of the target.

    The baseline and its control are grey. Of more implementations than colours, some share a colour.
    """
    found: dict[str, str] = {}
    others = 0
    for name, role in implementations:
        if role in ("baseline", "control"):
            found[name] = _BASELINE
        else:
            found[name] = _OTHERS[others % len(_OTHERS)]
            others += 1
    return found
