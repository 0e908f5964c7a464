"""Validators for the records that plugins contribute, and the import of the classes that they name."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from aiperf_core.errors import SkipError, UsageError

if TYPE_CHECKING:
    from attrs import Attribute

Validator = Callable[[Any, "Attribute[Any]", Any], None]
Base = TypeVar("Base")
Record = TypeVar("Record")


def named(word: str, fits: Callable[[object], bool], rule: str) -> Validator:
    """Accept names that `fits` accepts. `word` names the kind of record; `rule` ends the message, with an example."""

    def check(_: Any, __: "Attribute[Any]", value: object) -> None:
        if not fits(value):
            raise ValueError(f"{value!r} cannot name {_with_article(word)}: {rule}")

    return check


def one_line(word: str) -> Validator:
    """Accept one line of text that is not empty."""

    def check(record: Any, attribute: "Attribute[Any]", value: object) -> None:
        if not isinstance(value, str) or not value.strip() or len(value.splitlines()) > 1:
            raise ValueError(f"{word} {record.name!r} needs a {attribute.name} of one line; found {value!r}")

    return check


def class_path(word: str) -> Validator:
    """Accept `"package.module:Class"`."""

    def check(record: Any, attribute: "Attribute[Any]", value: object) -> None:
        if not is_path(value):
            raise ValueError(f"{word} {record.name!r} needs {attribute.name}='module:Class'; found {value!r}")

    return check


def json_file(word: str, *, optional: bool = False) -> Validator:
    """Accept `"package:folder/file.json"`, and None where the file is optional."""

    def check(record: Any, attribute: "Attribute[Any]", value: object) -> None:
        if not (is_path(value) and str(value).endswith(".json")) and not (optional and value is None):
            none = " or none" if optional else ""
            raise ValueError(
                f"{word} {record.name!r} needs {attribute.name}='package:folder/file.json'{none}; found {value!r}"
            )

    return check


def read_file(path: str) -> bytes:
    """The content of `"package:folder/file"`. Raises OSError or ImportError where the package lacks it."""
    from importlib.resources import files

    package, _, name = path.partition(":")
    return files(package).joinpath(name).read_bytes()


def is_path(value: object) -> bool:
    """Whether a value has the form `"package.module:attribute"`."""
    return isinstance(value, str) and all(value.partition(":"))


def resolve(path: str) -> Any:
    """Import the object that `"package.module:attribute"` names. Raises what the import raises."""
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def make(path: str, base: type[Base], *arguments: object) -> Base:
    """An instance of the class at `path`, which must be derived from `base`. Raises `SkipError` when that fails."""
    try:
        made = resolve(path)(*arguments)
    except Exception as error:
        raise SkipError(f"its class {path} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(made, base):
        raise SkipError(f"its class {path} is not derived from {base.__module__}.{base.__qualname__}")
    return made


def known(name: str, records: Mapping[str, Record], word: str) -> Record:
    """The record of that name; `word` names its kind. Raises `UsageError` for an unknown name."""
    if name not in records:
        accepted = ", ".join(sorted(records))
        raise UsageError(
            f"{name!r} is not {_with_article(word)}; known are {accepted}. See what provides them: aiperf plugins"
        )
    return records[name]


def as_names(value: str | Iterable[str]) -> tuple[str, ...]:
    """A tuple of names; a single string, as in `devices=("cuda")`, is one name."""
    return (value,) if isinstance(value, str) else tuple(value)


def _with_article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
