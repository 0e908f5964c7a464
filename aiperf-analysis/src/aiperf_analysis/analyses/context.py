"""Results as a context for a language model: rows, steps, warnings, machines and advice, in few words."""

from collections.abc import Sequence

from attrs import frozen

from aiperf_analysis.advice import document, opinion
from aiperf_analysis.advice.explain import explain
from aiperf_analysis.advice.redaction import redactor
from aiperf_analysis.selection import Entry, Selection, required
from aiperf_analysis.sizes import COLUMN, size_of
from aiperf_core import units
from aiperf_core.analysis_options import option
from aiperf_core.errors import UsageError
from aiperf_core.names import words
from aiperf_core.report.metrics import bound_name
from aiperf_core.report.result import Column, Figure, Record, Result, Table, counted
from aiperf_core.report.verdict_counts import causes

KEY_VARIABLE = "AIPERF_LLM_KEY"


@frozen
class Options:
    """Options of the context."""

    for_llm: bool = option(False, "Make one Markdown document for a language model; -o then takes a .md file.")
    most: int = option(24_000, "About how many characters the document may have.", metavar="COUNT")
    ask: str | None = option(None, "Ask this question; needs --url.", metavar="QUESTION", local=True)
    url: str | None = option(
        None, "The OpenAI-compatible address to ask, such as http://127.0.0.1:8000/v1.", metavar="URL", local=True
    )
    model: str = option("default", "The name of the model to ask.", metavar="NAME", local=True)
    key_variable: str = option(
        KEY_VARIABLE, "The environment variable with the key of the address.", metavar="NAME", local=True
    )


def analyze(selection: Selection, options: Options) -> Result:
    """Describe the newest results of each target: rows, steps, warnings, machines, and the advice of aiperf explain.

    With --for-llm it is one Markdown document without names of machines and users. Nothing leaves this machine, unless
    --ask and --url are given: then the document and the question go to that address, and its answer is shown below a
    line that says so. An answer is an opinion: it changes no figure, no verdict and no exit code.
    """
    newest = selection.latest()
    required(newest.entries, newest)
    address = opinion.address(options.url) if options.url else None
    if address and not options.ask:
        raise UsageError(
            "--url is an address to ask, and there is no question. Give --ask QUESTION, or leave --url out."
        )
    advice = explain(newest)
    tables = [_rows(newest.entries), _steps(newest.entries), _warnings(newest.entries), _work(newest.entries),
              _machines(newest.entries), _advice(advice.tables[0])]  # fmt: skip
    tables = [one for one in tables if one.records]
    rows = units.plural("row", len(newest.entries))
    targets = units.plural("target", len({one.base_target for one in newest.entries}))
    counts = [f"{rows} of {targets}", causes(newest.left_out)]
    counts += [f"{len(newest.unreadable)} not read"] if newest.unreadable else []
    summary = [f"{'; '.join(filter(None, counts))}."]
    text, said = "", None
    if options.for_llm or options.ask:
        text, cut = document.markdown(summary, tables, newest.left_out, options.most)
        text = redactor(run.manifest.machine.hostname for run in newest.runs).text(text)
        if cut:
            summary.append(f"{units.plural('line', cut)} left out for length: name fewer targets, or raise --most.")
    if options.ask and address:
        said = opinion.ask(options.ask, text, address, model=options.model, key_variable=options.key_variable)
        text += _below(options.ask, said)
    elif options.ask:
        note = "Nothing was asked: --ask needs --url, an OpenAI-compatible address."
        summary.append(note)
        text += f"\n{note}\n"
    return Result(
        analysis="context",
        title="Context of results",
        summary=summary,
        options={"for_llm": options.for_llm, "most": options.most, "ask": options.ask},
        tables=tables,
        assumptions=advice.assumptions,
        left_out=newest.left_out,
        sources=newest.sources,
        details={"opinion": {"text": said.text, "model": said.model, "host": said.host}} if said else {},
        text=text,
    )


def _below(question: str, said: opinion.Opinion) -> str:
    """The answer, below a line that says what it is."""
    return (
        f"\n---\n\nOPINION of the model '{said.model}' at {words(said.host)}. aiperf has not checked it; it is no "
        f"verdict.\n\nAsked: {words(question)}\n\n{said.text}\n"
    )


