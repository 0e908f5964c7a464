"""How an implementation looks in every picture of a target: a colour by its place in the target, a mark by its role."""

from collections.abc import Iterable, Mapping

from aiperf_core.render.svg import SERIES
from aiperf_core.results.models import DISBELIEVED

# By role: the form of a mark (see `svg.mark`) and its classes.
FORMS: Mapping[str, tuple[str, str]] = {
    "baseline": ("circle", "mark hollow"),
    "variant": ("circle", "mark"),
    "best": ("diamond", "mark"),
    # See-through: it often stands where the best variant does.
    "yardstick": ("triangle", "mark open"),
}
# By verdict: the form of a mark and its classes. A verdict is told by its form and its word before its colour.
VERDICTS: Mapping[str, tuple[str, str]] = {
    "FASTER": ("triangle", "mark v-FASTER"),
    "SMALLER": ("triangle", "mark v-SMALLER"),
    "IMPROVED": ("triangle", "mark v-IMPROVED"),
    "MET": ("triangle", "mark v-MET"),
    "FITS": ("triangle", "mark v-FITS"),
    "SLOWER": ("down", "mark v-SLOWER"),
    "LARGER": ("down", "mark v-LARGER"),
    "REGRESSION": ("down", "mark v-REGRESSION"),
    "MISSED": ("down", "mark v-MISSED"),
    "FAILS": ("down", "mark v-FAILS"),
    "SAME": ("square", "mark v-SAME"),
    "MEASURED": ("circle", "mark v-MEASURED"),
    "INCONCLUSIVE": ("diamond", "hollow v-INCONCLUSIVE"),
    "UNCLEAR": ("diamond", "hollow v-UNCLEAR"),
    "MAYBE": ("diamond", "hollow v-MAYBE"),
    "SUSPECT": ("diamond", "hollow v-SUSPECT"),
    **{word.value: ("cross", "hollow disbelieved") for word in DISBELIEVED},
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
