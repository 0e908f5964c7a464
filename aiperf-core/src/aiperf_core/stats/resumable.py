"""Whether an interrupted run can be resumed: what must be unchanged.

All rows of a bundle must come from the same machine and the same sources, so nothing that decides a result may have
changed.
"""

import contextlib
from collections.abc import Iterator

from aiperf_core.errors import BundleError
from aiperf_core.results.bundle import Bundle
from aiperf_core.results.models import Manifest
from aiperf_core.results.seal_check import SealError
from aiperf_core.stats.compare import Difference, of_manifests
from aiperf_core.stats.recheck import recheck

# What may differ. Each stretch has its own record of the machine's state, and the sources' hashes are stricter than a
# commit.
MAY_DIFFER = frozenset({"host", "git", "memory"})
MOST_SHOWN = 5


def check(bundle: Bundle, then: Manifest, now: Manifest) -> None:
    """Raise BundleError where new rows could not be compared with the old ones, or the old ones fail the recheck."""
    if then.complete:
        raise BundleError(f"'{bundle.path}' is complete: another process resumed it.")
    unlike = [one for one in of_manifests(then, now, list(bundle.targets)) if one.what not in MAY_DIFFER]
    unlike += [one for one in _modules(then, now) if one not in unlike]
    if unlike:
        raise BundleError(
            f"'{bundle.path}' cannot be resumed: {_listed(unlike)}. Rows from before and after could not be compared; "
            "start a new run."
        )
    cut_short = set(_cut_short(bundle))
    found = [one for one in recheck(bundle).differences if one.where.partition(":")[0] not in cut_short]
    if found:
        one = found[0]
        raise SealError(
            f"'{bundle.path}' cannot be resumed: its finished part does not hold ({one.where}, {one.what}: recorded "
            f"{one.recorded}, found {one.found}). See all: aiperf recheck {bundle.path}. Start a new run."
        )


def _cut_short(bundle: Bundle) -> Iterator[str]:
    """The interrupted targets, which will be measured again."""
    for name in bundle.targets:
        with contextlib.suppress(BundleError):  # `recheck` reports files that cannot be read
            if not bundle.outline(name).complete:
                yield name


def _modules(then: Manifest, now: Manifest) -> Iterator[Difference]:
    """Differences of the modules of all targets, measured or not."""
    for module in sorted(then.files.keys() | now.files.keys()):
        before, after = then.files.get(module, ""), now.files.get(module, "")
        if before != after:
            yield Difference(f"source {module}", before[:12], after[:12])


def _listed(unlike: list[Difference]) -> str:
    shown = [f"{one.what} was {one.left or 'not there'} and is {one.right or 'not there'}" for one in unlike]
    more = len(shown) - MOST_SHOWN
    return "; ".join(shown[:MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
