"""Calculators that need no file: the size of a cache, the price of a token."""

from typing import Any

import click
from attrs import frozen

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.sources.errors import NotFoundError
from aiperf_core.errors import AiperfError, UsageError
from aiperf_core.names import words
from aiperf_core.report.result import Result
from aiperf_core.targets import nearest

_8B = (("layers", "32"), ("kv-heads", "8"), ("head-dim", "128"))
_70B = (("layers", "80"), ("kv-heads", "8"), ("head-dim", "128"))
# Calculators whose options need no file of the reader, each with proposed questions: pairs of text and options.
OFFERED: dict[str, tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = {
    "kv-cache": (
        ("How large is the cache of 8,192 tokens of an 8B model (as Llama 3)?", (*_8B, ("tokens", "8192"))),
        ("How many such sequences fit in 24 GiB?", (*_8B, ("tokens", "8192"), ("memory", "24GiB"))),
        (
            "How many sequences of 32,768 tokens of a 70B model fit in 80 GiB, as of an H100?",
            (*_70B, ("tokens", "32768"), ("memory", "80GiB")),
        ),
        ("The same in FP8?", (*_70B, ("tokens", "32768"), ("memory", "80GiB"), ("dtype", "fp8"))),
    ),
    "cost-per-token": (
        (
            "What does electricity cost at 700 W, 1,500 tokens/s and $0.16 a kWh?",
            (("watts", "700"), ("tokens-per-second", "1500"), ("tariff", "0.16")),
        ),
        (
            "What does a rented GPU cost at $2 an hour and 1,500 tokens/s?",
            (("tokens-per-second", "1500"), ("rate", "2")),
        ),
        (
            "The same where it is idle 40 % of the time?",
            (("tokens-per-second", "1500"), ("rate", "2"), ("utilisation", "0.6")),
        ),
    ),
}
LONGEST = 100  # letters of an option
# Options that name a file, and how the result is shown.
_NOT_HERE = ("config", "ignore", "out", "as_json", "help")


@frozen(kw_only=True)
class Calculator:
    """A calculator with proposed questions and their addresses, and the fields of its form."""

    name: str
    about: str
    presets: list[tuple[str, str]]
    form: list[shown.Option]
    chosen: bool


def page(asked: Asked) -> View:
    """The calculators; `calc` names the one whose options the query has."""
    name = asked.one("calc")
    result, problem = None, ""
    if name:
        try:
            result = computed(asked)
        except AiperfError as error:
            if isinstance(error, NotFoundError):
                raise
            problem = str(error)
    pairs = [(key, text) for key, some in _given(asked).items() for text in some]
    from aiperf_calc.cli.calc import calc

    return document.view(
        asked,
        result,
        api=filters.with_query(f"/api/v1/calc/{name}", pairs) if name else "",
        command=["calc", name, *(part for key, text in pairs for part in (f"--{key}", text))] if name else (),
        template="calc.html.jinja",
        problem=problem,
        filtered=False,
        calculators=[_calculator(asked, one, calc.commands[one], one == name) for one in OFFERED],
        others=[(one, command.get_short_help_str(200)) for one, command in calc.commands.items() if one not in OFFERED],
    )


def computed(asked: Asked) -> Result:
    """The answer of a calculator. Raises NotFoundError for an unknown name, UsageError for options that do not fit."""
    from aiperf_calc.cli.calc import calc

    name = asked.path.get("name") or asked.one("calc")
    if name not in OFFERED:
        raise NotFoundError(f"{words(name[:80])!r} is no calculator here.{nearest(name, list(OFFERED))} "
                            f"There are: {', '.join(OFFERED)}")  # fmt: skip
    command = calc.commands[name]
    known = [_name(one) for one in _options(command)]
    arguments = []
    for key, some in _given(asked).items():
        if key not in known:
            raise UsageError(
                f"{words(key[:80])!r} is no option here.{nearest(key, known)} Accepted: {', '.join(known)}."
            )
        for text in some:
            if len(text) > LONGEST:
                raise UsageError(f"{key} takes at most {LONGEST} letters.")
            arguments.append(f"--{key}={text}")
    try:
        values = command.make_context(name, arguments).params
    except click.UsageError as error:
        raise UsageError(words(error.format_message())) from None
    function: Any = command.callback
    asked_for = {key: value for key, value in values.items() if key not in ("out", "as_json")}
    try:
        result: Result = function.__wrapped__(**asked_for)
    except (OverflowError, ZeroDivisionError, ValueError) as error:
        raise UsageError(f"these figures cannot be computed: {words(str(error))}") from None
    return result


def _given(asked: Asked) -> dict[str, list[str]]:
    return {key: some for key, some in filters.others(asked.query).items() if key != "calc"}


def _options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and one.name not in _NOT_HERE]


def _name(option: click.Option) -> str:
    return option.opts[-1].removeprefix("--")


def _calculator(asked: Asked, name: str, command: click.Command, chosen: bool) -> Calculator:
    form = [
        shown.Option(
            name=_name(one),
            label=_name(one).replace("-", " "),
            help=one.help or "",
            kind="text",
            value=asked.one(_name(one)) if chosen else "",
            placeholder=str(one.default) if isinstance(one.default, str | int | float) else str(one.metavar or ""),
        )
        for one in _options(command)
    ]
    presets = [(text, filters.with_query(asked.of.path, [("calc", name), *options])) for text, options in OFFERED[name]]
    return Calculator(name=name, about=command.get_short_help_str(200), presets=presets, form=form, chosen=chosen)
