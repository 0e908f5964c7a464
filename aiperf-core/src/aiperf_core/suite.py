"""Suites: TOML or JSON files that name targets, limits of the machine, and what a package adds.

A package derives its record from `Suite`, and describes it by a `SuiteFormat`, whose rules the reader and the JSON
Schema both use. A suite names no shell commands.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from attrs import field, fields, frozen

from aiperf_core.devices.fitness import Busy
from aiperf_core.errors import UsageError
from aiperf_core.names import cause, words
from aiperf_core.results import jsontext, schema, structure
from aiperf_core.results.jsontext import JsonError
from aiperf_core.results.text_places import line_of
from aiperf_core.targets import nearest

WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
PATTERN = r"^[A-Za-z0-9_.:*?@=\[\]!-]+$"
# What a type does not say, by record and field. A package adds the rules of its own fields.
Rules = Mapping[tuple[type, str], dict[str, Any]]
# Fields that other tools give a shell to.
_COMMANDS = ("command", "commands", "run", "script", "shell", "cmd", "exec", "setup", "before", "after", "steps")


@frozen
class Suite:
    """What all suites have.

    name: the name of the suite, which its runs have as the label `suite`.
    targets: targets and patterns, as for `aiperf run`.
    exclude: patterns that are left out.
    device: the device to run on; null takes the target's choice.
    size: the preset of sizes.
    sizes: single sizes by name.
    tier: `quick`, `standard` or `audit`.
    policy: `strict`, `standard` or `lenient`.
    budget_s: sampling time of a target, in seconds; null takes the tier's.
    timeout_s: limit for one call, in seconds.
    busy: when a machine is too busy to measure.
    labels: labels of the runs, beside those of the package.
    store: the URL of a store to which the bundles are added; needs aiperf-analysis.
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
    timeout_s: float = 60.0
    busy: Busy = field(factory=Busy)
    labels: dict[str, str] = field(factory=dict)
    store: str | None = None

    def options(self, labels: Mapping[str, str]) -> list[str]:
        """The options of `aiperf run`, with these labels and the suite's name as one."""
        single = {"--device": self.device, "--size": self.size, "--budget": self.budget_s, "--timeout": self.timeout_s}
        found = ["--quiet", "--tier", self.tier, "--policy", self.policy]
        found += [part for name, value in single.items() if value is not None for part in (name, str(value))]
        found += [part for name, value in self.sizes.items() for part in ("--set", f"{name}={_exact(value)}")]
        every = {**labels, "suite": self.name}
        return found + [part for name, value in every.items() for part in ("--label", f"{name}={value}")]


RULES: Rules = {
    (Suite, "name"): {"pattern": WORD},
    (Suite, "targets"): {"minItems": 1, "items": {"type": "string", "pattern": PATTERN}},
    (Suite, "exclude"): {"items": {"type": "string", "pattern": PATTERN}},
    (Suite, "tier"): {"enum": schema.TIERS},
    (Suite, "policy"): {"enum": schema.POLICIES},
    (Suite, "budget_s"): {"minimum": 0.001, "maximum": 1e6},
    (Suite, "timeout_s"): {"minimum": 0.001, "maximum": 1e6},
    (Busy, "processors"): {"minimum": 0, "maximum": 1},
    (Busy, "gpu_processes"): {"minimum": 0},
    (Busy, "wait_s"): {"minimum": 0},
}

Kind = TypeVar("Kind", bound=Suite)


