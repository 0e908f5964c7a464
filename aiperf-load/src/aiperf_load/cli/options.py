"""The options that `run` and `sweep` share."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

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


def _labels(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise UsageError(f"--label takes NAME=VALUE; got {value!r}.")
        found[name] = text
    return found


_OPTIONS = (
    click.option("--model", default="default", show_default=True, help="The model's name in requests."),
    click.option("--endpoint", type=click.Choice(("completions", "chat")), default="completions", show_default=True),
    click.option("--duration", callback=_time, default="60s", show_default=True, help="How long requests arrive."),
    click.option("--warmup", callback=_time, help="Requests of this time are not counted. [default: a tenth]"),
    click.option("--timeout", callback=_time, default="60s", show_default=True, help="From arrival to end."),
    click.option("--input-tokens", callback=_tokens, default="128", show_default=True, metavar="N[-M]"),
    click.option("--output-tokens", callback=_tokens, default="64", show_default=True, metavar="N[-M]"),
    click.option("--prompt", type=click.Choice(("ids", "words")), help="Token ids, or text. [ids; chat: words]"),
    click.option("--vocabulary", type=int, default=1000, show_default=True, help="Ids and words are below it."),
    click.option("--shared-prefix", type=int, default=0, show_default=True, help="Tokens that all prompts begin with."),
    click.option("--natural-stop", is_flag=True, help="Answers may be shorter than --output-tokens."),
    click.option("--tokenizer", metavar="words|MODULE:FUNCTION", help="Counts the tokens of answers."),
    click.option("--slo", "limits", callback=_limits, metavar="ttft=200ms,...",
                 help="Limits of a good request: ttft, tpot, e2e, gap."),
    click.option("--max-in-flight", "cap", type=int, help="More requests wait, and the wait counts."),
    click.option("--processes", type=int, default=1, show_default=True, help="Processes of the generator."),
    click.option("--seed", type=int, default=1, show_default=True, help="Draws arrivals, lengths and prompts."),
    click.option("--name", default="server", show_default=True, help="The name of the document in the bundle."),
    click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="The folder of the bundle."),
    click.option("--label", "labels", multiple=True, callback=_labels, metavar="NAME=VALUE", help="A label of it."),
    click.option("--picture", type=click.Path(path_type=Path), metavar="FILE", help="Curves as .svg, .png or .pdf."),
    click.option("--csv", "csv_file", type=click.Path(path_type=Path), metavar="FILE", help="The points as CSV."),
    click.option("--json", "as_json", is_flag=True, help="Print the document as JSON."),
)  # fmt: skip


def load_options(command: Command) -> Command:
    """Add the options of a load."""
    for option in reversed(_OPTIONS):
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
