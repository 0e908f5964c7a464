"""Targets: the facts about benchmarks that need no import, and the patterns that select them.

| pattern | selects |
| --- | --- |
| `all` | every target |
| `ch07` or `ch07.*` | the targets of a group |
| `ch07.memory_access` | one target |
| `ch07.memory_access:coalesced` | this implementation of the target, and its baseline |
| `tag:memory` | the targets with a tag; `memory` works too, unless a group has that name |
| `ch0[17].*gemm*` | a glob over whole names |
| `transpose` | a word without a dot that is none of these: the targets with it in their name, tags or summary |

`:implementation` may follow any of them. Names are case-sensitive; a word in lower case is found in any case. This
module imports neither torch nor any benchmark.
"""

import keyword
import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from attrs import Attribute, field, frozen

from aiperf_core.contributed import as_names, named, one_line
from aiperf_core.errors import UsageError
from aiperf_core.sweep import Point, point_name

GOALS = ("speed", "latency", "throughput", "memory")
# The core's own devices; plugins add others.
DEVICES = ("cpu", "cuda")
# The size with the number of ranks.
WORLD_SIZE = "world_size"

_GROUP = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_TAG = re.compile(r"[a-z0-9][a-z0-9-]*")
_CHAPTER = re.compile(r"ch(0[1-9]|1[0-9]|20)")
_GLOB = re.compile(r"[*?\[]")


def is_name(text: object) -> bool:
    """Whether `text` can name a target or an implementation: a Python identifier that is no keyword."""
    return isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text)


def is_device(text: object) -> bool:
    """Whether `text` can name a device: in lower case, and no other keyword of `Benchmark.workload`."""
    return is_name(text) and str(text).islower() and text not in ("smoke", "state")


def is_group(text: str) -> bool:
    """Whether `text` can name a group, the part of a target's name before the dot. Patterns reserve `all` and `tag`."""
    return _GROUP.fullmatch(text) is not None and text not in ("all", "tag")


class UnknownTarget(UsageError):
    """A pattern matches no target. `name` is the pattern without its implementation."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@frozen
class Target:
    """A line of a contents page. A field that breaks a rule below raises `ValueError`, which sets the plugin aside.

    name: the name within its group, and of its module beside `plugin.py`.
    summary: one line.
    goal: `speed`, `latency`, `throughput` or `memory`.
    devices: names of devices.
    tags: words for selection.
    module: another module, dotted and absolute.
    formerly: names that it had before, or targets that are part of it now, which the error for a target that is not
        there then explains; of another group with its group, such as `labs.draft_verify`.
    """

    name: str = field(validator=named("target", is_name, "a Python identifier can, such as 'memory_access'"))
    summary: str = field(validator=one_line("target"))
    goal: str = field()
    devices: tuple[str, ...] = field(converter=as_names)
    tags: tuple[str, ...] = field(default=(), converter=as_names)
    module: str | None = field(default=None)
    formerly: tuple[str, ...] = field(default=(), converter=as_names)

    @goal.validator
    def _check_goal(self, _: "Attribute[str]", value: object) -> None:
        if value not in GOALS:
            raise ValueError(
                f"{value!r} is not a goal for target {self.name!r}; accepted: {', '.join(map(repr, GOALS))}"
            )

    @devices.validator
    def _check_devices(self, _: "Attribute[tuple[str, ...]]", value: tuple[object, ...]) -> None:
        # The known devices depend on all plugins and on the machine, so that only the form is checked here.
        if not value:
            raise ValueError(f"target {self.name!r} names no device; accepted: 'cpu', 'cuda' and those of plugins")
        for device in value:
            if not is_device(device):
                raise ValueError(
                    f"{device!r} cannot be a device of target {self.name!r}: 'cpu', 'cuda' and those of plugins can"
                )

    @tags.validator
    def _check_tags(self, _: "Attribute[tuple[str, ...]]", value: tuple[object, ...]) -> None:
        for tag in value:
            # A tag `all` would look like the pattern for all targets.
            if not isinstance(tag, str) or not _TAG.fullmatch(tag) or tag == "all":
                raise ValueError(
                    f"{tag!r} cannot be a tag of target {self.name!r}: "
                    "lower-case letters, digits and hyphens can, such as 'cuda-cpp'"
                )

    @module.validator
    def _check_module(self, _: "Attribute[str | None]", value: object) -> None:
        if value is not None and not (isinstance(value, str) and all(map(is_name, value.split(".")))):
            raise ValueError(f"{value!r} is not the dotted name of a module for target {self.name!r}")

    @formerly.validator
    def _check_formerly(self, _: "Attribute[tuple[str, ...]]", value: tuple[object, ...]) -> None:
        for name in value:
            parts = name.split(".") if isinstance(name, str) else []
            if len(parts) not in (1, 2) or not all(map(is_name, parts)) or name == self.name:
                raise ValueError(
                    f"{name!r} cannot be a former name of target {self.name!r}: another name of its group can, "
                    "or one with its group, such as 'labs.gather'"
                )


@frozen
class InstalledTarget:
    """A target of a loaded plugin, or a module that no plugin registers, which has a name and a module only.

    name: the full name, such as `ch07.memory_access`.
    module: dotted and absolute.
    distribution, version: of the package that provides it.
    formerly: the full names that it had before.
    """

    name: str
    module: str
    summary: str = ""
    goal: str = "speed"
    devices: tuple[str, ...] = DEVICES
    tags: tuple[str, ...] = ()
    distribution: str = ""
    version: str = ""
    formerly: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The part of the name before the dot: `ch07` of `ch07.memory_access`."""
        return self.name.partition(".")[0]

    def contradicts(self, goal: str, devices: Collection[str]) -> str:
        """Where the declaration in plugin.py differs from the goal and the devices of the file; empty if nowhere."""
        parts = [f"plugin.py has the goal {self.goal!r}, the file {goal!r}"] if goal != self.goal else []
        if {*devices} != {*self.devices}:
            parts.append(
                f"plugin.py lists {', '.join(sorted(self.devices))}; the file defines {', '.join(sorted({*devices}))}"
            )
        return ", ".join(parts)


