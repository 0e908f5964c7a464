"""The suite of continuous benchmarking: a TOML or JSON file that names targets, limits of the machine, and gates.

A suite names no commands, except the one of `notify`. Its JSON Schema comes from the records and from `RULES`:
`aiperf ci init --schema`.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from attrs import NOTHING, field, fields, frozen

from aiperf_analysis.ci.places import line_of
from aiperf_analysis.history.series import METRICS
from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.results import jsontext, schema, structure
from aiperf_core.results.jsontext import JsonError
from aiperf_core.targets import nearest


@frozen
class Busy:
    """When the machine is too busy to measure.

    processors: the largest share of the processors that other processes may keep busy.
    gpu_processes: the largest number of processes on the GPUs.
    wait_s: how long a run waits for a quiet machine, and for the lock.
    """

    processors: float = 0.1
    gpu_processes: int = 0
    wait_s: float = 60.0


@frozen
class Gate:
    """A figure that must not change.

    metric: `time`, `speedup`, `memory` or `energy`.
    floor: the smallest relative change that matters; null takes the target's.
    direction: the change that stops, `up`, `down` or `both`; null takes the one that is worse.
    confirm: the further runs that must agree with a suspect.
    targets: patterns of the targets that it is for.
    rows: the implementations that it is for; none stands for all.
    """

    metric: str
    floor: float | None = None
    direction: str | None = None
    confirm: int = 1
    targets: list[str] = field(factory=lambda: ["*"])
    rows: list[str] = field(factory=list)

    @property
    def stops(self) -> str:
        """The change that stops: `up`, `down` or `both`."""
        return self.direction or ("up" if METRICS[self.metric].better == "down" else "down")

    def is_for(self, target: str, row: str) -> bool:
        """Whether a row is held to this gate."""
        named = any(fnmatchcase(target, pattern) for pattern in self.targets)
        return named and (not self.rows or row in self.rows)


@frozen
class Suite:
    """A suite.

    name: the name of the suite, which its runs have as the label `suite`.
    targets: targets and patterns, as for `aiperf run`.
    exclude: patterns that are left out.
    device: the device to run on; null takes the target's choice.
    size: the preset of sizes.
    sizes: single sizes by name.
    tier: `quick`, `standard` or `audit`.
    policy: `strict`, `standard` or `lenient`.
    budget_s: sampling time of a target; null takes the tier's.
    min_samples: the least number of samples of each implementation.
    timeout_s: limit for one call.
    run_timeout_s: limit for a whole run; null is no limit.
    machine: a pattern of the kind of machine that is demanded, such as `nvidia-h200-x1`.
    busy: when the machine is too busy.
    repeats: the number of runs of an invocation.
    retries: how often a run that failed is repeated.
    labels: labels of the runs, beside `suite`, `branch` and `commit`.
    base: the branch whose runs a run is held to; null takes the branch of the run.
    folder: where bundles and reports are kept, in a folder of the suite's name.
    store: the URL of a store to which the bundles are added.
    gates: what must not change.
    notify: a command and its arguments, started without a shell; the report is its standard input, as JSON.
    """

    name: str
    targets: list[str]
    exclude: list[str] = field(factory=list)
    device: str | None = None
    size: str | None = None
    sizes: dict[str, float] = field(factory=dict)
    tier: str = "quick"
    policy: str = "standard"
    budget_s: float | None = None
    min_samples: int = 0
    timeout_s: float = 60.0
    run_timeout_s: float | None = None
    machine: str | None = None
    busy: Busy = field(factory=Busy)
    repeats: int = 1
    retries: int = 1
    labels: dict[str, str] = field(factory=dict)
    base: str | None = None
    folder: str = "artifacts/ci"
    store: str | None = None
    gates: list[Gate] = field(factory=lambda: [Gate("time")])
    notify: list[str] = field(factory=list)

    @property
    def home(self) -> Path:
        """The folder of the suite."""
        return Path(self.folder) / self.name

    @property
    def runs(self) -> Path:
        """The folder of its bundles."""
        return self.home / "runs"


_WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_PATTERN = r"^[A-Za-z0-9_.:*?@=\[\]!-]+$"
# What a type does not say. The reader and the schema both use it.
RULES: dict[tuple[type, str], dict[str, Any]] = {
    (Suite, "name"): {"pattern": _WORD},
    (Suite, "targets"): {"minItems": 1, "items": {"type": "string", "pattern": _PATTERN}},
    (Suite, "exclude"): {"items": {"type": "string", "pattern": _PATTERN}},
    (Suite, "tier"): {"enum": schema.TIERS},
    (Suite, "policy"): {"enum": schema.POLICIES},
    (Suite, "min_samples"): {"minimum": 0},
    (Suite, "repeats"): {"minimum": 1, "maximum": 100},
    (Suite, "retries"): {"minimum": 0, "maximum": 10},
    (Busy, "processors"): {"minimum": 0, "maximum": 1},
    (Busy, "gpu_processes"): {"minimum": 0},
    (Busy, "wait_s"): {"minimum": 0},
    (Gate, "metric"): {"enum": list(METRICS)},
    (Gate, "floor"): {"minimum": 0, "maximum": 1},
    (Gate, "direction"): {"enum": ["up", "down", "both", None]},
    (Gate, "confirm"): {"minimum": 1, "maximum": 3},
}
# Fields that other tools give a shell to.
_COMMANDS = ("command", "commands", "run", "script", "shell", "cmd", "exec", "setup", "before", "after", "steps")


def read(path: Path) -> Suite:
    """Read a suite. Raises UsageError with the path and the line of the first mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read the suite '{words(str(path))}': {reason}. A new one: aiperf ci init") from error
    kind = path.suffix.lower()
    if kind not in (".toml", ".json"):
        raise UsageError(f"'{words(str(path))}' is no suite; accepted are files that end in .toml or .json.")
    try:
        document = tomllib.loads(text) if kind == ".toml" else json.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{_at(path, _toml_line(str(error)))}: {error}.") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{_at(path, error.lineno)}: {error.msg}.") from error
    try:
        _refuse_commands(document)
        suite = structure.structure(document, Suite, structure.PARTIAL)
        _check(suite, ())
    except JsonError as error:
        toml = kind == ".toml"
        line = line_of(text, _unknown(error), toml=toml) or line_of(text, error.place, toml=toml)
        raise UsageError(
            f"{_at(path, line)}: {words(error.place)} is {words(error.found)}; accepted: {words(error.expected)}. "
            "All fields: aiperf ci init --schema"
        ) from error
    return suite


