"""`aiperf validity`: what can make a number untrue, and what guards against it."""

from collections.abc import Callable, Sequence

import click

from aiperf_core.cli.tables import print_table
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.validity.issues import POLICIES, Incident, Issue, UnknownIssueError
from aiperf_core.validity.registry import CATEGORIES, GUARDS

# From an issue to the names of the attacks that prove its guard.
Proofs = Callable[[Issue], Sequence[str]]

UNPROVEN = "none yet"
PREDECESSOR = "https://github.com/cfregly/ai-performance-engineering"


@click.command("validity")
@click.argument("name", required=False, metavar="[ISSUE|CATEGORY]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with everything known of each issue.")
@click.option("--markdown", is_flag=True, help="Print the page of the documentation.")
@click.pass_obj
def validity(plugins: Plugins, name: str | None, as_json: bool, markdown: bool) -> None:
    """List what can make a number untrue, and what guards against it.

    An ISSUE (timing.unsynced_streams) is shown in full, a CATEGORY (timing) as a table. Without one all are listed.
    """
    if as_json and markdown:
        raise UsageError("--json and --markdown were both given; a listing has one form. Leave one of them out.")
    chosen = _chosen(name, [one.issue for one in plugins.issues.values()])
    if as_json:
        import json

        click.echo(json.dumps([_record(one, _proofs) for one in chosen], indent=2, ensure_ascii=False))
    elif markdown:
        click.echo(page(chosen, _proofs), nl=False)
    elif name is not None and name == chosen[0].id:
        _print_issue(chosen[0], _proofs)
    else:
        _print_tables(chosen, _proofs)


def page(issues: Sequence[Issue], proofs: Proofs) -> str:
    """Return the page of the documentation, in Markdown."""
    groups = _groups(issues)
    parts = [_introduction(issues, proofs), _guards_table(issues), "## Issues"]
    parts.extend(_contents(category, group) for category, group in groups.items())
    for category, group in groups.items():
        parts.append(f"## {category}")
        parts.extend(_section(one, proofs) for one in group)
    return "\n\n".join(parts) + "\n"


def _proofs(issue: Issue) -> Sequence[str]:
    return ()


def _chosen(name: str | None, issues: Sequence[Issue]) -> list[Issue]:
    """The issue of that id or those of that category, or all. Raises `UnknownIssueError`."""
    found = [one for one in issues if name in (None, one.id, one.category)]
    if name is not None and not found:
        raise UnknownIssueError(name, issues)
    return found


def _groups(issues: Sequence[Issue]) -> dict[str, list[Issue]]:
    """The issues by category; those of plugins come after ours."""
    groups: dict[str, list[Issue]] = {category: [] for category in CATEGORIES}
    for one in issues:
        groups.setdefault(one.category, []).append(one)
    return {category: group for category, group in groups.items() if group}


def _count(issues: Sequence[Issue], proofs: Proofs) -> str:
    """How many there are, counted and not claimed."""
    guards, proven = {one.guard for one in issues}, sum(bool(proofs(one)) for one in issues)
    return (
        f"{_number(len(issues), 'issue')} in {_number(len(_groups(issues)), 'category')} "
        f"behind {_number(len(guards), 'guard')}; {proven} proven by an attack"
    )


def _number(count: int, word: str) -> str:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count} {word if count == 1 else plural}"


# --- for a terminal


def _print_tables(issues: Sequence[Issue], proofs: Proofs) -> None:
    click.echo(_count(issues, proofs))
    for category, group in _groups(issues).items():
        about = f": {CATEGORIES[category]}" if category in CATEGORIES else ""
        click.echo(f"\n{category} ({len(group)}){about}")
        rows = [(one.id, one.guard, ", ".join(one.needs) or "-", one.title) for one in group]
        print_table(("ISSUE", "GUARD", "NEEDS", "TITLE"), rows)


