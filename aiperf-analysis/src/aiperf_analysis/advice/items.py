"""The items of the checklist: a TOML file for each topic in the folder `items`."""

import tomllib
from functools import cache
from importlib.resources import files

from attrs import frozen

from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.targets import nearest

BY_HAND = "by hand"


@frozen
class Item:
    """A recommendation that can be checked.

    id: unique over all topics, in lower case with hyphens.
    topic: the name of its topic.
    sentence: what to do, with the fact behind it.
    condition: when it applies.
    probe: the name of an automatic probe (`advice.probes`), or `by hand`.
    targets: benchmarks that measure the effect of the recommendation.
    """

    id: str
    topic: str
    sentence: str
    condition: str
    probe: str
    targets: tuple[str, ...]

    @property
    def automatic(self) -> bool:
        """Whether a probe answers it."""
        return self.probe != BY_HAND


@frozen
class Topic:
    """A group of items. `place`: its number, from 1."""

    name: str
    title: str
    place: int
    items: tuple[Item, ...]


@cache
def topics() -> tuple[Topic, ...]:
    """All topics in their order."""
    found = []
    for file in files(__package__).joinpath("items").iterdir():
        if not file.name.endswith(".toml"):
            continue
        page = tomllib.loads(file.read_text(encoding="utf-8"))
        items = tuple(Item(topic=page["topic"], **{**one, "targets": tuple(one["targets"])}) for one in page["item"])
        found.append(Topic(page["topic"], page["title"], page["place"], items))
    return tuple(sorted(found, key=lambda topic: topic.place))


def chosen(topic: str | None = None, search: str | None = None) -> list[Item]:
    """The items of a topic that contain every word of `search`, in any case.

    Raises UsageError for an unknown topic, and where no item has the words.
    """
    known = {one.name: one for one in topics()}
    if topic is not None and topic not in known:
        near = nearest(topic, list(known))
        raise UsageError(f"'{words(topic)}' is not a topic of the checklist.{near} Topics: {', '.join(known)}.")
    found = [item for name, one in known.items() if topic in (None, name) for item in one.items]
    sought = (search or "").lower().split()
    kept = [item for item in found if all(word in _text(item) for word in sought)]
    if not kept:
        where = f"the topic '{topic}'" if topic else "the checklist"
        raise UsageError(f"no item of {where} contains '{words(search or '')}'. Give fewer or other words.")
    return kept


def _text(item: Item) -> str:
    return " ".join((item.id, item.topic, item.sentence, item.condition, item.probe, *item.targets)).lower()
