"""The options of `run` that change the measuring: each is declared once, with its default, help and checks.

The command line (`cli/measuring.py`), a run's request and its record in the manifest (`harness/run/request.py`), the
JSON schema, and the comparison of the options of a resumed run (`cli/resume.py`) derive from `RunOptions`.
"""

from typing import Any, Literal

import attrs
from attrs import field, frozen

TIERS, POLICIES = ("quick", "standard", "audit"), ("strict", "standard", "lenient")

_DECLARATION = "declaration"
_BASICS = "1, 3 or 10 rounds of fresh processes. standard and audit also measure the baseline against itself."


@frozen(kw_only=True)
class Declaration:
    """How an option is given on the command line, and where it is recorded.

    key: its field in `RunOptions`.
    flags: on the command line.
    help: its text; `{scope}` and `{budget}` differ by command.
    kind: `choice` of `choices`; positive `seconds`; a `count` from 1; a `switch`; the `name` of a preset, or of a
        `device` or an `executor` that is known.
    recorded: in the request of the `run`, of each `target`, or nowhere: then a run that has it cannot be resumed. A
        resumed run refuses another value of a recorded option.
    """

    key: str = ""
    flags: tuple[str, ...]
    help: str
    kind: Literal["choice", "seconds", "count", "switch", "name", "device", "executor"]
    choices: tuple[str, ...] = ()
    recorded: Literal["run", "target"] | None


def _option(default: Any, *flags: str, **declaration: Any) -> Any:
    return field(default=default, metadata={_DECLARATION: Declaration(flags=flags, **declaration)})


@frozen(kw_only=True)
class RunOptions:
    """The options of `run` that change the measuring.

    device: `cpu`, `cuda` or a plugin's; None takes a GPU, a plugin's device or the processor, the first here
        that the target has implementations for.
    size: a preset's name; None takes the preset named after the device.
    tier: `quick`, `standard` or `audit`.
    policy: what findings do to a row: `strict`, `standard` or `lenient`.
    budget_s: seconds of sampling of a target over all rounds; None takes the tier's. Sampling ends earlier when every
        interval is narrow enough, and later where the least passes or samples are not taken yet.
    min_samples: the least number of samples of each implementation over all rounds, whatever the budget.
    until_decided: whether sampling goes on until the interval of every speedup allows a verdict, for at most ten
        minutes in all rounds.
    timeout_s: seconds after which a call or a preparation counts as hung. Import, preparation and first call of a
        candidate, which may compile, may take six times as long each.
    executor: what starts the workers: `here`, `torchrun` or a plugin's; None takes the one that fits the target.
    """

    device: str | None = _option(
        None,
        "-d",
        "--device",
        kind="device",
        recorded="target",
        help="Device to run on: cpu, cuda, or a plugin's device. [default: the GPU, if the target supports it]",
    )
    size: str | None = _option(
        None,
        "-s",
        "--size",
        kind="name",
        recorded="target",
        help="Preset of sizes. [default: the preset of the device]",
    )
    tier: str = _option("quick", "-t", "--tier", kind="choice", choices=TIERS, recorded="run", help=_BASICS)
    policy: str = _option(
        "standard",
        "--policy",
        kind="choice",
        choices=POLICIES,
        recorded="run",
        help="Which findings make a row invalid, and which only warn.",
    )
    budget_s: float | None = _option(
        None,
        "--budget",
        kind="seconds",
        recorded="run",
        help="Sampling budget{scope}, without setup and checks. [default: {budget}]",
    )
    min_samples: int = _option(
        0,
        "--min-samples",
        kind="count",
        recorded="run",
        help="At least this many samples of each implementation, whatever the budget.",
    )
    until_decided: bool = _option(
        False,
        "--until-decided",
        kind="switch",
        recorded=None,
        help="Go on beyond the budget until every verdict is decided, for at most ten minutes.",
    )
    timeout_s: float = _option(60.0, "--timeout", kind="seconds", recorded="run", help="Time limit of one call.")
    executor: str | None = _option(
        None,
        "--executor",
        kind="executor",
        recorded="target",
        help="Where workers run: here, torchrun, or a plugin's executor. [default: torchrun for ranks, else here]",
    )


def declarations(recorded: str | None = None) -> list[Declaration]:
    """The options in their order; those `recorded` for a `run`, or for a `target`, alone."""
    declared = [attrs.evolve(one.metadata[_DECLARATION], key=one.name) for one in attrs.fields(RunOptions)]
    return [option for option in declared if recorded in (None, option.recorded)]


def values_of(options: object, recorded: str) -> dict[str, Any]:
    """The values of the recorded options, from a record that has fields of their names."""
    return {option.key: getattr(options, option.key) for option in declarations(recorded)}
