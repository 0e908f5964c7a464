"""What makes a number untrue: the findings in these runs, every known issue, and the proof of its guard."""

from collections.abc import Sequence

from aiperf_analysis.dashboard import filters, shown
from aiperf_analysis.dashboard.asked import Asked, View
from aiperf_analysis.dashboard.pages import document
from aiperf_analysis.selection import Entry
from aiperf_analysis.sizes import told_apart
from aiperf_core import units
from aiperf_core.plugins import Plugins
from aiperf_core.proofs import outcomes
from aiperf_core.proofs.support import support
from aiperf_core.report.result import Column, Origin, Record, Result, Table
from aiperf_core.validity.issues import POLICIES


def page(asked: Asked) -> View:
    """The findings of what the filters select, and the matrix of issues."""
    result = of_selection(asked)
    return document.view(
        asked,
        result,
        tables=[
            shown.folded(shown.table(one), {"title": "issue"}) if one.name == "issues" else shown.table(one)
            for one in result.tables
        ],
        api=filters.with_query("/api/v1/validity", asked.filters.query),
        command=["validity"],
    )


def of_selection(asked: Asked) -> Result:
    """Findings and issues as a result."""
    selection = asked.site.source.selection(asked.filters)
    distrusted = [one for one in selection.every if one.row.verdict.is_distrusted]
    skipped = [one for one in selection.every if one.row.is_skipped]
    matrix = _matrix(asked.site.plugins)
    found = Result(
        analysis="validity",
        title="What is not trusted, and why",
        summary=[
            f"{len(distrusted):,} of {units.plural('row', len(selection.every))} are not trusted.",
            f"{units.plural('row', len(skipped))} did not run, because their machines cannot run them.",
            f"{units.plural('issue', len(matrix.records))} are known to the installed packages.",
        ],
        tables=[
            _findings(selection.every, asked.site.plugins),
            _rows("rows", "Rows that are not trusted", distrusted),
            _rows("skipped", "Rows that did not run", skipped),
            matrix,
        ],
        sources=selection.sources,
    )
    return told_apart(found, selection.every)


def _findings(entries: Sequence[Entry], plugins: Plugins) -> Table:
    found: dict[tuple[str, str], list[Origin]] = {}
    for one in entries:
        for finding in one.row.findings:
            found.setdefault((finding.issue, finding.severity), []).append(one.origin)
    columns = [
        Column("issue", "issue"),
        Column("severity", "severity"),
        Column("rows", "rows", "figure"),
        Column("title", "what it is"),
    ]
    records = []
    for (issue, severity), origins in sorted(found.items(), key=lambda pair: -len(pair[1])):
        known = plugins.issues.get(issue)
        title = known.record.title if known else "an issue that no installed package knows"
        records.append(Record({"issue": issue, "severity": severity, "rows": len(origins), "title": title}, origins))
    return Table("findings", "Findings in these runs", columns, records)


def _rows(name: str, title: str, entries: Sequence[Entry]) -> Table:
    columns = [
        Column("row", "row"),
        Column("verdict", "verdict", "verdict"),
        Column("reason", "why"),
        Column("created", "run"),
    ]
    records = [
        Record(
            {
                "row": one.name,
                "verdict": one.row.verdict.value,
                "reason": one.row.reason or "no reason was recorded",
                "created": one.run.created,
            },
            [one.origin],
        )
        for one in entries
    ]
    return Table(name, title, columns, records)


def _matrix(plugins: Plugins) -> Table:
    """Every known issue with its guard, its severity by policy, and the outcome of its last selftest here."""
    cases, recorded = [one.record for one in plugins.attacks], [one.record for one in plugins.recordings]
    tried = outcomes.read(outcomes.state(plugins))
    columns = [
        Column("issue", "issue"),
        Column("guard", "guard"),
        *(Column(policy, policy) for policy in POLICIES),
        Column("proof", "kind of proof"),
        Column("here", "selftest here"),
        Column("title", "what it is"),
    ]
    records = []
    for issue in (one.record for one in plugins.issues.values()):
        kept = tried.get(issue.id)
        cells = {
            "issue": issue.id,
            "guard": issue.guard,
            **{policy: str(getattr(issue.severity, policy)) for policy in POLICIES},
            "proof": str(support(issue, cases, recorded).kind),
            "here": f"{kept.outcome}, {kept.day}" if kept else None,
            "title": issue.title,
        }
        records.append(Record(dict(cells)))
    note = "The outcomes of the selftest are those of this machine; aiperf selftest fills them."
    return Table("issues", "Known issues and their guards", columns, records, note)
