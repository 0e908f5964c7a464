"""Outcomes of attacks and honest look-alikes, and those that are stored for this machine.

Apart from the catalogue, which every command imports.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from attrs import frozen

from aiperf_core import atomic
from aiperf_core.devices.host import processor
from aiperf_core.distributions import installed_version
from aiperf_core.folders import cache_folder
from aiperf_core.results.sources import package_hashes

if TYPE_CHECKING:
    from aiperf_core.plugins import Plugins

# Counts up when cases are tried in another way, so that what was kept before is not shown.
FORMAT = 4


class Outcome(StrEnum):
    """How a case ended, or all cases of an issue together.

    Of an attack:
        FOUND: a finding names it.
        PREVENTED: it has no gain any more.
        MISSED: it gains, and no finding names it.
        VOID: it gains nothing with its guard off either, so that it proves nothing.
    Of an honest look-alike: CLEARED or FLAGGED.
    Of either:
        RECORDED: the checks are right on recorded evidence.
        NOT_OBSERVABLE: this machine lacks what the case needs.
        UNDECIDED: other work on the machine may explain why it was not caught, or had no gain.
        ERROR: the case could not be tried.
    Of an issue without a case that could be tried:
        EXCLUDED: the harness excludes it by construction.
        OWED: its proof is still to be recorded on another machine.
        UNPROVEN: there is neither an attack nor a recording.
    """

    FOUND = "found"
    PREVENTED = "prevented"
    MISSED = "missed"
    VOID = "does not work"
    CLEARED = "not flagged"
    FLAGGED = "wrongly flagged"
    RECORDED = "recorded"
    NOT_OBSERVABLE = "not observable"
    UNDECIDED = "not decided here"
    ERROR = "error"
    EXCLUDED = "excluded by construction"
    OWED = "owed"
    UNPROVEN = "unproven"


PROVEN = (Outcome.FOUND, Outcome.PREVENTED)


@frozen
class Kept:
    """How an issue's cases ended when they were last tried here: on which day (UTC), and which of them proved it."""

    outcome: Outcome
    day: str
    by: list[str]


def state(plugins: "Plugins") -> dict[str, str]:
    """Everything that a proof depends on: this machine, aiperf, and the plugins with issues, attacks or recordings.

    Outcomes that were kept in another state are not shown.
    """
    from aiperf_core.devices.probe import nvidia

    gpus = nvidia()
    contributors = sorted(
        f"{plugin.distribution} {plugin.version}"
        for plugin in plugins.loaded
        if plugin.contributes["issues"] or plugin.contributes["attacks"] or plugin.contributes["recordings"]
    )
    return {
        "format": str(FORMAT),
        "machine": platform.node(),
        "processor": processor(),
        "gpus": ", ".join(sorted(gpu.name for gpu in gpus.gpus)),
        "driver": gpus.driver,
        "torch": installed_version("torch"),
        "plugins": ", ".join(contributors),
        **package_hashes(attack.record.module for attack in plugins.attacks),
    }


def read(state: Mapping[str, str]) -> dict[str, Kept]:
    """The outcomes that were kept in this state, by issue; none where nothing can be read."""
    import cattrs

    try:
        document = json.loads(_file(state).read_text())
        kept = cattrs.structure(document["issues"], dict[str, Kept])
    except (OSError, ValueError, KeyError, TypeError, cattrs.BaseValidationError):
        # What was kept is a convenience: without it, issues were not tried here.
        return {}
    return kept if document["state"] == state else {}


def write(state: Mapping[str, str], kept: Mapping[str, Kept]) -> None:
    """Keep outcomes by issue, in place of all others of this state; none in a folder that cannot be written to."""
    document = {"state": dict(state), "issues": {issue: attrs.asdict(outcome) for issue, outcome in kept.items()}}
    try:
        _file(state).parent.mkdir(parents=True, exist_ok=True)
        atomic.write(_file(state), json.dumps(document, indent=1).encode())
    except OSError:
        pass


def _file(state: Mapping[str, str]) -> Path:
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    return cache_folder() / "selftest" / f"{digest[:12]}.json"
