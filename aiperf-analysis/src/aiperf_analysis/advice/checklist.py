"""The checklist as a result: items, what proves them, and the answers of probes."""

from collections import Counter
from collections.abc import Mapping, Sequence

from aiperf_analysis.advice.items import Item, chosen, topics
from aiperf_analysis.advice.probes import Answer, Seen, answer
from aiperf_analysis.advice.proof import STATUSES, Proof, proof, proving
from aiperf_analysis.selection import Selection
from aiperf_core import units
from aiperf_core.report.result import Column, Record, Result, Table, counted
from aiperf_core.results.models import Machine

OUTCOMES = ("holds", "does not hold", "unknown", "not applicable")


def checklist(
    selection: Selection,
    here: Machine,
    *,
    topic: str | None = None,
    search: str | None = None,
    seen: Seen | None = None,
) -> Result:
    """The items of a topic, or of all, with the status that the rows of `selection` give them.

    here: this machine; its kind decides between `proven here` and `elsewhere`.
    seen: what probes look at. The result then has the items with a probe only, each with its answer.

    Raises UsageError for an unknown topic, and where no item contains the words of `search`.
    """
    items = chosen(topic, search)
    rows = proving(selection)
    proofs = {item.id: proof(item.targets, rows, here) for item in items}
    answers = {item.id: answer(item.probe, seen) for item in items if item.automatic} if seen is not None else None
    listed = [item for item in items if answers is None or item.id in answers]
    return Result(
        analysis="checklist",
        title="Checklist of performance engineering",
        summary=_summary(items, proofs, answers),
        options={"topic": topic, "search": search, "check": seen is not None},
        tables=[_by_topic(items, proofs, answers), *_items(listed, proofs, answers)],
        assumptions=[
            "A proof is a believed row, faster or smaller than its baseline, of a target that the item names: it shows "
            "that the mechanism pays in that target, not that it pays in other programs."
        ],
        left_out=selection.left_out,
        sources=selection.sources,
    )


def _summary(items: Sequence[Item], proofs: Mapping[str, Proof], answers: Mapping[str, Answer] | None) -> list[str]:
    counts = Counter(proofs[item.id].status for item in items)
    told = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    of_topics = units.plural("topic", len({item.topic for item in items}))
    sentences = [f"{units.plural('item', len(items))} in {of_topics}: {told}."]
    automatic = sum(item.automatic for item in items)
    if answers is None:
        if automatic:
            sentences.append(f"Automatic probes answer {automatic} of them; run them with --check.")
        return sentences
    outcomes = Counter[str](one.outcome for one in answers.values())
    found = ", ".join(f"{outcome} {outcomes[outcome]}" for outcome in OUTCOMES)
    sentences.append(f"Probes on this machine: {found}. Check by hand: {len(items) - automatic}.")
    return sentences


def _by_topic(items: Sequence[Item], proofs: Mapping[str, Proof], answers: Mapping[str, Answer] | None) -> Table:
    """Counts for each topic."""
    keys = (*STATUSES, *(OUTCOMES if answers is not None else ()))
    records = []
    for topic in topics():
        own = [item for item in items if item.topic == topic.name]
        if not own:
            continue
        counts = Counter[str](proofs[item.id].status for item in own)
        if answers is not None:
            counts.update(answers[item.id].outcome for item in own if item.id in answers)
        cells = {key: counted(counts[key], "count") for key in ("items", *keys)}
        records.append(Record({"topic": topic.name, "title": topic.title} | cells | {"items": len(own)}))
    columns = [Column("topic", "topic"), Column("title", "about"), Column("items", "items", "figure")]
    return Table("topics", "topics", [*columns, *(Column(key, key, "figure") for key in keys)], records)


def _items(items: Sequence[Item], proofs: Mapping[str, Proof], answers: Mapping[str, Answer] | None) -> list[Table]:
    """A table for each topic."""
    columns = [Column("item", "item")]
    if answers is not None:
        columns += [Column("outcome", "here", "verdict"), Column("seen", "seen")]
    columns += [Column("status", "status", "verdict")]
    if any(proofs[item.id].entry for item in items):
        columns += [Column("gain", "gain", "figure"), Column("row", "proven by")]
    if answers is None:
        columns += [Column("targets", "targets"), Column("probe", "probe"), Column("condition", "when")]
    columns += [Column("sentence", "what to do")]
    tables = []
    for topic in topics():
        records = [_record(item, proofs[item.id], answers) for item in items if item.topic == topic.name]
        if records:
            tables.append(Table(topic.name, f"{topic.title} ({topic.name})", columns, records))
    return tables


def _record(item: Item, proof: Proof, answers: Mapping[str, Answer] | None) -> Record:
    found = answers[item.id] if answers is not None else None
    return Record(
        {
            "item": item.id,
            "outcome": found.outcome if found else None,
            "seen": found.found if found else None,
            "status": proof.status,
            "gain": proof.gain if proof.entry else None,
            "row": proof.entry.name if proof.entry else None,
            "targets": ", ".join(item.targets) or None,
            "probe": item.probe,
            "condition": item.condition,
            "sentence": item.sentence,
        },
        [proof.entry.origin] if proof.entry else [],
    )
