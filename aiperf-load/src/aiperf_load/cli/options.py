"""The options that `run` and `sweep` share."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from aiperf_core.cli.measuring import json_option, label_option, out_option
from aiperf_core.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])
_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0}


def seconds(text: str, option: str) -> float:
    """A time such as `60`, `60s`, `200ms` or `2min`. Raises UsageError."""
    found = re.fullmatch(r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*(us|ms|s|min|h|)", text.strip(), re.ASCII)
    if not found:
        raise UsageError(f"{option} takes a time such as 60s, 200ms or 2min; got {text!r}.")
    return float(found[1]) * _UNITS[found[2]]


def _time(_: click.Context, param: click.Parameter, value: str | None) -> float | None:
    return None if value is None else seconds(value, param.opts[0])


def _tokens(_: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", value, re.ASCII)
    if not found:
        raise UsageError(f"{param.opts[0]} takes a number from 1 or a range such as 64-256; got {value!r}.")
    return int(found[1]), int(found[2] or found[1])


def _limits(context: click.Context, param: click.Parameter, value: str | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in value.split(",") if value else ():
        name, _, text = part.strip().partition("=")
        if name not in ("ttft", "tpot", "e2e", "gap") or name + "_s" in found:
            raise UsageError(
                f"--slo takes limits such as ttft=200ms,tpot=50ms,e2e=10s,gap=1s, each once; got {part!r}."
            )
        found[name + "_s"] = seconds(text, f"--slo {name}")
    return found


_OPTIONS = (
    click.option("--model", default="default", show_default=True, metavar="NAME", help="The model's name in requests."),
    click.option("--endpoint", type=click.Choice(("completions", "chat")), default="completions", show_default=True,
                 help="What requests ask for: /v1/completions or /v1/chat/completions."),
    click.option("--duration", callback=_time, default="60s", show_default=True, metavar="TIME",
                 help="How long requests arrive, such as 60s or 2min."),
    click.option("--warmup", callback=_time, metavar="TIME",
                 help="Requests that arrive in this first part of it are not counted. [default: a tenth]"),
    click.option("--timeout", callback=_time, default="60s", show_default=True, metavar="TIME",
                 help="Time limit of a request, from its arrival to its end."),
    click.option("--input-tokens", callback=_tokens, default="128", show_default=True, metavar="N[-M]",
                 help="Tokens of a prompt: a number, or a range to draw from."),
    click.option("--output-tokens", callback=_tokens, default="64", show_default=True, metavar="N[-M]",
                 help="Tokens of an answer."),
    click.option("--prompt", type=click.Choice(("ids", "words")),
                 help="Prompts of token ids or of text. [default: ids; of chat, words]"),
    click.option("--vocabulary", type=int, default=1000, show_default=True, metavar="COUNT",
                 help="Number of ids or words to draw prompts from."),
    click.option("--shared-prefix", type=int, default=0, show_default=True, metavar="TOKENS",
                 help="Tokens that all prompts begin with."),
    click.option("--natural-stop", is_flag=True, help="Answers may be shorter than --output-tokens."),
    click.option("--tokenizer", metavar="words|MODULE:FUNCTION",
                 help="Count the tokens of answers by this. [default: the server's own count]"),
    click.option("--slo", "limits", callback=_limits, metavar="ttft=200ms,...",
                 help="Limits of a good request: ttft (first token), tpot (each further token), e2e (all of it), gap "
                 "(between two tokens)."),
    click.option("--max-in-flight", "cap", type=int, metavar="COUNT",
                 help="Requests beyond this number wait; the wait counts. [default: no limit]"),
    click.option("--processes", type=int, default=1, show_default=True, metavar="COUNT",
                 help="Processes that send requests."),
    click.option("--seed", type=int, default=1, show_default=True, metavar="NUMBER",
                 help="Seed of arrivals, lengths and prompts."),
)  # fmt: skip
_BUNDLE = (
    click.option(
        "--name", default="server", show_default=True, metavar="NAME", help="Name of the document in the bundle."
    ),
    out_option("bundle", "a new folder in artifacts/runs"),
    label_option,
)
_OUTPUTS = (
    click.option(
        "--picture",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Draw the curves: an .svg, .png or .pdf file.",
    ),
    click.option(
        "--csv", "csv_file", type=click.Path(path_type=Path), metavar="FILE", help="Also write the points as CSV."
    ),
    click.option("-v", "--verbose", is_flag=True, help="Show all figures of the points, with their intervals."),
    json_option("the document as JSON"),
)


def load_options(command: Command) -> Command:
    """Add the options of a load, of its bundle and of its outputs."""
    return _added((*_OPTIONS, *_BUNDLE, *_OUTPUTS), command)


def bundle_options(command: Command) -> Command:
    """Add the options of a bundle and of outputs."""
    return _added((*_BUNDLE, *_OUTPUTS), command)


def output_options(command: Command) -> Command:
    """Add the options of outputs."""
    return _added(_OUTPUTS, command)


def _added(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def spec_of(url: str, arrivals: Any, given: dict[str, Any]) -> Any:
    """The load that the options describe. Raises UsageError."""
    from aiperf_load.spec import Limits, LoadSpec, Rules, Server, Workload, check

    chat = given["endpoint"] == "chat"
    low, high = given["input_tokens"]
    least, most = given["output_tokens"]
    spec = LoadSpec(
        server=Server(url=url, endpoint=given["endpoint"], model=given["model"]),
        workload=Workload(
            input_low=low, input_high=high, output_low=least, output_high=most,
            prompt=given["prompt"] or ("words" if chat else "ids"), vocabulary=given["vocabulary"],
            shared_prefix=given["shared_prefix"], exact_output=not given["natural_stop"], tokenizer=given["tokenizer"],
        ),
        arrivals=arrivals,
        limits=Limits(**given["limits"]),
        rules=Rules(
            duration_s=given["duration"], timeout_s=given["timeout"], cap=given["cap"],
            warmup_s=given["duration"] / 10 if given["warmup"] is None else given["warmup"],
            processes=given["processes"], seed=given["seed"],
        ),
    )  # fmt: skip
    check(spec)
    return spec
