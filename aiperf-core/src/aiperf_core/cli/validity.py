"""`aiperf validity`: the issues that make a number untrue, their guards, and the proof that each guard works."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from aiperf_core.cli.color import color_option
from aiperf_core.cli.result_file import result_file_option, write_result
from aiperf_core.cli.result_screen import print_records, show
from aiperf_core.errors import UsageError
from aiperf_core.plugins import Plugins
from aiperf_core.proofs import outcomes
from aiperf_core.proofs.outcomes import PROVEN, Kept, Outcome
from aiperf_core.proofs.support import Kind, Support, support
from aiperf_core.report.result import Column, Record, Result, Table
from aiperf_core.validity.issues import POLICIES, Incident, Issue, UnknownIssueError
from aiperf_core.validity.registry import categories, guards

# From an issue to its proof.
Supports = Callable[[Issue], Support]
# From the id of an issue to the outcome of its cases on this machine.
Tried = Mapping[str, Kept]

UNPROVEN = "none yet"
PREDECESSOR = "https://github.com/cfregly/ai-performance-engineering"


@click.command("validity")
@click.argument("name", required=False, metavar="[ISSUE|CATEGORY]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with everything known of each issue.")
@click.option("--markdown", is_flag=True, help="Print the page of the documentation.")
@color_option
@result_file_option
@click.pass_obj
def validity(plugins: Plugins, name: str | None, as_json: bool, markdown: bool, out: Path | None) -> None:
    """List the issues that make a number untrue, and the guards against them.

    An ISSUE (timing.unsynced_streams) is shown in full, a CATEGORY (timing) as a table. Without either, all are listed.

    \b
    Examples:
      aiperf validity timing
      aiperf validity timing.unsynced_streams
    """
    if as_json and markdown:
        raise UsageError("--json and --markdown were both given; a listing has one form. Leave one of them out.")
    chosen = _chosen(name, [one.record for one in plugins.issues.values()])
    cases, recorded = [one.record for one in plugins.attacks], [one.record for one in plugins.recordings]

    def supports(issue: Issue) -> Support:
        return support(issue, cases, recorded)

    if markdown:
        click.echo(page(chosen, supports), nl=False)
        return
    tried = outcomes.read(outcomes.state(plugins))
    is_issue = name == chosen[0].id
    first = chosen[0]
    result = issue_view(first, supports(first), tried.get(first.id)) if is_issue else view(chosen, supports, tried)
    write_result(result, out)
    if as_json:
        import json

        documents = [_record(one, supports(one), tried.get(one.id)) for one in chosen]
        click.echo(json.dumps(documents, indent=2, ensure_ascii=False))
    elif is_issue:
        print_records(result.tables[0])
    else:
        show(result)


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
    groups: dict[str, list[Issue]] = {category: [] for category in categories()}
    for one in issues:
        groups.setdefault(one.category, []).append(one)
    return {category: group for category, group in groups.items() if group}


def _count(issues: Sequence[Issue], supports: Supports) -> str:
    """How many issues and guards there are, and how many issues have each kind of proof."""
    names, kinds = {one.guard for one in issues}, Counter(supports(one).kind for one in issues)
    counts = {kind: kinds[kind] for kind in Kind if kind is not Kind.NONE or kinds[kind]}
    return (
        f"{_number(len(issues), 'issue')} in {_number(len(_groups(issues)), 'category')} "
        f"behind {_number(len(names), 'guard')}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}"
    )


def _number(count: int, word: str) -> str:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count} {word if count == 1 else plural}"


# --- as a result


def view(issues: Sequence[Issue], supports: Supports, tried: Tried) -> Result:
    """A table of issues for each category."""
    proven = sum(one.id in tried and tried[one.id].outcome in PROVEN for one in issues)
    columns = [Column(name, name) for name in ("issue", "guard", "needs", "proof", "title")]
    tables = []
    for category, group in _groups(issues).items():
        about = f": {categories()[category]}" if category in categories() else ""
        records = [
            Record(
                {
                    "issue": one.id,
                    "guard": one.guard,
                    "needs": ", ".join(one.needs) or None,
                    "proof": _proof(supports(one), tried.get(one.id)),
                    "title": one.title,
                }
            )
            for one in group
        ]
        tables.append(Table(category, f"{category} ({len(group)}){about}", columns, records))
    summary = [
        _count(issues, supports),
        f"{proven} proven on this machine" + ("" if tried else "; try them: aiperf selftest"),
    ]
    return Result(analysis="validity", title="Issues and guards", summary=summary, tables=tables)


def _proof(support: Support, kept: Kept | None) -> str:
    """The state of an issue's proof on this machine, in a few words."""
    if kept is not None and kept.outcome in PROVEN:
        return f"proven here on {kept.day}"
    if kept is not None and kept.outcome is Outcome.RECORDED:
        return f"on recorded evidence, {kept.day}"
    if kept is not None and kept.outcome not in (Outcome.UNPROVEN, Outcome.EXCLUDED, Outcome.OWED):
        return f"{kept.outcome} on {kept.day}"
    if support.kind is Kind.NONE:
        return UNPROVEN
    return "not tried here" if support.kind is Kind.ATTACKED else support.kind