def _rows(entries: Sequence[Entry]) -> Table:
    columns = [Column("row", "row"), Column("class", "kind of machine"), Column("role", "role"),
               Column("verdict", "verdict", "verdict"), Column("time", "time", "figure"),
               Column("speedup", "speedup", "figure"), Column("sol", "SOL", "figure"), Column("bound", "bound"),
               Column("memory", "peak memory", "figure"), Column("energy", "energy a call", "figure"),
               Column("why", "mechanism")]  # fmt: skip
    records = []
    for one in entries:
        row = one.row
        records.append(
            Record(
                {
                    "row": one.name,
                    "class": one.hardware,
                    "role": f"{row.role}, {row.kind}" if row.kind else row.role,
                    "verdict": row.verdict.value,
                    "time": one.figure("time_s"),
                    "speedup": one.figure("speedup"),
                    "sol": one.figure("speed_of_light_fraction"),
                    "bound": bound_name(one.result, row) or None,
                    "memory": one.figure("peak_bytes"),
                    "energy": one.figure("net_joules_per_call"),
                    "why": row.why,
                },
                [one.origin],
            )
        )  # fmt: skip
    return Table("rows", "rows", columns, records)


def _steps(entries: Sequence[Entry]) -> Table:
    """The ladders: each step with the version that it builds on."""
    records = [
        Record(
            {
                "row": one.name,
                "after": one.row.builds_on,
                "step": one.figure("step_speedup"),
                "mechanisms": ", ".join(one.row.mechanisms) or None,
            },
            [one.origin],
        )
        for one in entries
        if one.row.builds_on
    ]
    columns = [Column("row", "row"), Column("after", "builds on"), Column("step", "speedup of the step", "figure"),
               Column("mechanisms", "mechanisms")]  # fmt: skip
    return Table("ladder", "ladder", columns, records)


def _warnings(entries: Sequence[Entry]) -> Table:
    """The findings, equal ones together."""
    rows: dict[tuple[str, str], list[Entry]] = {}
    for one in entries:
        for found in one.row.findings:
            rows.setdefault((found.issue, found.message), []).append(one)
    records = [
        Record({"issue": issue, "rows": len(found), "message": message}, [one.origin for one in found])
        for (issue, message), found in sorted(rows.items())
    ]
    return Table("findings", "warnings",
                 [Column("issue", "issue"), Column("rows", "rows"), Column("message", "message")], records)  # fmt: skip


def _work(entries: Sequence[Entry]) -> Table:
    """The work of each target: its sizes, and the least bytes and FLOP."""
    records = {}
    for one in entries:
        problem = one.result.problem
        records[one.run.id, one.result.target] = Record(
            {
                "target": one.result.target,
                "summary": one.result.summary,
                "goal": one.result.goal,
                "device": f"{one.result.device}, cache {one.result.cache}, {problem.precision}",
                "size": size_of(one),
                "bytes": counted(problem.bytes_read + problem.bytes_written, "B"),
                "flop": counted(problem.flops, "FLOP"),
            },
            [one.origin],
        )
    columns = [Column("target", "target"), Column("summary", "about"), Column("goal", "goal"),
               Column("device", "measured on"), COLUMN, Column("bytes", "least bytes", "figure"),
               Column("flop", "FLOP", "figure")]  # fmt: skip
    return Table("work", "work of a call", columns, list(records.values()))


def _machines(entries: Sequence[Entry]) -> Table:
    """Each kind of machine with software and ceilings, once for each bundle that differs."""
    records: dict[tuple[object, ...], Record] = {}
    for one in entries:
        page, roof = one.run.manifest, one.ceilings
        packages = ", ".join(f"{name} {page.packages[name]}" for name in ("torch", "triton") if name in page.packages)
        rates = {name: units.rate(rate, "FLOP/s") for name, rate in roof.flop_per_s.items()} if roof else {}
        cells: dict[str, str | int | bool | Figure | None] = {
            "class": one.hardware,
            "device": roof.device if roof else one.result.device,
            "cpu": f"{page.machine.cpu}, {page.machine.cores} processors",
            "system": page.machine.system,
            "hypervisor": page.machine.hypervisor,
            "software": f"{packages}{f', driver {page.machine.driver}' if page.machine.driver else ''}",
            "copy": counted(roof.copy_bytes_per_s if roof else None, "B/s", reason="no ceilings"),
            "flop": ", ".join(f"{name} {rate}" for name, rate in rates.items()) or None,
        }
        records.setdefault(tuple(cells.values()), Record(cells))
    columns = [
        Column("class", "kind of machine"),
        Column("device", "device"),
        Column("cpu", "processor"),
        Column("system", "system"),
        Column("hypervisor", "hypervisor"),
        Column("software", "software"),
        Column("copy", "copy rate", "figure"),
        Column("flop", "matrix rates"),
    ]
    return Table("machines", "machines", columns, list(records.values()))


def _advice(table: Table) -> Table:
    """The facts without their precision and what to try."""
    kept = [column for column in table.columns if column.key in ("rule", "count", "rows", "fact", "targets")]
    return Table("advice", "what fixed rules say", kept, table.records)
