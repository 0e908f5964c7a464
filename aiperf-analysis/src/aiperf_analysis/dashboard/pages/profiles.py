"""Profiles of implementations: those in the bundles, and their figures."""

import os
from pathlib import Path

from aiperf_analysis.dashboard import filters
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.selection import Entry
from aiperf_analysis.sizes import told_apart
from aiperf_core import units
from aiperf_core.errors import BundleError
from aiperf_core.profiling import store
from aiperf_core.profiling.models import Profile
from aiperf_core.report.result import Column, LeftOut, Record, Result, Table

MOST = 500  # profiles that are read


def page(asked: Asked) -> View:
    """The profiles of what the filters select."""
    return document.view(
        asked, every(asked), api=filters.with_query("/api/v1/profiles", asked.filters.query), command=()
    )


def every(asked: Asked) -> Result:
    """The profiles as a result: a row for each figure."""
    selection = asked.site.source.selection(asked.filters)
    records: list[Record] = []
    left_out: list[LeftOut] = []
    count = 0
    for one in selection.every:
        if count >= MOST:
            break
        try:
            profile = _profile(one)
        except BundleError as error:
            left_out.append(LeftOut(one.name, "", str(error), one.origin))
            continue
        if profile is not None:
            count += 1
            records += _records(one, profile)
    columns = [
        Column("row", "implementation"),
        Column("target", "target"),
        Column("tool", "profiler"),
        Column("figure", "figure"),
        Column("value", "value", "figure"),
    ]
    none = "No bundle here holds a profile. Take one: aiperf profile TARGET"
    found = Result(
        analysis="profiles",
        title=units.plural("profile", count),
        summary=[f"{units.plural('profile', count)} with {units.plural('figure', len(records))}." if count else none],
        tables=[Table("figures", "Figures", columns, records)],
        left_out=left_out,
        sources=selection.sources,
    )
    return told_apart(found, selection.every)


def _profile(one: Entry) -> Profile | None:
    """The profile of a row, if its bundle has one. Raises BundleError for a damaged one, and for a link elsewhere."""
    bundle = one.run.bundle
    if bundle is None:
        return None
    page = store.folder_of(Path(), one.result.target, one.row.name) / store.PAGE
    if not os.path.lexists(bundle.path / page):
        return None
    return store.parsed(bundle.path / page, bundle.file_bytes(str(page)))


def _records(one: Entry, profile: Profile) -> list[Record]:
    return [
        Record(
            {
                "row": one.row.name,
                "target": one.result.target,
                "tool": profile.tool,
                "figure": name,
                "value": str(value),
            },
            [one.origin],
        )
        for name, value in profile.observed.figures.items()
    ]
