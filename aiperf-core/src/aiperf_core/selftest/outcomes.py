"""How the cases of an issue can end, how they ended on this machine, and what is kept of it.

Apart from the catalogue, which every command imports.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from attrs import frozen

from aiperf_core import atomic
from aiperf_core.devices.host import processor
from aiperf_core.distributions import installed_version
from aiperf_core.folders import cache_folder
from aiperf_core.version import SOURCES

if TYPE_CHECKING:
    from aiperf_core.plugins import Plugins

# Counts up when cases are tried in another way, so that what was kept before is not shown.
FORMAT = 3


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
WRONG = (Outcome.MISSED, Outcome.VOID, Outcome.FLAGGED)


@frozen(kw_only=True)
class Proof:
    """How one case ended on one device.

    off, on: what the row said with the guard off and with it on; empty where there was no such run. tier: that of the
    last runs. reason: why it ended so, where that needs a reason. seconds: how long it took.
    """

    case: str
    honest: bool
    device: str
    outcome: Outcome
    reason: str = ""
    off: str = ""
    on: str = ""
    tier: str = ""
    seconds: float = 0.0

    def beside(self, load: str) -> "Proof":
        """The proof of an attack beside this load, if any: where it failed, it is undecided."""
        if not load or self.outcome not in (Outcome.MISSED, Outcome.VOID, Outcome.ERROR, Outcome.UNDECIDED):
            return self
        return attrs.evolve(self, outcome=Outcome.UNDECIDED, reason=f"{load}: {self.reason}")


@frozen(kw_only=True)
class Proven:
    """How the cases of an issue ended.

    untried: the outcome where no attack could be tried here: `EXCLUDED`, `OWED` or `UNPROVEN`.
    """

    issue: str
    guard: str
    proofs: tuple[Proof, ...] = ()
    untried: Outcome = Outcome.UNPROVEN

    @property
    def category(self) -> str:
        """The part of the issue before the dot."""
        return self.issue.partition(".")[0]

    @property
    def attacks(self) -> list[Proof]:
        """Of the attacks."""
        return [one for one in self.proofs if not one.honest]

    @property
    def look_alikes(self) -> list[Proof]:
        """Of the honest look-alikes."""
        return [one for one in self.proofs if one.honest]

    @property
    def outcome(self) -> Outcome:
        """The worst failure, or else the best proof: an attack on this machine counts more than recorded evidence."""
        attacks = {one.outcome for one in self.attacks}
        every = {one.outcome for one in self.proofs}
        if attacks & {Outcome.MISSED, Outcome.VOID}:
            return Outcome.MISSED
        for one in (Outcome.FLAGGED, Outcome.ERROR, Outcome.UNDECIDED):
            if one in every:
                return one
        best = [one for one in (*PROVEN, Outcome.RECORDED) if one in attacks]
        if not best and self.untried is Outcome.UNPROVEN and Outcome.NOT_OBSERVABLE in attacks:
            return Outcome.NOT_OBSERVABLE
        return best[0] if best else self.untried

    @property
    def seconds(self) -> float:
        """How long its cases took."""
        return sum(one.seconds for one in self.proofs)


# --- what is kept of it


@frozen
class Kept:
    """How an issue's cases ended when they were last tried here: on which day (UTC), and which of them proved it."""

    outcome: Outcome
    day: str
    by: list[str]


def state(plugins: "Plugins") -> dict[str, str]:
    """What a proof depends on: this machine, every line of aiperf, and the plugins that contribute issues or attacks.

    What was kept in another state is not shown.
    """
    from aiperf_core.devices.probe import nvidia

    found = nvidia()
    contributors = sorted(
        f"{one.distribution} {one.version}"
        for one in plugins.loaded
        if one.contributes["issues"] or one.contributes["attacks"] or one.contributes["recordings"]
    )
    return {
        "format": str(FORMAT),
        "machine": platform.node(),
        "processor": processor(),
        "gpus": ", ".join(sorted(one.name for one in found.gpus)),
        "driver": found.driver,
        "torch": installed_version("torch"),
        "sources": _digest(SOURCES),
        "plugins": ", ".join(contributors),
    }


def read(state: Mapping[str, str]) -> dict[str, Kept]:
    """What was kept in this state, by issue; nothing where nothing can be read."""
    import cattrs

    try:
        found = json.loads(_file(state).read_text())
        kept = cattrs.structure(found["issues"], dict[str, Kept])
    except (OSError, ValueError, KeyError, TypeError, cattrs.BaseValidationError):
        # What was kept is a convenience: without it, issues were not tried here.
        return {}
    return kept if found["state"] == state else {}


def write(state: Mapping[str, str], results: Iterable[Proven]) -> None:
    """Keep results beside those of issues that were not tried now. A folder that cannot be written to keeps nothing."""
    day = datetime.now(UTC).date().isoformat()
    kept = read(state)
    for one in results:
        # What an earlier selftest proved on a device that was left out today, or on a quiet machine, is still proven.
        if one.outcome not in (Outcome.NOT_OBSERVABLE, Outcome.UNDECIDED, Outcome.OWED) or one.issue not in kept:
            by = list(dict.fromkeys(proof.case for proof in one.attacks if proof.outcome is one.outcome))
            kept[one.issue] = Kept(one.outcome, day, by)
    document = {"state": dict(state), "issues": {issue: attrs.asdict(one) for issue, one in kept.items()}}
    try:
        _file(state).parent.mkdir(parents=True, exist_ok=True)
        atomic.write(_file(state), json.dumps(document, indent=1).encode())
    except OSError:
        pass


def _file(state: Mapping[str, str]) -> Path:
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    return cache_folder() / "selftest" / f"{digest[:12]}.json"


def _digest(folder: Path) -> str:
    """The SHA-256 of all sources in a folder, by name; the registry's TOML decides severities and guards."""
    digest = hashlib.sha256()
    for path in sorted(file for file in folder.rglob("*") if file.suffix in (".py", ".toml", ".c", ".cu")):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