@frozen
class Selection:
    """A selected target.

    implementations: the selected implementations; empty for all of them.
    point: the values of the swept parameters; empty without a sweep.
    """

    target: InstalledTarget
    implementations: frozenset[str] = frozenset()
    point: Point = ()

    @property
    def name(self) -> str:
        """The name of the result: the target's, or that of a sweep's point, such as `ch07.memory_access@n=1000000`."""
        return point_name(self.target.name, dict(self.point))


@frozen
class TargetFilter:
    """Filter of `-k` and `--exclude` over the targets that patterns select.

    keyword: text in the name, the tags or the summary; empty for any.
    exclude: patterns of targets to omit.
    """

    keyword: str = ""
    exclude: tuple[str, ...] = ()

    def __str__(self) -> str:
        keyword = [f"-k {self.keyword}"] if self.keyword else []
        return " ".join([*keyword, *(f"--exclude {pattern}" for pattern in self.exclude)])

    def kept(self, targets: Sequence[InstalledTarget]) -> list[InstalledTarget]:
        """The targets that pass. Raises `UnknownTarget` for an excluded pattern that matches none of `targets`."""
        excluded: set[str] = set()
        for pattern in self.exclude:
            body, implementation = _split(pattern)
            if implementation:
                raise UsageError(f"--exclude takes targets, and {pattern!r} names an implementation. Give {body!r}.")
            excluded.update(target.name for target in _matching(body, targets))
        return [one for one in targets if one.name not in excluded and _mentions(one, self.keyword)]


NO_FILTER = TargetFilter()


def select(
    patterns: Iterable[str], targets: Sequence[InstalledTarget], only: TargetFilter = NO_FILTER
) -> tuple[Selection, ...]:
    """Select each matching target once, in the order of the first match.

    A target that matches both as a whole and by implementation is selected as a whole. Raises `UnknownTarget`, with the
    nearest name, for a pattern without a match, and `UsageError` if `only` keeps no selected target.
    """
    chosen: dict[str, Selection] = {}
    for pattern in patterns:
        body, implementation = _split(pattern)
        asked = frozenset({implementation} if implementation else ())
        for target in _matching(body, targets):
            before = chosen.get(target.name)
            # The empty set stands for all implementations.
            whole = not asked or (before is not None and not before.implementations)
            names = frozenset() if whole else asked | (before.implementations if before else frozenset())
            chosen[target.name] = Selection(target, names)
    kept = {target.name for target in only.kept(targets)}
    found = tuple(selection for name, selection in chosen.items() if name in kept)
    if chosen and not found:
        raise UsageError(f"{only} leaves none of {len(chosen)} selected targets. See them: aiperf list")
    return found


