"""What the records that plugins contribute have in common: a name, a line about it, and where its code lives."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from aiperf_core.errors import SkipError

if TYPE_CHECKING:
    from attrs import Attribute

Validator = Callable[[Any, "Attribute[Any]", Any], None]
Base = TypeVar("Base")


def named(word: str, fits: Callable[[object], bool], rule: str) -> Validator:
    """Accepts names that fit. `rule` says which do, with an example, and `word` what the record is."""

    def check(_: Any, __: "Attribute[Any]", value: object) -> None:
        if not fits(value):
            raise ValueError(f"{value!r} cannot name {_with_article(word)}: {rule}")

    return check


def one_line(word: str) -> Validator:
    """Accepts a line of text that is not empty."""

    def check(record: Any, attribute: "Attribute[Any]", value: object) -> None:
        if not isinstance(value, str) or not value.strip() or len(value.splitlines()) > 1:
            raise ValueError(f"{word} {record.name!r} needs a {attribute.name} of one line; found {value!r}")

    return check


def class_path(word: str) -> Validator:
    """Accepts `"package.module:Class"`."""

    def check(record: Any, attribute: "Attribute[Any]", value: object) -> None:
        if not is_path(value):
            raise ValueError(f"{word} {record.name!r} needs {attribute.name}='module:Class'; found {value!r}")

    return check


def is_path(value: object) -> bool:
    """Whether this is `"package.module:attribute"`, by its look."""
    return isinstance(value, str) and all(value.partition(":"))


def resolve(path: str) -> Any:
    """Import what `"package.module:attribute"` names. Raises whatever the import raises."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def make(path: str, base: type[Base], *arguments: object) -> Base:
    """An instance of the class at a path, which has to be derived from `base`.

    Raises `SkipError` with the reason where that fails.
    """
    try:
        made = resolve(path)(*arguments)
    except Exception as error:
        raise SkipError(f"its class {path} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(made, base):
        raise SkipError(f"its class {path} is not derived from {base.__module__}.{base.__qualname__}")
    return made


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