def _at(path: Path, line: int | None) -> str:
    return f"{words(str(path))}:{line}" if line else words(str(path))


def _toml_line(message: str) -> int | None:
    found = re.search(r"line (\d+)", message)
    return int(found[1]) if found else None


def _unknown(error: JsonError) -> str:
    """The place of an unknown field, which the error has in its text."""
    found = re.search(r"'(\w+)'", error.found)
    if not found:
        return ""
    return found[1] if error.place == "the top level" else f"{error.place}.{found[1]}"


def _refuse_commands(document: Any, place: str = "") -> None:
    """Refuse shell commands by name. The message of an unknown field would not say why."""
    if isinstance(document, dict):
        for name, value in document.items():
            here = f"{place}.{name}" if place else str(name)
            if name in _COMMANDS and place not in ("labels", "sizes"):
                raise JsonError(here, "a command", "targets only; a suite runs no command but that of 'notify'")
            _refuse_commands(value, here)
        known = [one.name for one in fields(Suite)]
        unknown = next((name for name in document if name not in known), None) if not place else None
        if unknown:
            raise JsonError(
                str(unknown), "an unknown field", f"the fields of a suite.{nearest(str(unknown), known)}".rstrip(".? ")
            )
    elif isinstance(document, list):
        for number, value in enumerate(document):
            _refuse_commands(value, f"{place}[{number}]")


def _check(record: Any, place: tuple[str | int, ...]) -> None:
    """Hold the values of a record to `RULES`. Raises JsonError with the place."""
    for one in fields(type(record)):
        value, here = getattr(record, one.name), (*place, one.name)
        for said, at, rule in _rules(value, RULES.get((type(record), one.name), {}), here):
            _hold(said, rule, jsontext.place_name(at))
        for number, inner in enumerate(value if isinstance(value, list) else [value]):
            if hasattr(inner, "__attrs_attrs__"):
                _check(inner, (*here, number) if isinstance(value, list) else here)


def _rules(value: Any, rule: dict[str, Any], place: tuple[str | int, ...]) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    yield value, place, rule
    if "items" in rule:
        yield from ((one, (*place, number), rule["items"]) for number, one in enumerate(value))


def _hold(value: Any, rule: dict[str, Any], place: str) -> None:
    shown = json.dumps(value, default=str)
    if "enum" in rule and value not in rule["enum"]:
        raise JsonError(place, shown, ", ".join(str(one) for one in rule["enum"] if one is not None))
    if value is None:
        return
    if "pattern" in rule and not re.fullmatch(rule["pattern"][1:-1], value):
        what = "targets and patterns, such as ch07.*" if "*" in rule["pattern"][:-2] else "letters, digits, . _ and -"
        raise JsonError(place, shown, what)
    low, high = rule.get("minimum", float("-inf")), rule.get("maximum", float("inf"))
    if not low <= (value if isinstance(value, int | float) else low) <= high:
        raise JsonError(place, shown, f"{low} to {high}" if "maximum" in rule else f"at least {low}")
    if "minItems" in rule and len(value) < rule["minItems"]:
        raise JsonError(place, "an empty list", f"at least {rule['minItems']} item")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a suite."""
    definitions: dict[str, Any] = {}
    root = _schema_of(Suite)
    for record in (Busy, Gate):
        definitions[record.__name__] = _schema_of(record)
    return {"$schema": schema.DIALECT, "$id": "urn:aiperf:schema:suite:1", **root, "$defs": definitions}


def _schema_of(record: type) -> dict[str, Any]:
    about, descriptions = schema.described(record)
    properties = {}
    for name, hint in schema.hints_of(record).items():
        rule = {**schema.rule_of(record, name, hint, {}), **RULES.get((record, name), {})}
        properties[name] = rule | ({"description": descriptions[name]} if name in descriptions else {})
    required = [one.name for one in fields(record) if one.default is NOTHING]
    return {
        "title": record.__name__,
        "description": about,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