def _mentions(target: InstalledTarget, word: str) -> bool:
    """Whether a word is in the name, the tags or the summary. A word in lower case is found in any case."""
    texts = (target.name, *target.tags, target.summary)
    return any(word in (text.lower() if word == word.lower() else text) for text in texts)


def only_by_word(pattern: str, found: Collection[InstalledTarget]) -> list[str]:
    """The names of the targets that a word selects by their summaries alone; none for any other pattern."""
    word = pattern.partition(":")[0]
    if word == "all" or re.fullmatch(r"[\w-]+", word) is None:
        return []
    named = any(word.lower() in one.name.lower() or word in one.tags for one in found)
    return [] if named else [one.name for one in found]


def nearest(word: str, candidates: Collection[str]) -> str:
    """` Did you mean '…'?` with the candidate nearest to a misspelt word; empty when none is near."""
    for candidate in sorted(candidates):
        if word and candidate.endswith("." + word):
            return f" Did you mean {candidate!r}?"
    from difflib import get_close_matches

    close = get_close_matches(word, sorted(candidates), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def _split(pattern: str) -> tuple[str, str]:
    """Split a pattern into the part for targets and the implementation, which may be empty."""
    prefix, rest = ("tag:", pattern[4:]) if pattern.startswith("tag:") else ("", pattern)
    body, colon, implementation = rest.partition(":")
    if not body:
        raise UsageError(
            f"{pattern!r} names no target. Patterns look like 'ch07', 'ch07.memory_access' or 'tag:memory'."
        )
    if colon and not is_name(implementation):
        raise UsageError(
            f"{pattern!r} names no implementation after the colon. One looks like 'ch07.memory_access:coalesced'."
        )
    return prefix + body, implementation


def _matching(body: str, targets: Sequence[InstalledTarget]) -> list[InstalledTarget]:
    """The targets that match a pattern, in their listed order. Raises `UnknownTarget` for none."""
    if body == "all":
        found = list(targets)
    elif body.startswith("tag:"):
        found = [target for target in targets if any(fnmatchcase(tag, body[4:]) for tag in target.tags)]
    elif _GLOB.search(body):
        found = [target for target in targets if fnmatchcase(target.name, body)]
    else:
        found = _named(body, targets)
    if not found:
        raise UnknownTarget(body, _no_match(body, targets))
    return found


def _named(word: str, targets: Sequence[InstalledTarget]) -> list[InstalledTarget]:
    """The targets of a word without glob characters: a target, a group, a tag or a part of one."""
    grouped = [target for target in targets if word in (target.name, target.group)]
    tagged = [target for target in targets if word in target.tags]
    if grouped and tagged and grouped != tagged:
        raise UsageError(f"{word!r} is both a group and a tag. Say which: '{word}.*' or 'tag:{word}'.")
    if grouped or tagged or "." in word or _CHAPTER.fullmatch(word):
        return grouped or tagged
    return [target for target in targets if _mentions(target, word)]


def from_a_clone(group: str) -> str:
    """How to install a package of aiperf: no package index has them."""
    return f"in a clone of aiperf: pip install -e ./aiperf-{group}"


def _no_match(body: str, targets: Sequence[InstalledTarget]) -> str:
    """The message for a pattern without a match, with the nearest name."""
    if not targets:
        return f"{body!r} is not a target: no benchmarks are installed. Get some, {from_a_clone('ch07')}"
    tags = {tag for target in targets for tag in target.tags}
    if body.startswith("tag:"):
        return f"{body[4:]!r} is not a tag." + (nearest(body[4:], tags) or f" The tags: {', '.join(sorted(tags))}")
    if _GLOB.search(body):
        return f"{body!r} matches no target. See them all: aiperf list"
    if renamed := next((target.name for target in targets if body in target.formerly), ""):
        return f"{body!r} is not a target any more. Its name is now {renamed!r}"
    group = body.partition(".")[0]
    if _CHAPTER.fullmatch(group) and group not in {target.group for target in targets}:
        return f"{body!r} is not a target: {group} is not installed. Get it, {from_a_clone(group)}"
    names = {target.name for target in targets}
    hint = nearest(body, names) or nearest(body, {target.group for target in targets} | tags)
    return f"{body!r} is not a target." + (hint or " See them all: aiperf list")
