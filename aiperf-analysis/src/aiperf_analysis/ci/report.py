"""The report of a run of a suite: JSON, Markdown for a pull request, JUnit XML, and a badge."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from attrs import asdict, frozen

from aiperf_analysis.ci.gating import WORDS, Decision, Gated
from aiperf_analysis.ci.suite import Suite
from aiperf_core import atomic, units
from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.render.ci import Case, junit
from aiperf_core.results import jsontext

SCHEMA_VERSION = 1


@frozen
class Report:
    """What a run of a suite came to.

    bundles: the folders of the runs.
    problems: what went wrong beside the measurement, such as a store that is not there.
    """

    suite: Suite
    gated: Gated
    code: int
    bundles: list[str]
    labels: dict[str, str]
    problems: list[str]

    @property
    def document(self) -> dict[str, Any]:
        """The report as a JSON document."""
        return {
            "schema_version": SCHEMA_VERSION,
            "suite": self.suite.name,
            "status": WORDS[self.gated.word].text,
            "exit_code": int(self.code),
            "labels": self.labels,
            "bundles": self.bundles,
            "newest": self.gated.newest,
            "runs_before": self.gated.before,
            "decisions": [asdict(one) for one in _ordered(self.gated.decisions)],
            "problems": self.problems,
        }

    @property
    def headline(self) -> str:
        """The conclusion in a line."""
        counts = Counter(one.word for one in self.gated.decisions)
        told = ", ".join(f"{counts[word]} {WORDS[word].text}" for word in WORDS if counts[word])
        return f"{self.suite.name}: {told or 'nothing to gate'}, after {units.plural('earlier run', self.gated.before)}"


def _ordered(decisions: Sequence[Decision]) -> list[Decision]:
    order = list(WORDS)
    return sorted(decisions, key=lambda one: (order.index(one.word), one.name, one.metric))


def change(one: Decision) -> str:
    """The change with the prediction interval, as a text."""
    if one.change_percent is None:
        return "-"
    text = f"{one.change_percent:+.2f} %"
    if one.low_percent is None or one.high_percent is None:
        return text
    return f"{text} (expected {one.low_percent:+.2f} to {one.high_percent:+.2f})"


HEADS = ("row", "metric", "word", "newest against expected", "why")


def rows(report: Report) -> list[tuple[str, str, str, str, str]]:
    """The rows of the table, the gravest first."""
    return [
        (words(one.name), one.metric or "-", one.word, change(one), words("; ".join([one.reason, *one.borders])))
        for one in _ordered(report.gated.decisions)
    ]


def markdown(report: Report) -> str:
    """A summary for a pull request: what changed in a table, the rest folded."""
    lines = [f"### {_cell(report.headline)}", ""]
    table = rows(report)
    news = [row for row in table if row[2] not in ("FINE", "NEW")]
    if news:
        lines += [*_table(news), ""]
    others = [row for row in table if row not in news]
    if others:
        lines += [
            f"<details><summary>{len(others)} without a change</summary>",
            "",
            *_table(others),
            "",
            "</details>",
            "",
        ]
    lines += [f"- {_cell(one)}" for one in report.problems]
    lines.append(f"Bundles: {', '.join(f'`{_cell(one)}`' for one in report.bundles) or 'none'}")
    return "\n".join(lines) + "\n"


def _table(table: Sequence[Sequence[str]]) -> list[str]:
    head = [f"| {' | '.join(HEADS)} |", "|" + " --- |" * len(HEADS)]
    return head + [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in table]


def _cell(text: str) -> str:
    """A foreign text in a cell: no markup of its own."""
    shown = escape(words(text)).replace("|", "\\|").replace("`", "'")
    return shown.replace("[", "\\[").replace("]", "\\]").replace("@", "@\u200b")


def junit_xml(report: Report) -> bytes:
    """A JUnit document with a test case for each decision."""
    cases = [
        Case(
            one.target,
            f"{one.row} {one.metric}".strip(),
            WORDS[one.word].element,
            one.word,
            f"{change(one)}; {one.reason}" if one.change_percent is not None else one.reason,
        )
        for one in _ordered(report.gated.decisions)
    ]
    return junit(cases)


def badge(report: Report) -> str:
    """A badge in the style of shields.io: the suite and its state."""
    word = WORDS[report.gated.word]
    name, text = words(report.suite.name), word.text
    # About 6.5 px a character of 11 px Verdana.
    left, right = round(6.5 * len(name)) + 12, round(6.5 * len(text)) + 12
    wide, colour = left + right, word.colour
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="20" role="img" '
        f'aria-label="{escape(name)}: {text}"><title>{escape(name)}: {text}</title>'
        f'<rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{left / 2:g}" y="14">{escape(name)}</text>'
        f'<text x="{left + right / 2:g}" y="14">{text}</text></g></svg>\n'
    )


def write(report: Report, folder: Path) -> list[Path]:
    """Write all files of the report into a folder. Raises AiperfError where that is impossible."""
    files = {
        "report.json": jsontext.dumps(report.document).encode(),
        "summary.md": markdown(report).encode(),
        "junit.xml": junit_xml(report),
        "badge.svg": badge(report).encode(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            atomic.write(folder / name, content)
    except OSError as error:
        raise AiperfError(f"cannot write the report to '{folder}': {error.strerror or error}.") from error
    return [folder / name for name in files]
