"""The report of a run of a suite: JSON, Markdown for a pull request, JUnit XML, and a badge."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from attrs import asdict, frozen

from aiperf_analysis.ci.gating import COURSE, WORDS, Decision, Gated
from aiperf_analysis.ci.suite import Suite
from aiperf_analysis.sparkline import sparkline
from aiperf_core import atomic, units
from aiperf_core.errors import AiperfError
from aiperf_core.names import words
from aiperf_core.render.ci import Case, junit
from aiperf_core.report import cell_text
from aiperf_core.report.metrics import STORED
from aiperf_core.report.result import Figure
from aiperf_core.results import jsontext

SCHEMA_VERSION = 1
# Half the interval that a figure is printed for, so that its digits tell a change of a thousandth.
_NEAR = 1e-3


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


HEADS = ("row", "metric", "word", "before", "now", "now / before", "why")


def rows(report: Report) -> list[tuple[str, ...]]:
    """The rows of the table, the gravest first."""
    return [_row(one) for one in _ordered(report.gated.decisions)]


def _row(one: Decision) -> tuple[str, ...]:
    figures = (_figure(one.metric, one.before), _figure(one.metric, one.now), ratio(one))
    why = words("; ".join([one.reason, *([one.cause] if one.cause else one.borders)]))
    return words(one.name), one.metric or "-", one.word, *figures, why


def ratio(one: Decision) -> str:
    """The newest figure divided by the one before, with the interval that holds 1 where the run is as usual."""
    if one.now is None or not one.before:
        return "-"
    value = one.now / one.before
    if one.low_percent is None or one.high_percent is None or one.low_percent <= -100:
        return _text(value, "1")
    low, high = (value / (1 + end / 100) for end in (one.high_percent, one.low_percent))
    return cell_text.whole(Figure(value=value, low=low, high=high, unit="1"))


def _figure(metric: str, value: float | None) -> str:
    return cell_text.NONE if value is None else _text(value, STORED[metric].unit)


def _text(value: float, unit: str) -> str:
    """A figure with as many digits as tell a change of a thousandth."""
    return cell_text.text(Figure(value=value, low=value * (1 - _NEAR), high=value * (1 + _NEAR), unit=unit))


def markdown(report: Report) -> str:
    """A summary for a pull request: how to repeat the regressions, their names, a table of changes, the rest folded."""
    lines = [f"### {_cell(report.headline)}", ""]
    decisions = _ordered(report.gated.decisions)
    if worse := [one for one in decisions if one.word == "REGRESSION"]:
        lines += [f"Repeat: {_code(_repeat(report.suite, worse))}", "", *map(_regressed, worse), ""]
    news = [one for one in decisions if one.word not in ("FINE", "NEW")]
    if news:
        lines += [*_table(news), ""]
    others = [one for one in decisions if one not in news]
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
    lines.append(f"Bundles, with all samples: {', '.join(map(_code, report.bundles)) or 'none'}")
    return "\n".join(lines) + "\n"


def _repeat(suite: Suite, decisions: Sequence[Decision]) -> str:
    """The command that measures the targets of decisions again, as the suite does."""
    targets = sorted({one.target for one in decisions})
    return shlex.join(["aiperf", "run", *targets, *suite.options({})])


def _code(text: str) -> str:
    """A foreign text as code."""
    return f"`{_cell(text)}`"


def _regressed(one: Decision) -> str:
    before, now, quotient = _row(one)[3:6]
    return f"- **{_cell(one.name)}** regressed: {one.metric} {before} → {now}, {_cell(quotient)}"


def _table(decisions: Sequence[Decision]) -> list[str]:
    heads = (*HEADS[:-1], "runs", "history", HEADS[-1])
    lines = [f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    for one in decisions:
        *cells, why = _row(one)
        cells += [str(one.runs) if one.metric else cell_text.NONE, sparkline(one.course, COURSE) or cell_text.NONE, why]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return lines


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
