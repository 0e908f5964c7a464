"""Issue: a way in which a benchmark's number can be untrue, and the guard against it.

Records only. This module imports neither torch nor a check, so that plugins can contribute issues when they are loaded.
"""

import re
from collections.abc import Iterable

from attrs import Attribute, field, frozen

from aiperf_core.errors import UsageError
from aiperf_core.targets import nearest

POLICIES = ("strict", "standard", "lenient")

# What a finding does to the row, from the hardest to the mildest.
EFFECTS = ("invalid", "warning", "ignored")

# Beside these: `gpus>=N` and `ranks>=N`.
NEEDS = ("cuda", "cupti", "nvml", "compiler", "bare_metal", "linux")

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_COUNT = re.compile(r"(gpus|ranks)>=[1-9][0-9]*")


def _one_paragraph(instance: object, attribute: "Attribute[str]", value: object) -> None:
    if not isinstance(value, str) or not value.strip() or len(value.splitlines()) > 1:
        owner = getattr(instance, "id", None) or type(instance).__name__
        raise ValueError(f"{owner!r} needs {attribute.name} in one paragraph; found {value!r}")


def _dotted_name(_: object, attribute: "Attribute[str]", value: object) -> None:
    parts = value.split(".") if isinstance(value, str) else []
    if len(parts) != 2 or not all(map(_NAME.fullmatch, parts)):
        raise ValueError(f"{value!r} cannot be the {attribute.name} of an issue: 'category.issue' in snake case can")


@frozen
class Severity:
    """Effect of a finding on the row under each policy: `invalid`, `warning` or `ignored`.

    A milder policy is never harder: anything else raises `ValueError`.
    """

    strict: str
    standard: str
    lenient: str

    def __attrs_post_init__(self) -> None:
        """Check the words and their order."""
        effects = tuple(getattr(self, policy) for policy in POLICIES)
        for policy, effect in zip(POLICIES, effects, strict=True):
            if effect not in EFFECTS:
                accepted = ", ".join(map(repr, EFFECTS))
                raise ValueError(f"{effect!r} is not what a finding does under {policy!r}; accepted: {accepted}")
        if sorted(effects, key=EFFECTS.index) != list(effects):
            raise ValueError(f"{' / '.join(effects)} grows harder from strict to lenient; it may only grow milder")


ALWAYS = Severity("invalid", "invalid", "invalid")
HARD = Severity("invalid", "invalid", "warning")
SOFT = Severity("invalid", "warning", "warning")
NOTE = Severity("warning", "warning", "ignored")


@frozen
class Incident:
    """Where an issue was met. `year` is None where the source does not say; `url` is public."""

    year: int | None = field()
    title: str = field(validator=_one_paragraph)
    url: str = field()

    @year.validator
    def _check_year(self, _: "Attribute[int | None]", value: object) -> None:
        if value is not None and not (isinstance(value, int) and 1900 <= value <= 2100):
            raise ValueError(f"{value!r} is not the year of an incident; accepted: a year, or None")

    @url.validator
    def _check_url(self, _: "Attribute[str]", value: object) -> None:
        if not isinstance(value, str) or not re.fullmatch(r"https?://[^\s/]+/\S+", value):
            raise ValueError(f"{value!r} is not the address of an incident; accepted: 'https://…'")


@frozen(kw_only=True)
class Guard:
    """A check that guards issues.

    `place` says when it works: `loop`, as a part of taking samples, or `after` the samples were taken. `by` names the
    processes that do it, and `does` completes the sentence that starts with them.
    """

    name: str
    place: str
    by: str
    does: str = field(validator=_one_paragraph)


@frozen(kw_only=True)
class Exclusion:
    """Why an issue cannot happen in a run.

    construction: the part of the harness that leaves no room for the issue, in one sentence.
    test: the test that fails where that part is broken, as pytest names it: `aiperf-core/tests/…/test_x.py::test_y`.
    """

    construction: str = field(validator=_one_paragraph)
    test: str = field(validator=_one_paragraph)


@frozen(kw_only=True)
class Issue:
    """A way in which a number can be untrue.

    id: `category.issue`, in snake case. It stands in findings and result files, so it never changes.
    title: what it is, in a few words.
    happens: what happens, for a reader who never met it.
    guard: the name of the check that guards it.
    protection: how the guard stops it or shows it.
    needs: what a machine must offer for the issue to be observable; see `NEEDS`.
    severity: what a finding does to the row under each policy.
    incidents: where it was met.
    excluded: why the issue cannot happen, where the harness excludes it by construction; None for all others.
    owed: the machine on which the issue's proof is still to be recorded; None where the proof is there.
    predecessor: `Category / Issue` in the list of 95 that this registry started from; None where that list lacks it.

    A record that breaks a rule raises `ValueError`, which sets its plugin aside.
    """

    id: str = field(validator=_dotted_name)
    title: str = field(validator=_one_paragraph)
    happens: str = field(validator=_one_paragraph)
    guard: str = field()
    protection: str = field(validator=_one_paragraph)
    needs: tuple[str, ...] = field(default=())
    severity: Severity = field(default=HARD)
    incidents: tuple[Incident, ...] = field(default=())
    excluded: Exclusion | None = field(default=None)
    owed: str | None = field(default=None)
    predecessor: str | None = field(default=None)

    @guard.validator
    def _check_guard(self, _: "Attribute[str]", value: object) -> None:
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            raise ValueError(f"{value!r} cannot name the guard of {self.id!r}: a word in snake case can")

    @needs.validator
    def _check_needs(self, _: "Attribute[tuple[str, ...]]", value: object) -> None:
        if not isinstance(value, tuple):
            raise ValueError(f"{self.id!r} needs its needs as a tuple; found {value!r}")
        for need in value:
            if need not in NEEDS and not (isinstance(need, str) and _COUNT.fullmatch(need)):
                accepted = ", ".join(map(repr, (*NEEDS, "gpus>=2", "ranks>=2")))
                raise ValueError(f"{need!r} is not what {self.id!r} can need of a machine; accepted: {accepted}")

    @severity.validator
    def _check_severity(self, _: "Attribute[Severity]", value: object) -> None:
        if not isinstance(value, Severity):
            raise ValueError(f"{self.id!r} needs a Severity; found {value!r}")

    @incidents.validator
    def _check_incidents(self, _: "Attribute[tuple[Incident, ...]]", value: object) -> None:
        if not isinstance(value, tuple) or not all(isinstance(one, Incident) for one in value):
            raise ValueError(f"{self.id!r} needs its incidents as a tuple of Incident; found {value!r}")

    @property
    def category(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]


class UnknownIssueError(UsageError):
    """A name is neither an issue's id nor a category. The message names what comes nearest."""

    def __init__(self, name: str, issues: Iterable[Issue]) -> None:
        ids, categories = [], set()
        for one in issues:
            ids.append(one.id)
            categories.add(one.category)
        hint = nearest(name, ids) or nearest(name, categories) or " See them all: aiperf validity"
        super().__init__(f"{name!r} is not a validity issue.{hint}")