def issue_view(issue: Issue, support: Support, kept: Kept | None) -> Result:
    """Everything known of an issue as a table of two columns."""
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
        *(("honest look-alike", name) for name in support.look_alikes),
        *(("recorded", _recording(file)) for file in support.recordings),
        *_reasons(issue),
        ("proof", proof),
        *(("met", f"{_dated(one)} {one.url}") for one in issue.incidents),
    ]
    if issue.predecessor:
        rows.append(("list of 95", issue.predecessor))
    columns = [Column("what", "issue"), Column("text", issue.id)]
    records = [Record({"what": what, "text": text}) for what, text in rows]
    return Result(
        analysis="validity",
        title=issue.title,
        summary=[issue.happens],
        tables=[Table(issue.id, issue.id, columns, records)],
    )


def _reasons(issue: Issue) -> list[tuple[str, str]]:
    """Why there is no attack: the construction with its test, or the machine that is still missing."""
    if issue.excluded:
        return [("excluded", issue.excluded.construction), ("test", issue.excluded.test)]
    return [("owed", f"to be recorded on {issue.owed}")] if issue.owed else []


def _recording(file: str) -> str:
    from aiperf_core.proofs.recording import read

    return f"{read(file)}{' (honest look-alike)' if file.endswith('.honest.json') else ''}"


def _described(guard: str) -> str:
    return next((f"{guard}: the {one.by} {one.does}" for one in guards() if one.name == guard), guard)


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

The issues that make a benchmark's number untrue, and the guards against them:
{_count(issues, supports)}.

This page is the output of `aiperf validity --markdown`. `aiperf validity timing` lists a category, and
`aiperf validity timing.unsynced_streams` shows an issue.

How to read it:

- **Guard**: the check that prevents the issue or shows it.
- **Attack**: code that commits the issue. `aiperf selftest` tries it on your machine: with the guard off the attack
  must gain, and with the guard on it must be found or gain nothing. Beside other work on the machine, an attack that
  seems missed is not decided.
- **Honest look-alike**: code that resembles the attack and must not be flagged.
- **Recorded**: evidence of a real run on the machine named, shown to the check alone.
- **Excluded**: the harness leaves no room for the issue; the named test fails where that is broken.
- **Owed**: the proof must still be recorded on the machine named; the guard is only tested on made-up evidence.
- A finding says what a check saw, not what the author meant. Code that returns zeros is found as `output.wrong_values`.
- **Finding** says what happens to the row under each policy: it becomes INVALID, it carries a warning, or nothing.
- A sample is one timed call. Only short calls of a workload declared warm are timed in a row, on the same values.
- **Needs**: what a machine must offer for the issue to be observable there.
- {listed} of the issues were first listed by [AI Performance Engineering]({PREDECESSOR}),
  under the names given here."""


def _guards_table(issues: Sequence[Issue]) -> str:
    used = {one.guard for one in issues}
    rows = [f"| `{one.name}` | {one.place} | {one.by} | {one.does} |" for one in guards() if one.name in used]
    head = (
        "## Guards\n\nGuards of the `loop` work while samples are taken. Guards `after` look at the recorded samples, "
        "or run the code once more."
    )
    return "\n".join([f"{head}\n", "| guard | when | by | what it does |", "| --- | --- | --- | --- |", *rows])


def _contents(category: str, issues: Sequence[Issue]) -> str:
    about = f": {categories()[category]}" if category in categories() else ""
    rows = [f"| [`{one.id}`](#{one.id.replace('.', '')}) | {one.title} | `{one.guard}` |" for one in issues]
    return "\n".join([f"**{category}**{about}.\n", "| issue | title | guard |", "| --- | --- | --- |", *rows])


def _section(issue: Issue, support: Support) -> str:
    lines = [
        f"### `{issue.id}`\n",
        f"**{issue.title}.** {issue.happens}\n",
        f"- guard `{issue.guard}`: {issue.protection}",
        f"- needs: {', '.join(issue.needs) or 'nothing special'}",
        f"- finding: {_severity(issue)}",
        *_proofs(issue, support),
        *(f"- met: [{_dated(one)}]({one.url})" for one in issue.incidents),
    ]
    if issue.predecessor:
        lines.append(f"- in the list of 95: {issue.predecessor}")
    return "\n".join(lines)


def _proofs(issue: Issue, support: Support) -> list[str]:
    lines = []
    if support.attacks:
        lines.append(f"- attack: {_in_code(support.attacks)}")
    if support.look_alikes:
        lines.append(f"- honest look-alike: {_in_code(support.look_alikes)}")
    lines += [f"- recorded {_recording(file)}" for file in support.recordings]
    lines += [f"- {name}: {f'`{text}`' if name == 'test' else text}" for name, text in _reasons(issue)]
    return lines or [f"- proof: {UNPROVEN}"]


def _in_code(names: Sequence[str]) -> str:
    """Names in the type of code, and the devices behind them in that of the text."""
    parts = (name.partition(" ") for name in names)
    return ", ".join(f"`{name}` {devices}" for name, _, devices in parts)
