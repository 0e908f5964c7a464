"""How a point looks in every picture: a mark by its role or verdict, a colour by its place in the target."""

from collections.abc import Iterable, Mapping

from aiperf_core.report.svg import SERIES
from aiperf_core.results.models import Verdict

FIT, FRONT = "fit", "front"
# Marks in the colour of their series: the form (see `svg.mark`) and the classes.
ROLES: Mapping[str, tuple[str, str]] = {
    "baseline": ("circle", "mark hollow"),
    "variant": ("circle", "mark"),
    "best": ("diamond", "mark"),
    # See-through: it often stands where the best variant does.
    "yardstick": ("triangle", "mark open"),
    FRONT: ("circle", "mark"),
    "dominated": ("square", "hollow"),
    "undecided": ("diamond", "hollow"),
    FIT: ("line", "mark"),
    "outside": ("circle", "open"),
}
# Marks in a colour of their own. A verdict is told by its form and its word before its colour.
_JUDGED: Mapping[str, tuple[str, str]] = {
    **{word: ("triangle", f"mark v-{word}") for word in ("FASTER", "SMALLER", "IMPROVED", "MET", "FITS")},
    **{word: ("down", f"mark v-{word}") for word in ("SLOWER", "LARGER", "REGRESSION", "MISSED", "FAILS")},
    **{word: ("diamond", f"hollow v-{word}") for word in ("INCONCLUSIVE", "UNCLEAR", "MAYBE", "SUSPECT")},
    "SAME": ("square", "mark v-SAME"),
    "MEASURED": ("circle", "mark v-MEASURED"),
    "throttled": ("circle", "held"),
    "OVERLOAD": ("diamond", "mark disbelieved"),
    **{word.value: ("cross", "hollow disbelieved") for word in Verdict if not word.is_believed},
}
MARKS: Mapping[str, tuple[str, str]] = {**ROLES, **_JUDGED}
_BASELINE, _OTHERS = SERIES[-1], SERIES[:-1]


def colours(implementations: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The class of the colour of each implementation, from the names and roles of all in the order of the target.

    The baseline and its control are grey. Of more implementations than colours, some share a colour.
    """
    classes: dict[str, str] = {}
    others = 0
    for name, role in implementations:
        if role in ("baseline", "control"):
            classes[name] = _BASELINE
        else:
            classes[name] = _OTHERS[others % len(_OTHERS)]
            others += 1
    return classes
