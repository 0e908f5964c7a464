"""The stretches of a run in its manifest: from its start, or from where it is resumed, to its end or interruption."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import evolve

from aiperf_core.devices import ceiling_figures
from aiperf_core.measurements import Ceilings
from aiperf_core.results.models import Manifest, SkippedTarget, Stretch, TargetResult


def begun(state: dict[str, Any]) -> Stretch:
    """A stretch that begins now. `state` is the machine's."""
    return Stretch(_now(), _now(), None, [], state)


def noted(
    manifest: Manifest,
    ceilings: Mapping[str, Ceilings],
    finished: TargetResult | SkippedTarget | None,
    ending: str | None,
) -> Manifest:
    """The manifest with the newest ceilings, a target that is done, and how its last stretch ended."""
    stretch = manifest.stretches[-1]
    skipped, targets = list(manifest.skipped), list(stretch.targets)
    if isinstance(finished, SkippedTarget):
        skipped = [*(one for one in skipped if one != finished), finished]
    elif finished is not None and finished.complete and finished.target not in targets:
        targets.append(finished.target)
    stretch = evolve(stretch, ended=_now(), ending=ending, targets=targets)
    return evolve(
        manifest,
        skipped=skipped,
        ceilings=_better(ceilings, manifest.ceilings),
        stretches=[*manifest.stretches[:-1], stretch],
    )


def reopened(
    manifest: Manifest, stretch: Stretch, kept: list[TargetResult | SkippedTarget], skipped: list[SkippedTarget]
) -> Manifest:
    """The manifest of a resumed run: not complete, with another stretch.

    kept: the targets that were finished.
    skipped: the targets that could not be planned.
    """
    before = list(manifest.stretches)
    if before and before[-1].ending is None:
        noted = {name for one in before for name in one.targets}
        unnoted = [one.target for one in kept if isinstance(one, TargetResult) and one.target not in noted]
        # The process was killed between writing a target's file and the manifest.
        before[-1] = evolve(before[-1], ending="cut off", targets=before[-1].targets + unnoted)
    known = {one.target for one in manifest.skipped}
    return evolve(
        manifest,
        skipped=manifest.skipped + [one for one in skipped if one.target not in known],
        complete=False,
        exit_code=None,
        hashes={},
        stretches=[*before, stretch],
    )


def _better(found: Mapping[str, Ceilings], before: Mapping[str, Ceilings]) -> dict[str, Ceilings]:
    """The ceilings by device; where two stretches of a run measured them, the better figures."""
    both = {name: ceiling_figures.better(one, before[name]) for name, one in found.items() if name in before}
    return {**before, **found, **both}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