def _print_issue(issue: Issue, proofs: Proofs) -> None:
    rows = [
        ("title", issue.title),
        ("happens", issue.happens),
        ("guard", _described(issue.guard)),
        ("protection", issue.protection),
        ("needs", ", ".join(issue.needs) or "nothing special"),
        ("finding", _severity(issue)),
        ("proof", ", ".join(proofs(issue)) or UNPROVEN),
        *(("met", f"{_dated(one)} {one.url}") for one in issue.incidents),
    ]
    if issue.predecessor:
        rows.append(("list of 95", issue.predecessor))
    print_table(("ISSUE", issue.id), rows)


def _described(guard: str) -> str:
    return next((f"{guard}: the {one.by} {one.does}" for one in GUARDS if one.name == guard), guard)


def _severity(issue: Issue) -> str:
    effects = [getattr(issue.severity, policy) for policy in POLICIES]
    if len(set(effects)) == 1:
        return f"{effects[0]} under every policy"
    return ", ".join(f"{effect} under {policy}" for policy, effect in zip(POLICIES, effects, strict=True))


def _dated(incident: Incident) -> str:
    return f"{incident.title} ({incident.year})" if incident.year else incident.title


# --- for programs


def _record(issue: Issue, proofs: Proofs) -> dict[str, object]:
    from attrs import asdict

    return {"category": issue.category, **asdict(issue), "proofs": list(proofs(issue))}


# --- for the documentation


def _introduction(issues: Sequence[Issue], proofs: Proofs) -> str:
    listed = sum(one.predecessor is not None for one in issues)
    return f"""# Validity

What can make a benchmark's number untrue, and what stands against it:
{_count(issues, proofs)}.

This page is the output of `aiperf validity --markdown`. `aiperf validity timing` lists a category, and
`aiperf validity timing.unsynced_streams` shows an issue.

How to read it:

- **Guard** is the check that is meant to stop the issue or to show it. What is written of it is a claim until **proof** names
  an attack that passes with the guard off and fails with it on.
- A finding tells what a check saw, not what was meant. Code that returns zeros is found as `output.wrong_values`, whatever
  made it do so.
- **Finding** says what happens to the row under each policy: it becomes INVALID, it carries a warning, or nothing.
- A sample is one timed call; only short calls of a workload declared warm are timed several in a row, on the same values.
- **Needs** is what a machine must offer for the issue to be observable there.
- {listed} of the issues were first listed by [AI Performance Engineering]({PREDECESSOR}),
  under the names given here."""


def _guards_table(issues: Sequence[Issue]) -> str:
    used = {one.guard for one in issues}
    rows = [f"| `{one.name}` | {one.place} | {one.by} | {one.does} |" for one in GUARDS if one.name in used]
    head = (
        "## Guards\n\nThose of the `loop` work while samples are taken, those `after` on what was recorded or in runs of "
        "their own."
    )
    return "\n".join([f"{head}\n", "| guard | when | by | what it does |", "| --- | --- | --- | --- |", *rows])


def _contents(category: str, issues: Sequence[Issue]) -> str:
    about = f": {CATEGORIES[category]}" if category in CATEGORIES else ""
    rows = [f"| [`{one.id}`](#{one.id.replace('.', '')}) | {one.title} | `{one.guard}` |" for one in issues]
    return "\n".join([f"**{category}**{about}.\n", "| issue | title | guard |", "| --- | --- | --- |", *rows])


def _section(issue: Issue, proofs: Proofs) -> str:
    lines = [
        f"### `{issue.id}`\n",
        f"**{issue.title}.** {issue.happens}\n",
        f"- guard `{issue.guard}`: {issue.protection}",
        f"- needs: {', '.join(issue.needs) or 'nothing special'}",
        f"- finding: {_severity(issue)}",
        f"- proof: {', '.join(proofs(issue)) or UNPROVEN}",
        *(f"- met: [{_dated(one)}]({one.url})" for one in issue.incidents),
    ]
    if issue.predecessor:
        lines.append(f"- in the list of 95: {issue.predecessor}")
    return "\n".join(lines)
