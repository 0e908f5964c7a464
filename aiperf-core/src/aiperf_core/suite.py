"""Suites: TOML or JSON files that name targets, limits of the machine, and what a package adds.

A package derives its record from `Suite`, and describes it by a `SuiteFormat`, whose rules the reader and the JSON
Schema both use. A suite names no shell commands.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from aiperf_core.devices.fitness import Busy
from aiperf_core.errors import UsageError
from aiperf_core.names import cause, words
from aiperf_core.results import structure
from aiperf_core.results.jsontext import JsonError
from aiperf_core.results.schema import POLICIES, TIERS, Schemas
from aiperf_core.results.text_places import line_of
from aiperf_core.text_file import text_of

# `$comment` is the noun of a pattern in messages.
WORD = {"pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]*$", "$comment": "a name of letters, digits, . _ and -"}
PATTERNS = {
    "items": {
        "type": "string",
        "pattern": r"^[A-Za-z0-9_.:*?@=\[\]!-]+$",
        "$comment": "targets and patterns, such as ch07.*",
    }
}
# What a type does not say, by record and field. A package adds the rules of its own fields.
Rules = Mapping[tuple[type, str], dict[str, Any]]
# Fields that other tools give a shell to.
_COMMANDS = ("command", "commands", "run", "script", "shell", "cmd", "exec", "setup", "before", "after", "steps")


@frozen
class Suite:
    """Common part of all suites.

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
    (Suite, "name"): WORD,
    (Suite, "targets"): {"minItems": 1, **PATTERNS},
    (Suite, "exclude"): PATTERNS,
    (Suite, "tier"): {"enum": TIERS},
    (Suite, "policy"): {"enum": POLICIES},
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
            text = text_of(path, path.read_bytes())
        except OSError as error:
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
            line = line_of(text, error.place, toml=toml)
            raise UsageError(
                f"{_at(path, line)}: {words(error.place)} is {words(error.found)}; accepted: {words(error.expected)}. "
                f"All fields: {self.schema}"
            ) from error

    def of(self, document: Any) -> Kind:
        """A suite from its fields. Raises JsonError with the first place that does not fit."""
        self._refuse(document)
        suite: Kind = structure.structure(document, self.record, structure.PARTIAL, self._schemas)
        self.check(suite)
        return suite

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of a suite."""
        return self._schemas.document(self.record, self.id)

    @cached_property
    def _schemas(self) -> Schemas:
        """All rules. Those of `Suite` are also of the record that is derived from it."""
        inherited = {(self.record, name): rule for (record, name), rule in RULES.items() if record is Suite}
        return Schemas({**RULES, **inherited, **self.rules}, {}, partial=True)

    def _refuse(self, document: Any, place: str = "") -> None:
        """Refuse shell commands by name: the message of an unknown field would not give the reason."""
        if isinstance(document, dict):
            for name, value in document.items():
                here = f"{place}.{name}" if place else str(name)
                if name in _COMMANDS and place not in ("labels", "sizes"):
                    but = f" but that of '{self.runs[0]}'" if self.runs else ""
                    raise JsonError(here, "a command", f"targets only; a suite runs no command{but}")
                self._refuse(value, here)
        elif isinstance(document, list):
            for number, value in enumerate(document):
                self._refuse(value, f"{place}[{number}]")


def _exact(value: float) -> str:
    """A size as a text that gives the same number."""
    return str(int(value)) if value.is_integer() else repr(value)


def _at(path: Path, line: int | None) -> str:
    return f"{words(str(path))}:{line}" if line else words(str(path))


def _toml_line(message: str) -> int | None:
    found = re.search(r"line (\d+)", message)
    return int(found[1]) if found else None
