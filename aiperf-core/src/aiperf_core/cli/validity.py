"""`aiperf validity`: what can make a number untrue, what guards against it, and what proves that it does."""

from collections.abc import Callable, Mapping, Sequence

import click

from aiperf_core.cli.tables import print_table
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.selftest import outcomes
from aiperf_core.selftest.outcomes import PROVEN, Kept, Outcome
from aiperf_core.selftest.support import Support, support
from aiperf_core.validity.issues import POLICIES, Incident, Issue, UnknownIssueError
from aiperf_core.validity.registry import CATEGORIES, GUARDS

# From an issue to the cases that stand behind it.
Supports = Callable[[Issue], Support]
# From the id of an issue to how its cases ended on this machine.
Tried = Mapping[str, Kept]

UNPROVEN = "none yet"
RECORDED = "recorded evidence of code that commits it, and of honest code"
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
    chosen = _chosen(name, [one.record for one in plugins.issues.values()])
    cases, recorded = [one.record for one in plugins.attacks], [one.record for one in plugins.recordings]

    def supports(issue: Issue) -> Support:
        return support(issue.id, cases, recorded)

    if markdown:
        click.echo(page(chosen, supports), nl=False)
        return
    tried = outcomes.read(outcomes.state(plugins))
    if as_json:
        import json

        documents = [_record(one, supports(one), tried.get(one.id)) for one in chosen]
        click.echo(json.dumps(documents, indent=2, ensure_ascii=False))
    elif name is not None and name == chosen[0].id:
        _print_issue(chosen[0], supports(chosen[0]), tried.get(name))
    else:
        _print_tables(chosen, supports, tried)


def page(issues: Sequence[Issue], supports: Supports) -> str:
    """Return the page of the documentation, in Markdown. It is the same on every machine."""
    groups = _groups(issues)
    parts = [_introduction(issues, supports), _guards_table(issues), "## Issues"]
    parts.extend(_contents(category, group) for category, group in groups.items())
    for category, group in groups.items():
        parts.append(f"## {category}")
        parts.extend(_section(one, supports(one)) for one in group)
    return "\n\n".join(parts) + "\n"


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


def _count(issues: Sequence[Issue], supports: Supports) -> str:
    """How many there are, counted and not claimed."""
    guards, found = {one.guard for one in issues}, [supports(one) for one in issues]
    attacked = sum(bool(one.attacks) for one in found)
    recorded = sum(one.recorded and not one.attacks for one in found)
    return (
        f"{_number(len(issues), 'issue')} in {_number(len(_groups(issues)), 'category')} "
        f"behind {_number(len(guards), 'guard')}; {attacked} with an attack that tries the guard, {recorded} with recorded "
        f"evidence alone, {len(issues) - attacked - recorded} with neither"
    )


def _number(count: int, word: str) -> str:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count} {word if count == 1 else plural}"


# --- for a terminal


def _print_tables(issues: Sequence[Issue], supports: Supports, tried: Tried) -> None:
    click.echo(_count(issues, supports))
    proven = sum(one.id in tried and tried[one.id].outcome in PROVEN for one in issues)
    click.echo(f"{proven} proven on this machine" + ("" if tried else "; try them: aiperf selftest"))
    for category, group in _groups(issues).items():
        about = f": {CATEGORIES[category]}" if category in CATEGORIES else ""
        click.echo(f"\n{category} ({len(group)}){about}")
        rows = [
            (one.id, one.guard, ", ".join(one.needs) or "-", _proof(supports(one), tried.get(one.id)), one.title)
            for one in group
        ]
        print_table(("ISSUE", "GUARD", "NEEDS", "PROOF", "TITLE"), rows)


def _proof(support: Support, kept: Kept | None) -> str:
    """What is known of an issue's proof on this machine, in a few words."""
    if kept is not None and kept.outcome in PROVEN:
        return f"proven here on {kept.day}"
    if kept is not None and kept.outcome is Outcome.RECORDED:
        return f"on recorded evidence, {kept.day}"
    if kept is not None and kept.outcome is not Outcome.UNPROVEN:
        return f"{kept.outcome} on {kept.day}"
    return "not tried here" if support.attacks or support.recorded else UNPROVEN


def _print_issue(issue: Issue, support: Support, kept: Kept | None) -> None:
    by = f" by {', '.join(kept.by)}" if kept is not None and kept.by and kept.outcome in PROVEN else ""
    proof = _proof(support, kept) + by
    if proof == "not tried here":
        proof += f"; try it: aiperf selftest --issue {issue.id}"
    rows = [
        ("title", issue.title),
        ("happens", issue.happens),
        ("guard", _described(issue.guard)),
        ("protection", issue.protection),
        ("needs", ", ".join(issue.needs) or "nothing special"),
        ("finding", _severity(issue)),
        *(("attack", name) for name in support.attacks),
        *(("look-alike", name) for name in support.look_alikes),
        *([("evidence", RECORDED)] if support.recorded else []),
        ("proof", proof),
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


def _record(issue: Issue, support: Support, kept: Kept | None) -> dict[str, object]:
    from attrs import asdict

    tried = None if kept is None else asdict(kept)
    return {"category": issue.category, **asdict(issue), **asdict(support), "tried_here": tried}


# --- for the documentation


def _introduction(issues: Sequence[Issue], supports: Supports) -> str:
    listed = sum(one.predecessor is not None for one in issues)
    return f"""# Validity

What can make a benchmark's number untrue, and what stands against it:
{_count(issues, supports)}.

This page is the output of `aiperf validity --markdown`. `aiperf validity timing` lists a category, and
`aiperf validity timing.unsynced_streams` shows an issue.

How to read it:

- **Guard** is the check that is meant to stop the issue or to show it. What is written of it is a claim until it is proven.
- **Attack** is code that commits the issue. `aiperf selftest` tries it on your machine: it must gain with the guard off, and be
  found or gain nothing with it on. **Look-alike** is honest code that must not be flagged.
- **Recorded evidence** is shown to the check alone, where not every machine can commit the issue.
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


def _section(issue: Issue, support: Support) -> str:
    lines = [
        f"### `{issue.id}`\n",
        f"**{issue.title}.** {issue.happens}\n",
        f"- guard `{issue.guard}`: {issue.protection}",
        f"- needs: {', '.join(issue.needs) or 'nothing special'}",
        f"- finding: {_severity(issue)}",
        *_proofs(support),
        *(f"- met: [{_dated(one)}]({one.url})" for one in issue.incidents),
    ]
    if issue.predecessor:
        lines.append(f"- in the list of 95: {issue.predecessor}")
    return "\n".join(lines)


def _proofs(support: Support) -> list[str]:
    lines = []
    if support.attacks:
        lines.append(f"- attack: {_in_code(support.attacks)}")
    if support.look_alikes:
        lines.append(f"- look-alike: {_in_code(support.look_alikes)}")
    if support.recorded:
        lines.append(f"- {RECORDED}")
    return lines or [f"- attack: {UNPROVEN}"]


def _in_code(names: Sequence[str]) -> str:
    """Names in the type of code, and the devices behind them in that of the text."""
    parts = (name.partition(" ") for name in names)
    return ", ".join(f"`{name}` {devices}" for name, _, devices in parts)
