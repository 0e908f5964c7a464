"""The options of an analysis: a class of attrs whose fields become options of the command and parameters of a URL.

    @frozen
    class Options:
        '''Options of this analysis.'''

        objective: tuple[str, ...] = option(("time", "memory"), "What to optimise.", metavar="NAME,NAME")
        samples: int = option(2000, "Draws of the bootstrap.")

The types that a field may have: `str`, `int`, `float`, `bool`, `Path`, each with `| None`, and `tuple[str, ...]`, which
is given as a comma-separated list or by repeating the option.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.targets import nearest

HELP, METAVAR, CHOICES, CONVERT, LOCAL = "help", "metavar", "choices", "convert", "local"
_TAKES = "takes"
F = TypeVar("F", bound=Callable[..., Any])


@attrs.frozen
class NoOptions:
    """The options of an analysis without options."""


def option(
    default: Any,
    help: str,  # noqa: A002  # as of click
    *,
    metavar: str | None = None,
    choices: Sequence[str] = (),
    convert: Callable[[str], Any] | None = None,
    local: bool = False,
) -> Any:
    """Make a field of a class of options.

    choices: the accepted words.
    convert: makes the value from the text; raises ValueError with what is accepted. For types not listed above.
    local: accepted on a command line only, never in a URL of a server.
    """
    return attrs.field(
        default=default,
        metadata={HELP: help, METAVAR: metavar, CHOICES: tuple(choices), CONVERT: convert, LOCAL: local},
    )


def takes_files(function: F) -> F:
    """Mark an analysis of files, such as traces: it is called with a list of paths instead of a `Selection`."""
    setattr(function, _TAKES, "files")
    return function


def of_files(function: Callable[..., Any]) -> bool:
    """Tell an analysis of files, which is called with their paths, from one of a selection of bundles."""
    return getattr(function, _TAKES, "bundles") == "files"


def options_of(function: Callable[..., Any]) -> type[Any]:
    """The class of options of an analysis, by the annotation of the parameter `options`."""
    annotated = get_type_hints(function).get("options", NoOptions)
    return annotated if attrs.has(annotated) else NoOptions


def kind_of(options: type[Any], name: str) -> type:
    """The type of a field without `| None`; `tuple` for several words."""
    hint = get_type_hints(options)[name]
    if get_origin(hint) in (Union, UnionType):
        hint = next(member for member in get_args(hint) if member is not NoneType)
    origin: type = get_origin(hint) or hint
    return origin


def is_local(options: type[Any], field: "attrs.Attribute[Any]") -> bool:
    """Tell an option of command lines only: it is declared so, or it is a path."""
    return bool(field.metadata.get(LOCAL)) or kind_of(options, field.name) is Path


def from_texts(options: type[Any], texts: Mapping[str, str | Sequence[str]]) -> Any:
    """The options from texts by name, as of a URL. Raises UsageError for an unknown name or value.

    Options of command lines only are unknown here.
    """
    known = {field.name.replace("_", "-"): field for field in attrs.fields(options) if not is_local(options, field)}
    given: dict[str, Any] = {}
    for name, text in texts.items():
        if name not in known:
            accepted = ", ".join(known) or "none"
            raise UsageError(f"{words(name)!r} is no option here.{nearest(name, list(known))} Accepted: {accepted}.")
        given[known[name].name] = value_of(options, known[name], text)
    return options(**given)


def value_of(options: type[Any], field: "attrs.Attribute[Any]", text: str | Sequence[str]) -> Any:
    """The value of a field from a text, or from several. Raises UsageError with what is accepted."""
    name, kind = f"--{field.name.replace('_', '-')}", kind_of(options, field.name)
    texts = [text] if isinstance(text, str) else list(text)
    if kind is tuple:
        parts = tuple(part.strip() for listed in texts for part in listed.split(",") if part.strip())
        for part in parts:
            _check_choice(name, part, field.metadata[CHOICES])
        return parts
    last = texts[-1]
    convert: Callable[[str], Any] = field.metadata.get(CONVERT) or _CONVERTERS.get(kind, str)
    _check_choice(name, last, field.metadata.get(CHOICES, ()))
    try:
        return convert(last)
    except ValueError as error:
        accepted = str(error) if field.metadata.get(CONVERT) else f"it takes {_NOUNS.get(kind, 'a text')}"
        raise UsageError(f"{name} got {words(last)!r}; {accepted}.") from None


_NOUNS = {bool: "true or false", int: "a whole number", float: "a number"}


def _check_choice(name: str, text: str, choices: Sequence[str]) -> None:
    if choices and text not in choices:
        raise UsageError(f"{name} got {words(text)!r}.{nearest(text, list(choices))} Accepted: {', '.join(choices)}.")


def _truth(text: str) -> bool:
    truth = {"true": True, "1": True, "yes": True, "": True, "false": False, "0": False, "no": False}.get(text.lower())
    if truth is None:
        raise ValueError
    return truth


def _number(text: str) -> float:
    number = float(text)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError
    return number


_CONVERTERS: dict[type, Callable[[str], Any]] = {bool: _truth, int: int, float: _number, Path: Path}