@frozen
class SuiteFormat(Generic[Kind]):
    """The suites of a package.

    record: the record, derived from `Suite`.
    id: of the JSON Schema.
    rules: of its own fields, and of the records in them.
    init: the command that prints a suite to start from.
    schema: the command that prints the JSON Schema.
    runs: the fields that hold a command.
    check: raises JsonError for fields that do not go together.
    """

    record: type[Kind]
    id: str
    rules: Rules
    init: str
    schema: str
    runs: tuple[str, ...] = ()
    check: Callable[[Kind], None] = lambda suite: None

    def read(self, path: Path) -> Kind:
        """Read a suite. Raises UsageError with the path and the line of the first mistake."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            said = f"cannot read the suite '{words(str(path))}': {cause(error)}. A new one: {self.init}"
            raise UsageError(said) from error
        kind = path.suffix.lower()
        if kind not in (".toml", ".json"):
            raise UsageError(f"'{words(str(path))}' is no suite; accepted are files that end in .toml or .json.")
        try:
            return self.of(tomllib.loads(text) if kind == ".toml" else json.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{_at(path, _toml_line(str(error)))}: {error}.") from error
        except json.JSONDecodeError as error:
            raise UsageError(f"{_at(path, error.lineno)}: {error.msg}.") from error
        except JsonError as error:
            toml = kind == ".toml"
            line = line_of(text, _unknown(error), toml=toml) or line_of(text, error.place, toml=toml)
            raise UsageError(
                f"{_at(path, line)}: {words(error.place)} is {words(error.found)}; accepted: {words(error.expected)}. "
                f"All fields: {self.schema}"
            ) from error

    def of(self, document: Any) -> Kind:
        """A suite from its fields. Raises JsonError with the first place that does not fit."""
        self._refuse(document)
        suite: Kind = structure.structure(document, self.record, structure.PARTIAL)
        self._hold(suite, ())
        self.check(suite)
        return suite

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of a suite."""
        return schema.Schemas(self._every(), {}, partial=True).document(self.record, self.id)

    def _every(self) -> Rules:
        """All rules. Those of `Suite` are also of the record that is derived from it."""
        inherited = {(self.record, name): rule for (record, name), rule in RULES.items() if record is Suite}
        return {**RULES, **inherited, **self.rules}

    def _refuse(self, document: Any, place: str = "") -> None:
        """Refuse shell commands by name. The message of an unknown field would not say why."""
        if isinstance(document, dict):
            for name, value in document.items():
                here = f"{place}.{name}" if place else str(name)
                if name in _COMMANDS and place not in ("labels", "sizes"):
                    but = f" but that of '{self.runs[0]}'" if self.runs else ""
                    raise JsonError(here, "a command", f"targets only; a suite runs no command{but}")
                self._refuse(value, here)
            known = [one.name for one in fields(self.record)]
            unknown = next((name for name in document if name not in known), None) if not place else None
            if unknown:
                near = nearest(str(unknown), known)
                raise JsonError(str(unknown), "an unknown field", f"the fields of a suite.{near}".rstrip(".? "))
        elif isinstance(document, list):
            for number, value in enumerate(document):
                self._refuse(value, f"{place}[{number}]")

    def _hold(self, record: Any, place: tuple[str | int, ...]) -> None:
        """Check the values of a record by the rules. Raises JsonError with the place."""
        rules = self._every()
        for one in fields(type(record)):
            value, here = getattr(record, one.name), (*place, one.name)
            for said, at, rule in _each(value, rules.get((type(record), one.name), {}), here):
                _check(said, rule, jsontext.place_name(at))
            for number, inner in enumerate(value if isinstance(value, list) else [value]):
                if hasattr(inner, "__attrs_attrs__"):
                    self._hold(inner, (*here, number) if isinstance(value, list) else here)


def _exact(value: float) -> str:
    """A size as a text that gives the same number."""
    return str(int(value)) if value.is_integer() else repr(value)


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


def _each(value: Any, rule: dict[str, Any], place: tuple[str | int, ...]) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """The value and its items, each with its place and its rule."""
    yield value, place, rule
    if "items" in rule:
        yield from ((one, (*place, number), rule["items"]) for number, one in enumerate(value))


def _check(value: Any, rule: dict[str, Any], place: str) -> None:
    shown = json.dumps(value, default=str)
    if "enum" in rule and value not in rule["enum"]:
        raise JsonError(place, shown, ", ".join(str(one) for one in rule["enum"] if one is not None))
    if value is None:
        return
    if "pattern" in rule and not re.fullmatch(rule["pattern"][1:-1], value):
        raise JsonError(place, shown, _characters(rule["pattern"]))
    low, high = rule.get("minimum", float("-inf")), rule.get("maximum", float("inf"))
    if not low <= (value if isinstance(value, int | float) else low) <= high:
        raise JsonError(place, shown, f"{low:g} to {high:g}" if "maximum" in rule else f"at least {low:g}")
    if "minItems" in rule and len(value) < rule["minItems"]:
        raise JsonError(place, "an empty list", f"at least {rule['minItems']} item")


def _characters(pattern: str) -> str:
    if pattern == PATTERN:
        return "targets and patterns, such as ch07.*"
    return "letters, digits, . _ and -" if "." in pattern else "letters, digits, _ and -"
